"""The outcome of an operation of which a call failed: one table, each row with its reason.

ok: it happened. fail: it surely did not. info: nobody knows. The default is info. Sources: KIP-98 (error handling), KIP-360,
librdkafka's INTRODUCTION (transactional producer), and what Jepsen's Kafka client treats as definite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.harness.api import CallError, Outcome

ANY = "any"
NEVER_SENT = ("_QUEUE_FULL", "_INVALID_ARG", "_STATE")  # that librdkafka raises before a record leaves the process
# Of librdkafka and the Java client: brokers answer them too, or they end the retries of what was sent before.
REFUSED_AT_LAST = ("MSG_SIZE_TOO_LARGE", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "RecordTooLargeException")
UNTAKEN = ("SerializationException", "BufferExhaustedException")  # the same of the Java client


@dataclass(frozen=True)
class Row:
    """`call` failed with one of `errors` and then `after` was the case: the operation's `outcome`, because of `reason`.

    library: the client library whose errors these are, where libraries differ.
    code: Kafka's code of the error, where libraries name it differently; 0: the names are enough.
    """

    call: str
    errors: tuple[str, ...]
    after: str
    outcome: Outcome
    reason: str
    library: str = ANY
    code: int = 0


# What Kafka refuses to clients without the right, by the names of librdkafka and of the Java client.
FORBIDDEN = (
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TopicAuthorizationException",
    "GroupAuthorizationException",
    "TransactionalIdAuthorizationException",
    "ClusterAuthorizationException",
)
NEVER_COMMITTED = "commit was never called, and nobody else may call it for this producer: the coordinator can only abort"
NEVER_LEFT = "refused inside the client: it never left the process"
TABLE: tuple[Row, ...] = (
    Row(
        ANY, ("_DRIVER_BROKEN",), "transaction", Outcome.INFO, "a driver that breaks its protocol may have done more than it says"
    ),
    Row("begin", (ANY,), ANY, Outcome.FAIL, "no record had been sent"),
    Row("send", (ANY,), "transaction", Outcome.FAIL, NEVER_COMMITTED),
    Row("poll", (ANY,), "transaction", Outcome.FAIL, NEVER_COMMITTED),
    Row("flush", (ANY,), "transaction", Outcome.FAIL, NEVER_COMMITTED),
    Row("group", (ANY,), "transaction", Outcome.FAIL, NEVER_COMMITTED),
    Row("send_offsets", (ANY,), "transaction", Outcome.FAIL, NEVER_COMMITTED),
    Row("abort", (ANY,), "transaction", Outcome.FAIL, NEVER_COMMITTED + " (whether the abort was heard or not)"),
    Row(
        "commit",
        ("INVALID_PRODUCER_ID_MAPPING",),
        "aborted",
        Outcome.INFO,
        "the coordinator has forgotten the id: an earlier EndTxn may have been written, and the abort may have sent none",
        code=49,
    ),
    Row("commit", (ANY,), "aborted", Outcome.FAIL, "the client demanded an abort, and the coordinator acknowledged it"),
    Row(
        "commit",
        (ANY,),
        "unconfirmed",
        Outcome.INFO,
        "an abort of what may have been committed succeeds all the same",
    ),
    Row("commit", FORBIDDEN, "not aborted", Outcome.INFO, "this EndTxn was refused; an earlier one may have been written"),
    Row("commit", (ANY,), "not aborted", Outcome.INFO, "EndTxn may have been written and its answer lost"),
    Row(
        "deliver",
        NEVER_SENT,
        "no transaction",
        Outcome.FAIL,
        "refused inside the client: it never left the process",
        "librdkafka",
    ),
    Row(
        "deliver",
        ("_PURGE_QUEUE", "_PURGE_INFLIGHT"),
        "no transaction",
        Outcome.INFO,
        "the client gave it up, perhaps after an attempt that was appended: a retry waits in the queue as what is new does",
        "librdkafka",
    ),
    Row(
        "deliver",
        ("SerializationException", "BufferExhaustedException"),
        "no transaction",
        Outcome.FAIL,
        NEVER_LEFT,
        "kafka-clients",
    ),
    Row("deliver", ("ErrMaxBuffered",), "no transaction", Outcome.FAIL, NEVER_LEFT, "franz-go"),
    Row(
        "deliver",
        REFUSED_AT_LAST,
        "no transaction",
        Outcome.INFO,
        "this attempt was refused; an earlier one may have been appended, before the topic was altered or deleted",
    ),
    Row("deliver", FORBIDDEN, "no transaction", Outcome.INFO, "this attempt was refused; an earlier one may have been appended"),
    Row("deliver", (ANY,), "no transaction", Outcome.INFO, "an earlier attempt may have been appended and its answer lost"),
    Row("committed", (ANY,), "no transaction", Outcome.FAIL, "asking for offsets changes nothing in the cluster"),
    Row("poll", (ANY,), "no transaction", Outcome.FAIL, "a poll changes nothing in the cluster"),
)
DEFAULT = Row(ANY, (ANY,), ANY, Outcome.INFO, "not in the table: unknown is the only honest answer")


def judge(call: str, error: CallError | None, after: str, library: str = "") -> Row:
    """The first row of the table that fits; `error` None stands for any. library: that of the client (`Client.library`)."""
    for row in TABLE:
        ours = row.library in (ANY, library)
        if ours and row.call in (ANY, call) and _names(row, error) and row.after in (ANY, after):
            return row
    return DEFAULT


def _names(row: Row, error: CallError | None) -> bool:
    """Whether a row is of an error."""
    if ANY in row.errors or error is None:
        return ANY in row.errors
    return error.name in row.errors or (row.code != 0 and error.code == row.code)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of several records sent as one operation: ok if all are, fail if all are, else info."""
    seen = set(outcomes)
    return seen.pop() if len(seen) == 1 else Outcome.INFO


def markdown() -> str:
    """The table as docs/outcomes.md shows it."""
    lines = ["| call that failed | error | of | and then | outcome | because |", "|---|---|---|---|---|---|"]
    for row in (*TABLE, DEFAULT):
        errors = ", ".join(row.errors)
        lines.append(f"| {row.call} | {errors} | {row.library} | {row.after} | {row.outcome.value} | {row.reason} |")
    return "\n".join(lines)
