"""Asks coordinators and leaders, all through a run, which transactions are under way, and records what they answer (KIP-664).

Each question is an operation `list-transactions` of the harness (docs/history.md). What the answers are worth is the checker's
affair: whether the cluster was at rest stands beside each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from typing import Any

from harness.api import ClusterError, ListingTransactions, Outcome, TransactionListing
from harness.history.writer import HistoryWriter

EVERY_S = 1.0
SHARE, LONGEST_S = 0.1, 5.0  # so much of the time may go by with questions; the longest pause between two
AT_ONCE = 200  # partitions of one question
FUNCTION = "list-transactions"


def slices(partitions: Sequence[str]) -> Iterator[Sequence[str]]:
    """The partitions of one question after the other, for ever."""
    return cycle([partitions[at : at + AT_ONCE] for at in range(0, max(1, len(partitions)), AT_ONCE)])


@dataclass
class TransactionLooks:
    """The questions of one run. number: gives the next operation of the harness its number.

    quiet_since: since when no fault is injected, active or healed (ns); None: one is right now.
    """

    cluster: ListingTransactions
    partitions: Sequence[str]
    writer: HistoryWriter
    number: Callable[[], int]
    _stopped: threading.Event = field(default_factory=threading.Event)

    def ask(self, partitions: Sequence[str], quiet_since: Callable[[], int | None]) -> TransactionListing | None:
        """One question, recorded; None when nobody answers."""
        number, since = self.number(), quiet_since()
        began = self.writer.invoke(-1, number, FUNCTION, {})
        try:
            found = self.cluster.transaction_listing(partitions)
        except (ClusterError, OSError, ValueError):  # nobody answers, or nothing that can be read
            found = None
        quiet_s = (began - since) / 1e9 if since is not None and since == quiet_since() else 0.0
        value = {**_document(found), "quiet_s": round(max(0.0, quiet_s), 3)}
        whole = found is not None and not found.silent
        self.writer.complete(Outcome.OK if whole else Outcome.INFO, -1, number, FUNCTION, value, errors=[])
        return found

    def ask_through(self, quiet_since: Callable[[], int | None]) -> threading.Thread:
        """Ask again and again in a thread, until `stop`."""
        thread = threading.Thread(target=self._ask_on, args=(quiet_since,), name="transactions", daemon=True)
        thread.start()
        return thread

    def _ask_on(self, quiet_since: Callable[[], int | None]) -> None:
        for some in slices(self.partitions):
            began = time.monotonic()
            self.ask(some, quiet_since)
            if self._stopped.wait(min(LONGEST_S, max(EVERY_S, (time.monotonic() - began) / SHARE))):
                return

    def stop(self, thread: threading.Thread) -> None:
        """End a thread of `ask_through`; its last question is recorded to its end."""
        self._stopped.set()
        thread.join()

    def ask_until_none(self, quiet_since: int, until_ns: int) -> bool:
        """Ask until nothing is under way any more, or a time has come; whether nothing is."""
        while (found := self.ask(self.partitions, lambda: quiet_since)) is None or found.silent or found.under_way:
            if time.monotonic_ns() > until_ns:
                return False
            time.sleep(EVERY_S)
        return True


def _document(found: TransactionListing | None) -> dict[str, Any]:
    """An answer as it is recorded: of the transactions that are over only those of producers with something open."""
    if found is None:
        return {"transactions": [], "open": [], "silent": ["everybody"]}
    owners = {one.producer_id for one in found.opened}
    kept = [one for one in found.coordinated if one.under_way or one.producer_id in owners]
    return {
        "transactions": [{**asdict(one), "partitions": list(one.partitions)} for one in kept],
        "open": [asdict(one) for one in found.opened],
        "silent": list(found.silent),
    }
