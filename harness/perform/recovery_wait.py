"""Which clients have not succeeded yet since the last fault was healed, by what their workers report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fencepost.harness.api import Outcome, Role
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
