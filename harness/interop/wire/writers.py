"""Producers of a record: their transactions and plain sends.

An instance of a transactional id, from one InitProducerId to the next, is a process; so is an idempotent producer of a producer
id and epoch, and a connection over which batches without sequence numbers came. EndTxn gives a next epoch (KIP-890, part 2): the
process stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fencepost.harness.api import Outcome
from fencepost.harness.interop.wire.batches import Attempt, Batch, attempts_of, in_order, producer_of, take_answer
from fencepost.harness.interop.wire.groups import REFUSED_IN_TRANSACTION, Key, Owner, is_assigned_anew, keyed, owner_of
from fencepost.harness.interop.wire.operations import MOST_SENDS, Operation, Process
from fencepost.harness.interop.wire.outcomes import Ending, ending
from fencepost.harness.interop.wire.requests import NONE, Place, Seen

ALL_REPLICAS = -1  # `acks` of a producer that wants them all
BatchKey = tuple[str, int, int, int]  # partition, producer id, epoch, first sequence number
ProducerKey = tuple[int, int] | tuple[str, int]  # producer id and epoch; a connection, for batches without sequence numbers


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction.

    offsets: of groups that were added to it.
    possible: offsets of which nobody knows whether they were.
    refused: operations of requests to add offsets that were refused for good.
    owners: the member and generation (KIP-447) in whose name offsets were added; None: they are not known.
    calls: the EndTxn requests about it.
    """

    began: int
    batches: list[Batch] = field(default_factory=list)
    offsets: dict[Key, int] = field(default_factory=dict)
    possible: dict[Key, int] = field(default_factory=dict)
    refused: list[Operation] = field(default_factory=list)
    owners: dict[Key, Owner | None] = field(default_factory=dict)
    calls: list[Seen] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Producer:
    """A producer's instance.

    initialised: its InitProducerId; None: the record has none.
    latest: its last transaction in each epoch: a request is about one of its own epoch (KIP-890).
    plain: batches outside transactions, each with whether all replicas were asked for.
    """

    process: Process
    initialised: Seen | None = None
    transactions: list[Transaction] = field(default_factory=list)
    latest: dict[ProducerKey, Transaction] = field(default_factory=dict)
    plain: list[tuple[Batch, bool]] = field(default_factory=list)

    def transaction(self, key: ProducerKey, now: int) -> Transaction:
        """The transaction that a request belongs to which adds something."""
        latest = self.latest.get(key)
        if latest is None or latest.calls:
            latest = self.latest[key] = Transaction(now)
            self.transactions.append(latest)
        return latest


