"""What the partitions of a long history need not hand out: edges that close no cycle, or cycles that nobody has to find.

Two things are left out of a history of more than `LONG` operations (docs/graphs.md says why nothing forbidden is lost):

* what somebody who writes nothing read from a writer whose operation was over by then, or after the last writer had begun;
* for the classes with rw edges, unless the contract forbids one of them: everything but a few stretches of the history.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.arrays import Bools
from checkers.graph.layers import ANTI, ANTI_TIME, LAYERS
from checkers.graph.spans import Spans
from checkers.spark.overview import Overview

LONG = 50_000  # operations
STRETCHES, STRETCH = 8, 500  # how many, and how many operations long


@dataclass(frozen=True)
class Brief:
    """idle: processes that write nothing. last: when an operation of another process began last (ns).

    stretches: ranges of history indices in which cycles with rw edges are looked for.
    """

    idle: Any
    last: int
    stretches: Spans

    def together(self, source: Any, target: Any) -> Bools:
        """Whether two operations lie in one stretch; both by history index."""
        found = np.zeros(len(source), dtype=np.bool_)
        found[self.stretches.around(source, target)[0]] = True
        return found


def brief_for(view: Overview, demanded: Collection[str]) -> Brief | None:
    """What may be left out of a history; None: nothing, because it is short, or every class with rw edges must be searched."""
    anti = {layer.name for layer in LAYERS if layer.family in (ANTI, ANTI_TIME)}
    if len(view) <= LONG or anti & set(demanded):
        return None
    busy = np.unique(view.process[view.txn | view.send])
    last = int(view.time[np.isin(view.process, busy)].max(initial=0))
    main = np.flatnonzero(view.main)
    starts = np.linspace(0, max(0, len(main) - STRETCH), STRETCHES).astype(np.int64)
    low, high = view.index[main[starts]], view.index[main[np.minimum(starts + STRETCH, len(main)) - 1]]
    return Brief(np.setdiff1d(np.unique(view.process), busy), last, Spans(low.astype(np.int64), high.astype(np.int64)))
