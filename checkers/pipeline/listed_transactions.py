"""Answers of coordinators and leaders to the question which transactions are under way (KIP-664; `list-transactions`).

An answer counts where every broker gave it, a while after the last fault: a coordinator or leader that was frozen or cut off
answers from what it knew. Two answers that name the same transaction say that it was open from the one to the other.

A clock that was ahead and is right again makes coordinators wait (`harness.api.clocks_ahead`): its fault is over only when true
time has reached what the clock had shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import CoordinatedTransaction, OpenTransaction
from fencepost.harness.api.clocks_ahead import ClockAhead

State = TypeVar("State")

SECOND = 1_000_000_000
QUIET_NS = 3 * SECOND  # after a fault: brokers that were replaced as leaders have learnt of it
COLUMNS = ("index", "f", "type", "time", "end", "detail")
NO_LISTING = "nobody asked which transactions are open (no `list-transactions` operation)"
NONE_OPEN = "no transaction was open when coordinators and leaders were asked"
NO_RECEIPTS = "whether a broker's clock was ahead is not known, for receipts of faults are missing ({count} findings)"
NEVER_QUIET = "whenever coordinators and leaders were asked, a fault had been active shortly before, or a clock was wrong"
NO_ANSWER = "no question which transactions are open was answered by every broker, some seconds after a fault"


@dataclass(frozen=True)
class Listing:
    """One answer of all brokers.

    op: history index.
    begin: when the coordinators were asked (ns); the leaders were asked after them.
    end: when the last broker had answered (ns).
    quiet_since: from then on no fault was active (ns).
    begin_ms: `begin` by the wall clock of who asked, ms since 1970; None: not recorded.
    """

    op: int
    begin: int
    end: int
    quiet_since: int
    coordinated: tuple[CoordinatedTransaction, ...]
    opened: tuple[OpenTransaction, ...]
    begin_ms: int | None = None

    @property
    def quiet(self) -> bool:
        return self.begin - self.quiet_since >= QUIET_NS

    def began(self, transaction: CoordinatedTransaction) -> int | None:
        """The time at which a transaction began, ns, if its coordinator's wall clock is right; None: not known."""
        return (
            None
            if self.begin_ms is None or transaction.started_ms < 0
            else self.begin + (transaction.started_ms - self.begin_ms) * 1_000_000
        )

    def coordinator_knows(self, transaction: OpenTransaction) -> bool:
        """True if the transaction is under way for its coordinator too, in this partition as long as it is not being ended."""
        mine = [other for other in self.coordinated if other.producer_id == transaction.producer_id and other.under_way]
        return any(other.state != "Ongoing" or transaction.partition in other.partitions for other in mine)


@dataclass(frozen=True)
class Sighting:
    """A state that two answers show, and that lasted from the one to the other."""

    first: Listing
    last: Listing

    @property
    def lasted_ns(self) -> int:
        """The time for which it lasted, of that in which no fault was active any more (ns)."""
        return self.last.begin - max(self.first.end, self.last.quiet_since + QUIET_NS)


def listings(run: RunView) -> list[Listing]:
    """The whole answers of a run, in order. What is not as documented, or contradicts itself, is none."""
    rows = run.history.of_kind(COLUMNS, "list-transactions").sort_by("index").to_pylist()
    answers = [_listing(row) for row in rows if row["type"] == "ok" and row["detail"] and row["end"] is not None]
    return [_after_clocks(answer, run.clocks or ()) for answer in answers if answer is not None]


def _after_clocks(answer: Listing, clocks: Sequence[ClockAhead]) -> Listing:
    """An answer whose quiet time begins when no clock that was ahead before has an effect any more."""
    over = max((clock.over_ns for clock in clocks if clock.injected_ns <= answer.begin), default=0)
    return replace(answer, quiet_since=max(answer.quiet_since, over))


class _Answer(msgspec.Struct):
    transactions: tuple[CoordinatedTransaction, ...]
    open: tuple[OpenTransaction, ...]
    quiet_s: float
    begin_ms: int | None = msgspec.field(default=None, name="asked_ms")
    silent: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """True if nothing in it contradicts the rest: what is under way has begun, what is open has a first record, and every
        broker answered.
        """
        begun = all(row.started_ms >= 0 <= row.timeout_ms for row in self.transactions if row.under_way)
        return begun and all(row.offset >= 0 for row in self.open) and not self.silent


def _listing(row: Mapping[str, Any]) -> Listing | None:
    try:
        answer = msgspec.json.decode(row["detail"], type=_Answer)
    except ValueError:
        return None
    if not answer.possible:
        return None
    quiet_since = row["time"] - round(answer.quiet_s * SECOND)
    return Listing(row["index"], row["time"], row["end"], quiet_since, answer.transactions, answer.open, answer.begin_ms)


def has_questions(run: RunView) -> bool:
    """True if anybody asked, whatever the answers."""
    return bool(run.history.of_kind(("index", "f"), "list-transactions").num_rows)


def questions_ended(run: RunView) -> str:
    """That asking broke off with an error, in words, with what was not asked any more; empty when it did not."""
    rows = run.history.of_kind(COLUMNS, "list-transactions").sort_by("index").to_pylist()
    broken = [error for row in rows if (error := _error(row["detail"]))]
    if not broken:
        return ""
    return f"the questions which transactions are open ended with {broken[0]}: what was open afterwards was not compared"


def _error(detail: str | None) -> str:
    try:
        return msgspec.json.decode(detail or "{}", type=_Ended).ended
    except ValueError:
        return ""


class _Ended(msgspec.Struct):
    ended: str = ""


def sightings(shown: Iterable[tuple[State, Listing]]) -> dict[State, list[Listing]]:
    """The answers that show each state, in order."""
    by_state: dict[State, list[Listing]] = {}
    for state, listing in shown:
        by_state.setdefault(state, []).append(listing)
    return by_state


def longest(some: Sequence[Listing]) -> Sighting:
    """The first of the answers that show a state, and that up to which it had lasted longest without a fault."""
    return max((Sighting(some[0], listing) for listing in some), key=lambda seen: seen.lasted_ns)


def confirmed(some: Sequence[Listing]) -> Sighting | None:
    """The first of the answers that show a state, and the last at rest that another one confirmed with no fault in between."""
    pairs = [listing for listing, after in pairwise(some) if listing.quiet and after.quiet_since <= listing.begin]
    return Sighting(some[0], pairs[-1]) if pairs else None
