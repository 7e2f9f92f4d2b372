"""The pace of a run before, during and after each fault: successful writes per second, and how long these took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fencepost.harness.report.documents import NEVER, Doc, Ints, Ops, ReportData, writes

SHORTEST_S, LONGEST_S = 2.0, 10.0  # of what is looked at before and after a fault, which else is as long as the fault
_LEAST_NS = 500_000_000  # less time without another fault tells no rate
_SECOND = 1e9


@dataclass(frozen=True)
class Pace:
    """Successful writes of the main phase that ended in a span of time.

    rate: per second. p50_ns, p99_ns: how long they took; None where there were none.
    """

    rate: float
    p50_ns: float | None = None
    p99_ns: float | None = None


Paces = tuple[Pace | None, Pace | None, Pace | None]  # before, during and after; None: no time that no other fault had a part in


def paces(run: ReportData) -> dict[int, Paces]:
    """The paces around each fault that struck, by its id; none where the history has no writes or could not be read."""
    struck = [fault for fault in run.faults or () if fault.get("injected_ns")]
    if run.ops is None or not struck:
        return {}
    chosen = writes(run.ops)
    if not chosen.any():
        return {}
    successes = _Successes.of(run.ops, chosen)
    first, last = int(run.ops.time[chosen].min()), int(max(run.ops.end[chosen].max(), run.ops.time[chosen].max()))
    others = _Faults.of(struck, last)
    return {fault["id"]: _around(fault, successes, others, (first, last)) for fault in struck}


@dataclass(frozen=True)
class _Successes:
    """The ends of successful writes in their order, and how long each took (ns)."""

    ends: Ints
    took: Ints

    @classmethod
    def of(cls, ops: Ops, chosen: npt.NDArray[np.bool_]) -> _Successes:
        at = np.flatnonzero(chosen & ops.type.among("ok") & ~ops.intent.among("abort") & (ops.end != NEVER))
        at = at[np.argsort(ops.end[at], kind="stable")]
        return cls(ops.end[at], ops.end[at] - ops.time[at])

    def within(self, start: int, stop: int) -> Pace | None:
        """The pace from `start` to `stop`; None: too short a time."""
        if stop - start < _LEAST_NS:
            return None
        low, high = np.searchsorted(self.ends, [start, stop])
        if low == high:
            return Pace(0.0)
        p50, p99 = np.percentile(self.took[low:high], (50, 99))
        return Pace(float(high - low) / (stop - start) * _SECOND, float(p50), float(p99))


@dataclass(frozen=True)
class _Faults:
    """The moments at which faults began and ended, each in their order."""

    begun: Ints
    ended: Ints

    @classmethod
    def of(cls, faults: list[Doc], last: int) -> _Faults:
        begun = [fault["injected_ns"] for fault in faults]
        ended = [fault.get("healed_ns") or max(last, fault["injected_ns"]) for fault in faults]
        return cls(np.sort(np.array(begun, dtype=np.int64)), np.sort(np.array(ended, dtype=np.int64)))

    def quiet_before(self, moment: int) -> int | None:
        """The moment since which no fault was active before this one; None: another was."""
        over = int(np.searchsorted(self.ended, moment, side="right"))
        if over < int(np.searchsorted(self.begun, moment, side="left")):
            return None
        return int(self.ended[over - 1]) if over else 0

    def quiet_after(self, moment: int) -> int | None:
        """The moment until which no fault was active after this one; None: another was."""
        begun = int(np.searchsorted(self.begun, moment, side="right"))
        if begun > int(np.searchsorted(self.ended, moment, side="right")):
            return None
        return int(self.begun[begun]) if begun < len(self.begun) else np.iinfo(np.int64).max


def _around(fault: Doc, successes: _Successes, others: _Faults, phase: tuple[int, int]) -> Paces:
    begun, healed = fault["injected_ns"], fault.get("healed_ns") or max(phase[1], fault["injected_ns"])
    reach = int(min(max(healed - begun, SHORTEST_S * _SECOND), LONGEST_S * _SECOND))
    since, until = others.quiet_before(begun), others.quiet_after(healed)
    return (
        None if since is None else successes.within(max(since, begun - reach, phase[0]), begun),
        successes.within(max(begun, phase[0]), min(healed, phase[1])),
        None if until is None or not fault.get("healed_ns") else successes.within(healed, min(until, healed + reach, phase[1])),
    )
