"""Consume, transform, produce: members of a group read a topic and write what they make of it to another one, exactly once.

After KIP-98 and KIP-447: outputs and the group's offsets are committed in one transaction, under the member's generation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from fencepost.harness.api import (
    HOUR_S,
    Between,
    CallError,
    Client,
    Isolation,
    Member,
    Operation,
    Outcome,
    PlannedOperation,
    Reader,
    Role,
    TopicSpec,
    Writer,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.support import outcomes
from fencepost.workloads.support.deciding import CALL_S, aborted, committed, never_begun, think
from fencepost.workloads.support.default_faults import OF_MEMBERS, OF_MEMBERS_LANES
from fencepost.workloads.support.polling import note, read, reader_operations
from fencepost.workloads.support.sending import send
from fencepost.workloads.transactions import MARGIN_S, Transactions

INPUT, OUTPUT, GROUP = "in", "out", "pipeline"
OBSERVER_PAUSE_S = 0.005  # between two questions
Mop = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Members of a group, each with a transactional producer, between an input and an output topic.

    members: processes of the pipeline
    producers_per_member: transactional producers of a member, each with an id of its own; the next takes over after each commit
    spares: how many more members the fault `scale` may start
    writers: processes that write input records, in transactions
    readers: read_committed processes that only poll, both topics
    input_partitions: of the input topic
    output_partitions: of the output topic
    batch: input records per transaction, at most
    outputs: records made of an input record, (fewest, most)
    abort_share: share of transactions that members abort on purpose; they then seek back
    input_abort_share: share of input transactions that are aborted, so that the input topic has gaps
    think_ms: a member's pause before it sends offsets and decides
    protocol: of the group: classic, or consumer (KIP-848; Kafka 4.0)
    static_members: whether members keep their place in the group when they are replaced (KIP-345)
    session_timeout_s: how long the group waits for a member that is silent (classic protocol)
    transaction_timeout_s: the producers' transaction.timeout.ms
    offsets: where the group's offsets are committed: in the transaction; before or after it, by the consumer (both wrong)
    group_metadata: whether offsets are added to a transaction under the member's id and generation; without them a member that
        has lost its partitions is not fenced (wrong without)
    new_ids: wrong on purpose: each process of a member has a transactional id of its own
    look_share: share of polls after which a member asks for the group's offsets of the whole input topic, also of partitions that
        others have
    observers: processes that never join the group, and ask for its offsets all the time: before, during and after commits and
        aborts
    seek_back: whether a member reads again what it had read in a transaction that was aborted (wrong without)
    record_bytes: about the size of a record's value
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_MEMBERS
    default_lanes: ClassVar[Sequence[str]] = OF_MEMBERS_LANES
    at_least: ClassVar[Mapping[str, int]] = {"transactions": 10}  # for its verdict to say something

    members: Annotated[int, Between(1, 200)] = 4
    producers_per_member: Annotated[int, Between(1, 20)] = 1
    spares: Annotated[int, Between(0, 200)] = 0
    writers: Annotated[int, Between(1, 200)] = 2
    readers: Annotated[int, Between(0, 200)] = 1
    input_partitions: Annotated[int, Between(1, 5000)] = 6
    output_partitions: Annotated[int, Between(1, 5000)] = 4
    batch: Annotated[int, Between(1, 500)] = 10
    outputs: Annotated[tuple[int, int], Between(0, 7)] = (0, 2)
    abort_share: Annotated[float, Between(0, 1)] = 0.1
    input_abort_share: Annotated[float, Between(0, 1)] = 0.1
    think_ms: Annotated[float, Between(0, 600_000)] = 5.0
    protocol: Literal["classic", "consumer"] = "classic"
    static_members: bool = False
    session_timeout_s: Annotated[float, Between(1, HOUR_S)] = 6.0
    transaction_timeout_s: Annotated[float, Between(0, HOUR_S)] = 15.0
    offsets: Literal["transaction", "before", "after"] = "transaction"
    group_metadata: bool = True
    new_ids: bool = False
    look_share: Annotated[float, Between(0, 1)] = 0.1
    observers: Annotated[int, Between(0, 200)] = 0
    seek_back: bool = True
    record_bytes: Annotated[int, Between(0, 10_000_000)] = 100

    def __post_init__(self) -> None:
        demand_bounds(self)
        low, high = self.outputs
        if low > high:
            raise ValueError(f"outputs: (fewest, most) with fewest <= most, not ({low}, {high})")

    def topics(self) -> dict[str, TopicSpec]:
        return {INPUT: TopicSpec(partitions=self.input_partitions), OUTPUT: TopicSpec(partitions=self.output_partitions)}

    def roles(self) -> tuple[Role, ...]:
        return (
            *[Writer(transactional=True, polls=False)] * self.writers,
            *[self._member_role()] * self.members,
            *[replace(self._member_role(), spare=True)] * self.spares,
            *[Reader(isolation=Isolation.COMMITTED)] * self.readers,
            *[Reader(topics=(INPUT,), group=GROUP, joins=False)] * self.observers,
        )

    def _member_role(self) -> Member:
        outside = () if self.offsets == "transaction" else ("offset-commits",)
        memberless = () if self.group_metadata else ("memberless-offsets",)
        return Member(
            topics=(INPUT,),
            group=GROUP,
            static=self.static_members,
            needs=(*outside, *memberless),
            new_ids=self.new_ids,
            producers=self.producers_per_member,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        return self._feed.producer_settings()

    def member_settings(self) -> Mapping[str, Any]:
        """Consumer settings of members."""
        if self.protocol == "consumer":
            return {"group.protocol": "consumer"}
        return {
            "session.timeout.ms": round(self.session_timeout_s * 1000),
            "heartbeat.interval.ms": round(self.session_timeout_s * 1000 / 4),
        }

    @cached_property
    def _feed(self) -> Transactions:
        """The transactions of the writers of input records."""
        return Transactions(
            poll_share=0.0,
            abort_share=self.input_abort_share,
            transaction_timeout_s=self.transaction_timeout_s,
            record_bytes=self.record_bytes,
        )

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        topics: dict[str, list[str]] = {INPUT: [], OUTPUT: []}
        for partition in partitions:
            topics[OUTPUT if partition.rpartition("-")[0].endswith(OUTPUT) else INPUT].append(partition)
        if role.name == "writer":
            return self._feed.operations(role, topics[INPUT], rng)
        if role.name == "member":
            return self._member(topics[INPUT], topics[OUTPUT], rng)
        return reader_operations() if role.joins else observer_operations(topics[INPUT])

    def _member(self, inputs: Sequence[str], targets: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        """Poll, make a transaction of what came, and after one that did not commit seek back to what has to be read again.

        Of several producers the next one takes over after a commit alone: then nothing of the one before is on its way any more.
        """
        turn = 0
        while True:
            polling = yield PlannedOperation(f="poll", mops=(("poll",),), limit=self.batch)
            batch = Batch.of(polling)
            if rng.random() < self.look_share and polling is not None and not polling.renew:
                yield PlannedOperation(f="committed", mops=(), partitions=inputs)
            if not batch.records:
                continue
            intent = "abort" if rng.random() < self.abort_share else "commit"
            mops = tuple(batch.mops(self._outputs(targets, rng) for _ in batch.records))
            deciding = yield PlannedOperation(f="txn", mops=mops, intent=intent, think_s=self.think_ms / 1000, producer=turn)
            replaced = deciding is None or deciding.renew
            whole = deciding is not None and deciding.outcome is Outcome.OK and intent == "commit"
            turn = (turn + whole) % self.producers_per_member
            if self.seek_back and deciding is not None and not replaced and not whole:
                yield from _rewind(batch, deciding.outcome)

    def _outputs(self, targets: Sequence[str], rng: Random) -> list[str]:
        return rng.choices(targets, k=rng.randint(*self.outputs))

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        if op.planned.f == "poll":
            return read(op, client, run)
        if op.planned.f in ("seek", "committed"):
            return _seek(op, client) if op.planned.f == "seek" else _ask_offsets(op, client)
        if not any(mop[0] == "offset" for mop in op.planned.mops):
            return self._feed.perform(op, client, run)
        return self._transaction(op, client, run)

    def _transaction(self, op: Operation, client: Client, run: str) -> Outcome:
        bound_s = 2 * self.transaction_timeout_s + MARGIN_S
        producer = op.producers[op.planned.producer] if op.producers else client
        offsets = {mop[1]: mop[2] for mop in op.planned.mops if mop[0] == "offset"}
        try:
            if self.offsets == "before":
                client.commit_offsets(offsets, CALL_S)
            producer.begin()
        except CallError as error:
            return never_begun(op, error)
        try:
            for seq, mop in enumerate(op.planned.mops):
                if mop[0] == "send":
                    send(op, seq, producer, run, self.record_bytes)
            think(op)
            if self.offsets == "transaction":
                producer.send_offsets(offsets, client.group() if self.group_metadata else client.memberless_group(), CALL_S)
            if op.planned.intent == "abort":
                producer.flush(CALL_S)
        except CallError as error:
            return aborted(op, producer, error, bound_s)
        if op.planned.intent == "abort":
            return aborted(op, producer, None, bound_s)
        outcome = committed(op, producer, bound_s)
        if self.offsets == "after" and outcome is Outcome.OK:
            self._commit_after(op, client, offsets)
        return outcome

    def _commit_after(self, op: Operation, client: Client, offsets: Mapping[str, int]) -> None:
        think(op)
        try:
            client.commit_offsets(offsets, CALL_S)
        except CallError as error:
            note(op, error)


@dataclass
class Batch:
    """The input records of one poll, in its order.

    records: (partition, offset, v) of each.
    first: partition -> the offset at which it begins.
    next: partition -> the offset at which reading goes on after it.
    """

    records: list[tuple[str, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, polling: Operation | None) -> Batch:
        """The input records that an operation polled. A record of no writer of this run is no input: the checks report it."""
        if polling is None or polling.outcome is not Outcome.OK:
            return cls()
        got = polling.value[0][1]
        return cls([(partition, offset, v) for partition, records in got.items() for offset, v in records if v >= 0])

    @property
    def first(self) -> dict[str, int]:
        return {partition: offset for partition, offset, _ in reversed(self.records)}

    @property
    def next(self) -> dict[str, int]:
        return {partition: offset + 1 for partition, offset, _ in self.records}

    def mops(self, outputs: Iterator[Sequence[str]]) -> Iterator[Mop]:
        """Each input, what is made of it (partitions), and at last the group's offsets."""
        for record, targets in zip(self.records, outputs, strict=True):
            yield ("input", *record)
            yield from (("send", target) for target in targets)
        yield from (("offset", partition, offset) for partition, offset in self.next.items())


