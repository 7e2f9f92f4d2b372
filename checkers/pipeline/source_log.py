"""Entries of the topics of a source connector, as readers got them and as the leaders have them (docs/connect.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.model.findings import FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.source_parts import PartedPositions, numbered_parts
from fencepost.checkers.pipeline.source_positions import Positions, positions_of
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import SECOND, Isolation
from fencepost.harness.api.connect import connect_document

PLAIN, OPEN, ABORTED, COMMITTED = 0, 1, 2, 3  # how the transaction of an entry ended, by the next marker of its producer
TOLD, DROPPED = "told", "dropped"  # kinds of rows beside the row of a record: about commitRecord, about what a transform drops
STRANGE = "strange"  # the kind of what does not tell its position
MARKERS = {"COMMIT": COMMITTED, "ABORT": ABORTED}
WORKERS_OFFSETS = r"(?:^|[^a-z])connect\d*-offsets-\d+$"  # the names of its partitions
SECOND_PRODUCERS = 1 << 48  # what is added to a producer's id of the second Kafka cluster: both clusters count from 0
UNSAID = -2
OUTSIDE = "outside transactions"
CHANGING = ("PATCH", "DELETE")  # requests that alter or reset offsets
_PRODUCER = ["producer_id", "producer_epoch"]
_NUMBERS = ("offset", "timestamp", "producer_id", "producer_epoch", "number", "op", "end")
_FLAGS = ("transactional", "final")
_TYPES = dict.fromkeys(("partition", "kind", "name", "f", "isolation"), pa.string())
_TYPES |= dict.fromkeys(_NUMBERS, pa.int64()) | dict.fromkeys(_FLAGS, pa.bool_())


@dataclass(frozen=True)
class Entries:
    """Entries of a connector's topics, as two tables.

    read: what readers got, a row for each time: `partition`, `offset`, `kind`, `name`, `number`, `op`, `end` (ns), `final`,
        `isolation`.
    stored: what the leaders have, by partition and offset: these columns, `timestamp` (ms), `producer_id`, `producer_epoch`,
        `transactional`, and for what is in a transaction `txn` (a number, the same for all of the transaction's entries in a
        partition; NONE outside), `ended` (PLAIN, OPEN, ABORTED, COMMITTED), and when (ms, NONE: never) the marker of the
        transaction was written there, `ended_ms`, and that of the producer's transaction before, `before_ms`.
    told: what records of the numbered source say of their source: `partition`, `offset`, `name`, and as `number` the highest one
        for which the worker had called commitRecord.
    dropped: likewise, and as `number` how many batches that a transform was to drop whole the record's task had returned before
        it; -1: the record is of such a batch.
    positions: the numbering of the records of sources whose positions give several. `number` in both tables is after it.
    parted: the positions that have several parts. `number` is their place in the order of the source; `sequence` is the record's
        number in a sequence, and where there is none the same as `number`.
    """

    read: pd.DataFrame
    stored: pd.DataFrame
    told: pd.DataFrame
    dropped: pd.DataFrame
    positions: Positions
    parted: PartedPositions


def has_connector(run: RunView) -> bool:
    """True if the history is one of a source connector."""
    return run.contract["connect"] != "none" and run.history.has("entries")


def entries_of(run: RunView) -> Entries:
    """The entries of a run, read once."""
    return run.shared(_read)


def _read(run: RunView) -> Entries:
    columns = ("index", "f", "end", "isolation", "final", "entries")
    flat = [_flat(batch, run) for batch in run.history.batches(columns)[1]]
    entries = pd.concat(flat, ignore_index=True) if flat else _flat_of({})
    told, dropped = (entries.loc[entries["kind"] == kind, ["partition", "offset", "name", "number"]] for kind in (TOLD, DROPPED))
    entries = entries.drop([*told.index, *dropped.index])
    positions = positions_of(entries)
    entries, parted = numbered_parts(positions.numbered(entries, STRANGE), STRANGE)
    stored = entries[entries["f"] == "read-log"].drop_duplicates(["partition", "offset"])
    stored = stored.sort_values(["partition", "offset"], ignore_index=True)
    read = entries[entries["f"] != "read-log"].reset_index(drop=True)
    return Entries(read, _with_transactions(stored), told, dropped, positions, parted)


def _flat(batch: pa.RecordBatch, run: RunView) -> pd.DataFrame:
    lists = batch.column("entries")
    rows = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
    parents = pc.list_parent_indices(lists)
    rows["op"], rows["end"], rows["f"], rows["final"] = (
        batch.column(name).take(parents) for name in ("index", "end", "f", "final")
    )
    rows["isolation"] = pc.fill_null(batch.column("isolation").take(parents), run.contract["isolation"])
    return _flat_of(rows)


def _flat_of(rows: dict[str, pa.Array]) -> pd.DataFrame:
    count = len(rows["op"]) if rows else 0
    columns = {**{name: pa.nulls(count, kind) for name, kind in _TYPES.items() if name not in rows}, **rows}
    table = pd.DataFrame({name: _values(name, column) for name, column in columns.items()})
    elsewhere = in_second(table["partition"]).to_numpy() & (table["producer_id"].to_numpy() >= 0)
    return table.assign(producer_id=table["producer_id"] + elsewhere * SECOND_PRODUCERS) if elsewhere.any() else table


def _values(name: str, column: pa.Array) -> Any:
    """A column as an array: numbers with NONE, and flags with false, where there is none."""
    if name in _NUMBERS:
        return pc.fill_null(column.cast(pa.int64()), NONE).to_numpy(zero_copy_only=False)
    return pc.fill_null(column, False).to_numpy(zero_copy_only=False) if name in _FLAGS else column.to_numpy(zero_copy_only=False)


def in_second(partitions: pd.Series) -> pd.Series:
    """True for each of these partitions that is of the second Kafka cluster."""
    return partitions.astype(object).str.startswith(f"{SECOND}/").fillna(False).astype(bool)


def of_workers(partitions: pd.Series) -> pd.Series:
    """True for each of these partitions that is of the workers' offsets topic.

    Where the workers are on the second Kafka cluster, the first one may have an offsets topic of the same name: the connector's.
    """
    named, second = partitions.astype(object).str.contains(WORKERS_OFFSETS).fillna(False).astype(bool), in_second(partitions)
    return named & second if second.any() else named


def producer_text(producer: int) -> str:
    """A producer's id in words: `7`, or `7 of the second cluster`."""
    return f"{producer - SECOND_PRODUCERS} of the second cluster" if producer >= SECOND_PRODUCERS else str(producer)