class Writers:
    """All producers of a record, as its requests come in order of time."""

    def __init__(self) -> None:
        self._producers: dict[ProducerKey, Producer] = {}
        self._batches: dict[BatchKey, list[Batch]] = {}
        self._unnumbered: dict[tuple[str, int], Batch] = {}  # by partition and offset
        self.all: list[Producer] = []
        self.transactional = False

    def take(self, seen: Seen) -> None:
        """Take one more request."""
        match seen.api:
            case "InitProducerId":
                self._initialise(seen)
            case "Produce":
                self._produce(seen)
            case "AddPartitionsToTxn" | "AddOffsetsToTxn" if seen.producer and seen.succeeded:
                self._producer(seen.producer, seen).transaction(seen.producer, seen.arrived)
            case "TxnOffsetCommit" if seen.producer and not seen.altered:
                self._commit_offsets(seen, seen.producer)
            case "EndTxn" if seen.producer:
                self._end(seen, seen.producer)

    def batch_of(self, partition: str, head: Place) -> Batch | None:
        """The batch that a reader got; None: no request has it."""
        producer = producer_of(head)
        if producer is None:
            return self._unnumbered.get((partition, head["base_offset"]))
        some = self._batches.get((partition, *producer, head["first_sequence"]), ())
        same = [batch for batch in some if batch.checksum == head.get("crc")] or _there(some, head["base_offset"])
        chosen = next(iter(same or some), None)
        if chosen is not None and chosen.offset is None:
            chosen.offset = head["base_offset"]
        return chosen

    def knows(self, producer: tuple[int, int] | None) -> bool:
        return producer is None or producer in self._producers

    # -- requests --------------------------------------------------------------------------------
    def _initialise(self, seen: Seen) -> None:
        if seen.succeeded and seen.granted and seen.granted not in self._producers:
            self._producer(seen.granted, seen).initialised = seen

    def _producer(self, key: ProducerKey, seen: Seen) -> Producer:
        known = self._producers.get(key)
        if known is None:
            known = Producer(Process(seen.client_id, seen.transactional_id))
            self._producers[key] = known
            self.all.append(known)
        return known

    def _produce(self, seen: Seen) -> None:
        everywhere = seen.settings.get("acks", ALL_REPLICAS) == ALL_REPLICAS
        for attempt in attempts_of(seen):
            batch = self._known(attempt)
            if batch is None:
                batch = self._new(attempt, seen, everywhere)
            take_answer(batch, attempt, seen.answered)
            if attempt.producer is None and batch.offset is not None:
                self._unnumbered[batch.partition, batch.offset] = batch

    def _known(self, attempt: Attempt) -> Batch | None:
        """The batch, if it was sent before.

        A client may make it anew when it tries once more, so that its checksum is another one. In a later transaction another
        checksum is that of another batch.
        """
        if attempt.producer is None:
            return None
        some = self._batches.get((attempt.partition, *attempt.producer, attempt.first), [])
        same = next((batch for batch in reversed(some) if attempt.again(batch)), None)
        if same is not None or not some or (attempt.transactional and not self._is_open(attempt.producer, some[-1])):
            return same
        return some[-1]

    def _is_open(self, producer: tuple[int, int], batch: Batch) -> bool:
        """True if the transaction of a batch is the one that is open."""
        latest = self._producers[producer].latest.get(producer)
        return latest is not None and not latest.calls and batch in latest.batches

    def _new(self, attempt: Attempt, seen: Seen, everywhere: bool) -> Batch:
        batch = Batch(attempt.partition, attempt.producer, attempt.first, attempt.count, attempt.checksum, seen.arrived)
        key = attempt.producer or seen.source
        producer = self._producer(key, seen)
        if attempt.producer is not None:
            self._batches.setdefault((attempt.partition, *attempt.producer, attempt.first), []).append(batch)
        if attempt.transactional:
            producer.transaction(key, seen.arrived).batches.append(batch)
        else:
            producer.plain.append((batch, everywhere))
        return batch

    def _commit_offsets(self, seen: Seen, producer: tuple[int, int]) -> None:
        transaction = self._producer(producer, seen).transaction(producer, seen.arrived)
        refused = Operation("txn", seen.arrived, Outcome.FAIL, seen.answered, "commit")
        for key, place in keyed(seen, seen.places):
            if "offset" in place:
                error = seen.answers.get(key[1], {}).get("error", NONE) if seen.answered is not None else None
                if error in REFUSED_IN_TRANSACTION and seen.copies == 1:
                    refused.offsets[key] = place["offset"]
                    continue
                (transaction.offsets if error == NONE else transaction.possible)[key] = place["offset"]
                transaction.owners[key] = owner_of(seen)
        transaction.refused += [refused] * bool(refused.offsets)

    def _end(self, seen: Seen, key: tuple[int, int]) -> None:
        producer = self._producer(key, seen)
        if key in producer.latest:
            producer.latest[key].calls.append(seen)
        if seen.succeeded and seen.granted:
            self._producers.setdefault(seen.granted, producer)

    def first_commits(self) -> dict[Key, int]:
        """When the first transaction had committed an offset of a group (ns)."""
        first: dict[Key, int] = {}
        for transaction in (transaction for producer in self.all for transaction in producer.transactions if transaction.offsets):
            how = ending(transaction.calls)
            if how.type is Outcome.OK and how.intent == "commit" and how.end is not None:
                first |= {key: min(how.end, first.get(key, how.end)) for key in transaction.offsets}
        return first

    def unended(self) -> set[int]:
        """The identities of the batches of transactions of which the record has no end."""
        return {batch.v for transaction in self._open() for batch in transaction.batches}

    def open_offsets(self) -> dict[Key, set[int]]:
        """The offsets of groups in transactions of which the record has no end."""
        made: dict[Key, set[int]] = {}
        for transaction in self._open():
            for key, offset in (*transaction.offsets.items(), *transaction.possible.items()):
                made.setdefault(key, set()).add(offset)
        return made

    def _open(self) -> Iterator[Transaction]:
        return (transaction for producer in self.all for transaction in producer.transactions if not transaction.calls)

    # -- operations ------------------------------------------------------------------------------
    def processes(self) -> Iterator[Process]:
        """All processes, with their operations, which may be none."""
        for producer in self.all:
            made = [*_initialisation(producer), *_sends(producer.plain)]
            beside = Process(producer.process.client)
            owners: dict[Key, Owner | None] = {}
            for transaction in producer.transactions:
                some = list(_operations(transaction))
                beside.operations += [*_unproven(transaction), *transaction.refused]
                for operation in some:
                    operation.assigned = [key for key in operation.offsets if is_assigned_anew(key, transaction.owners, owners)]
                owners |= transaction.owners
                self.transactional |= bool(some)
                made += some
            producer.process.operations = sorted(made, key=lambda operation: operation.time)
            yield from (producer.process, beside)


