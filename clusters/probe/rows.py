"""The answers that KIP-98 demands of a transaction coordinator and of the leaders of partitions, each with an occasion.

The numbers are those of the steps in KIP-98, "Transaction Coordinator Request Handling"; what follows in parentheses tells the
occasions of one step apart. Answers that later KIPs changed are listed with the KIP: they are no violations. Answers from other
places of KIP-98, and from KIPs that closed its gaps, come last and have no such number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fencepost.clusters.probe import plays
from fencepost.clusters.probe.plays import Play
from fencepost.clusters.probe.producer import OK, Producer
from fencepost.clusters.probe.profiles import FIRST, TV1, TV2
from fencepost.clusters.probe.stage import Stage
from fencepost.clusters.probe.wire import BUSY

HANDLING = "KIP-98, Transaction Coordinator Request Handling"
MAPPING, EPOCH, STATE = "INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"
FENCED = "PRODUCER_FENCED"
INIT, ADD_PARTITIONS, ADD_OFFSETS, END = "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"
NEWER = (TV1, TV2)


@dataclass(frozen=True)
class Difference:
    """An answer other than the demanded one that is no violation.

    source: the KIP, or the release, that changed it.
    profiles: the request versions to which that applies.
    """

    answer: str
    source: str
    profiles: tuple[str, ...] = (FIRST, TV1, TV2)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One answer.

    number: the request and its step in KIP-98, or a name for an answer from elsewhere.
    situation: when it is given.
    demanded: the answer by its source; several: any of them.
    source: the place of the sentence.
    play: brings the situation about, and returns the answer. Raises Unreached.
    differences: other answers that are right.
    profiles: the request versions with which the sentence is compared.
    """

    number: str
    situation: str
    demanded: tuple[str, ...]
    source: str
    play: Play
    differences: Sequence[Difference] = ()
    profiles: tuple[str, ...] = (FIRST, TV1, TV2)


KIP_588 = Difference(FENCED, "KIP-588: a producer of an old epoch learns that it was fenced", NEWER)
ENDING = Difference(
    BUSY, "no KIP: Kafka's error 51 is retriable, and the same request is answered by its rule a moment later (3.9.1, 4.4.0)"
)
OFFSETS_FIRST = Difference(OK, "no KIP: in Kafka a transaction may begin with offsets, as with a partition (3.9.1, 4.4.0)")
KIP_890_ABORT = Difference(OK, "KIP-890: an abort of what the coordinator does not know of succeeds", (TV2,))
FIRST_OFFSET = Difference(
    f"{OK}, the same offset", "Kafka 1.0 and later (KAFKA-5494): one of the last five batches is acknowledged"
)


def step(number: str, situation: str, demanded: str | tuple[str, ...], play: Play, *differences: Difference) -> Row:
    """A row about a step of a request."""
    request, _, place = number.partition(" ")
    return Row(
        number=number,
        situation=situation,
        demanded=(demanded,) if isinstance(demanded, str) else demanded,
        source=f"{HANDLING}, {request}, step {place.partition(' ')[0]}",
        play=play,
        differences=differences,
    )


def identified(request: str, send: Callable[[Producer], str], begun: bool = False) -> Iterator[Row]:
    """Steps 1 and 2 of each request: whose producer id it names, and which epoch."""

    def sent(make: Callable[[Stage], Producer]) -> Play:
        return lambda stage: send(make(stage))

    zombie = partial(Stage.zombie, begun=begun)
    yield step(f"{request} 1", "the coordinator does not know the transactional id", MAPPING, sent(Stage.stranger))
    yield step(f"{request} 1 (2)", "the transactional id has another producer id", MAPPING, sent(Stage.misnamed))
    yield step(f"{request} 2", "the epoch is older than that of the id", EPOCH, sent(zombie), KIP_588)
    yield step(f"{request} 2 (2)", "the epoch is newer than that of the id", EPOCH, sent(Stage.early), KIP_588)


def _partition(producer: Producer, patient: bool = True) -> str:
    return producer.add_partitions(0, patient=patient)


def _committing(send: Callable[[Producer], str]) -> Play:
    return plays.while_ending(True, send)