def _with_transactions(stored: pd.DataFrame) -> pd.DataFrame:
    """Adds `txn`, `ended`, `ended_ms` and `before_ms`. A producer has one transaction at a time in a partition, and its marker
    ends it."""
    kind, outside = stored["kind"], {"txn": NONE, "ended": PLAIN, "ended_ms": NONE, "before_ms": NONE}
    marks = sum((kind == name).to_numpy() * ended for name, ended in MARKERS.items())
    places = pd.factorize(stored["partition"])[0], stored["producer_id"].to_numpy()
    inside = stored["transactional"].to_numpy() & (marks == 0) & (kind != "control").to_numpy()
    columns = zip(outside.items(), _transactions(*places, marks, stored["timestamp"].to_numpy()), strict=True)
    return stored.assign(**{name: np.where(inside, values, none) for (name, none), values in columns})


def _transactions(partition: Any, producer: Any, marks: Any, times: Any) -> Any:
    """Transactions of entries, by offset in each partition: the number of each entry's, how and when it ended, and when the one
    before it did. marks: what a marker says; 0: no marker."""
    order = np.lexsort((producer, partition))
    marks, times, places = marks[order], times[order], np.stack([partition, producer])[:, order]
    first, other = np.ones((2, len(order)), dtype=np.bool_)  # of its transaction; of its producer in its partition
    other[1:] = (places[:, 1:] != places[:, :-1]).any(axis=0)
    first[1:] = other[1:] | (marks[:-1] > 0)
    last = np.roll(first, -1)  # of each transaction, where its marker is if it has one
    ended_ms = np.where(marks[last] > 0, times[last], NONE)
    of_each = np.where(marks[last] > 0, marks[last], OPEN), ended_ms, np.where(other[first], NONE, np.roll(ended_ms, 1))
    columns = np.empty((4, len(order)), dtype=np.int64)
    number = np.cumsum(first) - 1
    columns[:, order] = number, *(values[number] for values in of_each)
    return columns


@dataclass(frozen=True)
class Known:
    """An entry in words.

    number: the position, or where positions give several records its number among all records of its source.
    place: `t-0@17`.
    words: the position of an offset; of a record also which one of several it is: `5 (2 of 3)`.
    sequence: the record's number in a sequence; where there is none, `number`.
    """

    kind: str
    name: str
    number: int
    place: str
    words: str
    sequence: int


def _strange_one(entries: pd.DataFrame) -> str:
    """The first that does not tell its position: where it is, and why."""
    first = entries[entries["kind"] == STRANGE].head(1)
    return "".join(
        f"{row.partition}@{row.offset}: {row.name}" for row in first[["partition", "offset", "name"]].itertuples(index=False)
    )


def unread_logs(run: RunView) -> str:
    """The reason why no answer can be given by the leaders' logs: some of them could not be read; empty when all were."""
    rows = run.history.of_kind(("f", "type"), "read-log").to_pylist()
    broken = sum(row["type"] != "ok" for row in rows)
    return f"{broken} of the leaders' logs could not be read" if broken else ""


