"""Which operations of a long history are drawn: those that matter, all of them where it matters, and an even sample elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fencepost.harness.report.documents import Ints, Ops, slices

SECOND = 1_000_000_000
MOST_WINDOWS = 40
_WIDEST, _NARROWEST = SECOND, SECOND // 1000  # half the width of a window
_LONG = 2 * SECOND

Mask = npt.NDArray[np.bool_]
Window = tuple[int, int]  # ns: from, to


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The operations that are drawn.

    positions: ascending.
    windows: times within which every operation is drawn.
    uncertain: how many of all operations that failed, or of which nobody knows, are drawn, and how many there are.
    every: of the other operations one of so many is drawn; 0: none.
    """

    positions: Ints
    windows: tuple[Window, ...] = ()
    uncertain: tuple[int, int] = (0, 0)
    every: int = 1


def sample(ops: Ops, named: set[int], moments: Sequence[int], most: int) -> Sample:
    """All operations when they are few; else at most about `most`.

    named: operations (by index) that are always drawn, those of findings.
    moments: times (ns) around which every operation is wanted, the most important first.
    """
    if len(ops) <= most:
        return Sample(positions=np.arange(len(ops)))
    drawn = np.zeros(len(ops), dtype=np.bool_)
    drawn[ops.at(named)[:most]] = True
    share = max(0, most - int(drawn.sum())) // 3
    uncertain = np.flatnonzero(~ops.type.among("ok"))
    drawn[evenly(uncertain, share)] = True
    looks = _Looks(ops)
    windows = _windows(looks, moments[:MOST_WINDOWS], share)
    for window in windows:
        drawn[looks.within(window)] = True
    others = ~drawn & ops.type.among("ok")
    room = most - int(drawn.sum())
    every = -(-int(others.sum()) // room) if room > 0 else 0
    if every:
        _draw(drawn, others, every)
    return Sample(
        positions=np.flatnonzero(drawn),
        windows=tuple(windows),
        uncertain=(int(drawn[uncertain].sum()), len(uncertain)),
        every=every,
    )


def _draw(drawn: Mask, others: Mask, every: int) -> None:
    """Draw one of so many of the others, from the first on."""
    seen = 0
    for part in slices(len(others)):
        at = part.start + np.flatnonzero(others[part])
        drawn[at[-seen % every :: every]] = True
        seen += len(at)


def evenly(positions: Ints, most: int) -> Ints:
    """All of them, or `most` at equal distances."""
    if len(positions) <= most:
        return positions
    return positions[np.linspace(0, len(positions) - 1, most, dtype=np.int64)]


class _Looks:
    """Looks for the operations of a time without going through all of them."""

    def __init__(self, ops: Ops) -> None:
        self.ops = ops
        parts = slices(len(ops))
        self._long = np.concatenate([part.start + np.flatnonzero(ops.end[part] - ops.time[part] > _LONG) for part in parts])

    def within(self, window: Window) -> Ints:
        """The operations that began or ended in a window, or were under way all the time."""
        ops, (begin, end) = self.ops, window
        first, last = np.searchsorted(ops.time, [begin - _LONG, end])
        near = np.arange(first, last)
        inside = near[(ops.time[near] >= begin) | (ops.end[near] >= begin)]
        before = self._long[: np.searchsorted(self._long, first)]
        return np.concatenate([before[ops.end[before] >= begin], inside])


def _windows(looks: _Looks, moments: Sequence[int], most: int) -> list[Window]:
    """Around each moment as much time as its share of operations lasts; what overlaps is one window."""
    share = most // len(moments) if moments else 0
    wide = sorted(filter(None, (_window(looks, moment, share) for moment in moments))) if share else []
    merged: list[Window] = []
    for begin, end in wide:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _window(looks: _Looks, moment: int, most: int) -> Window | None:
    """The widest window around a moment with at most so many operations; None where even the narrowest has more."""
    half = _WIDEST
    while half >= _NARROWEST:
        window = (moment - half, moment + half)
        first, last = np.searchsorted(looks.ops.time, window)
        if last - first <= most and len(looks.within(window)) <= most:
            return window
        half //= 2
    return None
