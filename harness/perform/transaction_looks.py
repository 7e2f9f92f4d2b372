"""Asks coordinators and leaders, all through a run, which transactions are under way, and records what they answer (KIP-664).

Each question is an operation `list-transactions` of the harness (docs/history.md). The checker judges
the answers, by how long the cluster had been without faults, which is recorded beside each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from typing import Any

import structlog

from fencepost.harness.api import ClusterError, ListingTransactions, Outcome, TransactionListing
from fencepost.harness.history.writer import HistoryWriter

log = structlog.get_logger()

EVERY_S = 1.0
SHARE, LONGEST_S = 0.1, 5.0  # so much of the time may go by with questions; the longest pause between two
AT_ONCE = 200  # partitions of one question
FUNCTION = "list-transactions"


def slices(partitions: Sequence[str]) -> Iterator[Sequence[str]]:
    """The partitions of each question in turn, for ever."""
    return cycle([partitions[at : at + AT_ONCE] for at in range(0, max(1, len(partitions)), AT_ONCE)])


@dataclass
class TransactionLooks:
    """The questions of one run.

    number: gives the next operation of the harness its number.
    problem: why asking ended, an error that no answer explains; empty: all is well.

    Its methods take `quiet_since`: the time (ns) since which no fault has been injected, active or healed; None: one is now.
    """

    cluster: ListingTransactions
    partitions: Sequence[str]
    writer: HistoryWriter
    number: Callable[[], int]
    problem: str = ""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def ask(self, partitions: Sequence[str], quiet_since: Callable[[], int | None]) -> TransactionListing | None:
        """Ask one question and record it; None when nobody answers, or when asking broke (`problem`)."""
        number, since, now_ms = self.number(), quiet_since(), time.time_ns() // 1_000_000
        began = self.writer.invoke(-1, number, FUNCTION, {})
        try:
            listing = self.cluster.transaction_listing(partitions)
        except (ClusterError, OSError, ValueError):  # nobody answers, or nothing that can be read
            listing = None
        except Exception as error:  # noqa: BLE001 - a bug of ours; the run goes on without further questions
            listing = None
            self._end(error)
        quiet_s = (began - since) / 1e9 if since is not None and since == quiet_since() else 0.0
        value = {**_document(listing), "quiet_s": round(max(0.0, quiet_s), 3), "asked_ms": now_ms}
        if self.problem:
            value["ended"] = self.problem
        whole = listing is not None and not listing.silent
        self.writer.complete(Outcome.OK if whole else Outcome.INFO, -1, number, FUNCTION, value, errors=[])
        return listing

    def ask_through(self, quiet_since: Callable[[], int | None]) -> threading.Thread:
        """Ask again and again in a thread, until `stop`."""
        thread = threading.Thread(target=self._run, args=(quiet_since,), name="transactions", daemon=True)
        thread.start()
        return thread

    def _end(self, error: Exception) -> None:
        """End asking after an error that no answer explains: a bug of ours."""
        log.exception("questions about transactions broke")
        self.problem = f"{type(error).__name__}: {error}"

    def _run(self, quiet_since: Callable[[], int | None]) -> None:
        try:
            self._ask_on(quiet_since)
        except Exception as error:  # noqa: BLE001 - the history cannot be written; `problem` says so
            self._end(error)

    def _ask_on(self, quiet_since: Callable[[], int | None]) -> None:
        for some in slices(self.partitions):
            began = time.monotonic()
            self.ask(some, quiet_since)
            if self.problem or self._stopped.wait(min(LONGEST_S, max(EVERY_S, (time.monotonic() - began) / SHARE))):
                return

    def stop(self, thread: threading.Thread) -> None:
        """End a thread of `ask_through`; its last question is recorded to its end."""
        self._stopped.set()
        thread.join()

    def ask_until_none(self, quiet_since: int, until_ns: int) -> bool:
        """Ask until nothing is under way, a time has come, or asking broke; returns whether nothing is under way."""
        while (listing := self.ask(self.partitions, lambda: quiet_since)) is None or listing.silent or listing.under_way:
            if self.problem or time.monotonic_ns() > until_ns:
                return False
            time.sleep(EVERY_S)
        return True


def _document(listing: TransactionListing | None) -> dict[str, Any]:
    """An answer as it is recorded: of the transactions that are over only those of producers with something open."""
    if listing is None:
        return {"transactions": [], "open": [], "silent": ["everybody"]}
    owners = {producer.producer_id for producer in listing.opened}
    recorded = [entry for entry in listing.coordinated if entry.under_way or entry.producer_id in owners]
    return {
        "transactions": [{**asdict(entry), "partitions": list(entry.partitions)} for entry in recorded],
        "open": [asdict(producer) for producer in listing.opened],
        "silent": list(listing.silent),
    }
