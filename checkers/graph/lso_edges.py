"""The lists that partitions handed out instead of lso edges (`checkers.graph.passed_records`): ranges of backward edges, and the
rows with which spans are searched (`checkers.graph.passing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.graph.joined_messages import keys, several_partitions
from fencepost.checkers.graph.operation_order import OperationOrder
from fencepost.checkers.graph.spans import SpanSet
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import NONE


@dataclass(frozen=True)
class PassedLists:
    """The lists of one partition, or of several, one after the other.

    place: the lowest record of each writer, and highest: that of each reader; rising keys of partition and offset.
    writer_in: the number of each writer's partition, and reader_in: of each reader's, counted from 0. None: there is only one.
    """

    writer: Ints
    place: Ints
    reader: Ints
    highest: Ints
    writer_in: Ints | None = None
    reader_in: Ints | None = None

    @classmethod
    def of_rows(cls, part: Mapping[str, Any]) -> PassedLists:
        """Make the lists from the columns of a message."""
        wrote = part["target"] == NONE
        writer, place, reader, highest = part["source"][wrote], part["low"][wrote], part["target"][~wrote], part["high"][~wrote]
        if not several_partitions(part):
            return cls(writer, place, reader, highest)
        number = part["place"] - part["place"][0]
        writer_in, reader_in = number[wrote], number[~wrote]
        return cls(writer, keys(writer_in, place), reader, keys(reader_in, highest), writer_in, reader_in)


def passing_readers(lists: PassedLists) -> Ints:
    """The readers that got something above a record of a transaction."""
    if not len(lists.place):
        return lists.reader[:0]
    if lists.writer_in is None or lists.reader_in is None:
        return np.asarray(lists.reader[lists.highest > lists.place[0]])
    first = np.minimum(np.searchsorted(lists.writer_in, lists.reader_in), len(lists.writer) - 1)
    return np.asarray(lists.reader[(lists.writer_in[first] == lists.reader_in) & (lists.highest > lists.place[first])])


def backward_ranges(lists: PassedLists, orders: OperationOrder) -> tuple[Ints, Ints]:
    """The rank of each reader that some writer below it outranks, and that of the highest such writer."""
    if not len(lists.writer):
        return lists.writer, lists.writer
    ranks = orders.by_point
    below = np.searchsorted(lists.place, lists.highest, side="left") - 1
    there = below >= 0
    if lists.writer_in is None or lists.reader_in is None:
        highest = np.maximum.accumulate(ranks[orders.at(lists.writer)])
    else:  # a maximum that begins anew with each partition: ranks of later ones are lifted above all of earlier ones
        lifted = lists.writer_in * len(ranks)
        highest = np.maximum.accumulate(ranks[orders.at(lists.writer)] + lifted) - lifted
        there &= lists.writer_in[below] == lists.reader_in
    start, stop = highest[below], ranks[orders.at(lists.reader)]
    back = there & (start > stop)
    return stop[back].astype(np.int64), start[back].astype(np.int64)


def inside(part: Mapping[str, Any], orders: OperationOrder, ranks: Any, spans: SpanSet) -> tuple[Ints, Ints]:
    """The rows of the lists whose operation lies in a span: their positions, and the span.

    A span in which a partition has no writer, or no reader, has no edge of that partition.
    """
    wrote = part["target"] == NONE
    span = spans.of(ranks[orders.at(np.where(wrote, part["source"], part["target"]))])
    several = several_partitions(part)
    edges = span + (part["place"] - part["place"][0]) * (1 + len(spans)) if several else span  # a number for both
    which = np.flatnonzero((span != NONE) & np.isin(edges, np.intersect1d(edges[wrote], edges[~wrote])))
    return which, span[which]
