"""KIP-98's table of errors, as far as applications see it: in which situation which class of error is demanded of a client.

A violation of a row without a `doubt` is forbidden by default. Sources beside KIP-98 ("Error Handling"): KIP-360 and KIP-588
(errors of a Produce request may be abortable), KIP-890, KAFKA-18019.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

COORDINATOR = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS")
FORBIDDEN_ID = ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION")
FORBIDDEN = tuple(f"{kind}_AUTHORIZATION{end}" for kind in ("TOPIC", "GROUP") for end in ("_FAILED", ""))
CODES: Mapping[str, int] = {  # Kafka's, by which an error is known whatever a client calls it (sarama: ErrInvalidTxnState)
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "DUPLICATE_SEQUENCE_NUMBER": 46,
    "INVALID_TXN_STATE": 48,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "INVALID_TRANSACTION_TIMEOUT": 50,
    "CONCURRENT_TRANSACTIONS": 51,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
}
REFUSED_CODES = tuple(code for name, code in CODES.items() if "AUTHORIZATION" in name)
FENCED_CODES = (47, 90, -144)  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, librdkafka's _FENCED
DECIDING = ("commit", "abort", "send_offsets")  # answered by the coordinator
SENDING = ("send", "flush")  # answered by the leaders of partitions
REPEATING = ("commit", "send_offsets")  # raise what a record of the transaction was refused with, and ask nobody
TIMED = (*DECIDING, "initialise")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The end of one call: an error with its flags, or ok (of a whole transaction: call `commit`, no name).

    fenced: another instance had fenced the caller.
    undisturbed: nothing known can have fenced it.
    timed_out: its transaction was older than transaction.timeout.ms.
    after_fatal: an earlier call of the same instance had a fatal error.
    calm: no fault was on since its operation began, or shortly before.
    denied: an earlier call of its operation was refused for lack of a right.
    repeated: a record of its operation was refused with this error before.
    misuse: the call that a `misuse` operation makes out of order (`MISUSES`); empty: none.
    kind: of the operation (`f` of a history).
    """

    op: int
    call: str
    time: int
    name: str = ""
    code: int = 0
    fatal: bool = False
    retriable: bool = False
    abortable: bool = False
    fenced: bool = False
    undisturbed: bool = False
    timed_out: bool = False
    after_fatal: bool = False
    calm: bool = False
    denied: bool = False
    repeated: bool = False
    misuse: str = ""
    kind: str = "txn"

    @property
    def ok(self) -> bool:
        return not self.name

    @property
    def plain_name(self) -> str:
        """The name in one spelling for all clients: `PRODUCERFENCED`, `INVALIDPRODUCEREPOCH`."""
        return self.name.replace("_", "").replace("Exception", "").replace("Error", "").upper()

    @property
    def fencing(self) -> bool:
        """True if it says that the producer was fenced, or that its epoch is too old."""
        return self.code in FENCED_CODES or self.plain_name in ("FENCED", "PRODUCERFENCED", "INVALIDPRODUCEREPOCH")

    @property
    def of_leader(self) -> bool:
        """True if it may be the answer of a partition's leader, and not of the coordinator."""
        return self.call in SENDING or (self.call in REPEATING and self.repeated)

    @property
    def final(self) -> bool:
        """True if it says that the producer is of no use any more; librdkafka's `_FATAL` has no flag."""
        return self.fatal or self.name in ("_FATAL", "_STATE")

    @property
    def flag(self) -> str:
        """Its class, in a word."""
        flags = {"ok": self.ok, "fatal": self.final, "retriable": self.retriable, "abortable": self.abortable}
        return next((word for word, is_set in flags.items() if is_set), "of no class")

    def named(self, *names: str) -> bool:
        """True if it is one of these errors of Kafka's, by its code or in any client's spelling."""
        coded = self.code > 0 and self.code in map(CODES.get, names)
        return coded or any(self.plain_name == name.replace("_", "") for name in names)


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One row: in a situation (`applies`), which class of error is demanded (`met`), and who says so.

    doubt: why a violation is not forbidden by default; empty: KIP-98 leaves no doubt.
    calm_only: while a fault is on, or shortly after, a violation is not forbidden either.
    """

    situation: str
    calls: str
    demanded: str
    source: str
    applies: Callable[[Answer], bool]
    met: Callable[[Answer], bool]
    doubt: str = ""
    calm_only: bool = False

    def undoubted(self, answer: Answer) -> bool:
        """True if a violation by this answer is forbidden by default."""
        return not self.doubt and (answer.calm or not self.calm_only)


def _quiet(answer: Answer) -> bool:
    return answer.undisturbed and not answer.timed_out and not answer.after_fatal and not answer.misuse


BEGIN_TWICE, COMMIT_OUTSIDE, ABORT_OUTSIDE = "begin twice", "commit outside", "abort outside"
OFFSETS_OUTSIDE, SEND_OUTSIDE = "offsets outside", "send outside"
MISUSES: Mapping[str, str] = {  # of the workload `misuse`: the call that is made out of order
    BEGIN_TWICE: "begin",
    COMMIT_OUTSIDE: "commit",
    ABORT_OUTSIDE: "abort",
    OFFSETS_OUTSIDE: "send_offsets",
    SEND_OUTSIDE: "send",
}


def _misused(misuse: str, situation: str, source: str, doubt: str = "") -> Demand:
    """The row of a call that is made out of order."""
    return Demand(
        situation=situation,
        calls=MISUSES[misuse],
        demanded="an error",
        source=source,
        applies=lambda answer: answer.misuse == misuse and not answer.after_fatal,
        met=lambda answer: not answer.ok,
        doubt=doubt,
    )


TABLE: Sequence[Demand] = (
    Demand(
        situation="another instance has initialised, and the coordinator refuses the old epoch",
        calls="commit, abort, send_offsets",
        demanded="fatal (neither retriable nor abortable)",
        source="KIP-98: InvalidProducerEpoch is fatal",
        applies=lambda answer: answer.fenced and answer.call in DECIDING and answer.fencing and not answer.of_leader,
        met=lambda answer: answer.final or not (answer.retriable or answer.abortable),
    ),
    Demand(
        situation="another instance has initialised, and a partition's leader refuses the old epoch",
        calls="send, flush; commit, send_offsets that repeat a record's error",
        demanded="fatal or abortable",
        source="KIP-98: fatal; KIP-588: abortable, the coordinator then says whether it is fatal",
        applies=lambda answer: answer.fenced and answer.of_leader and answer.fencing,
        met=lambda answer: not answer.retriable and (answer.final or answer.abortable),
        doubt="KIP-588 lets a client ask the coordinator first whether it was fenced",
    ),
    Demand(
        situation="an earlier call of the same instance had a fatal error",
        calls="any",
        demanded="neither ok nor retriable nor abortable",
        source="KIP-98: stop this producer and throw",
        applies=lambda answer: answer.after_fatal and answer.call != "initialise",
        met=lambda answer: answer.final or not (answer.ok or answer.retriable or answer.abortable),
        doubt="KIP-98 does not say what further calls of a stopped producer answer",
    ),
    Demand(
        situation="nobody has initialised since, and the transaction is younger than its timeout",
        calls="any",
        demanded="no error of fencing",
        source="KIP-98: InvalidProducerEpoch means that another instance is running",
        applies=lambda answer: _quiet(answer) and (answer.ok or answer.call != "initialise"),
        met=lambda answer: not answer.fencing,
        doubt="an epoch also ends when the coordinator's clock jumps, or the client bumps it itself (KIP-360)",
    ),
    Demand(
        situation="the transaction is older than its timeout, and the coordinator has aborted it",
        calls="send, flush, send_offsets, commit",
        demanded="fatal or abortable",
        source="KIP-98: the coordinator bumps the epoch and aborts; KIP-588",
        applies=lambda answer: answer.undisturbed and answer.timed_out and (answer.fencing or answer.named("INVALID_TXN_STATE")),
        met=lambda answer: not answer.retriable and (answer.final or answer.abortable),
        doubt="KIP-98 has no error of its own for a transaction that the coordinator aborted",
    ),
    Demand(
        situation="nobody has initialised since, and the calls were made in order",
        calls="commit, abort",
        demanded="no InvalidTxnState",
        source="KIP-98: InvalidTxnRequest does not happen with a correct client",
        applies=lambda answer: _quiet(answer) and answer.call in ("commit", "abort") and not answer.denied,
        met=lambda answer: not answer.named("INVALID_TXN_STATE"),
        calm_only=True,
    ),
    Demand(
        situation="the coordinator has moved, is loading, or is busy with the transaction before",
        calls="any",
        demanded="not fatal: retriable, where it is seen at all",
        source="KIP-98: NotCoordinatorForTransactionalId, CoordinatorNotAvailable",
        applies=lambda answer: answer.named(*COORDINATOR) and not answer.after_fatal,
        met=lambda answer: not answer.final,
        doubt="a client may give up when its own time or number of retries is used up",
    ),
    Demand(
        situation="the coordinator has forgotten the transactional id, or given it another producer id (its epochs had run out)",
        calls="any",
        demanded="fatal",
        source="KAFKA-18019; by KIP-98 (InvalidPidMapping) the producer takes another id itself, which lets a zombie go on",
        applies=lambda answer: answer.named("INVALID_PRODUCER_ID_MAPPING", "INVALID_PID_MAPPING"),
        met=lambda answer: answer.final,
        doubt="by KIP-98 the producer takes another id, and goes on",
    ),
    Demand(
        situation="a sequence number is too high: the log may have been cut off",
        calls="send, flush, commit",
        demanded="fatal or abortable",
        source="KIP-98: InvalidSequenceNumber is fatal; KIP-360: abortable",
        applies=lambda answer: answer.named("OUT_OF_ORDER_SEQUENCE_NUMBER", "OUT_OF_ORDER_SEQUENCE"),
        met=lambda answer: not answer.retriable and (answer.final or answer.abortable),
        doubt="KIP-98 and KIP-360 disagree",
    ),
    Demand(
        situation="a sequence number was seen before: the record is there",
        calls="any",
        demanded="no error",
        source="KIP-98: DuplicateSequenceNumber is ignored by the producer",
        applies=lambda answer: answer.named("DUPLICATE_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE"),
        met=lambda answer: False,
    ),
    Demand(
        situation="transaction.timeout.ms is above what the brokers allow",
        calls="initialise",
        demanded="not retriable",
        source="KIP-98: InvalidTransactionTimeout is fatal",
        applies=lambda answer: answer.named("INVALID_TRANSACTION_TIMEOUT"),
        met=lambda answer: not answer.retriable,
    ),
    Demand(
        situation="clients may not write with the transactional id",
        calls="any",
        demanded="fatal",
        source="KIP-98; KafkaProducer's documentation: AuthorizationException is fatal",
        applies=lambda answer: answer.named(*FORBIDDEN_ID) and not answer.after_fatal,
        met=lambda answer: answer.final,
        doubt="rights are no part of KIP-98's table",
    ),
    Demand(
        situation="clients may not write to the topic, or not read as members of the group",
        calls="send, flush, send_offsets, commit",
        demanded="not retriable",
        source="KIP-98: the transaction can be aborted; KafkaProducer's documentation: an AuthorizationException is fatal",
        applies=lambda answer: answer.call in (*SENDING, *DECIDING) and answer.named(*FORBIDDEN) and not answer.after_fatal,
        met=lambda answer: not answer.retriable,
        doubt="rights are no part of KIP-98's table",
    ),
    Demand(
        situation="no answer within the call's time",
        calls="initialise, send_offsets, commit, abort",
        demanded="not fatal",
        source="KIP-98: retry after backing off; KIP-447: TimeoutException may be retried",
        applies=lambda answer: (
            answer.call in TIMED and answer.named("TIMED_OUT", "TIMEOUT", "KAFKA_TIMEOUT") and not answer.after_fatal
        ),
        met=lambda answer: not answer.final,
        doubt="KIP-98 says it of the coordinator's answers, not of a client's own timeouts",
    ),
    _misused(BEGIN_TWICE, "a transaction is open already", "KIP-98: a second beginTransaction is an error"),
    _misused(COMMIT_OUTSIDE, "no transaction is open: commit", "KIP-98, commitTransaction, step 1: throw an exception"),
    _misused(ABORT_OUTSIDE, "no transaction is open: abort", "KIP-98, abortTransaction, step 1: throw an exception"),
    _misused(OFFSETS_OUTSIDE, "no transaction is open: offsets", "KIP-98, sendOffsetsToTransaction, step 1: throw an exception"),
    _misused(
        SEND_OUTSIDE,
        "no transaction is open: a record",
        "KafkaProducer's documentation: all records of a transactional producer are part of a transaction",
        doubt="KIP-98 does not say it of send",
    ),
)
