"""Where consumers stood: what each was told to read, which partitions its group gave it, and where nobody knows.

A consumer that was assigned a partition goes on where it was until it is told anew. A member of a group reads a partition like
that only while it keeps it: from the operation in which the history tells that it was given the partition (Jepsen's
`:rebalance-log`) until one that tells of this partition again. After an operation of which nobody knows what it polled,
nobody knows where its process stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from checkers.arrays import Bools, Ints
from checkers.partition.log import NONE, Resets
from checkers.spark.overview import Overview
from checkers.spark.source import Source

_INDEX_BITS = 40  # of an operation's history index, beside its process
_LAST = (1 << _INDEX_BITS) - 1
_TELLING = ("assign", "subscribe", "poll", "txn", "crash")
Keys = NDArray[np.int64]  # process and history index in one number, sorted


def _key(process: Any, op: Any) -> Any:
    return process * (1 << _INDEX_BITS) + op


def _empty() -> Keys:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Spans:
    """Stretches of operations of processes, both ends included; sorted, and apart from each other."""

    first: Keys = field(default_factory=_empty)
    last: Keys = field(default_factory=_empty)

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int, int]]) -> Spans:
        """From (process, first operation, last operation)."""
        keys = np.array(sorted((_key(process, first), _key(process, last)) for process, first, last in spans), dtype=np.int64)
        return cls(*keys.reshape(-1, 2).T)

    def hold(self, process: Ints, first: Ints, last: Ints) -> Bools:
        """Whether one stretch has both operations of a process."""
        if not len(self.first):
            return np.zeros(len(process), dtype=np.bool_)
        start, stop = _key(process, first), _key(process, last)
        at = np.maximum(np.searchsorted(self.first, start, side="right") - 1, 0)
        return np.asarray((self.first[at] <= start) & (stop <= self.last[at]) & (first != NONE))


@dataclass(frozen=True)
class Positions(Resets):
    """Resets, and what else is known of positions.

    grouped: where a process is a member of a group. owned: partition -> where such a member surely kept it. parted: partition ->
    operations of members that got records of it in several polls. begun: partition -> assignments after which a process surely
    stood at its start. unheard: partitions of which some poll may have returned what the history does not tell (None: any).
    """

    grouped: Spans = field(default_factory=Spans)
    owned: Mapping[str, Spans] = field(default_factory=dict)
    parted: Mapping[str, Keys] = field(default_factory=dict)
    begun: Mapping[str, Keys] = field(default_factory=dict)
    unheard: frozenset[str] | None = frozenset()

    @property
    def any_group(self) -> bool:
        """Whether anybody was a member of a group."""
        return bool(len(self.grouped.first))

    def between(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        """As `Resets.between`; a member of a group also must have kept the partition throughout."""
        told = super().between(partition, process, first, last)
        if not self.any_group:
            return told
        member = self.grouped.hold(process, last, last)
        return told | (member & ~self.owned.get(partition, Spans()).hold(process, first, last))

    def rebalance_between(self, partition: str, process: Ints, op: Ints, several: Bools) -> Bools:
        """Whether a rebalance may lie between two reads of one operation. several: they surely come from two polls."""
        if not self.any_group:
            return np.zeros(len(process), dtype=np.bool_)
        parted = several | np.isin(_key(process, op), self.parted.get(partition, _empty()))
        member = self.grouped.hold(process, op, op)
        return np.asarray(parted & member & ~self.owned.get(partition, Spans()).hold(process, op, op))

    def may_lack_reads(self, partition: str) -> bool:
        """Whether the history may lack something that was read from a partition."""
        return self.unheard is None or partition in self.unheard

    def from_start(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        """Whether a process went back to the partition's start between two operations (NONE: ever before), and was told nothing
        else of the partition since."""
        begun = self.begun.get(partition, _empty())
        if not len(begun):
            return np.zeros(len(process), dtype=np.bool_)
        at = np.maximum(np.searchsorted(begun, _key(process, last)) - 1, 0)
        went_back = (begun[at] >= _key(process, np.maximum(first, 0))) & (begun[at] < _key(process, last))
        since = np.where(went_back, begun[at] - _key(process, 0) + 1, last)
        return np.asarray(went_back & ~self.between(partition, process, since, last))


def positions(overview: Overview, history: Source, contract: Mapping[str, str]) -> Positions:
    """What a history tells of its consumers' positions. contract: `consumption` and `left_out` count."""
    subscribed = contract["consumption"] == "subscribed"
    replaced = contract["aborted_polls"] == "rewound"  # Jepsen's client: a new one after every operation without known outcome
    tracks = _tracks(_rows(history, subscribed, replaced), subscribed, replaced)
    lost = np.array(tracks.lost, dtype=np.int64).reshape(-1, 2).T
    anything = None in tracks.unheard or "polls" in contract["left_out"].split(",")
    return Positions(
        process=np.r_[overview.resets.process, lost[0]],
        op=np.r_[overview.resets.op, lost[1]],
        unaffected=overview.resets.unaffected,
        grouped=Spans.of(tracks.grouped),
        owned={partition: Spans.of(spans) for partition, spans in tracks.owned.items()},
        parted={partition: np.array(sorted(keys), dtype=np.int64) for partition, keys in tracks.parted.items()},
        begun={partition: np.array(sorted(keys), dtype=np.int64) for partition, keys in tracks.begun.items()},
        unheard=None if anything else frozenset(filter(None, tracks.unheard)),
    )


