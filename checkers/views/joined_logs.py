"""Many small partitions as one log: a check's passes over few records cost what numpy takes for a call, so one has to serve many.

A *joined log* is a `PartitionLog` of several partitions, with their numbers told apart (`checkers.views.parts`): the offsets,
times, operations, processes and identities of each lie above all of the one before it. So to nearly every rule it is as if one
partition had been written and read after the other, by processes of its own. A check that is `together` gives for a joined log
what it gives for its partitions, and the rows of all of them; where a rule looks across the border of two partitions it asks
`PartitionLog.parts`, or raises `AskAlone`.

Joined are only partitions whose complete read_committed final read settles what had to be returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fencepost.checkers.history.positions import Positions
from fencepost.checkers.history.scan import READS, SENDS, Columns
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import FOREVER, NONE, FinalRead, Resets, Settings
from fencepost.checkers.views.assembly import log_of_columns
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import IDENTITY_BITS, PARTITIONS, SECOND_NS, Parts

MOST_RECORDS = 1 << 17  # sent or read, of a joined log
SMALL = 4_000  # records of a partition, above which it costs as much to judge it alone
MOST_OPS = 1 << 24  # history indices of all its partitions: some tables have an entry for each
MOST_PARTITIONS = 1 << 9
HIGHEST_OFFSET = 1 << 32
TIMES = {SENDS: ("began", "ended", "decided", "over"), READS: ("ended",)}
LONGEST = (1 << 62) // MOST_PARTITIONS  # ns, of a run: a hundred days
MOST_NUMBERS = 1 << 31  # of processes or operations: they have 32 bits
MOST_PROCESSES = MOST_NUMBERS // MOST_PARTITIONS
Sides = tuple[Columns, Columns]


def joinable(columns: Mapping[str, Sides], final: Callable[[str], FinalRead], resets: Resets) -> list[tuple[str, ...]]:
    """The names of partitions that may be joined, those of each joined log; in order, and two at least."""
    if not isinstance(resets, Positions) or len(columns) >= PARTITIONS:
        return []
    kinds: dict[Any, list[str]] = {}
    for name in sorted(columns):
        if _records(columns[name]) <= SMALL and (kind := _kind(final(name))) is not None:
            kinds.setdefault(kind, []).append(name)
    ops = 1 + max((int(side["op"].max(initial=0)) for sides in columns.values() for side in sides), default=0)
    most = min(MOST_PARTITIONS, MOST_OPS // ops)
    made = (group for names in kinds.values() for group in _chunks(names, columns, most))
    return [group for group in made if len(group) > 1]


def _records(sides: Sides) -> int:
    return sum(len(side["v"]) for side in sides)


def _kind(final: FinalRead) -> tuple[int, int] | None:
    """What final reads must have in common whose partitions are joined; None: these may not be."""
    sure = final.committed and not (final.stalled or final.unsettled)
    return (len(final.readers), len(final.witnesses)) if sure else None


def _chunks(names: Iterable[str], columns: Mapping[str, Sides], most: int) -> Iterable[tuple[str, ...]]:
    chunk, records = list[str](), 0
    for name in names:
        own = _records(columns[name])
        if chunk and (len(chunk) >= most or records + own > MOST_RECORDS):
            yield tuple(chunk)
            chunk, records = [], 0
        chunk.append(name)
        records += own
    yield tuple(chunk)


def joined_log(
    columns: Mapping[str, Sides],
    places: Mapping[str, int],
    finals: Mapping[str, FinalRead],
    settings: Settings,
    resets: Positions,
) -> PartitionLog | None:
    """The log of those partitions that can be joined (`Parts.names`); None for fewer than two.

    places: the number of each among all partitions of the run.
    """
    sides = [_Side.of([some[side] for some in columns.values()], side) for side in (SENDS, READS)]
    begun = np.array([finals[name].begun for name in columns])
    least = min(side.least_time() for side in sides) % FOREVER
    unfit = np.unique(np.concatenate([side.unfit(begun, least) for side in sides])).tolist()
    if len(columns) - len(unfit) < 2:
        return None
    if unfit:
        names = list(columns)
        rest = {name: columns[name] for name in names if name not in {names[number] for number in unfit}}
        return joined_log(rest, places, finals, settings, resets)
    own = [finals[name] for name in columns]
    parts = _parts(tuple(columns), places, sides, own, least)
    if parts.processes > MOST_PROCESSES or parts.span > LONGEST or parts.ops * len(parts) > MOST_NUMBERS:  # of final readers
        return None
    sent, read = (side.lifted(parts) for side in sides)
    log = log_of_columns("", sent, read, FinalRead(), settings, JoinedPositions.of(resets, parts))
    return replace(log, final=_joined_final(own, parts, parts.numbers(log.reads.op)), parts=parts)


@dataclass(frozen=True)
class _Side:
    """The sends, or the reads, of several partitions. number: of each record's partition."""

    side: int
    columns: Mapping[str, Any]
    number: Ints

    @classmethod
    def of(cls, parts: Sequence[Columns], side: int) -> _Side:
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        columns["offset"] = np.maximum(columns["offset"], NONE)
        return cls(side, columns, np.repeat(np.arange(len(parts)), [len(part["v"]) for part in parts]))

    def least_time(self) -> int:
        """The earliest second (ns) of any of its times; FOREVER: it has none."""
        times = (self.columns[name] for name in TIMES[self.side])
        least = min(int(time[time > NONE].min(initial=FOREVER)) for time in times)
        return least // SECOND_NS * SECOND_NS if least < FOREVER else FOREVER

    def unfit(self, begun: Ints, least: int) -> Ints:
        """Partitions (numbers) with a record whose numbers have no room in a joined log, or that was written when the final read
        had begun (`begun`); each as often as it has one. least: the time from which a joined log counts.
        """
        v, times = self.columns["v"], [self.columns[name] for name in TIMES[self.side]]
        out = (v < 0) | (v >= 1 << IDENTITY_BITS) | (self.columns["offset"] >= HIGHEST_OFFSET)
        for time in times:
            out |= (time < NONE) | (time - least >= LONGEST)
        if self.side == SENDS:
            out |= np.maximum.reduce([self.columns[name] for name in ("began", "ended", "over")]) > begun[self.number]
        else:
            out |= (self.columns["process"] < 0) | (self.columns["process"] >= MOST_PROCESSES)
        return np.asarray(self.number[out])

    def highest(self, name: str) -> int:
        return int(self.columns[name].max(initial=0)) if name in self.columns else 0

    def lifted(self, parts: Parts) -> dict[str, Any]:
        """The columns of the joined log."""
        lifts: dict[str, Callable[[Any, Ints], Ints]] = dict.fromkeys(TIMES[self.side], parts.lifted_times)
        lifts |= {"op": parts.lifted_ops, "v": parts.lifted_identities, "offset": parts.lifted_offsets}
        lifts |= {"process": parts.lifted_processes}
        made = {name: lifts[name](values, self.number) if name in lifts else values for name, values in self.columns.items()}
        types = {name: values.dtype for name, values in self.columns.items()}
        return {**made, **{name: made[name].astype(types[name]) for name in ("op", "process") if name in made}}


