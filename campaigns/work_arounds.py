"""Work-arounds for clients, as workloads: `kind = "work_arounds:NewProducerAfterTimeout"` in a campaign."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fencepost.harness.api import Between, Client, Operation, Outcome
from fencepost.workloads.transactions import Transactions


@dataclass(frozen=True, kw_only=True)
class NewProducerAfterTimeout(Transactions):
    """Transactions whose producer is replaced before the next one when a commit or an abort took as long as a request may.

    The work-around that librdkafka 5423 proposes for KAFKA-17754: a new producer raises the epoch, so that an EndTxn that is
    still under way is fenced. An application sees no timeout of a request, since librdkafka sends EndTxn again by itself: what it
    sees is that the call was slow.

    slow_s: a commit or abort that takes this long is taken for one whose EndTxn timed out (just below `socket.timeout.ms`)
    """

    slow_s: Annotated[float, Between(0, 600)] = 0.9

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """One transaction; the process, and with it the producer, is replaced after a slow end."""
        timed: Any = TimedClient(client)
        outcome = super().perform(op, timed, run)
        op.renew = op.renew or timed.longest_s >= self.slow_s
        return outcome


class TimedClient:
    """A client, and how long its longest commit or abort took."""

    def __init__(self, client: Client) -> None:
        self._client, self.longest_s = client, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def commit(self, timeout_s: float) -> None:
        self._time(self._client.commit, timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._time(self._client.abort, timeout_s)

    def _time(self, call: Callable[[float], None], timeout_s: float) -> None:
        began = time.monotonic()
        try:
            call(timeout_s)
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - began)
