"""Batches: the records of a history that is made of requests. Brokers append a batch, and give it to readers, as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fencepost.harness.api.words import plural
from fencepost.harness.interop.wire.requests import NONE, Place, Seen

DUPLICATE = "DUPLICATE_SEQUENCE_NUMBER"  # the batch is in the log already
NO_SEQUENCE = -1
SEQUENCES = 1 << 31  # sequence numbers; 0 follows the highest one


@dataclass(slots=True, eq=False)
class Batch:
    """A batch that a producer sent, with all attempts at it.

    producer: producer id and epoch; None: it is not idempotent.
    first: the sequence number of its first record.
    count: how many records it has; None: its head does not say.
    checksum: None: not known.
    began: when the first attempt came (ns).
    acknowledged: when a broker had answered that it is in the log (ns); None: nobody has.
    offset: that of its first record, by an answer or by what a reader got; None: not known.
    refused: each attempt was answered, with an error.
    v: its identity, once the operation is numbered that sent it.
    """

    partition: str
    producer: tuple[int, int] | None
    first: int
    count: int | None
    checksum: int | None
    began: int
    acknowledged: int | None = None
    offset: int | None = None
    refused: bool = True
    v: int = field(default=-1)

    @property
    def words(self) -> str:
        """Its name for people."""
        count = self.count or 1
        if self.producer is None:
            return f"{plural(count, 'record')} without sequence numbers"
        last = (self.first + count - 1) % SEQUENCES
        numbers = f"sequence {self.first}" if count == 1 else f"sequences {self.first} to {last}"
        return f"producer {self.producer[0]}, epoch {self.producer[1]}, {numbers}"


def in_order(batches: Iterable[Batch]) -> list[Batch]:
    """Batches of one producer, of each partition in the order of the calls: that of sequence numbers, which begin anew at 0."""
    some = sorted(batches, key=lambda batch: batch.began)
    began: dict[str, int] = {}
    for batch in some:
        began.setdefault(batch.partition, batch.first)

    def place(batch: Batch) -> tuple[str, int]:
        ahead = (batch.first - began[batch.partition]) % SEQUENCES
        return batch.partition, ahead if ahead < SEQUENCES // 2 else ahead - SEQUENCES

    return sorted(some, key=place)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A batch in a Produce, and what its partition was answered (`error` None: not known; `offset` None: not said)."""

    partition: str
    producer: tuple[int, int] | None
    first: int
    count: int | None
    checksum: int | None
    transactional: bool
    error: str | None
    offset: int | None

    def again(self, batch: Batch) -> bool:
        """True if a batch with this one's sequence is this one, sent before."""
        return self.checksum is None or batch.checksum is None or self.checksum == batch.checksum


def attempts_of(seen: Seen) -> Iterator[Attempt]:
    """The batches of a Produce."""
    for partition, place in seen.places.items():
        answer = seen.answers.get(partition) if seen.answered is not None else None
        error = None if answer is None or seen.settings.get("acks") == 0 else answer.get("error", NONE)
        offset = answer.get("base_offset", -1) if answer and error == NONE else -1
        for head in place.get("batches") or ():
            yield _attempt(partition, head, error, offset)
            offset = -1  # of the first batch alone: a request with several is older than any that says more


def _attempt(partition: str, head: Place, error: str | None, offset: int) -> Attempt:
    return Attempt(
        partition=partition,
        producer=producer_of(head),
        first=head.get("first_sequence", NO_SEQUENCE),
        count=head.get("records"),
        checksum=head.get("crc"),
        transactional=bool(head.get("transactional")),
        error=error,
        offset=offset if offset >= 0 else None,
    )


def producer_of(head: Place) -> tuple[int, int] | None:
    """The producer id and epoch of a batch's head; None: it is not idempotent."""
    return (head["producer_id"], head["epoch"]) if head.get("producer_id", -1) >= 0 else None


def take_answer(batch: Batch, attempt: Attempt, answered: int | None) -> None:
    """What one more attempt says of a batch."""
    if attempt.error is None:
        batch.refused = False
    if attempt.error in (NONE, DUPLICATE):
        batch.refused = False
        batch.acknowledged = batch.acknowledged or answered
        batch.offset = attempt.offset if batch.offset is None else batch.offset