def _there(some: Sequence[Batch], offset: int) -> list[Batch]:
    """The batches of one sequence number that may lie at an offset, those that were acknowledged there first.

    Checksums do not tell where brokers write batches anew, as with message.timestamp.type=LogAppendTime.
    """
    appended = [batch for batch in some if not batch.refused]
    return [batch for batch in appended if batch.offset == offset] or appended


def _initialisation(producer: Producer) -> Iterator[Operation]:
    seen = producer.initialised
    if seen is not None and seen.transactional_id:
        yield Operation("initialise", seen.arrived, end=seen.answered, detail={})


def _sends(plain: Sequence[tuple[Batch, bool]]) -> Iterator[Operation]:
    """An operation for each plain batch, in the order of the calls.

    That is the order of sequence numbers, for requests to two brokers may have come the other way round. One that was refused,
    or that not all replicas were asked for, promises nothing.
    """
    latest: dict[str, int] = {}
    everywhere = {id(batch): all_replicas for batch, all_replicas in plain}
    for batch in in_order(batch for batch, _ in plain):
        time = latest[batch.partition] = max(batch.began, latest.get(batch.partition, 0))
        if not everywhere[id(batch)]:
            batch.acknowledged = None
        done = batch.acknowledged is not None
        yield Operation(
            "send",
            time,
            Outcome.OK if done else Outcome.INFO,
            max(batch.acknowledged or 0, time) if done else None,
            sends=[batch],
        )


def _operations(transaction: Transaction) -> Iterator[Operation]:
    """A transaction as an operation.

    A commit promises what was acknowledged (`_unproven` has the others). Batches beyond what one operation holds are in further
    operations, and offsets that were not acknowledged, for nobody knows whether they are in the transaction.
    """
    how = ending(transaction.calls)
    committed = _is_committed(how)
    proven = [batch for batch in in_order(transaction.batches) if not committed or batch.acknowledged is not None]
    parts = [proven[at : at + MOST_SENDS] for at in range(0, len(proven), MOST_SENDS)]
    for number, part in enumerate(parts or ([[]] if transaction.offsets else [])):
        offsets = {} if number else dict(transaction.offsets)
        yield Operation("txn", transaction.began, how.type, how.end, how.intent, how.decided, part, offsets=offsets)
    if transaction.possible:
        possible = dict(transaction.possible)
        yield Operation("txn", transaction.began, Outcome.INFO, None, "commit", how.decided, offsets=possible)


def _unproven(transaction: Transaction) -> Iterator[Operation]:
    """Operations of the batches of a committed transaction that nobody acknowledged: whether they are in it nobody knows.

    They are of a process beside the producer's: between its operations they would not stand in the order of the calls.
    """
    how = ending(transaction.calls)
    batches = in_order(transaction.batches) if _is_committed(how) else []
    unproven = [batch for batch in batches if batch.acknowledged is None and not batch.refused]
    for at in range(0, len(unproven), MOST_SENDS):
        part = unproven[at : at + MOST_SENDS]
        yield Operation("txn", transaction.began, Outcome.INFO, None, "commit", how.decided, part)


def _is_committed(how: Ending) -> bool:
    return how.type is Outcome.OK and how.intent == "commit"
