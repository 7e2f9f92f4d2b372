"""The lists that partitions handed out instead of lso edges (`checkers.graph.passed_records`): ranges of backward edges, and the
rows with which spans are searched (`checkers.graph.passing`).
"""

from __future__ import annotations

from collections.abc import Mapping
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


def inside(part: Mapping[str, Any], orders: OperationOrder, ranks: Any, spans: SpanSet) -> tuple[Ints, Ints]:
    """The rows of the lists whose operation lies in a span: their positions, and the span.

    A span without a writer, or without a reader, has no edge.
    """
    wrote = part["target"] == NONE
    span = spans.of(ranks[orders.at(np.where(wrote, part["source"], part["target"]))])
    which = np.flatnonzero((span != NONE) & np.isin(span, np.intersect1d(span[wrote], span[~wrote])))
    return which, span[which]
