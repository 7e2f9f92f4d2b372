"""Workloads of the museum that do more than the built-in ones: `kind = "museum_workloads:MarkerKeys"` in a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fencepost.harness.api import Between, Client, Operation, Outcome
from fencepost.workloads.support.sending import Content
from fencepost.workloads.transactions import Transactions

MARKER_KEYS = (
    b"\0\0\0\0",
    b"\0\0\0\1",
)  # version 0, and 0 for ABORT or 1 for COMMIT: 32-bit integers 0 and 1 have the same bytes


@dataclass(frozen=True, kw_only=True)
class MarkerKeys(Transactions):
    """Transactions in which one of so many records has the key of a transaction marker, by producers that are replaced often.

    The cleaner of brokers with KAFKA-14055 takes such a record for a newer value of each marker below it. A transaction whose
    marker is gone stays open on a replica that reads the log again, unless its producer goes on: so processes are replaced,
    each under an id of its own (`new_ids`).

    every: of about so many records one has the key of a marker
    lives: transactions of a process
    """

    every: Annotated[int, Between(1, 1_000_000)] = 20
    lives: Annotated[int, Between(1, 1_000_000)] = 10

    def content(self, op: Operation, seq: int, run: str) -> Content:
        """As in `transactions`; each record has a key of its own but for those that have a marker's."""
        _, value, headers = super().content(op, seq, run)
        turn, rest = divmod(31 * op.process + 5 * op.number + seq, self.every)
        key = MARKER_KEYS[turn % 2] if rest == 0 else f"{op.process}/{op.number}/{seq}".encode()
        return Content(key, value, headers)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        outcome = super().perform(op, client, run)
        op.renew = op.renew or (op.planned.f == "txn" and op.number >= self.lives)
        return outcome


@dataclass(frozen=True, kw_only=True)
class LastAbort(Transactions):
    """Transactions of processes that end when they had to abort one whose records were given up (KAFKA-14402).

    Then nobody ends what a broker appends after the abort's marker. To be used with `new_ids`: under the same transactional id
    the next process would go on with the same producer id.

    settled: transactions before which no process ends: until then it may have no connection yet on which a Produce is under way
    """

    settled: Annotated[int, Between(0, 1_000_000)] = 5

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        outcome = super().perform(op, client, run)
        op.renew = op.renew or (outcome is Outcome.FAIL and bool(op.errors) and op.number >= self.settled)
        return outcome
