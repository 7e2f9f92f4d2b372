"""Transactions of a few sends and polls over several partitions; the reading processes only poll.

After Jepsen's Kafka workload (`txn` operations of micro-operations), KIP-98 and KIP-447.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import (
    HOUR_S,
    Between,
    CallError,
    Client,
    Isolation,
    Operation,
    Outcome,
    PlannedOperation,
    Reader,
    Role,
    TopicSpec,
    Writer,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.support.deciding import CALL_S, aborted, committed, never_begun, think
from fencepost.workloads.support.polling import note, polled, read, reader_operations
from fencepost.workloads.support.sending import Content, content_of, hand_over

POLL_S = 0.02  # inside a transaction: short, so that transactions stay short
MARGIN_S = 5.0
RERUN_S = 1.0  # after that an application that runs unknown commits again gives up waiting


@dataclass(frozen=True, kw_only=True)
class Transactions:
    """Transactional producers and read_committed consumers, assigned partitions.

    writers: processes that write (each with a consumer of its own)
    readers: read_committed processes that only poll
    uncommitted_readers: the same at read_uncommitted
    partitions: of the one topic
    sends: records per transaction, (fewest, most); spread over as many partitions as possible
    poll_share: chance of a poll beside each send
    abort_share: share of transactions that abort on purpose
    think_ms: pause before each micro-operation and before the decision
    flush_before_abort: wait for the records' acknowledgements before an abort (without it librdkafka's abort overtakes
        AddPartitionsToTxn and ends fatally: librdkafka 4849)
    transaction_timeout_s: the producers' transaction.timeout.ms
    record_bytes: about the size of a record's value
    threads: threads of a writer that hand over the records of a transaction, each those of other partitions; the client has to
        permit it (capability `threads`)
    rerun_unknown: wrong on purpose: a commit whose first call (one second) does not return ok is taken for not done, and the same
        records are sent and committed once more, by a new instance
    new_ids: wrong on purpose: each process of a writer has a transactional id of its own, so that none ends what it left
    settle_s: how long after healing a last stable offset may lag; 0: the transaction timeout and ten seconds
    """

    at_least: ClassVar[Mapping[str, int]] = {"transactions": 10}  # for its verdict to say something

    writers: Annotated[int, Between(1, 500)] = 8
    readers: Annotated[int, Between(0, 500)] = 2
    uncommitted_readers: Annotated[int, Between(0, 500)] = 1
    partitions: Annotated[int, Between(1, 5000)] = 4
    sends: Annotated[tuple[int, int], Between(1, 10_000)] = (1, 4)
    poll_share: Annotated[float, Between(0, 1)] = 0.2
    abort_share: Annotated[float, Between(0, 1)] = 0.1
    think_ms: Annotated[float, Between(0, 600_000)] = 5.0
    flush_before_abort: bool = True
    transaction_timeout_s: Annotated[float, Between(0, HOUR_S)] = 15.0
    record_bytes: Annotated[int, Between(0, 10_000_000)] = 100
    threads: Annotated[int, Between(1, 64)] = 1
    rerun_unknown: bool = False
    new_ids: bool = False
    settle_s: Annotated[float, Between(0, HOUR_S)] = 0.0

    def __post_init__(self) -> None:
        demand_bounds(self)
        low, high = self.sends
        if low > high:
            raise ValueError(f"sends: (fewest, most) with 1 <= fewest <= most, not ({low}, {high})")

    def topics(self) -> dict[str, TopicSpec]:
        return {"t": TopicSpec(partitions=self.partitions)}

    def roles(self) -> tuple[Role, ...]:
        return (
            *[
                Writer(
                    transactional=True,
                    polls=self.poll_share > 0,
                    new_ids=self.new_ids,
                    needs=("threads",) if self.threads > 1 else (),
                )
            ]
            * self.writers,
            *[Reader()] * self.readers,
            *[Reader(isolation=Isolation.UNCOMMITTED)] * self.uncommitted_readers,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        timeout_ms = round(self.transaction_timeout_s * 1000)
        # librdkafka refuses a delivery timeout above the transaction timeout
        return {"acks": "all", "transaction.timeout.ms": timeout_ms, "delivery.timeout.ms": max(1000, timeout_ms * 2 // 3)}

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        if role.name != "writer":
            yield from reader_operations()
        while True:
            count = rng.randint(*self.sends)
            targets = rng.sample(partitions, min(count, len(partitions)))
            targets += rng.choices(partitions, k=count - len(targets))
            mops: list[tuple[Any, ...]] = []
            for partition in targets:
                if rng.random() < self.poll_share:
                    mops.append(("poll",))
                mops.append(("send", partition))
            intent = "abort" if rng.random() < self.abort_share else "commit"
            yield PlannedOperation(f="txn", mops=tuple(mops), intent=intent, think_s=self.think_ms / 1000)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """One transaction from begin to decision; only a commit or abort that the client says to call again is repeated."""
        if op.planned.f == "poll":
            return read(op, client, run)
        bound_s = 2 * self.transaction_timeout_s + MARGIN_S
        try:
            client.begin()
        except CallError as error:
            return never_begun(op, error)
        try:
            self._body(op, client, run)
        except CallError as error:
            return aborted(op, client, error, bound_s)
        if op.planned.intent == "abort":
            return aborted(op, client, None, bound_s)
        return self._rerun(op, client, run, bound_s) if self.rerun_unknown else committed(op, client, bound_s)

    def _rerun(self, op: Operation, client: Client, run: str, bound_s: float) -> Outcome:
        """Commit; what does not return ok at once is done again, whatever became of it."""
        called = op.decided = time.monotonic_ns()
        try:
            client.commit(RERUN_S)
        except CallError as error:
            note(op, error)
        else:
            return Outcome.OK
        first = [list(mop) for mop in op.value]
        try:
            client.initialise(CALL_S)
            client.begin()
            for seq, mop in enumerate(op.planned.mops):
                if mop[0] == "send":
                    hand_over(op, seq, client, self.content(op, seq, run))
        except CallError as error:
            note(op, error)
            op.renew = True
            return Outcome.INFO  # the first one may have been committed
        again = committed(op, client, bound_s)
        op.decided = called
        for done, before in zip(op.value, first, strict=True):
            done[4:5] = before[4:5]  # a record was sent when it was sent first
        return again if again is Outcome.OK else Outcome.INFO

    def content(self, op: Operation, seq: int, run: str) -> Content:
        """The content of the record of micro-operation `seq`."""
        return content_of(op, seq, run, self.record_bytes)

    def _body(self, op: Operation, client: Client, run: str) -> None:
        if self.threads > 1:
            self._by_threads(op, client, run)
        else:
            self._make(op, client, run, range(len(op.planned.mops)))
        think(op)
        if op.planned.intent == "abort" and self.flush_before_abort:
            client.flush(CALL_S)

    def _make(self, op: Operation, client: Client, run: str, which: Sequence[int]) -> None:
        """Some of the operation's micro-operations, in order. Raises CallError."""
        for seq in which:
            think(op)
            if op.planned.mops[seq][0] == "send":
                hand_over(op, seq, client, self.content(op, seq, run))
            else:
                op.value[seq] = polled(client, run, POLL_S)

    def _by_threads(self, op: Operation, client: Client, run: str) -> None:
        """The polls by this thread, and the sends by several: those to one partition by one, in order. Raises CallError."""
        sends = [(seq, mop[1]) for seq, mop in enumerate(op.planned.mops) if mop[0] == "send"]
        thread_of = {name: place % self.threads for place, name in enumerate(dict.fromkeys(name for _, name in sends))}
        parts = [[seq for seq, name in sends if thread_of[name] == thread] for thread in range(self.threads)]
        with ThreadPoolExecutor(self.threads) as pool:
            sending = [pool.submit(self._make, op, client, run, part) for part in parts if part]
            self._make(op, client, run, [seq for seq, mop in enumerate(op.planned.mops) if mop[0] != "send"])
        for sent in sending:
            sent.result()
