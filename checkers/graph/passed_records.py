"""Edges of the last stable offset: who read past a record of a transaction knows that it was decided (KIP-98).

    lso  a read_committed reader got a record above one of a transaction that committed: that transaction before the reader

Every reader has such an edge from every transaction below its last read, so a partition hands out two short lists instead, as
rows of one message: of each transaction its lowest record, of each reader its highest. Edges are made of them where they are
searched (`checkers.graph.lso_edges`).

Transactions that are not known to have committed have no such edges: their timeout may have aborted them while their client
still polled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.graph.edge_filter import EdgeFilter
from fencepost.checkers.graph.layers import LSO
from fencepost.checkers.model.arrays import Bools, Ints, among, true_positions
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.log import PartitionLog, position_type, slices
from fencepost.checkers.views.versions import committed_records, placed_reads

SPARSE = 8  # numbers from the lowest to the highest for each one that there is, beyond which no table of them is made


@dataclass(frozen=True)
class PassedRecords:
    """Both lists of one partition.

    place: the lowest of each writer, rising.
    highest: of each reader.
    """

    writer: Ints
    place: Ints
    reader: Ints
    highest: Ints

    def columns(self) -> Iterator[Ints]:
        """Columns of edges (`checkers.graph.edges.EDGE_COLUMNS`), one by one: a writer has no target, a reader no source."""
        no_writer, no_reader = np.full(len(self.reader), NONE), np.full(len(self.writer), NONE)
        yield np.concatenate([self.writer, no_writer])
        yield np.concatenate([no_reader, self.reader])
        yield np.full(len(self.writer) + len(self.reader), LSO, dtype=np.int8)
        yield np.concatenate([self.place, no_writer])
        yield np.concatenate([no_reader, self.highest])


def first_passed(log: PartitionLog, records: Ints) -> Ints:
    """The time at which a judged reader first got anything above some sends (positions, by place); FOREVER: never.

    Reads are sorted by offset, so that is a running minimum from the highest offset down: some millions of reads at a time, and
    with each the records between the last offset of the reads below and its own.
    """
    reads, place = log.reads, log.place[records]
    passed, lowest, stop = np.full(len(records), FOREVER), FOREVER, len(records)
    for part in reversed(list(slices(len(reads)))):
        start = int(np.searchsorted(place, reads.offset[part.start - 1], side="left")) if part.start else 0
        which = part.start + true_positions(reads.judged[part] & log.shared(placed_reads)[part] & (reads.ended[part] != NONE))
        first = np.minimum.accumulate(np.concatenate(((lowest,), reads.ended[which][::-1])))[::-1]
        passed[start:stop] = first[np.searchsorted(reads.offset[which], place[start:stop], side="right")]
        lowest, stop = int(first[0]), start
    if log.parts is not None:  # readers of later partitions passed nothing here
        passed[passed // log.parts.span != log.parts.numbers(log.sends.op[records])] = FOREVER
    return passed


def passed_records(
    log: PartitionLog, edge_filter: EdgeFilter | None, over: Callable[[Ints], Ints], passed: Ints
) -> PassedRecords:
    """The two lists that a partition hands out.

    over: when some sends were surely over.
    passed: when each of the `committed_records` was first passed.

    With a filter the readers of processes that never write stay only if somebody began to write after they read; if there are
    no others, so do only the transactions that were passed before they were surely over.
    """
    reads, sends = log.reads, log.shared(committed_records)
    some = reads.judged & log.shared(placed_reads)
    if edge_filter is not None:
        idle = np.concatenate([some[:0], *(among(reads.process[part], edge_filter.read_only) for part in slices(len(reads)))])
        busy = some & ~idle
        if log.parts is not None or not busy.any():
            early = [over(sends[part]) > passed[part] for part in slices(len(sends))]
            sends = sends[np.concatenate([np.empty(0, dtype=np.bool_), *early]) | _with_others(log, sends, busy)]
        some &= ~idle | edge_filter.began_to_write_after(reads.ended)
    readers, last = last_reads(log, some)
    lowest = first_of_each(log.sends.op[sends])
    return PassedRecords(log.sends.op[sends[lowest]], log.place[sends[lowest]], readers, reads.offset[last])


def _with_others(log: PartitionLog, sends: Any, busy: Bools) -> Bools:
    """True for each of some sends in a partition with reads of processes that write."""
    if log.parts is None:
        return np.zeros(len(sends), dtype=np.bool_)
    there = np.zeros(len(log.parts), dtype=np.bool_)
    there[log.parts.numbers(log.reads.op[busy])] = True
    return there[log.parts.numbers(log.sends.op[sends])]


def first_of_each(values: Any) -> Any:
    """Positions at which each of the different values lies first, in order."""
    low, size = span(values)
    if size > SPARSE * len(values):
        return np.sort(np.unique(values, return_index=True)[1])
    first = np.empty(size, dtype=position_type(len(values)))
    at = np.arange(len(values), dtype=first.dtype)
    first[values[::-1] - low] = at[::-1]  # the last assignment stays
    return true_positions(first[values - low] == at)


def last_reads(log: PartitionLog, which: Bools) -> tuple[Ints, Any]:
    """The readers of some reads (history indices, rising), and of each the position of its last one by offset."""
    op = log.reads.op
    low, size = span(op)
    if size > SPARSE * len(op):
        return last_of_few(log, true_positions(which))
    last = np.full(size, NONE, dtype=log.reads.arrival.dtype)
    for part in slices(len(op)):
        some = part.start + true_positions(which[part])
        last[op[some] - low] = some  # reads are sorted by offset, and the last assignment stays
    readers = true_positions(last != NONE)
    return readers + low, last[readers]


def last_of_few(log: PartitionLog, which: Any) -> tuple[Ints, Any]:
    """The same of some reads (positions, rising) that are few beside all others."""
    few = which[::-1]
    readers, at = np.unique(log.reads.op[few], return_index=True)
    return readers.astype(np.int64), few[at]


def span(values: Any) -> tuple[int, int]:
    """The lowest of some numbers (0: there are none), and how many numbers there are from it to the highest."""
    return (int(values.min()), int(values.max()) - int(values.min()) + 1) if len(values) else (0, 0)
