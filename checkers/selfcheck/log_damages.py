"""Damages to the brokers' logs (`stored.parquet`), on all replicas alike with their checksums, or on one.

As in `records`: clean in, damaged out, or None where the logs have no place for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.harness.api import history
from fencepost.harness.api.stored_kinds import MARKERS

NEEDS_LOGS = "needs the brokers' logs (stored.parquet) with such a place"
OFFSETS = ["offset", "first_offset", "last_offset"]
_FORMER = {"COMMIT": "ABORT", "ABORT": "COMMIT"}
_OTHER = {
    "PrepareCommit": "PrepareAbort",
    "PrepareAbort": "PrepareCommit",
    "CompleteCommit": "CompleteAbort",
    "CompleteAbort": "CompleteCommit",
}
Change = Callable[["pd.DataFrame", Random, HistoryRows], "Changed | None"]


@dataclass(frozen=True)
class Changed:
    """Changed rows, what was done to them, in words, and to which partitions."""

    rows: pd.DataFrame
    what: str
    partitions: frozenset[str]


@dataclass(frozen=True)
class LogDamage:
    """A damage that changes the logs, and leaves the history as it is."""

    change: Change

    def __call__(self, rows: HistoryRows, rng: Random) -> DamagedHistory | None:
        if rows.logs is None or "first_offset" not in rows.logs.column_names:
            return None
        logs = rows.shared(_frame)
        changed = self.change(logs, rng, rows)
        if changed is None:
            return None
        table = rows_as_table(changed.rows)
        return DamagedHistory(rows, changed.what, partitions=changed.partitions, logs=table)


def _frame(rows: HistoryRows) -> pd.DataFrame:
    assert rows.logs is not None
    return rows.logs.to_pandas(integer_object_nulls=True)


def rows_as_table(rows: pd.DataFrame) -> pa.Table:
    """Rows as the table that a run records."""
    ordered = rows.assign(record=rows["kind"] != "log").sort_values(["partition", "offset", "record", "node"], kind="stable")
    return pa.Table.from_pandas(ordered.drop(columns="record"), schema=history.schema(history.STORED), preserve_index=False)


# --------------------------------------------------------------------------------------------------
# Sequence numbers
# --------------------------------------------------------------------------------------------------
def _batches(logs: pd.DataFrame, least: int) -> list[tuple[tuple[str, int, int], list[int]]]:
    """Partition, producer id and epoch of so many batches at least, with the first offsets of these in order."""
    data = logs[(logs["producer_id"] >= 0) & (logs["first_sequence"] >= 0)]
    firsts = data.groupby(["partition", "producer_id", "producer_epoch"])["first_offset"].unique()
    return [((str(p), int(i), int(e)), sorted(map(int, some))) for (p, i, e), some in firsts.items() if len(some) >= least]


def shift(by: int, whole: bool = False) -> Change:
    """Sequence numbers from some batch on are higher by so many; 0: lower by as many as the batch before has. whole: from the
    first on."""

    def change(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
        places = _batches(logs, 1 if whole else 2)
        if not places:
            return None
        (partition, producer, epoch), firsts = places[rng.randrange(len(places))]
        at = 0 if whole else rng.randrange(1, len(firsts))
        own = (logs["partition"] == partition) & (logs["producer_id"] == producer) & (logs["producer_epoch"] == epoch)
        own &= logs["first_sequence"] >= 0
        before = logs[own & (logs["first_offset"] == firsts[at - 1])].iloc[0]
        distance = by or -int(before["last_offset"] - before["first_offset"] + 1)
        moved = own & (logs["first_offset"] >= firsts[at])
        return Changed(
            shifted(logs, moved, distance),
            f"sequence numbers of producer id {producer} in epoch {epoch} are {distance:+d} from {partition}@{firsts[at]} on",
            frozenset({partition}),
        )

    return change


def shifted(logs: pd.DataFrame, moved: Any, by: int) -> pd.DataFrame:
    """The logs with other sequence numbers in some batches, and their checksums."""
    changed = logs.copy()
    for name in ("sequence", "first_sequence"):
        numbers = changed[name].astype(np.int64)
        changed[name] = numbers.where(~moved, (numbers + by) % (1 << 31))
    changed.loc[moved, "checksum"] += 1
    return changed


# --------------------------------------------------------------------------------------------------
# Producer ids and markers
# --------------------------------------------------------------------------------------------------
def merge(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """The records and markers of one producer id have another producer's."""
    own = logs[logs["v"].notna() & logs["partition"].isin(set(rows.sends["partition"])) & (logs["producer_id"] >= 0)]
    writers = {
        int(producer): some for producer, some in own.groupby("producer_id")["v"].agg(lambda v: {int(x) >> 39 for x in v}).items()
    }
    pairs = [(one, other) for one in sorted(writers) for other in sorted(writers) if writers[one].isdisjoint(writers[other])]
    if not pairs:
        return None
    one, other = pairs[rng.randrange(len(pairs))]
    return merged(logs, one, other)