def _rewind(batch: Batch, outcome: Outcome | None) -> Iterator[PlannedOperation]:
    """Seek back to the first records of a batch; where it may have been committed, to the group's offsets instead."""
    positions = batch.first
    asked = None
    while outcome is Outcome.INFO and (asked is None or asked.outcome is not Outcome.OK):
        asked = yield PlannedOperation(f="committed", mops=(), partitions=tuple(batch.first))
        if asked is None or asked.renew:
            return
    if asked is not None:
        positions = {name: positions[name] if offset is None else offset for name, offset in asked.value["offsets"].items()}
    yield PlannedOperation(f="seek", mops=(), positions=positions)


def observer_operations(partitions: Sequence[str]) -> Iterator[PlannedOperation]:
    """The operations of a process that asks for the group's offsets, without end."""
    while True:
        yield PlannedOperation(f="committed", mops=(), partitions=partitions, think_s=OBSERVER_PAUSE_S)


def _ask_offsets(op: Operation, client: Client) -> Outcome:
    """The group's offsets, without those of open transactions (KIP-447)."""
    think(op)
    try:
        op.value = {"offsets": dict(client.committed(op.planned.partitions, CALL_S))}
    except CallError as error:
        note(op, error)
        op.renew = error.fatal
        return outcomes.judge("committed", error, "no transaction").outcome
    return Outcome.OK


def _seek(op: Operation, client: Client) -> Outcome:
    """Seek back to what has to be read again; a member that cannot go back to all of it starts anew at the group's offsets."""
    try:
        client.seek(op.planned.positions)
    except CallError as error:
        note(op, error)
        op.renew = True
        return Outcome.FAIL
    return Outcome.OK
