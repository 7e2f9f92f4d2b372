"""The edges that the partitions of a long history leave out: they close no cycle, or one that nobody has to find.

Two things are left out of a history of more than `LONG` operations (docs/graphs.md says why nothing forbidden is lost):

* what a process that writes nothing read from an operation that was over by then, or read after the last write had begun;
* for the classes with rw edges, unless the contract forbids one of them: everything but a few stretches of the history.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.graph.layers import ANTI, ANTI_TIME, LAYERS
from fencepost.checkers.graph.spans import SpanSet
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.views.parts import Parts

LONG = 50_000  # operations
STRETCHES, STRETCH = 8, 500  # how many, and how many operations long


@dataclass(frozen=True)
class EdgeFilter:
    """Edges that the partitions of a long history may leave out.

    read_only: processes that write nothing.
    last_write_began: when the last operation of any other process began (ns).
    stretches: ranges of history indices in which cycles with rw edges are looked for.
    """

    read_only: Any
    last_write_began: int
    stretches: SpanSet

    def began_to_write_after(self, times: Ints) -> Bools:
        """True for each time after which somebody began to write."""
        return np.asarray(times < self.last_write_began)

    def of_parts(self, parts: Parts) -> EdgeFilter:
        """The same for a joined log."""
        number = np.arange(len(parts))
        read_only = self.read_only[(self.read_only >= 0) & (self.read_only < parts.processes)]
        stretches = SpanSet(*(np.add.outer(number * parts.ops, ends).ravel() for ends in vars(self._within(parts)).values()))
        return JoinedFilter(np.add.outer(number * parts.processes, read_only).ravel(), self.last_write_began, stretches, parts)

    def _within(self, parts: Parts) -> SpanSet:
        """The stretches as far as the operations of a joined log's partitions go."""
        some = self.stretches.pick(self.stretches.low < parts.ops)
        return SpanSet(some.low, np.minimum(some.high, parts.ops - 1))

    def in_one_stretch(self, source: Any, target: Any) -> Bools:
        """True for each two operations that lie in one stretch; both by history index."""
        inside = np.zeros(len(source), dtype=np.bool_)
        inside[self.stretches.around(source, target)[0]] = True
        return inside


@dataclass(frozen=True)
class JoinedFilter(EdgeFilter):
    """A filter for a joined log, with its processes and operations; times are as they were."""

    parts: Parts

    def began_to_write_after(self, times: Ints) -> Bools:
        return np.asarray(self.parts.times_of(times) < self.last_write_began)


def edge_filter_for(view: Overview, forbidden: Collection[str]) -> EdgeFilter | None:
    """The filter for a history; None: nothing may be left out, as it is short, or every class with rw edges must be searched."""
    anti = {layer.name for layer in LAYERS if layer.family in (ANTI, ANTI_TIME)}
    if len(view) <= LONG or anti & set(forbidden):
        return None
    main = np.flatnonzero(view.main)
    starts = np.linspace(0, max(0, len(main) - STRETCH), STRETCHES).astype(np.int64)
    low, high = view.index[main[starts]], view.index[main[np.minimum(starts + STRETCH, len(main)) - 1]]
    read_only = np.setdiff1d(view.processes, view.writing_processes)
    return EdgeFilter(read_only, view.last_write_began, SpanSet(low.astype(np.int64), high.astype(np.int64)))