class SourceLog:
    """Records and offsets of a connector. Made once for all checks of a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self.run = run
        self.entries = entries_of(run)
        self.stored = self.entries.stored

    @cached_property
    def targets(self) -> frozenset[str]:
        """The partitions of the target topic: those of the run's final reads."""
        return frozenset(self.run.overview.final_reads)

    @cached_property
    def read_back(self) -> bool:
        """True if every partition of the target has a complete read_committed final read."""
        finals = self.run.overview.final_reads
        return bool(finals) and all(final.committed and not final.stalled for final in finals.values())

    @cached_property
    def visible(self) -> pd.DataFrame:
        """The records that the read_committed final read got, each once, by partition and offset, with `part` (`parts`)."""
        read = self.entries.read
        chosen = read["final"] & (read["isolation"] == Isolation.COMMITTED.value) & (read["kind"] == "record")
        records = read[chosen].drop_duplicates(["partition", "offset"]).sort_values(["partition", "offset"], ignore_index=True)
        if not self.altered:
            return records.assign(part=records["name"])
        places = ["partition", "offset"]
        return records.merge(self.records[[*places, "part"]], on=places, how="left").assign(
            part=lambda rows: rows["part"].fillna("")
        )

    @cached_property
    def records(self) -> pd.DataFrame:
        """The records of the target as the leaders have them, with `part`."""
        records = self.stored[(self.stored["kind"] == "record") & self.stored["partition"].isin(self.targets)]
        return records.assign(part=self._parts(records) if self.altered else records["name"])

    # ---- offsets that were altered or reset on request (KIP-875) ---------------------------------
    @cached_property
    def _requests(self) -> pd.DataFrame:
        """`name`, `number` of each offset that somebody has asked to store (-1, of any name: to remove all; UNSAID: the history
        does not say which), and whether that is `certain`: answered with a success."""
        rows = self.run.history.of_kind(("f", "type", "detail"), "rest").to_pylist()
        requests = []
        for row in (each for each in rows if each["type"] != "fail"):
            request = document(row["detail"])
            if str(request.get("path")).endswith("/offsets") and request.get("method") in CHANGING:
                entries = request.get("altered") or [["", NONE if request["method"] == "DELETE" else UNSAID]]
                last = self.entries.positions.last
                requests += [(str(name), last(str(name), int(number)), row["type"] == "ok") for name, number in entries]
        return pd.DataFrame(requests, columns=["name", "number", "certain"])

    @cached_property
    def altered(self) -> bool:
        """True if somebody may have altered or reset the connector's offsets."""
        return len(self._requests) > 0

    @cached_property
    def alterations(self) -> pd.DataFrame:
        """The stored offsets, of any fate, that a worker wrote when it was asked to: as requested, by a producer without records.

        With `certain`: all requests of this kind were answered with a success, so the connector had not gone on before.
        """
        if not self.altered:
            return self.stored.iloc[:0].assign(certain=True)
        stored = self.stored[self.stored["kind"] == "offset"]
        stored = stored.assign(requested=np.where(stored["number"] < 0, "", stored["name"]))
        certain = self._requests.groupby(["name", "number"])["certain"].all()
        stored = stored.join(certain, on=["requested", "number"])
        records = self.stored[self.stored["kind"] == "record"]
        wrote = pd.MultiIndex.from_frame(stored[_PRODUCER]).isin(pd.MultiIndex.from_frame(records[_PRODUCER]))
        return stored[stored["certain"].notna() & ~wrote]

    @cached_property
    def unordered(self) -> bool:
        """True if it is not known which records came before an alteration: not all is in transactions and one offsets topic."""
        if not self.altered:
            return False
        if (self._requests["number"] == UNSAID).any():
            return True
        plain = (self.records["ended"] == PLAIN).any() or (self._committed["ended"] == PLAIN).any()
        places = self._committed.groupby("name")["partition"].nunique()
        return bool(plain or (places > 1).any() or unread_logs(self.run))

    def _parts(self, records: pd.DataFrame) -> pd.Series:
        """Source of each record, and how many alterations of it lie before the stored offset that the record was committed with.

        That is the lowest one of its producer that reaches so far; a record without one has the part "".
        """
        stored = self.offsets[["name", *_PRODUCER, "number", "part"]].sort_values("number", kind="stable")
        stored = stored.drop_duplicates(["name", *_PRODUCER, "number"])
        mine = records[["name", *_PRODUCER, "number"]].reset_index().sort_values("number", kind="stable")
        parts = pd.merge_asof(mine, stored, on="number", by=["name", *_PRODUCER], direction="forward").set_index("index")["part"]
        return parts.reindex(records.index).fillna("")

    @cached_property
    def partial(self) -> frozenset[str]:
        """Sources with altered offsets, and with visible records of which it is not known whether they came before."""
        return frozenset(self.visible["name"][self.visible["part"] == ""]) if self.altered else frozenset()

    @cached_property
    def opaque(self) -> str:
        """The reason why the leaders' logs do not show every record and every stored offset; empty when they do."""
        mine = self.stored["partition"].isin(self.targets) | self.stored["kind"].isin(("offset", STRANGE))
        logs = self.stored[self.stored["partition"].isin(self.stored["partition"][mine].unique())]
        if example := _strange_one(logs):
            return f"a record or a stored offset in the leaders' logs does not tell its position ({example})"
        if logs["kind"].str.endswith(" batch").any():
            return (
                "a batch in the leaders' logs is compressed in a way that is not read, so its records do not tell their positions"
            )
        spans = logs.groupby("partition")["offset"].agg(["min", "max", "size"])
        if (spans["min"] != 0).any() or (spans["max"] + 1 != spans["size"]).any():
            return "the leaders' logs have lost entries, by compaction or retention"
        return ""

    @cached_property
    def foreign(self) -> bool:
        """True if neither the target's logs nor the final read have a record with a position: those of `mirror` name inputs."""
        stored = self.stored[self.stored["partition"].isin(self.targets)]
        return self.visible.empty and not stored["kind"].isin(("record", STRANGE)).any()

    @cached_property
    def strange(self) -> str:
        """That the final read has records that do not tell their position, with the first one; empty when all do."""
        read = self.entries.read
        example = _strange_one(read[read["final"]])
        return f"the final read has records that do not tell their position ({example})" if example else ""

    @cached_property
    def _places(self) -> dict[tuple[str, int], Known]:
        both = pd.concat([self.stored, self.visible])[["partition", "offset", "kind", "name", "number", "sequence"]]
        return {row[:2]: self._known(*row) for row in both.itertuples(index=False, name=None)}

    def _known(self, partition: str, offset: int, kind: str, name: str, number: int, sequence: int) -> Known:
        position = kind == "offset" and number >= 0 and not self.entries.parted.known
        words = str(self.entries.positions.position(name, int(number))) if position else self.words(name, int(number))
        return Known(kind, name, int(number), f"{partition}@{offset}", words, int(sequence))

    def words(self, name: str, number: int) -> str:
        """A record of a source by its number, in words: its position, and which one of several it is."""
        return self.entries.parted.words(name, number) or self.entries.positions.words(name, number)

    def at(self, row: FindingRecord) -> Known:
        """The entry of a finding's record, in words."""
        return self._places[row.partition, row.offset]

    def transaction(self, row: FindingRecord) -> str:
        """The transaction of a record of a finding in words: `by producer 7 in epoch 3`, or `OUTSIDE`."""
        mine = self.stored[(self.stored["partition"] == row.partition) & (self.stored["offset"] == row.offset)].iloc[0]
        inside = f"by producer {producer_text(mine['producer_id'])} in epoch {mine['producer_epoch']}"
        return inside if mine["transactional"] else OUTSIDE

    @cached_property
    def _committed(self) -> pd.DataFrame:
        """The stored offsets that are committed.

        Where the connector has a topic of its own, entries outside transactions in the workers' topic are copies, and left out;
        those in transactions are of the time before.
        """
        shared = of_workers(self.stored["partition"])
        chosen = (self.stored["kind"] == "offset") & self.stored["ended"].isin((PLAIN, COMMITTED))
        offsets, shared = self.stored[chosen], shared[chosen]
        return offsets if shared.all() else offsets[~shared | (offsets["ended"] == COMMITTED)]

    @cached_property
    def stores_positions(self) -> bool:
        """True if tasks store offsets that tell a position, be they committed or not."""
        stored = self.stored[(self.stored["kind"] == "offset") & (self.stored["number"] >= 0)]
        return len(stored.index.difference(self.alterations.index)) > 0

    @cached_property
    def offsets(self) -> pd.DataFrame:
        """The committed offsets that tasks have stored, with `part`."""
        offsets = self._committed
        if not self.altered:
            return offsets.assign(part=offsets["name"])
        offsets = offsets.sort_values(["partition", "offset"])
        altered = offsets.index.isin(self.alterations.index)
        before = pd.Series(altered, index=offsets.index).groupby(offsets["name"]).cumsum()
        return offsets.assign(part=offsets["name"] + "#" + before.astype(str))[~altered]


def document(detail: str | None) -> dict[str, Any]:
    """A request and its answer (`connect_document`), as an operation `rest` has them; empty where it has none."""
    try:
        parsed = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {**parsed, "answer": connect_document(parsed["answer"])} if "answer" in parsed else parsed
