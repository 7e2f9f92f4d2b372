"""Damages to records. Each takes a clean history and returns it with one thing wrong, or None where it cannot.

A damage says what it touched, so that a finding about something else does not pass for it.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.values import COMMITTED, NONE
from fencepost.checkers.selfcheck.accompanying import SKIPS, STEPS


def pick(frame: pd.DataFrame, rng: Random) -> Any:
    """One row, decided by `rng` alone."""
    return frame.iloc[rng.randrange(len(frame))]


def lose(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Every record of one committed operation vanishes from every read."""
    if not len(rows.complete):
        return None
    op = pick(rows.complete, rng)["op"]
    lost = rows.complete[rows.complete["op"] == op]["v"]
    return DamagedHistory(rows.unread(lost), f"all records of operation {op} ({len(lost)}) are read by nobody", frozenset(lost))


def hide(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """One committed operation vanishes from the final read_committed reads only; others did get it."""
    if not len(rows.complete) or not (rows.reads["final"] & rows.reads["committed"]).any():
        return None
    op = pick(rows.complete, rng)["op"]
    lost = rows.complete[rows.complete["op"] == op]["v"]
    reads = rows.reads
    gone = reads.index[reads["final"] & reads["committed"] & reads["v"].isin(lost)]
    return DamagedHistory(rows.without(gone), f"operation {op} is missing in the final read_committed reads", frozenset(lost))


def truncate(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The last committed records of a partition are cut off: read by nobody."""
    if not (rows.reads["final"] & rows.reads["committed"]).any():
        return None
    final = rows.reads.loc[rows.reads["final"] & rows.reads["committed"], "v"]
    sent = rows.sends[(rows.sends["status"] == COMMITTED) & (rows.sends["txn"] | (rows.sends["ended"] != NONE))]
    sent = sent[(sent["offset"] != NONE) & sent["v"].isin(final)].sort_values(["partition", "offset"], kind="stable")
    if not len(sent):
        return None
    partition = pick(sent.drop_duplicates("partition"), rng)["partition"]
    tail = sent[sent["partition"] == partition].tail(rng.randrange(1, 4))
    gone = rows.mops.loc[(rows.mops["partition"] == partition) & (rows.mops["offset"] >= tail["offset"].min()), "v"]
    what = f"{partition} is cut off at {tail['offset'].min()}: the last {len(tail)} committed records are read by nobody"
    return DamagedHistory(rows.unread(gone), what, frozenset(tail["v"]))


def repeat(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A record appears once more at the end of its partition, in the reads that come last."""
    if not len(rows.witnessed):
        return None
    record = pick(rows.witnessed, rng)
    where = record["partition"]
    again = f"the record at {where}@{record['place']} is there again at {rows.end_of(where)}"
    return DamagedHistory(append(rows, where, record["v"], rows.end_of(where)), again, frozenset([record["v"]]))


def append(rows: HistoryRows, partition: str, v: int, offset: int) -> HistoryRows:
    """The history with one more record at the end of a partition, returned to every reader that reads last."""
    polls = rows.last_polls()
    polls = polls[polls["partition"] == partition]
    return rows.with_reads(polls.assign(at=polls["at"] + 0.5, v=v, offset=offset))


def swap_inside(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Two neighbouring records of one operation change places."""
    return _swap(rows, rng, same_operation=True)


def swap_across(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Two records of one process change places; they belong to two operations."""
    return _swap(rows, rng, same_operation=False)


def _swap(rows: HistoryRows, rng: Random, same_operation: bool) -> DamagedHistory | None:
    sent = rows.witnessed.sort_values(["partition", "process", "v"], kind="stable").reset_index(drop=True)
    after = sent.shift(-1)
    pair = (sent["partition"] == after["partition"]) & (sent["process"] == after["process"])
    pair &= (sent["place"] < after["place"]) & ((sent["op"] == after["op"]) == same_operation)
    pair &= sent["txn"] | ((sent["ended"] != NONE) & (sent["ended"] < after["began"]))  # transactions keep order in any case
    pairs = np.flatnonzero(pair & none_early(rows, sent))
    if not len(pairs):
        return None
    distance = (after["place"] - sent["place"]).to_numpy()[pairs]
    nearest = pairs[distance == distance.min()]
    chosen = int(nearest[rng.randrange(len(nearest))])
    return exchange(rows, sent.iloc[chosen], sent.iloc[chosen + 1])


def none_early(rows: HistoryRows, sent: pd.DataFrame) -> Any:
    """True for each record of which no read, nor any of the next record, becomes too early when the two change places.

    Each read came when both were sent, and at read_committed when both were decided.
    """
    fits = np.ones(len(sent), dtype=np.bool_)
    for reads, limit in ((rows.reads, "began"), (rows.reads[rows.reads["committed"]], "decided")):
        seen = sent["v"].map(reads.groupby("v")["ended"].min())
        fits &= np.minimum(seen, seen.shift(-1)) >= np.maximum(sent[limit], sent[limit].shift(-1))
    return fits


def exchange(rows: HistoryRows, first: Any, second: Any) -> DamagedHistory:
    """Two records of one partition change places, in the acknowledgements and in every read."""
    mops = rows.mops
    here = mops["partition"] == first["partition"]
    swapped = rows
    for a, b in ((first, second), (second, first)):
        sent = mops.index[here & (mops["kind"] == 0) & (mops["v"] == a["v"])]
        read = mops.index[here & (mops["kind"] == 1) & (mops["v"] == a["v"])]
        swapped = swapped.with_values(sent, "offset", b["place"]).with_values(read, "v", b["v"])
    what = f"the records at {first['partition']}@{first['place']} and {second['place']} have changed places"
    return DamagedHistory(swapped, what, frozenset([int(first["v"]), int(second["v"])]))


def move(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """An acknowledgement names the offset of another, later record of the partition."""
    sent = rows.witnessed[rows.witnessed["offset"] != NONE]
    lowest = sent.groupby("partition")["place"].transform("max")
    movable = sent[sent["place"] < lowest]
    if not len(movable):
        return None
    record = pick(movable, rng)
    other = pick(sent[(sent["partition"] == record["partition"]) & (sent["place"] > record["place"])], rng)
    moved = rows.with_values([record["index"]], "offset", other["place"])
    what = f"the record at {record['partition']}@{record['place']} was acknowledged at {other['place']}, where another one lies"
    return DamagedHistory(moved, what, frozenset([record["v"], other["v"]]))


def swallow(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A record is acknowledged at the offset of an older one of its producer, and read by nobody."""
    sent = rows.witnessed[rows.witnessed["offset"] != NONE].sort_values(["partition", "v"], kind="stable")
    older = sent.shift(1)
    pairs = np.flatnonzero((sent["partition"] == older["partition"]) & (sent["process"] == older["process"]))
    if not len(pairs):
        return None
    chosen = int(pairs[rng.randrange(len(pairs))])
    record, other = sent.iloc[chosen], sent.iloc[chosen - 1]
    swallowed = rows.with_values([record["index"]], "offset", other["place"]).unread([record["v"]])
    what = f"the record at {record['partition']}@{record['place']} is gone, and was acknowledged at {other['place']}"
    return DamagedHistory(swallowed, what, frozenset([record["v"]]))


def invade(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A record that nobody sent lies at the end of a partition."""
    polls = rows.last_polls()
    if not len(polls):
        return None
    partition = pick(polls, rng)["partition"]
    known = set(rows.mops["v"])
    v = next(v for v in iter(lambda: rng.randrange(1 << 52), -1) if v not in known)
    what = f"a record that nobody sent is at {partition}@{rows.end_of(partition)}"
    return DamagedHistory(append(rows, partition, v, rows.end_of(partition)), what, frozenset([v]))


def garble(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A record is unreadable wherever it was read."""
    if not len(rows.witnessed):
        return None
    record = pick(rows.witnessed, rng)
    reads = rows.reads.index[rows.reads["v"] == record["v"]]
    what = f"the record at {record['partition']}@{record['place']} has become unreadable"
    return DamagedHistory(rows.with_values(reads, "v", -1), what, frozenset([-1]), frozenset([record["partition"]]))


def misplace(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A record is read at the end of another partition instead of its own."""
    partitions = sorted(rows.last_polls()["partition"].unique())
    if not len(rows.witnessed) or len(partitions) < 2:
        return None
    record = pick(rows.witnessed, rng)
    elsewhere = rng.choice([partition for partition in partitions if partition != record["partition"]])
    moved = append(rows.unread([record["v"]]), elsewhere, record["v"], rows.end_of(elsewhere))
    what = f"the record sent to {record['partition']}@{record['place']} is read in {elsewhere}"
    return DamagedHistory(moved, what, frozenset([record["v"]]))


def stall(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """After settling, the last stable offset of a partition is one below its high watermark."""
    settled = rows.ops[(rows.ops["f"] == "settle") & rows.ops["detail"].notna()]
    if not len(settled):
        return None
    position = settled.index[-1]
    detail = json.loads(rows.ops.loc[position, "detail"])
    offsets = detail.get("partitions", detail)
    if not offsets:
        return None
    partition = rng.choice(sorted(offsets))
    offsets[partition] = [offsets[partition][1], offsets[partition][1] + 1]
    if "waited_s" in detail:
        detail["waited_s"] = max(detail["waited_s"], detail.get("bound_s", 0.0))
    stuck = rows.with_operation(position, {"type": "info", "detail": json.dumps(detail)})
    return DamagedHistory(stuck, f"the last stable offset of {partition} is stuck", partitions=frozenset([partition]))


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
LOSE = PlantedDamage("lose", lose, ("lost-write",), SKIPS, "needs a committed operation, all of it read back")
HIDE = PlantedDamage(
    "hide",
    hide,
    ("lost-write",),
    (*SKIPS, "stale-read"),
    "needs a committed operation and a read_committed final read",
)
TRUNCATE = PlantedDamage(
    "truncate",
    truncate,
    ("lost-write",),
    (*SKIPS, "torn-transaction"),
    "needs a committed record and a read_committed final read",
)
REPEAT = PlantedDamage("repeat", repeat, ("duplicate",), STEPS, "needs a committed record that was read")
SWAP_INSIDE = PlantedDamage(
    "swap",
    swap_inside,
    ("order-inversion", "int-nonmonotonic-send"),
    (),
    "needs an operation with two records in one partition that were read only after it had been decided",
)
SWAP_ACROSS = PlantedDamage(
    "swap operations",
    swap_across,
    ("order-inversion", "nonmonotonic-send"),
    ("real-time-inversion",),
    "needs two operations of one process in one partition that were read only after both had been decided",
)
MOVE = PlantedDamage(
    "move",
    move,
    ("inconsistent-offset",),
    (*STEPS, "duplicate"),
    "needs two committed records in one partition that were read",
)
SWALLOW = PlantedDamage(
    "swallow",
    swallow,
    ("swallowed-write",),
    (),
    "needs two committed records of one process in one partition that were read",
)
INVADE = PlantedDamage("invade", invade, ("phantom",), (), "needs a read")
GARBLE = PlantedDamage(
    "garble",
    garble,
    ("phantom", "lost-write"),
    (*STEPS, "torn-transaction", "inconsistent-offset"),
    "needs a committed record that was read",
)
MISPLACE = PlantedDamage(
    "misplace",
    misplace,
    ("wrong-partition",),
    SKIPS,
    "needs a committed record and two partitions that were read",
)
STALL = PlantedDamage("stall", stall, ("lso-stall",), (), "needs a look at last stable offsets (a `settle` operation)")
