"""Positions of consumers: what each was assigned, which partitions its group gave it, and where its position is unknown.

An assigned consumer goes on where it was until it is assigned again. A member of a group does so only while it owns the
partition: from the operation in which the history reports the partition as assigned (Jepsen's `:rebalance-log`) until one that
reports a rebalance of this partition again. After an operation whose polls are unknown, the position of its process is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from fencepost.checkers.history.overview import Overview
from fencepost.checkers.history.source import Source
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import FOREVER, NONE, Resets
from fencepost.harness.api.history import UNREADABLE

_INDEX_BITS = 40  # of an operation's history index, beside its process
_LAST = (1 << _INDEX_BITS) - 1
REBALANCING = (
    "poll",
    "txn",
    "seek",
    "committed",
    "subscribe",
)  # operations that may say how the group moved partitions meanwhile
_MAY_POLL = ("poll", "txn", UNREADABLE)
_CONSUMER_OPERATIONS = ("assign", "subscribe", "seek", "committed", "crash", *_MAY_POLL)
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
        """Make stretches from (process, first operation, last operation)."""
        keys = np.array(sorted((_key(process, first), _key(process, last)) for process, first, last in spans), dtype=np.int64)
        return cls(*keys.reshape(-1, 2).T)

    def hold(self, process: Ints, first: Ints, last: Ints) -> Bools:
        """True where one stretch has both operations of a process."""
        if not len(self.first):
            return np.zeros(len(process), dtype=np.bool_)
        start, stop = _key(process, first), _key(process, last)
        at = np.maximum(np.searchsorted(self.first, start, side="right") - 1, 0)
        return np.asarray((self.first[at] <= start) & (stop <= self.last[at]) & (first != NONE))


@dataclass(frozen=True)
class BlindPolls:
    """Operations with a poll whose result the history lacks.

    process: whose (NONE: anybody's).
    op: history index.
    ended: when the poll had returned at the latest (ns; FOREVER: nobody knows).
    """

    process: Ints = field(default_factory=_empty)
    op: Ints = field(default_factory=_empty)
    ended: Ints = field(default_factory=_empty)

    @classmethod
    def of(cls, polls: Sequence[tuple[int, int, int]]) -> BlindPolls:
        """Make them from (process, operation, end)."""
        return cls(*np.array(polls, dtype=np.int64).reshape(-1, 3).T)

    def and_those_of(self, others: BlindPolls) -> BlindPolls:
        return BlindPolls(np.r_[self.process, others.process], np.r_[self.op, others.op], np.r_[self.ended, others.ended])


_ANYWHERE = (NONE, NONE, FOREVER)  # the poll of a line that is missing


@dataclass(frozen=True)
class Positions(Resets):
    """Resets, and what else is known of positions.

    members: when a process was a member of a group.
    owned: partition -> when such a member surely owned it.
    split_polls: partition -> operations that got records of it in several polls.
    starts: partition -> assignments that surely moved a process to its start.
    moved: partition -> seeks of a process in it.
    sought: partition -> the offset to which each of these moved it (NONE: nobody knows).
    blind: partition (None: any) -> polls that may have returned records of it that the history lacks.
    unheard: the operations of these.
    """

    members: Spans = field(default_factory=Spans)
    owned: Mapping[str, Spans] = field(default_factory=dict)
    split_polls: Mapping[str, Keys] = field(default_factory=dict)
    starts: Mapping[str, Keys] = field(default_factory=dict)
    moved: Mapping[str, Keys] = field(default_factory=dict)
    sought: Mapping[str, Ints] = field(default_factory=dict)
    blind: Mapping[str | None, BlindPolls] = field(default_factory=dict)
    unheard: Keys = field(default_factory=_empty)

    @property
    def any_group(self) -> bool:
        """True if anybody was a member of a group."""
        return bool(len(self.members.first))

    def between(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        """Same as `Resets.between`; nor did its process seek there. A member of a group also must have owned the partition
        throughout.
        """
        reset = super().between(partition, process, first, last)
        if len(moved := self.moved.get(partition, _empty())):
            bounds = [np.searchsorted(moved, _key(process, np.maximum(op, 0))) for op in (first, last)]
            reset = reset | (bounds[0] < bounds[1])
        if not self.any_group:
            return reset
        member = self.members.hold(process, last, last)
        return reset | (member & ~self.owned.get(partition, Spans()).hold(process, first, last))

    def unknown_inside(self, partition: str, process: Ints, op: Ints, several: Bools) -> Bools:
        """True where a rebalance, or a poll without known result, may lie between two reads of one operation.

        several: they surely come from two polls.
        """
        if not self.any_group and not len(self.unheard):
            return np.zeros(len(process), dtype=np.bool_)
        key = _key(process, op)
        split = several | np.isin(key, self.split_polls.get(partition, _empty()))
        rebalanced = self.members.hold(process, op, op) & ~self.owned.get(partition, Spans()).hold(process, op, op)
        return np.asarray(split & (rebalanced | np.isin(key, self.unheard)))

    def blind_polls(self, partition: str) -> BlindPolls:
        """The polls that may have returned records of a partition that the history lacks."""
        return self.blind.get(partition, BlindPolls()).and_those_of(self.blind.get(None, BlindPolls()))

    def from_start(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        """True where a process went back to the partition's start between two operations (NONE: ever before), and stayed assigned
        since.
        """
        starts = self.starts.get(partition, _empty())
        if not len(starts):
            return np.zeros(len(process), dtype=np.bool_)
        at = np.maximum(np.searchsorted(starts, _key(process, last)) - 1, 0)
        went_back = (starts[at] >= _key(process, np.maximum(first, 0))) & (starts[at] < _key(process, last))
        since = np.where(went_back, starts[at] - _key(process, 0) + 1, last)
        return np.asarray(went_back & ~self.between(partition, process, since, last))

    def last_seek(self, partition: str, process: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """The last seek of each process in a partition between two operations, after which nothing else moved it: the operation,
        and the offset (NONE, both: there is none, or nobody knows where it went).
        """
        moved = self.moved.get(partition, _empty())
        nothing = np.full(len(process), NONE, dtype=np.int64)
        if not len(moved):
            return nothing, nothing
        at = np.maximum(np.searchsorted(moved, _key(process, last)) - 1, 0)
        known = (moved[at] >= _key(process, np.maximum(first, 0))) & (moved[at] < _key(process, last))
        op, offset = moved[at] - _key(process, 0), self.sought[partition][at]
        known &= (offset != NONE) & ~self.between(partition, process, np.where(known, op + 1, last), last)
        if self.any_group:
            member, owned = self.members.hold(process, last, last), self.owned.get(partition, Spans())
            known &= ~member | owned.hold(process, np.where(known, op, last), last)
        return np.where(known, op, NONE), np.where(known, offset, NONE)


def positions(overview: Overview, history: Source, contract: Mapping[str, str], incomplete: bool = False) -> Positions:
    """The positions of a history's consumers.

    contract: `consumption` and `aborted_polls` count.
    incomplete: lines of polls may be missing in the history.
    """
    subscribed, recorded = contract["consumption"] == "subscribed", contract["consumption"] == "recorded"
    replaced = contract["aborted_polls"] == "rewound"  # Jepsen's client: a new one after every operation without known outcome
    rows = _rows(history, subscribed or recorded, replaced)
    tracks = _tracks(rows, subscribed, replaced, recorded, _processes(history) if subscribed else ())
    unknown = np.array(tracks.unknown, dtype=np.int64).reshape(-1, 2).T
    sought = {partition: sorted(seeks) for partition, seeks in tracks.sought.items()}
    if incomplete:
        tracks.blind.setdefault(None, []).append(_ANYWHERE)
    return Positions(
        process=np.r_[overview.resets.process, unknown[0]],
        op=np.r_[overview.resets.op, unknown[1]],
        unaffected=overview.resets.unaffected,
        members=Spans.of(tracks.members),
        owned={partition: Spans.of(spans) for partition, spans in tracks.owned.items()},
        split_polls={partition: np.array(sorted(keys), dtype=np.int64) for partition, keys in tracks.split_polls.items()},
        starts={partition: np.array(sorted(keys), dtype=np.int64) for partition, keys in tracks.starts.items()},
        moved={partition: np.array([key for key, _ in seeks], dtype=np.int64) for partition, seeks in sought.items()},
        sought={partition: np.array([offset for _, offset in seeks], dtype=np.int64) for partition, seeks in sought.items()},
        blind={partition: BlindPolls.of(polls) for partition, polls in tracks.blind.items()},
        unheard=np.array(sorted(tracks.unheard), dtype=np.int64),
    )


def _rows(history: Source, grouped: bool, replaced: bool) -> list[dict[str, Any]]:
    """Operations that say something about a consumer, in order, their details parsed.

    grouped: also those after which a member of a group may own other partitions.
    replaced: also those after which the client has a new consumer.
    """
    polls = ds.field("f").isin(_MAY_POLL)
    info = (ds.scalar(replaced) | (ds.scalar(grouped) & polls)) & (ds.field("type") == "info")
    which = ds.field("detail").is_valid() | (polls & ds.field("end").is_null()) | info
    which = which | ds.field("f").isin(["crash", "seek", "assign", "subscribe"])
    table = history.select(("index", "process", "f", "type", "end", "detail"), which)
    rows = [row for row in table.sort_by("index").to_pylist() if row["f"] in _CONSUMER_OPERATIONS]
    for row in rows:
        row["detail"] = _parsed(row["detail"])
    return rows


def _processes(history: Source) -> list[int]:
    """The processes with an operation that may poll."""
    return [int(process) for process in pc.unique(history.of_kind(("process", "f"), *_MAY_POLL)["process"]).to_pylist()]


def _parsed(detail: str | None) -> dict[str, Any]:
    try:
        parsed = json.loads(detail) if detail else {}
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


# --------------------------------------------------------------------------------------------------
# Following every consumer
# --------------------------------------------------------------------------------------------------
@dataclass
class _Consumer:
    """A consumer while its operations are followed.

    group: since which operation it is a member of a group (None: it is none).
    assigned: what it may read (None: anything).
    owned: partitions, and since which operation.
    """

    group: int | None
    assigned: list[str] | None
    owned: dict[str, int] = field(default_factory=dict)


@dataclass
class _Tracks:
    """The state of the consumers after all operations: lists of (process, operation, ...) and of keys.

    unknown: operations after which a process's position is unknown. The others are as in `Positions`.
    """

    unknown: list[tuple[int, int]] = field(default_factory=list)
    members: list[tuple[int, int, int]] = field(default_factory=list)
    owned: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    split_polls: dict[str, list[int]] = field(default_factory=dict)
    starts: dict[str, list[int]] = field(default_factory=dict)
    sought: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    blind: dict[str | None, list[tuple[int, int, int]]] = field(default_factory=dict)
    unheard: list[int] = field(default_factory=list)

    def disown(self, process: int, consumer: _Consumer, partition: str, last: int) -> None:
        """Operation `last` is the last one in which the consumer surely owned the partition."""
        since = consumer.owned.pop(partition, None)
        if since is not None and since <= last:
            self.owned.setdefault(partition, []).append((process, since, last))

    def disown_all(self, process: int, consumer: _Consumer, last: int) -> None:
        for partition in list(consumer.owned):
            self.disown(process, consumer, partition, last)


def _tracks(
    rows: Sequence[Mapping[str, Any]], subscribed: bool, replaced: bool, recorded: bool = False, polling: Sequence[int] = ()
) -> _Tracks:
    """Follow every consumer through its operations, in order.

    subscribed: a consumer is a member of a group until it is assigned partitions.
    replaced: as in `_rows`.
    recorded: a consumer is a member from its `subscribe` on, and else assigned, without a word of it, all that there is.
    polling: processes that are consumers, whatever their operations say.

    Where assignments are recorded at all, a consumer that has none reads nothing.
    """
    tracks, consumers = _Tracks(), dict[int, _Consumer]()
    nothing: list[str] | None = [] if not recorded and any(row["f"] in ("assign", "subscribe") for row in rows) else None
    consumers.update({process: _Consumer(0 if subscribed else None, nothing) for process in polling})
    for row in rows:
        if row["f"] == "subscribe" and not subscribed and not recorded:
            if row["type"] != "fail":
                consumers.setdefault(int(row["process"]), _Consumer(None, None)).assigned = None
            continue  # under this contract a subscription is only a reset
        process, op = int(row["process"]), int(row["index"])
        consumer = consumers.setdefault(process, _Consumer(0 if subscribed else None, nothing))
        if row["f"] in ("assign", "subscribe"):
            if row["type"] != "fail":
                _assign(tracks, consumer, process, op, row)
        elif row["f"] == "seek":
            _seek(tracks, consumer, process, op, row)
        elif row["f"] == "committed":
            if row["detail"].get("rebalances"):
                _rebalance(tracks, consumer, process, op, row)
        else:
            if row["f"] != "crash":
                _poll(tracks, consumer, process, op, row)
            if row["f"] == "crash" or (replaced and row["type"] == "info"):
                tracks.unknown.append((process, op))
                tracks.disown_all(process, consumer, op)
    for process, consumer in consumers.items():
        tracks.disown_all(process, consumer, _LAST)
        if consumer.group is not None:
            tracks.members.append((process, consumer.group, _LAST))
    return tracks


def _assign(tracks: _Tracks, consumer: _Consumer, process: int, op: int, row: Mapping[str, Any]) -> None:
    tracks.disown_all(process, consumer, op - 1)
    if row["f"] == "subscribe":
        consumer.group = op if consumer.group is None else consumer.group
        consumer.assigned = None  # a subscription is to topics, and their other partitions come along
        return
    if consumer.group is not None:
        tracks.members.append((process, consumer.group, op))
        tracks.unknown.append((process, op))  # its position in the group is not where the assignment goes on
        consumer.group = None
    named = row["detail"].get("partitions")
    if not isinstance(named, list):
        consumer.assigned = None
        return
    consumer.assigned = [str(partition) for partition in named]
    if row["detail"].get("seek_to_beginning") and row["type"] == "ok":
        for partition in consumer.assigned:
            tracks.starts.setdefault(partition, []).append(_key(process, op))


def _seek(tracks: _Tracks, consumer: _Consumer, process: int, op: int, row: Mapping[str, Any]) -> None:
    """A seek moves the partitions that it names, and no other. One that did not end ok, or does not say where it went, leaves it
    unknown; so does a rebalance that it tells of, also to a client that is no member of a group.
    """
    _rebalance(tracks, consumer, process, op, row)
    places = row["detail"].get("positions")
    if not isinstance(places, Mapping) or not places:
        tracks.unknown.append((process, op))
        return
    moved = _by_partition(row["detail"].get("rebalances") or ())  # before the seek, or after it
    for partition, place in {**places, **dict.fromkeys(moved)}.items():
        surely = row["type"] == "ok" and type(place) is int and 0 <= place < FOREVER
        tracks.sought.setdefault(str(partition), []).append((_key(process, op), place if surely else NONE))


def _poll(tracks: _Tracks, consumer: _Consumer, process: int, op: int, row: Mapping[str, Any]) -> None:
    detail = row["detail"]
    if detail.get("unheard") or row["end"] is None:
        ended = FOREVER if row["end"] is None else int(row["end"])
        for partition in [None] if consumer.assigned is None else {*consumer.assigned, *(detail.get("parted") or ())}:
            tracks.blind.setdefault(partition, []).append((process, op, ended))
        tracks.unheard.append(_key(process, op))
        tracks.unknown.append((process, op))
    for partition in detail.get("parted") or ():
        tracks.split_polls.setdefault(partition, []).append(_key(process, op))
    _rebalance(tracks, consumer, process, op, row)


def _rebalance(tracks: _Tracks, consumer: _Consumer, process: int, op: int, row: Mapping[str, Any]) -> None:
    """What an operation tells of the partitions that a member owns."""
    if consumer.group is None:
        return
    for partition, events in _by_partition(row["detail"].get("rebalances") or ()).items():
        fresh = events == ["assigned"] and partition not in consumer.owned
        tracks.disown(process, consumer, partition, op - 1)
        if events[-1] == "assigned":  # a partition that is not new may have been polled in this operation before the rebalance
            consumer.owned[partition] = op if fresh else op + 1
    if row["type"] == "info":  # it may have polled more, and had more rebalances, than the history says
        tracks.disown_all(process, consumer, op)


def _by_partition(rebalances: Sequence[Any]) -> dict[str, list[str]]:
    """The rebalance events of an operation for each partition, in order."""
    events: dict[str, list[str]] = {}
    for event, partitions in rebalances:
        for partition in partitions:
            events.setdefault(partition, []).append(event)
    return events