def _rows(history: Source, every: bool, replaced: bool) -> list[dict[str, Any]]:
    """Operations that tell something of a consumer (`every`: all that may poll), in order, their details parsed.

    replaced: also those after which there is a new one.
    """
    polls = pc.is_in(ds.field("f"), pa.array(["poll", "txn"]))
    info = ds.scalar(replaced) & (ds.field("type") == "info")
    which = ds.field("detail").is_valid() | (polls & (ds.scalar(every) | ds.field("end").is_null()))
    which = which | info | (ds.field("f") == "crash")
    table = history.select(("index", "process", "f", "type", "end", "detail"), which)
    rows = [row for row in table.sort_by("index").to_pylist() if row["f"] in _TELLING]
    for row in rows:
        row["detail"] = _parsed(row["detail"])
    return rows


def _parsed(detail: str | None) -> dict[str, Any]:
    try:
        found = json.loads(detail) if detail else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# --------------------------------------------------------------------------------------------------
# Following every consumer
# --------------------------------------------------------------------------------------------------
@dataclass
class _Consumer:
    """group: since which operation it is a member of a group (None: it is none). owned: partitions, and since which operation.

    assigned: what it may read (None: anything).
    """

    group: int | None
    assigned: list[str] | None
    owned: dict[str, int] = field(default_factory=dict)


@dataclass
class _Tracks:
    """What following the consumers left, as plain lists of (process, operation, ...) and keys."""

    lost: list[tuple[int, int]] = field(default_factory=list)
    grouped: list[tuple[int, int, int]] = field(default_factory=list)
    owned: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    parted: dict[str, list[int]] = field(default_factory=dict)
    begun: dict[str, list[int]] = field(default_factory=dict)
    unheard: set[str | None] = field(default_factory=set)

    def gone(self, process: int, consumer: _Consumer, partition: str, last: int) -> None:
        """The partition is not surely the consumer's any more after operation `last`."""
        since = consumer.owned.pop(partition, None)
        if since is not None and since <= last:
            self.owned.setdefault(partition, []).append((process, since, last))

    def all_gone(self, process: int, consumer: _Consumer, last: int) -> None:
        for partition in list(consumer.owned):
            self.gone(process, consumer, partition, last)


def _tracks(rows: Sequence[Mapping[str, Any]], subscribed: bool, replaced: bool) -> _Tracks:
    """replaced: as in `_rows`. subscribed: a consumer is a member of a group until it is assigned partitions.

    Where assignments are recorded at all, a consumer that has none reads nothing.
    """
    tracks, consumers = _Tracks(), dict[int, _Consumer]()
    nothing: list[str] | None = [] if any(row["f"] in ("assign", "subscribe") for row in rows) else None
    for row in rows:
        if row["f"] == "subscribe" and not subscribed:
            consumers.setdefault(int(row["process"]), _Consumer(None, None)).assigned = None
            continue  # the contract says that it is no more than a reset
        process, op = int(row["process"]), int(row["index"])
        consumer = consumers.setdefault(process, _Consumer(0 if subscribed else None, nothing))
        if row["f"] in ("assign", "subscribe"):
            if row["type"] != "fail":
                _told(tracks, consumer, process, op, row)
        else:
            if row["f"] != "crash":
                _polled(tracks, consumer, process, op, row)
            if row["f"] == "crash" or (replaced and row["type"] == "info"):
                tracks.lost.append((process, op))
                tracks.all_gone(process, consumer, op)
    for process, consumer in consumers.items():
        tracks.all_gone(process, consumer, _LAST)
        if consumer.group is not None:
            tracks.grouped.append((process, consumer.group, _LAST))
    return tracks


def _told(tracks: _Tracks, consumer: _Consumer, process: int, op: int, row: Mapping[str, Any]) -> None:
    tracks.all_gone(process, consumer, op - 1)
    if row["f"] == "subscribe":
        consumer.group = op if consumer.group is None else consumer.group
        consumer.assigned = None  # a subscription is to topics, and their other partitions come along
        return
    if consumer.group is not None:
        tracks.grouped.append((process, consumer.group, op))
        tracks.lost.append((process, op))  # what its group had given it is not where the assignment goes on
        consumer.group = None
    consumer.assigned = [str(partition) for partition in row["detail"].get("partitions") or ()]
    if row["detail"].get("seek_to_beginning") and row["type"] == "ok":
        for partition in consumer.assigned:
            tracks.begun.setdefault(partition, []).append(_key(process, op))


def _polled(tracks: _Tracks, consumer: _Consumer, process: int, op: int, row: Mapping[str, Any]) -> None:
    detail = row["detail"]
    if detail.get("unheard") or row["end"] is None:
        tracks.unheard.update([None] if consumer.assigned is None else consumer.assigned)
        tracks.lost.append((process, op))
    if consumer.group is None:
        return
    for partition in detail.get("parted") or ():
        tracks.parted.setdefault(partition, []).append(_key(process, op))
    for partition, told in _by_partition(detail.get("rebalances") or ()).items():
        fresh = told == ["assigned"] and partition not in consumer.owned
        tracks.gone(process, consumer, partition, op - 1)
        if told[-1] == "assigned":  # what was polled before and after it in this operation is one only when it is new
            consumer.owned[partition] = op if fresh else op + 1
    if row["type"] == "info":  # it may have polled more, and been told more, than was written down
        tracks.all_gone(process, consumer, op)


def _by_partition(rebalances: Sequence[Any]) -> dict[str, list[str]]:
    """What an operation was told of each partition, in order."""
    told: dict[str, list[str]] = {}
    for word, partitions in rebalances:
        for partition in partitions:
            told.setdefault(partition, []).append(word)
    return told