INITIALISE_ROWS = (
    step(
        f"{INIT} 1", "a broker is asked that does not coordinate the id", "NOT_COORDINATOR", lambda s: s.elsewhere(s.producer())
    ),
    step(f"{INIT} 2", "the id has a transaction open", (f"{OK}, CompleteAbort", f"{OK}, Empty"), plays.rolled_back),
    step(f"{INIT} 3", "the coordinator knows the id", f"{OK}, epoch + 1", plays.next_epoch),
    step(f"{INIT} 3 (2)", "the coordinator does not know the id", f"{OK}, epoch 0", plays.first_epoch),
    step(f"{INIT} 4", "the coordinator is asked what it knows", f"{OK}, the same", plays.latest),
)
ADD_PARTITIONS_ROWS = (
    *identified(ADD_PARTITIONS, _partition),
    step(
        f"{ADD_PARTITIONS} 3a",
        "the transaction has begun",
        OK,
        lambda stage: stage.producer().begun(0).add_partitions(1 % stage.partitions),
    ),
    step(
        f"{ADD_PARTITIONS} 3a (2)",
        "the transaction is being committed",
        STATE,
        _committing(partial(_partition, patient=False)),
        ENDING,
    ),
    step(f"{ADD_PARTITIONS} 3b", "no transaction has begun", OK, lambda stage: _partition(stage.producer())),
)
ADD_OFFSETS_ROWS = (
    *identified(ADD_OFFSETS, Producer.add_offsets),
    step(f"{ADD_OFFSETS} 3", "the transaction has begun", OK, lambda stage: stage.producer().begun().add_offsets()),
    step(
        f"{ADD_OFFSETS} 3 (2)",
        "the transaction is being committed",
        STATE,
        _committing(lambda producer: producer.add_offsets(patient=False)),
        ENDING,
    ),
    step(f"{ADD_OFFSETS} 4", "no transaction has begun", STATE, lambda s: s.producer().add_offsets(), OFFSETS_FIRST),
)
END_ROWS = (
    *identified(END, plays.end(True), begun=True),
    step(f"{END} 3a", "the transaction has begun: commit", OK, lambda stage: plays.end(True)(stage.producer().begun())),
    step(f"{END} 3a (2)", "the transaction has begun: abort", OK, lambda stage: plays.end(False)(stage.producer().begun())),
    step(f"{END} 3b", "the transaction is committed: commit again", OK, plays.repeated(True, True)),
    step(f"{END} 3c", "the transaction is aborted: abort again", OK, plays.repeated(False, False)),
    step(f"{END} 3d", "the transaction is committed: abort", STATE, plays.repeated(True, False)),
    step(f"{END} 3d (2)", "the transaction is aborted: commit", STATE, plays.repeated(False, True)),
    step(f"{END} 3d (3)", "no transaction has begun: commit", STATE, lambda s: plays.end(True)(s.producer())),
    step(f"{END} 3d (4)", "no transaction has begun: abort", STATE, lambda s: plays.end(False)(s.producer()), KIP_890_ABORT),
    step(
        f"{END} 3d (5)",
        "the transaction is being committed: abort",
        STATE,
        _committing(lambda producer: producer.end(False, patient=False)[0]),
        ENDING,
    ),
)
FURTHER_ROWS = (
    Row(
        number="timeout",
        situation="InitProducerId with a transaction timeout above the brokers' transaction.max.timeout.ms",
        demanded=("INVALID_TRANSACTION_TIMEOUT",),
        source="KIP-98, Error Handling, InvalidTransactionTimeout",
        play=plays.too_long,
    ),
    Row(
        number="expiry",
        situation="EndTxn after the coordinator has aborted the transaction for its age",
        demanded=(EPOCH,),
        source="KIP-98, Coordinator-side Transaction Expiration, step 1a: the epoch is bumped first",
        play=plays.expired(plays.end(True)),
        differences=[KIP_588],
    ),
    Row(
        number="stale InitProducerId",
        situation="InitProducerId that names an old producer id and epoch",
        demanded=(FENCED, EPOCH),
        source="KIP-360: only the latest epoch of a producer may ask for the next; KIP-588",
        play=plays.expired_epoch,
        profiles=NEWER,
    ),
    Row(
        number="sequence",
        situation="Produce with the next sequence number",
        demanded=(OK,),
        source="KIP-98, Idempotent Producer Guarantees: exactly one greater than the last committed one",
        play=plays.sequences(0, 1),
    ),
    Row(
        number="low sequence",
        situation="Produce with a sequence number that was there before",
        demanded=("DUPLICATE_SEQUENCE_NUMBER",),
        source="KIP-98, Error Handling, DuplicateSequenceNumber",
        play=plays.sequences(0, 0),
        differences=[FIRST_OFFSET],
    ),
    Row(
        number="high sequence",
        situation="Produce with a sequence number that leaves out another",
        demanded=("OUT_OF_ORDER_SEQUENCE_NUMBER",),
        source="KIP-98, Error Handling, InvalidSequenceNumber",
        play=plays.sequences(0, 2),
    ),
    Row(
        number="zombie record",
        situation="Produce of an old epoch, after a newer one has aborted its transaction",
        demanded=(EPOCH,),
        source="KIP-98, Coordinator-side Transaction Expiration, step 1a: brokers fence zombies by the epoch of the marker",
        play=plays.late_record,
    ),
    Row(
        number="zombie offsets",
        situation="TxnOffsetCommit of an old epoch, after a newer one has aborted its transaction",
        demanded=(EPOCH,),
        source="KIP-98, Data Flow, 4.4 TxnOffsetCommitRequest",
        play=plays.late_offsets,
        differences=[KIP_588],
    ),
    Row(
        number="unknown partition",
        situation="Produce to a partition that was not added to the transaction",
        demanded=(STATE, "TRANSACTION_ABORTABLE"),
        source="KIP-890, part 1: the leader asks the coordinator before the first record",
        play=plays.unadded,
        profiles=(FIRST, TV1),
    ),
    Row(
        number="implied partition",
        situation="Produce to a partition that was not added to the transaction",
        demanded=(OK,),
        source="KIP-890, part 2: the record adds its partition",
        play=plays.unadded,
        profiles=(TV2,),
    ),
    Row(
        number="repeated abort",
        situation="EndTxn by the epoch that followed a commit: abort",
        demanded=(OK,),
        source="KIP-890, part 2: an abort of what the coordinator does not know of succeeds",
        play=plays.again(True, False),
        profiles=(TV2,),
    ),
    Row(
        number="empty commit",
        situation="EndTxn by the epoch that followed a commit: commit",
        demanded=(STATE,),
        source="KIP-890, part 2: only an abort may come without a transaction",
        play=plays.again(True, True),
        profiles=(TV2,),
    ),
)
ROWS: Sequence[Row] = (*INITIALISE_ROWS, *ADD_PARTITIONS_ROWS, *ADD_OFFSETS_ROWS, *END_ROWS, *FURTHER_ROWS)
NUMBERED = tuple(dict.fromkeys(row.number.partition(" (")[0] for row in ROWS[: -len(FURTHER_ROWS)]))
