"""Which clients have not succeeded yet since the last fault was healed, by what their workers report, and whether it is a
hanging transaction that they wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from fencepost.harness.api import ClusterError, Isolation, Outcome, Role
from fencepost.harness.api.recovery import WITHOUT_ANSWER


class SlotCounts(NamedTuple):
    """Completed operations of a slot so far, by outcome.

    answered: those that ended ok and that a broker must have answered.
    """

    ok: int = 0
    fail: int = 0
    info: int = 0
    answered: int = 0

    def plus(self, other: SlotCounts) -> SlotCounts:
        """The counts of a slot's workers, one after the other."""
        return SlotCounts(*map(sum, zip(self, other, strict=True)))


def answered(f: str, outcome: Outcome, value: object) -> bool:
    """True if an operation ended ok and a broker must have answered it: one that only reads, if it returned a record."""
    if outcome is not Outcome.OK:
        return False
    mops = value if isinstance(value, list) else ()
    return f not in WITHOUT_ANSWER or any(len(mop) > 1 and isinstance(mop[1], Mapping) and bool(mop[1]) for mop in mops)


def unrecovered(
    slots: Iterable[int], roles: Sequence[Role], before: Mapping[int, SlotCounts], now: Mapping[int, SlotCounts]
) -> list[int]:
    """The slots, of those given, of which nobody knows yet that their client works again.

    A member that owns no partition only polls: it has recovered when a poll ended ok and no operation failed.
    """
    return [slot for slot in slots if not _works(roles[slot], before.get(slot, SlotCounts()), now.get(slot, SlotCounts()))]


def _works(role: Role, before: SlotCounts, now: SlotCounts) -> bool:
    if now.answered > before.answered:
        return True
    return role.name == "member" and now.ok > before.ok and (now.fail, now.info) == (before.fail, before.info)


class Standing(NamedTuple):
    """A last stable offset that stays below its high watermark.

    since_s: the time of the first look that saw it there, by the clock of those who look.
    """

    partition: str
    offset: int
    since_s: float

    def stands(self, stable: Mapping[str, int], high: Mapping[str, int]) -> bool:
        """True if it is there still. stable, high: end offsets at read_committed and at read_uncommitted."""
        return stable.get(self.partition) == self.offset < high.get(self.partition, self.offset)


class StandingOffsets:
    """Last stable offsets that stay where they are, below their high watermarks, while a workload goes on.

    ends: the end offsets of all partitions, as `Admin.end_offsets` returns them.
    """

    def __init__(self, ends: Callable[[Isolation], Mapping[str, int]]) -> None:
        self._ends = ends
        self._standing: dict[str, Standing] = {}

    def longest(self, now_s: float) -> Standing | None:
        """That which has stood for longest, by all looks so far. None: none stands, or nobody knows.

        now_s: the time of this look.
        """
        stable: Mapping[str, int] = {}
        high: Mapping[str, int] = {}
        with suppress(ClusterError):
            stable, high = self._ends(Isolation.COMMITTED), self._ends(Isolation.UNCOMMITTED)
        before, self._standing = self._standing, {}
        for partition, offset in stable.items():
            known = before.get(partition)
            each = known if known and known.offset == offset else Standing(partition, offset, now_s)
            if each.stands(stable, high):
                self._standing[partition] = each
        return min(self._standing.values(), key=lambda each: each.since_s, default=None)