def merged(logs: pd.DataFrame, one: int, other: int) -> Changed:
    """The logs in which what one producer id wrote has another one."""
    of_one = logs["producer_id"] == one
    changed = logs.copy()
    changed.loc[of_one, "producer_id"] = other
    changed.loc[of_one, "checksum"] += 1
    partitions = frozenset(logs.loc[logs["producer_id"].isin([one, other]), "partition"])
    return Changed(changed, f"what producer id {one} wrote has producer id {other}", partitions)


def _marker(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> pd.Series | None:
    """A marker of a producer that the coordinators' log knows, of those in partitions that the history knows."""
    known = {state["producer_id"] for state in logs["state"].dropna()}
    sent = set(rows.sends["partition"])
    markers = logs[logs["kind"].isin(MARKERS) & logs["producer_id"].isin(known) & logs["partition"].isin(sent)]
    return None if markers.empty else markers.iloc[rng.randrange(len(markers))]


def _at(logs: pd.DataFrame, row: Any) -> Any:
    """True for the rows of all replicas at the place of a row."""
    return (logs["partition"] == row["partition"]) & (logs["offset"] == row["offset"]) & (logs["kind"] != "log")


def turn(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A marker is of the other kind."""
    marker = _marker(logs, rng, rows)
    return None if marker is None else turned(logs, marker)


def turned(logs: pd.DataFrame, marker: pd.Series) -> Changed:
    """The logs in which a marker is of the other kind."""
    changed = logs.copy()
    changed.loc[_at(logs, marker), "kind"] = _FORMER[marker["kind"]]
    changed.loc[_at(logs, marker), "checksum"] += 1
    what = f"the {marker['kind']} marker at {marker['partition']}@{marker['offset']} is of the other kind"
    return Changed(changed, what, frozenset({marker["partition"]}))


def turn_one(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A marker is of the other kind than those of its transaction in other partitions."""
    one = logs[(logs["node"] == logs["node"].min()) & logs["partition"].isin(set(rows.sends["partition"]))]
    ends: dict[tuple[int, int, int], dict[str, pd.Series]] = {}
    for _, own in one[one["producer_id"] >= 0].sort_values("offset").groupby(["partition", "producer_id"]):
        open_here: set[tuple[int, int, int]] = set()
        for _, row in own.iterrows():
            if row["kind"] in MARKERS:
                for key in open_here:
                    ends.setdefault(key, {}).setdefault(row["partition"], row)
                open_here = set()
            elif row["v"] is not None:
                open_here.add((int(row["v"]) >> 12, int(row["producer_id"]), int(row["producer_epoch"])))
    several = [list(markers.values()) for markers in ends.values() if len(markers) > 1]
    return turned(logs, rng.choice(rng.choice(several))) if several else None


def lose_marker(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A marker is on no replica; it is the only one of its producer id and epoch in the partition or one of several."""
    if (marker := _marker(logs, rng, rows)) is None:
        return None
    alike = logs[logs["kind"].isin(MARKERS) & (logs["partition"] == marker["partition"]) & (logs["node"] == marker["node"])]
    alike = alike[(alike["producer_id"] == marker["producer_id"]) & (alike["producer_epoch"] == marker["producer_epoch"])]
    repeated = (alike["kind"] == alike["kind"].shift()) & (alike["coordinator_epoch"] != alike["coordinator_epoch"].shift())
    if repeated.any():
        return None  # one that was written again would take its place
    what = f"the {marker['kind']} marker at {marker['partition']}@{marker['offset']} is on no replica"
    changed, partition = logs[~_at(logs, marker)].copy(), logs["partition"] == marker["partition"]
    if marker["offset"] == logs.loc[partition & (logs["kind"] != "log"), "offset"].max():  # else the log is one without its end
        changed.loc[partition & (logs["kind"] == "log"), "last_offset"] = marker["offset"]
    return Changed(changed, what, frozenset({marker["partition"]}))


def split(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """The last of several records of a transaction in a partition lies behind its marker."""
    one = logs[
        (logs["node"] == logs["node"].min()) & logs["partition"].isin(set(rows.sends["partition"])) & (logs["producer_id"] >= 0)
    ]
    places = []
    for _, own in one.sort_values("offset").groupby(["partition", "producer_id"]):
        kinds, v, single = own["kind"].tolist(), own["v"].tolist(), (own["first_offset"] == own["last_offset"]).tolist()
        places += [
            (own.iloc[at], own.iloc[at + 1])
            for at in range(1, len(own) - 1)
            if kinds[at - 1 : at + 1] == ["record", "record"]
            and kinds[at + 1] in MARKERS
            and single[at]
            and None not in v[at - 1 : at + 1]
            and int(v[at - 1]) >> 12 == int(v[at]) >> 12
        ]
    if not places:
        return None
    record, marker = places[rng.randrange(len(places))]
    what = f"the record at {record['partition']}@{record['offset']} and the marker of its transaction have changed places"
    return Changed(swapped(logs, record, marker), what, frozenset({record["partition"]}))


def swapped(logs: pd.DataFrame, one: Any, other: Any) -> pd.DataFrame:
    """The logs in which two rows have changed places, each a batch of its own."""
    changed = logs.copy()
    first, second = _at(logs, one), _at(logs, other)
    changed.loc[first, OFFSETS] = int(other["offset"])
    changed.loc[second, OFFSETS] = int(one["offset"])
    changed.loc[first | second, "checksum"] += 1
    return changed


def delay(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A transaction's markers come twenty seconds late, in one partition behind one that its coordinator decided on later."""
    one = logs[
        (logs["node"] == logs["node"].min()) & logs["partition"].isin(set(rows.sends["partition"])) & (logs["producer_id"] >= 0)
    ]
    homes = {state["producer_id"]: home for state, home in zip(logs["state"], logs["partition"], strict=True) if state}
    places = []
    for _, log in one.sort_values("offset").groupby("partition"):
        markers = log[log["kind"].isin(MARKERS) & log["producer_id"].isin(set(homes))]
        for (_, before), (_, after) in zip(markers.iterrows(), markers.iloc[1:].iterrows(), strict=False):
            between = log[(log["offset"] > before["offset"]) & (log["offset"] <= after["offset"])]
            alone = not set(between["producer_id"].iloc[:-1]) & {before["producer_id"], after["producer_id"]}
            alone &= before["producer_id"] != after["producer_id"]
            same = homes[before["producer_id"]] == homes[after["producer_id"]]
            epochs = ["leader_epoch", "coordinator_epoch"]
            if same and (before[epochs] == after[epochs]).all() and alone and before["timestamp"] + 1 < after["timestamp"]:
                places.append((before, after))
    rng.shuffle(places)
    for before, after in places[:20]:
        others = _other_markers(one, before, rows)
        if len(others):
            changed = swapped(logs, before, after)
            late = _at(changed, {**before, "offset": after["offset"]})
            for _, row in others.iterrows():
                late |= _at(changed, row)
            changed.loc[late, "timestamp"] = int(after["timestamp"]) + 20_000
            what = f"the markers of a transaction of producer id {before['producer_id']} come 20 s late"
            return Changed(changed, f"{what}, in {before['partition']} behind a later one", frozenset({before["partition"]}))
    return None


def _other_markers(one: pd.DataFrame, marker: Any, rows: HistoryRows) -> pd.DataFrame:
    """The markers of the same transaction in other partitions: the next ones behind another record of its operation."""
    own = one[(one["producer_id"] == marker["producer_id"]) & (one["partition"] == marker["partition"])]
    records = own[(own["offset"] < marker["offset"]) & own["v"].notna()]
    if records.empty:
        return records
    operation = int(records.sort_values("offset")["v"].iloc[-1]) >> 12
    elsewhere = one[one["v"].notna() & (one["partition"] != marker["partition"]) & (one["producer_id"] == marker["producer_id"])]
    places = elsewhere[(elsewhere["v"].astype("int64") if len(elsewhere) else elsewhere["v"]) // 4096 == operation]
    found = []
    for partition, offset in places.groupby("partition")["offset"].max().items():
        behind = one[(one["partition"] == partition) & (one["offset"] > offset) & (one["producer_id"] == marker["producer_id"])]
        found += [row for _, row in behind[behind["kind"].isin(MARKERS)].sort_values("offset").head(1).iterrows()]
    return pd.DataFrame(found)


# --------------------------------------------------------------------------------------------------
# Replicas and coordinators
# --------------------------------------------------------------------------------------------------
def _replicated(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> pd.Series | None:
    """A record below the high watermarks of all replicas, of one of them."""
    heads = logs[logs["kind"] == "log"].groupby("partition")["last_offset"].agg(["min", "size"])
    low = logs["partition"].map(heads["min"][heads["size"] > 1])
    places = logs[(logs["kind"] == "record") & (logs["offset"] < low) & logs["partition"].isin(set(rows.sends["partition"]))]
    places = places[places["first_offset"] == places["last_offset"]]
    return None if places.empty else places.iloc[rng.randrange(len(places))]


def diverge(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """On one replica a batch has another checksum, as if a byte of its value had been changed."""
    if (record := _replicated(logs, rng, rows)) is None:
        return None
    changed = logs.copy()
    changed.loc[_at(logs, record) & (logs["node"] == record["node"]), "checksum"] += 1
    what = f"the log of {record['partition']} on {record['node']} has another content at offset {record['offset']}"
    return Changed(changed, what, frozenset({record["partition"]}))


def lose_replica(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A record is gone from one replica."""
    if (record := _replicated(logs, rng, rows)) is None:
        return None
    what = f"the log of {record['partition']} on {record['node']} lacks the record at offset {record['offset']}"
    return Changed(logs[~(_at(logs, record) & (logs["node"] == record["node"]))], what, frozenset({record["partition"]}))


def epoch_back(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A batch has a higher leader epoch than the batch behind it, on all replicas; checksums leave leader epochs out."""
    known = logs[(logs["kind"] != "log") & logs["partition"].isin(set(rows.sends["partition"])) & (logs["leader_epoch"] >= 0)]
    ends = known.groupby("partition")["offset"].transform("max")
    places = known[(known["kind"] == "record") & (known["last_offset"] < ends)]
    if places.empty:
        return None
    record = places.iloc[rng.randrange(len(places))]
    own = (logs["partition"] == record["partition"]) & (logs["first_offset"] == record["first_offset"]) & (logs["kind"] != "log")
    changed = logs.copy()
    changed.loc[own, "leader_epoch"] = int(known["leader_epoch"].max()) + 1
    what = f"the batch at {record['partition']}@{record['first_offset']} is of a later leader than those behind it"
    return Changed(changed, what, frozenset({record["partition"]}))


def _state(logs: pd.DataFrame, rng: Random, kinds: Sequence[str]) -> pd.Series | None:
    places = logs[logs["kind"].isin(kinds)]
    return None if places.empty else places.iloc[rng.randrange(len(places))]


def restate(kinds: Mapping[str, str]) -> Change:
    """A record of a coordinator has another state."""

    def change(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
        if (record := _state(logs, rng, list(kinds))) is None:
            return None
        changed = logs.copy()
        changed.loc[_at(logs, record), "kind"] = kinds[record["kind"]]
        changed.loc[_at(logs, record), "checksum"] += 1
        what = f"{record['partition']}@{record['offset']} says {kinds[record['kind']]} and not {record['kind']}"
        return Changed(changed, what, frozenset({record["partition"]}))

    return change


def unlog(logs: pd.DataFrame, rng: Random, rows: HistoryRows) -> Changed | None:
    """A coordinator logged that it committed (aborted) a transaction that was acknowledged as aborted (committed).

    Of a partition where as many transactions were acknowledged as were decided: one more would take its place.
    """
    decisions = (
        logs[logs["kind"].isin(list(_OTHER))].drop_duplicates(["partition", "offset"]).sort_values(["partition", "offset"])
    )
    prepared = decisions[decisions["kind"].str.startswith("Prepare")]
    begun = _begun(logs)
    keys = [
        [(*begun[row["partition"], row["offset"]], name, row["kind"]) for name in row["state"]["partitions"]]
        for _, row in prepared.iterrows()
    ]
    decided, acknowledged = Counter(key for some in keys for key in some), _acknowledged(logs, rows)
    places = [at for at, some in enumerate(keys) if any(decided[key] == acknowledged[key] for key in some)]
    if not places:
        return None
    first = prepared.iloc[rng.choice(places)]
    own = np.array([_instance(row)[0] == _instance(first)[0] for _, row in decisions.iterrows()], dtype=np.bool_)
    behind = (decisions["partition"] == first["partition"]) & (decisions["offset"] > first["offset"])
    changed = logs.copy()
    for _, row in (*((0, first),), *decisions[behind & own].iloc[:1].iterrows()):
        changed.loc[_at(logs, row), "kind"] = _OTHER[row["kind"]]
        changed.loc[_at(logs, row), "checksum"] += 1
    what = f"the decision at {first['partition']}@{first['offset']} is the other one"
    return Changed(changed, what, frozenset({str(first["partition"]), *map(str, first["state"]["partitions"])}))


def _begun(logs: pd.DataFrame) -> dict[tuple[str, int], tuple[int, int]]:
    """Of each place in the coordinators' logs the producer id, and the epoch of the id's record before: with the second protocol
    (KIP-890) a decision has a higher one than the records that it decides about.
    """
    states = logs[logs["state"].notna()].drop_duplicates(["partition", "offset"]).sort_values(["partition", "offset"])
    before: dict[str, tuple[int, int]] = {}
    begun = {}
    for _, row in states.iterrows():
        own, name = _instance(row), row["state"]["transactional_id"]
        begun[row["partition"], row["offset"]] = before.get(name, own)
        before[name] = own
    return begun


def _instance(row: pd.Series) -> tuple[int, int]:
    """The producer id and epoch of a record of a coordinator's log."""
    return int(row["state"]["producer_id"]), int(row["state"]["producer_epoch"])


def _acknowledged(logs: pd.DataFrame, rows: HistoryRows) -> Counter[tuple[int, int, str, str]]:
    """Transactions that were acknowledged: producer id, epoch, partition, and the decision that they need -> their number."""
    sends = rows.sends.assign(type=rows.sends["op"].map(rows.ops["type"]), intent=rows.sends["op"].map(rows.ops["intent"]))
    fine = sends[sends["type"] == "ok"].drop_duplicates(["op", "partition"])
    stored = logs[logs["kind"] == "record"].drop_duplicates("v").set_index("v")
    known = fine[fine["v"].isin(stored.index)]
    ids, epochs = (stored.loc[known["v"], name].tolist() for name in ("producer_id", "producer_epoch"))
    kinds = ["PrepareAbort" if intent == "abort" else "PrepareCommit" for intent in known["intent"]]
    return Counter(zip(map(int, ids), map(int, epochs), known["partition"].tolist(), kinds, strict=True))


_DECIDED = ("aborted-read", "lost-write")  # markers say what became of transactions of unknown outcome
_CODED = ("wrong-marker", "record-after-marker", "unlogged-answer", "unlawful-state")
_MERGED = (
    *("sequence-gap", "sequence-repetition", "sequence-start"),
    *("epoch-regression", "late-marker", "delayed-marker", "mixed-markers"),
    *_DECIDED,
    *_CODED,
)


def _damage(name: str, change: Change, expects: Sequence[str], *accompanying: str) -> PlantedDamage:
    return PlantedDamage(name, LogDamage(change), tuple(expects), accompanying, NEEDS_LOGS)


GAP = _damage("sequence-gap", shift(3), ("sequence-gap",))
REPEAT = _damage("sequence-repetition", shift(0), ("sequence-repetition",))
START = _damage("sequence-start", shift(5, whole=True), ("sequence-start",))
MERGE = _damage("producer-id-merge", merge, ("producer-id-reuse",), *_MERGED)
TURN = _damage("marker-turn", turn, ("wrong-marker",), "mixed-markers", *_DECIDED)
TURN_ONE = _damage("marker-turn-in-one", turn_one, ("mixed-markers",), "wrong-marker", *_DECIDED)
LOSE_MARKER = _damage("marker-loss", lose_marker, ("wrong-marker",), "record-after-marker", "mixed-markers", *_DECIDED)
SPLIT = _damage(
    "marker-early",
    split,
    ("record-after-marker",),
    *("epoch-regression", "sequence-repetition", "sequence-gap", "mixed-markers"),
    *_DECIDED,
)
DELAY = _damage("marker-delay", delay, ("delayed-marker",))
DIVERGE = _damage("replica-content", diverge, ("replica-divergence",))
EPOCH_BACK = _damage("leader-epoch-back", epoch_back, ("leader-epoch-regression",))
LOSE_REPLICA = _damage("replica-loss", lose_replica, ("replica-divergence",), "sequence-gap", "sequence-start")
SKIP_STATE = _damage(
    "state-skip",
    restate({"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}),
    ("unlawful-state",),
    *_CODED,
)
FORGET = _damage("state-loss", restate({"PrepareCommit": "removed", "PrepareAbort": "removed"}), ("unlawful-state",), *_CODED)
UNLOG = _damage("decision-turn", unlog, ("unlogged-answer",), *_CODED)
