"""A workload with transactions: each moves an amount between two partitions, so that one record without the other is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

from fencepost.harness.api import (
    Between,
    CallError,
    Client,
    Operation,
    Outcome,
    PlannedOperation,
    Reader,
    Role,
    TopicSpec,
    Writer,
)
from fencepost.workloads.support import outcomes
from fencepost.workloads.support.polling import note, read, reader_operations
from fencepost.workloads.support.sending import send

CALL_S = 10.0  # one call of commit or abort


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Two records in one transaction, in two partitions; some transactions abort on purpose."""

    writers: Annotated[int, Between(1, 100)] = 3  # processes that write, each with a transactional id of its own
    readers: Annotated[int, Between(0, 100)] = 1  # read_committed processes that only poll
    partitions: Annotated[int, Between(2, 100)] = 3  # of the one topic
    abort_share: Annotated[float, Between(0, 1)] = 0.1  # of the transactions
    timeout_s: Annotated[float, Between(2, 600)] = 10.0  # transaction.timeout.ms
    record_bytes: Annotated[int, Between(0, 100_000)] = 100  # about the size of a record's value

    def topics(self) -> dict[str, TopicSpec]:
        """The topics that are made before the start."""
        return {"transfer": TopicSpec(partitions=self.partitions)}

    def roles(self) -> tuple[Role, ...]:
        """One process for each. A role that uses transactions says so: its producer gets a transactional id."""
        return (*[Writer(transactional=True)] * self.writers, *[Reader()] * self.readers)

    def producer_settings(self) -> Mapping[str, Any]:
        """librdkafka refuses a message timeout above the transaction timeout."""
        timeout_ms = round(self.timeout_s * 1000)
        return {"acks": "all", "transaction.timeout.ms": timeout_ms, "delivery.timeout.ms": timeout_ms // 2}

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        """A transaction is f="txn" with its intent: what the process means to do, whatever becomes of it."""
        if role.name != "writer":
            yield from reader_operations()
        while True:
            source, target = rng.sample(list(partitions), 2)
            intent = "abort" if rng.random() < self.abort_share else "commit"
            yield PlannedOperation(f="txn", mops=(("send", source), ("send", target)), intent=intent)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """From begin to the decision. ok: committed; fail: surely not, so that none of its records may be seen; else info."""
        if op.planned.f == "poll":
            return read(op, client, run)
        try:
            client.begin()
            for seq in range(len(op.planned.mops)):
                send(op, seq, client, run, self.record_bytes)
            if op.planned.intent == "abort":
                client.flush(CALL_S)  # an abort may overtake what is not sent yet (librdkafka 4849)
        except CallError as error:
            note(op, error)
            return self._aborted(op, client, error)
        return self._aborted(op, client, None) if op.planned.intent == "abort" else self._committed(op, client)

    def _committed(self, op: Operation, client: Client) -> Outcome:
        """Only a commit that failed, and whose abort succeeded, surely did not happen."""
        op.decided = time.monotonic_ns()  # from here on somebody may see it
        error = self._decided(op, client.commit)
        if error is None:
            return Outcome.OK
        aborted = not error.fatal and error.abortable and self._decided(op, client.abort) is None
        op.renew = not aborted
        return outcomes.judge("commit", error, "aborted" if aborted else "not aborted").outcome

    def _aborted(self, op: Operation, client: Client, why: CallError | None) -> Outcome:
        """On purpose, or because a call failed; after a fatal error there is nothing to abort, and the producer is made anew."""
        op.renew = (why is not None and (why.fatal or why.call == "begin")) or self._decided(op, client.abort) is not None
        return outcomes.judge(why.call if why else "abort", why, "transaction").outcome

    def _decided(self, op: Operation, call: Any) -> CallError | None:
        """Commit or abort, again as long as the client says that it must be called again; the last error, or None."""
        deadline = time.monotonic() + 2 * self.timeout_s
        while True:
            try:
                call(CALL_S)
                return None
            except CallError as error:
                note(op, error)
                if not error.retriable or time.monotonic() > deadline:
                    return error
