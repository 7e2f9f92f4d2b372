"""Calls of a transactional producer that KIP-98 forbids: each has to be an error, and the producer has to go on.

KIP-98, "Transactional Producer": the first step of `beginTransaction`, `sendOffsetsToTransaction`, `commitTransaction` and
`abortTransaction`; "Added Broker Configurations": the longest transaction timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated

from fencepost.harness.api import HOUR_S, Between, CallError, Client, Operation, Outcome, Outgoing, PlannedOperation, Role, Writer
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.fencing import initialised
from fencepost.workloads.support.deciding import CALL_S
from fencepost.workloads.support.polling import note, reader_operations
from fencepost.workloads.transactions import Transactions

MISUSE, INITIALISE = "misuse", "initialise"
BEGIN_TWICE, OFFSETS_OUTSIDE, SEND_OUTSIDE, TIMEOUT = "begin twice", "offsets outside", "send outside", "timeout"
CELLS = (BEGIN_TWICE, "commit outside", "abort outside", OFFSETS_OUTSIDE, SEND_OUTSIDE, TIMEOUT)
TOO_LONG_MS = 2**31 - 1
TOO_LONG: Mapping[str, int] = {"transaction.timeout.ms": TOO_LONG_MS}  # of a producer that no broker may accept
OF_TIMEOUT = "-timeout"  # appended to the transactional id


@dataclass(frozen=True, kw_only=True)
class Misuse(Transactions):
    """Transactional producers that make a call out of order between their transactions, each of them in turn.

    `begin twice`: begin with a transaction open. `commit outside`, `abort outside`, `offsets outside`, `send outside`: these
    calls with none open; the record goes to a topic that nobody reads. `timeout`: another producer, whose transaction timeout
    no broker allows. The errors are compared with KIP-98's table; a transaction of the same producer follows, and is judged as
    any other.

    writers: processes that write (each with a consumer of its own)
    readers: read_committed processes that only poll
    uncommitted_readers: the same at read_uncommitted
    partitions: of the one topic
    sends: records per transaction, (fewest, most); spread over as many partitions as possible
    poll_share: chance of a poll beside each send
    abort_share: share of transactions that abort on purpose
    think_ms: pause before each micro-operation and before the decision
    flush_before_abort: wait for the records' acknowledgements before an abort (librdkafka 4849)
    transaction_timeout_s: the producers' transaction.timeout.ms
    only: these calls, separated by commas; empty: all
    record_bytes: about the size of a record's value
    """

    writers: Annotated[int, Between(1, 500)] = 2
    readers: Annotated[int, Between(0, 500)] = 1
    transaction_timeout_s: Annotated[float, Between(0, HOUR_S)] = 15.0
    only: str = ""

    def __post_init__(self) -> None:
        demand_bounds(self)
        super().__post_init__()
        if unknown := [cell for cell in self.cells if cell not in CELLS]:
            raise ValueError(f"only = {', '.join(unknown)!r}: no call of that name; there are {', '.join(CELLS)}")

    @property
    def cells(self) -> tuple[str, ...]:
        """The calls that are made under these options."""
        return tuple(filter(None, (name.strip() for name in self.only.split(",")))) or CELLS

    def roles(self) -> tuple[Role, ...]:
        needs = ("offsets-in-transactions",) if OFFSETS_OUTSIDE in self.cells else ()
        return tuple(
            replace(role, polls=True, rivals=True, operator=True, needs=(*role.needs, *needs))
            if isinstance(role, Writer)
            else role
            for role in super().roles()
        )

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        if role.name != "writer":
            yield from reader_operations()
        transactions = super().operations(role, partitions, rng)
        while True:
            for cell in rng.sample(self.cells, len(self.cells)):
                yield PlannedOperation(f=MISUSE, mops=(), cell=cell, partitions=(rng.choice(partitions),))
                yield next(transactions)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """A call out of order, a rival's `initialise`, a poll, or a transaction."""
        if op.planned.f == INITIALISE:
            return initialised(op, client)
        if op.planned.f == MISUSE:
            return misused(op, client)
        return super().perform(op, client, run)


def misused(op: Operation, client: Client) -> Outcome:
    """One call out of order: ok if it returned, fail if it was refused or not made (`reached`)."""
    op.value = {"misuse": op.planned.cell, "reached": False}
    if op.planned.cell == TIMEOUT:
        return _with_long_timeout(op)
    try:
        call = _prepared(op, client)
    except CallError as error:
        note(op, error)
        op.renew = True
        return Outcome.FAIL
    if call is None:
        return Outcome.FAIL
    op.value["reached"] = True
    outcome = _refused(op, call)
    if op.planned.cell == BEGIN_TWICE and not op.renew:
        _abort(op, client)
    return outcome


def _prepared(op: Operation, client: Client) -> Callable[[], None] | None:
    """The call out of order; None where it cannot be made here. Raises CallError."""
    cell, (partition,) = op.planned.cell, op.planned.partitions
    if cell == BEGIN_TWICE:
        client.begin()
        return client.begin
    if cell == OFFSETS_OUTSIDE:
        group = client.group()
        return lambda: client.send_offsets({partition: 0}, group, CALL_S)
    if cell == SEND_OUTSIDE:
        topic = op.operator.make_topic() if op.operator is not None else ""
        return (lambda: _sent(client, topic)) if topic else None
    return lambda: (client.commit if cell == "commit outside" else client.abort)(CALL_S)


def _sent(client: Client, topic: str) -> None:
    """Send a record, and wait for its acknowledgement. Raises CallError, also for a record that was not delivered."""
    failed: list[CallError] = []

    def delivered(result: object) -> None:
        if isinstance(result, CallError):
            failed.append(result)

    client.send(Outgoing(topic=topic, partition=0, value=b"outside"), delivered)
    client.flush(CALL_S)
    if failed:
        raise failed[0]


def _refused(op: Operation, call: Callable[[], None]) -> Outcome:
    try:
        call()
    except CallError as error:
        note(op, error)
        op.errors[-1]["call"] = CALLS[op.planned.cell]  # a record may be refused by its delivery
        op.renew = error.fatal
        return Outcome.FAIL
    return Outcome.OK


CALLS: Mapping[str, str] = {
    BEGIN_TWICE: "begin",
    "commit outside": "commit",
    "abort outside": "abort",
    OFFSETS_OUTSIDE: "send_offsets",
    SEND_OUTSIDE: "send",
}


def _abort(op: Operation, client: Client) -> None:
    """End the transaction that was open; where that fails, the process ends."""
    try:
        client.abort(CALL_S)
    except CallError as error:
        op.renew = True
        op.errors.append({**error.row(), "call": "end"})  # no answer of the table's


def _with_long_timeout(op: Operation) -> Outcome:
    """Another producer, with a transaction timeout that no broker allows."""
    if op.rivals is None:
        return Outcome.FAIL
    op.value["reached"] = True
    return op.rivals(OF_TIMEOUT, TOO_LONG).perform(PlannedOperation(f=INITIALISE, mops=(), cell=TIMEOUT))
