"""The lso edges among the lists that partitions handed out (`checkers.graph.passed_records`), where they are searched.

An edge is made only inside a span, and only where the transaction was not over when the reader began: where it was, an edge of
time says the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.graph.operation_order import OperationOrder
from fencepost.checkers.graph.passed_records import PassedRecords
from fencepost.checkers.graph.spans import SpanSet
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import NONE


def passing_readers(lists: PassedRecords) -> Ints:
    """The readers that got something above a record of a transaction."""
    return lists.reader[lists.highest > lists.place[0]] if len(lists.place) else lists.reader[:0]


def backward_ranges(lists: PassedRecords, orders: OperationOrder) -> tuple[Ints, Ints]:
    """The rank of each reader that some writer below it outranks, and that of the highest such writer."""
    if not len(lists.writer):
        return lists.writer, lists.writer
    ranks = orders.by_point
    highest = np.maximum.accumulate(ranks[orders.at(lists.writer)])
    below = np.searchsorted(lists.place, lists.highest, side="left") - 1
    start, stop = highest[below], ranks[orders.at(lists.reader)]
    back = (below >= 0) & (start > stop)
    return stop[back].astype(np.int64), start[back].astype(np.int64)


def edges_between(lists: PassedRecords, orders: OperationOrder, ranks: Any, spans: SpanSet) -> tuple[Ints, Ints, Ints]:
    """The edges with both ends in one span: positions of writers and of readers, and the span."""
    span_of_writer, span_of_reader = (spans.of(ranks[orders.at(ops)]) for ops in (lists.writer, lists.reader))
    pairs = [(np.empty(0, dtype=np.int64),) * 3]
    for reader in np.flatnonzero(span_of_reader != NONE).tolist():
        below = int(np.searchsorted(lists.place, lists.highest[reader], side="left"))
        same = np.flatnonzero(span_of_writer[:below] == span_of_reader[reader])
        op = lists.reader[reader]
        open_then = orders.end[orders.at(lists.writer[same])] >= orders.begin[orders.at(op)]
        same = same[open_then & (lists.writer[same] != op)]
        pairs.append((same, np.full(len(same), reader), np.full(len(same), span_of_reader[reader])))
    writers, readers, span = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return writers, readers, span