def _parts(
    names: tuple[str, ...], places: Mapping[str, int], sides: Sequence[_Side], finals: Sequence[FinalRead], began: int
) -> Parts:
    times = [side.highest(name) for side in sides for name in TIMES[side.side]]
    readers = [reader for final in finals for reader in (*final.readers, *final.witnesses)]
    final_processes = [process for final in finals for process in (*final.committed, *final.uncommitted)]
    last = max([began, *times, *(time for *_, time in readers)])
    began = min([began, *(time // SECOND_NS * SECOND_NS for *_, time in readers if time != NONE)])
    return Parts(
        names=names,
        places=np.array([places[name] for name in names], dtype=np.int64),
        ops=1 + max(*(side.highest("op") for side in sides), *(op for _, op, _ in readers), 0),
        processes=1 + max(sides[READS].highest("process"), *final_processes),
        offsets=1 + max(side.highest("offset") for side in sides),
        span=(1 + (last - began) // SECOND_NS) * SECOND_NS,
        began=began,
    )


def _joined_final(finals: Sequence[FinalRead], parts: Parts, number: Ints) -> FinalRead:
    """number: of each read's partition."""

    def readers(of_each: Iterable[tuple[tuple[Any, Any, Any], ...]]) -> tuple[tuple[Ints, Ints, Ints], ...]:
        return tuple(map(reader, zip(*of_each, strict=True)))

    def reader(in_each: Iterable[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
        process, op, began = np.array(list(in_each), dtype=np.int64).T[:, number]
        return parts.lifted_processes(process, number), parts.lifted_ops(op, number), parts.lifted_times(began, number)

    def processes(of_each: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(own + at * parts.processes for at, some in enumerate(of_each) for own in some)

    committed, uncommitted = processes([own.committed for own in finals]), processes([own.uncommitted for own in finals])
    of_both = readers(own.readers for own in finals), readers(own.witnesses for own in finals)
    return FinalRead(committed, uncommitted, readers=of_both[0], witnesses=of_both[1], begun=FOREVER)


# --------------------------------------------------------------------------------------------------
# Positions
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class JoinedPositions(Positions):
    """The positions of a run's consumers, asked with the processes and operations of a joined log.

    inner: the run's.
    """

    inner: Positions = field(default_factory=Positions)
    parts: Parts | None = None

    @classmethod
    def of(cls, inner: Positions, parts: Parts) -> JoinedPositions:
        return cls(**vars(inner), inner=inner, parts=parts)

    def between(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        if not self.any_group and not len(self.op) and not self.moved:
            return np.zeros(len(process), dtype=np.bool_)
        return self._of_each(self.inner.between, process, last, first, last)

    def unknown_inside(self, partition: str, process: Ints, op: Ints, several: Bools) -> Bools:
        def inside(name: str, process: Ints, op: Ints, several: Ints) -> Bools:
            return self.inner.unknown_inside(name, process, op, several != 0)

        return self._of_each(inside, process, op, op, several)

    def from_start(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        if not self.starts:
            return np.zeros(len(process), dtype=np.bool_)
        return self._of_each(self.inner.from_start, process, last, first, last)

    def last_seek(self, partition: str, process: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        op, offset = (np.full(len(process), NONE, dtype=np.int64) for _ in range(2))
        if not self.moved or self.parts is None:
            return op, offset
        number, own = self.parts.numbers(last), self.parts.processes_of(process)
        told = [self.parts.ops_of(some) for some in (first, last)]
        for at, name in enumerate(self.parts.names):
            if name in self.moved and len(which := np.flatnonzero(number == at)):
                seek, place = self.inner.last_seek(name, own[which], *(some[which] for some in told))
                op[which] = self.parts.lifted_ops(seek, number[which])
                offset[which] = self.parts.lifted_offsets(place, number[which])
        return op, offset

    def _of_each(self, ask: Callable[..., Bools], process: Ints, ops: Ints, *arguments: Any) -> Bools:
        """The answers of each partition for its processes. ops: operations that say whose partition each is."""
        assert self.parts is not None
        answers, number = np.zeros(len(process), dtype=np.bool_), self.parts.numbers(ops)
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange(len(self.parts) + 1)).tolist()
        own = self.parts.processes_of(process)
        told = [some if some.dtype == np.bool_ else self.parts.ops_of(some) for some in arguments]
        for at, (start, stop) in enumerate(pairwise(bounds)):
            if stop > start:
                which = order[start:stop]
                answers[which] = ask(self.parts.names[at], own[which], *(some[which] for some in told))
        return answers
