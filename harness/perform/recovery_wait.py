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


class StandingOffsets:
    """Last stable offsets that stay where they are, below their high watermarks, while a workload goes on.

    ends: the end offsets of all partitions, as `Admin.end_offsets` returns them.
    """

    def __init__(self, ends: Callable[[Isolation], Mapping[str, int]]) -> None:
        self._ends = ends
        self._since: dict[str, tuple[int, float]] = {}  # partition -> where it stands, and the time of the first look that saw it

    def longest(self, now_s: float) -> tuple[str, int, float] | None:
        """The partition whose last stable offset has stood for longest, that offset, and for how long by all looks so far (s).

        now_s: the time of this look. None: none stands, or nobody knows.
        """
        stable: Mapping[str, int] = {}
        high: Mapping[str, int] = {}
        with suppress(ClusterError):
            stable, high = self._ends(Isolation.COMMITTED), self._ends(Isolation.UNCOMMITTED)
        before, self._since = self._since, {}
        for partition, offset in stable.items():
            if offset < high.get(partition, offset):
                known = before.get(partition)
                self._since[partition] = known if known and known[0] == offset else (offset, now_s)
        if not self._since:
            return None
        partition, (offset, since_s) = min(self._since.items(), key=lambda item: item[1][1])
        return partition, offset, now_s - since_s
