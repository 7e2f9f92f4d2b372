"""A record of requests -> rows of a history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import Isolation, Outcome, record_ids
from fencepost.harness.interop.wire.groups import Groups, Key
from fencepost.harness.interop.wire.operations import Operation, Process, Read
from fencepost.harness.interop.wire.readers import Head, Poll, Reader, Readers, moves_of
from fencepost.harness.interop.wire.requests import OF_GROUPS, OF_WRITERS, Seen
from fencepost.harness.interop.wire.topics import Topics, without
from fencepost.harness.interop.wire.writers import Writers

Place = tuple[str, int]  # a partition and an offset


@dataclass
class Converted:
    """What a record says.

    rows: rows of `history.parquet`, without `index`, in the order of their times.
    names: identity, partition and name of each batch.
    strangers: batches that readers got, of producers of which no request was recorded.
    shortened: partitions of which brokers have deleted records.
    again: topics that may have been deleted and made again under their name, with the reason; they are left out.
    left_out: processes beyond what a history can number.
    transactional: whether there is a transaction.
    grouped: whether a transaction commits offsets of a group that are compared.
    outside: partitions to whose group offsets somebody commits outside of transactions.
    doubtful: partitions of which a member was told a group's offset of a transaction of which the record has no end.
    before: partitions of which a member was told one that a transaction was to commit, or the group had before the record.
    unended: identities of batches that read_committed readers got of transactions of which the record has no end.
    offsets: identities of batches that lie at a partition and an offset, by what anybody was given; one, unless logs were cut.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    names: list[tuple[int, str, str]] = field(default_factory=list)
    strangers: int = 0
    shortened: frozenset[str] = frozenset()
    again: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    transactional: bool = False
    grouped: bool = False
    outside: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    unended: set[int] = field(default_factory=set)
    offsets: dict[Place, set[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Beside:
    """The history of a run beside which the one of a record stands.

    first: the number of the first process.
    others: the records of the run's own writers: partition -> offset -> identity.
    clients: the client ids and transactional ids of the run's own clients, whose operations the history has already.
    """

    first: int
    others: Mapping[str, Mapping[int, int]]
    clients: Collection[str]

    def has(self, seen: Seen) -> bool:
        """True for a request of a client of the run."""
        return seen.client_id in self.clients or (seen.transactional_id or "") in self.clients


def converted(requests: Iterable[Seen], run: Beside | None = None) -> Converted:
    """The history of a record.

    requests: in the order in which they came.
    run: the history to which it is added; None: it is one of its own. A run knows which of its topics were deleted.
    """
    requests = list(requests)
    topics = Topics.of(requests if run is None else ())
    again = topics.again()
    writers, readers, groups = Writers(), Readers(follows_starts=run is None), Groups()
    for seen in (without(each, again) for each in requests):
        others = run is None or not run.has(seen)
        if seen.api == "Fetch":
            readers.take(seen, reads=others)
        elif others and seen.api in OF_WRITERS:
            writers.take(seen)
        if others and seen.api in OF_GROUPS:
            groups.take(seen)
    groups.leave_out(writers.first_commits(), begins=run is not None)
    conversion = _Conversion(writers, run or Beside(0, {}, ()), "instance" if run else "", groups.names())
    conversion.add_writers()
    conversion.add_readers(readers)
    conversion.add_members(groups, ends=run is None)
    made = conversion.made
    made.shortened, made.transactional = frozenset(readers.shortened | topics.shortened), writers.transactional
    made.again = again
    made.grouped = groups.known
    made.doubtful = frozenset(partition for group, partition in groups.told_of(writers.open_offsets()))
    made.before = frozenset(partition for _, (group, partition) in groups.before)
    made.outside = frozenset(partition for group, partition in groups.outside & groups.committed.keys())
    made.rows.sort(key=lambda row: (row["time"], row["process"], row["op"]))
    return made


class _Conversion:
    def __init__(self, writers: Writers, run: Beside, role: str, names: Mapping[Key, str]) -> None:
        self.made = Converted()
        self._writers, self._next, self._role, self._others = writers, run.first, role, run.others
        self._names, self._undecided = names, set[Key]()

    def add_writers(self) -> None:
        """Number the producers and their operations, and so the batches."""
        for process in self._writers.processes():
            if process.operations:
                self._add(process, "writer")

    def add_readers(self, readers: Readers) -> None:
        for partition, head in readers.heads:
            batch = self._writers.batch_of(partition, head)
            if batch is not None and batch.v >= 0:
                self.made.offsets.setdefault((partition, head["base_offset"]), set()).add(batch.v)
        unended = self._writers.unended()
        for reader in readers.all():
            reader.process.operations = sorted(
                [*moves_of(reader), *self._polls(reader)], key=lambda operation: (operation.time, operation.f == "poll")
            )
            got = {read.v for operation in reader.process.operations for read in operation.reads}
            if got:
                self._add(reader.process, "reader")
            if reader.process.isolation == Isolation.COMMITTED.value:
                self.made.unended |= got & unended

    def add_members(self, groups: Groups, ends: bool) -> None:
        """What members were told of their group's offsets. ends: also what the groups had at the end, if that was told."""
        for process in groups.processes():
            self._add(process, "member")
        for number, operation in enumerate(groups.ends(self._undecided) if ends else ()):
            self.made.rows.append(_row(Process("", number=-1), number, operation, "harness", {}))

    def _add(self, process: Process, role: str) -> None:
        if self._next > record_ids.MAX_PROCESS:
            self.made.left_out += 1
            return
        process.number, self._next = self._next, self._next + 1
        for number, operation in enumerate(process.operations):
            self._name(process, number, operation)
            self._undecided |= operation.offsets.keys() if operation.type is Outcome.INFO else set()
            self.made.rows.append(_row(process, number, operation, self._role or role, self._names))

    def _name(self, process: Process, number: int, operation: Operation) -> None:
        """Give the batches of an operation their identities."""
        for seq, batch in enumerate(operation.sends):
            batch.v = record_ids.record_id(process.number, number, seq)
            self.made.names.append((batch.v, batch.partition, batch.words))

    # -- reads -----------------------------------------------------------------------------------
    def _polls(self, reader: Reader) -> Iterator[Operation]:
        for poll in reader.polls:
            if reads := list(self._reads(poll)):
                yield Operation("poll", poll.time, Outcome.OK, poll.end, reads=reads)

    def _reads(self, poll: Poll) -> Iterator[Read]:
        for partition, head in poll.read:
            known = self._others.get(partition, {})
            mine = [Read(partition, known[at], at) for at in range(head["base_offset"], head["last_offset"] + 1) if at in known]
            yield from mine or self._batch(partition, head)

    def _batch(self, partition: str, head: Head) -> Iterator[Read]:
        batch = self._writers.batch_of(partition, head)
        if batch is None:
            self.made.strangers += partition not in self._others
        elif batch.v >= 0:
            yield Read(partition, batch.v, head["base_offset"])


def _detail(operation: Operation, names: Mapping[Key, str]) -> str | None:
    detail = operation.detail
    if assigned := [names[key] for key in operation.assigned if key in names]:
        detail = {**(detail or {}), "rebalances": [["assigned", assigned]]}
    return None if detail is None else json.dumps(detail)


def _row(process: Process, number: int, operation: Operation, role: str, names: Mapping[Key, str]) -> dict[str, Any]:
    sends = [
        {
            "kind": 0,
            "partition": batch.partition,
            "v": batch.v,
            "offset": None if batch.acknowledged is None else batch.offset,
            "began": batch.began,
            "ended": batch.acknowledged,
        }
        for batch in operation.sends
    ]
    reads = [
        {"kind": 1, "partition": read.partition, "v": read.v, "offset": read.offset, "began": None, "ended": operation.end}
        for read in operation.reads
    ]
    return {
        "process": process.number,
        "slot": process.number,
        "op": number,
        "node": process.client or None,
        "role": role,
        "isolation": process.isolation,
        "transactional_id": process.transactional_id,
        "final": False,
        "f": operation.f,
        "type": operation.type.value,
        "intent": operation.intent,
        "time": operation.time,
        "end": operation.end,
        "decided": operation.decided,
        "mops": sends + reads,
        "errors": [],
        "strange": [],
        "detail": _detail(operation, names),
        "offsets": [{"partition": names[key], "offset": offset} for key, offset in operation.offsets.items() if key in names],
    }


def functions_of(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The number of operations of each f."""
    return Counter(row["f"] for row in rows)
