"""Workloads of Redpanda's chaos tests whose logs name what was sent and what was read: how a thread's lines become operations.

Times of a poll's records are those at which the poll returned. What a consumer was given and did not log, because its program
broke off, is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from fencepost.harness.api import Outcome
from fencepost.harness.interop.chaos.log_lines import LogLine, name_of, whole_number
from fencepost.harness.interop.chaos.operations import Operation, Operations, Record

NO_BEGINNING = "a transaction is decided whose beginning is not in the log"
TOPIC, SOURCE, TARGET = "topic", "source", "target"
Handler = Callable[["Thread", LogLine], None]
_REBALANCES = {"log assign": "assigned", "log revoke": "revoked", "log lost": "lost"}


@dataclass(frozen=True)
class Input:
    """A record that a transaction is about to process.

    record: as it was read; None: another instance's.
    output: the name of the record that is made of it.
    """

    partition: str
    offset: int
    record: Record | None
    output: str


@dataclass
class Thread:
    """A thread of the workload.

    server: the name of the instance, which its records have as their key.
    role: the thread's, by its line `started`.
    partition: that of a producing thread of tx-subscribe.
    current: the operation that is under way.
    poll: the last poll.
    input: the record that is processed next.
    """

    operations: Operations
    server: str
    role: str
    partition: str = ""
    current: Operation | None = None
    poll: Operation | None = None
    input: Input | None = None

    def take_current(self) -> Operation | None:
        operation, self.current = self.current, None
        return operation

    def others(self, *names: str) -> bool:
        """Return whether a record is another instance's, and remember it."""
        strangers = [name for name in names if name != self.server]
        self.operations.others.update(strangers)
        return bool(strangers)


def ignore(thread: Thread, line: LogLine) -> None:
    """A line that says nothing of records."""


def failed_construction_or(handler: Handler) -> Handler:
    """`err` without an operation under way: a client that could not be made."""
    return lambda thread, line: handler(thread, line) if thread.current else None


# --------------------------------------------------------------------------------------------------
# Transactions, and sends outside of them
# --------------------------------------------------------------------------------------------------
def committing(thread: Thread, line: LogLine) -> None:
    """`cmt`: commit is called; what was sent is acknowledged."""
    operation = _undecided(thread, line)
    operation.decided = line.time
    for record in operation.sends:
        record.ended = line.time if record.ended is None else record.ended


def aborting(thread: Thread, line: LogLine) -> None:
    _undecided(thread, line).intent = "abort"


def _undecided(thread: Thread, line: LogLine) -> Operation:
    """The transaction that is to be decided. Raises ValueError: there is none, or it was to be decided before, and how that ended
    is not in the log."""
    operation = thread.current
    if operation is None:
        raise ValueError(NO_BEGINNING)
    if operation.decided is not None or operation.intent == "abort":
        operation.intent, thread.current = "commit", None
        _end_unknown(operation, line)
        raise ValueError("a transaction is decided once more")
    return operation


def ended(thread: Thread, line: LogLine) -> None:
    """`ok`: of a commit, with an offset where the log has one; of an abort; or of a send."""
    operation = thread.take_current()
    if operation is None:
        return
    if operation.intent == "abort":
        operation.intent = "commit"  # the row says that it failed
        operation.complete(Outcome.FAIL, line)
        return
    if operation.f == "txn" and operation.decided is None:
        _end_unknown(operation, line)
        raise ValueError("a transaction ends without `cmt` or `brt` before")
    operation.complete(Outcome.OK, line)
    if line.words:
        operation.sends[0].offset = whole_number(line.words[0])
        operation.sends[0].ended = operation.sends[0].ended or line.time


def broken(thread: Thread, line: LogLine) -> None:
    """`err` of a commit, an abort or a send: nobody knows what became of it."""
    operation = thread.take_current()
    if operation is not None and operation.f == "txn" and operation.decided is None and operation.intent != "abort":
        _end_unknown(operation, line)
    elif operation is not None:
        operation.intent = "commit" if operation.f == "txn" else None
        operation.complete(Outcome.INFO, line)


def _end_unknown(operation: Operation, line: LogLine) -> None:
    """Nobody knows whether commit was called: surely not before the transaction began."""
    operation.complete(Outcome.INFO, line)
    operation.decided = operation.time


# --------------------------------------------------------------------------------------------------
# Consumers
# --------------------------------------------------------------------------------------------------
def rebalanced(thread: Thread, line: LogLine) -> None:
    """`log assign`, `log revoke`, `log lost`: a callback inside a poll."""
    if thread.poll is not None and thread.poll.end is None:
        topic = SOURCE if thread.role == "streaming" else TOPIC
        thread.poll.rebalances.append([_REBALANCES[line.command], [f"{topic}-{whole_number(line.words[0])}"]])


def polling(thread: Thread, line: LogLine) -> None:
    thread.poll = thread.operations.begin(line, "poll", "member")


def polled(thread: Thread, line: LogLine) -> None:
    if thread.poll is not None:
        thread.poll.complete(Outcome.OK, line)


def poll_failed(thread: Thread, line: LogLine) -> None:
    if thread.poll is not None:
        thread.poll.complete(Outcome.FAIL, line)


def subscribed(thread: Thread, line: LogLine) -> None:
    """A new consumer, a member of its group; what its predecessor was given last may not all be in the log."""
    if thread.poll is not None and thread.poll.type != Outcome.FAIL.value:
        thread.poll.detail["unheard"] = True
    operation = thread.operations.begin(line, "subscribe", "member")
    operation.complete(Outcome.OK, line)
    operation.detail["topics"] = [SOURCE if thread.role == "streaming" else TOPIC]
    thread.poll = None


def got(thread: Thread, partition: str, name: str, offset: int) -> Record | None:
    """A record of the last poll; None without a poll."""
    if thread.poll is None:
        return None
    record = Record(partition, name, offset, ended=thread.poll.end)
    thread.poll.reads.append(record)
    return record


def read_alone(thread: Thread, line: LogLine, partition: str, name: str, offset: int, process: int | None = None) -> None:
    """A record of an assigned consumer, each as a poll of its own: its log does not say which came together."""
    operation = thread.operations.begin(line, "poll", "reader", process)
    operation.complete(Outcome.OK, line)
    operation.reads.append(Record(partition, name, offset, ended=line.time))


# --------------------------------------------------------------------------------------------------
# reads-writes
# --------------------------------------------------------------------------------------------------
FIRST_READERS = 1 << 13  # the process that stands for whichever reader got a record first


def _rw_sent(thread: Thread, line: LogLine) -> None:
    """`msg op`. Of a record that was acknowledged and that nobody has got yet, nothing is logged."""
    thread.current = thread.operations.begin(line, "send", "writer")
    thread.current.sends.append(Record(f"{TOPIC}-0", name_of(line.words[0]), began=line.time))


def _rw_seen(thread: Thread, line: LogLine) -> None:
    """`ok offset op`: some reader got it first."""
    read_alone(thread, line, f"{TOPIC}-0", name_of(line.words[1]), whole_number(line.words[0]), FIRST_READERS)
    if thread.current and thread.current.sends[0].name == line.words[1]:
        thread.current.sends[0].offset = whole_number(line.words[0])


def _rw_acknowledged(thread: Thread, line: LogLine) -> None:
    """`delta`: it was got, and acknowledged."""
    if thread.current is not None and thread.current.sends[0].offset is not None:
        thread.current.sends[0].ended = line.time
        thread.current.complete(Outcome.OK, line)
        thread.current = None


# --------------------------------------------------------------------------------------------------
# tx-single-reads-writes
# --------------------------------------------------------------------------------------------------
def _single_began(thread: Thread, line: LogLine) -> None:
    """`tx tid`. Until its end it may send a record that the log does not name: names follow acknowledgements."""
    thread.current = thread.operations.begin(line, "txn", "writer")
    thread.current.label = name_of(line.words[0])
    thread.current.unnamed = True


def _single_written(thread: Thread, line: LogLine) -> None:
    """`log writen oid@offset`, in the workload's spelling."""
    if thread.current:
        oid, _, offset = line.words[0].partition("@")
        name = f"{thread.current.label}:{whole_number(oid)}"
        thread.current.sends.append(Record(f"{TOPIC}-0", name, whole_number(offset), thread.current.time, line.time))


def _single_committing(thread: Thread, line: LogLine) -> None:
    if thread.current:
        thread.current.unnamed = False  # every send was acknowledged
    committing(thread, line)


def _single_read(thread: Thread, line: LogLine) -> None:
    """`log read tid:oid@offset`."""
    name, _, offset = line.words[0].partition("@")
    for part in name.split(":", 1):
        whole_number(part)
    read_alone(thread, line, f"{TOPIC}-0", name, whole_number(offset))


# --------------------------------------------------------------------------------------------------
# rw-subscribe
# --------------------------------------------------------------------------------------------------
def _subscribe_sent(thread: Thread, line: LogLine) -> None:
    """`send partition oid`."""
    thread.current = thread.operations.begin(line, "send", "writer")
    thread.current.sends.append(Record(f"{TOPIC}-{whole_number(line.words[0])}", name_of(line.words[1]), began=line.time))


def _subscribe_read(thread: Thread, line: LogLine) -> None:
    """`read partition offset key oid`."""
    partition, offset, key, oid = line.words
    if not thread.others(key):
        got(thread, f"{TOPIC}-{whole_number(partition)}", name_of(oid), whole_number(offset))


def _subscribe_ok(thread: Thread, line: LogLine) -> None:
    """`ok` of a poll, or of a commit of offsets, which says nothing of records."""
    if thread.role == "producing":
        ended(thread, line)
    elif thread.poll is not None and thread.poll.end is None:
        polled(thread, line)


def _subscribe_err(thread: Thread, line: LogLine) -> None:
    if thread.role == "producing":
        broken(thread, line)
    elif thread.poll is not None and thread.poll.end is None:
        poll_failed(thread, line)


def _subscribe_constructing(thread: Thread, line: LogLine) -> None:
    if thread.role == "consuming":
        subscribed(thread, line)


# --------------------------------------------------------------------------------------------------
# tx-subscribe
# --------------------------------------------------------------------------------------------------
def _tx_sent(thread: Thread, line: LogLine) -> None:
    """`send oid`: a transaction of one record to the thread's own partition of the source."""
    thread.current = thread.operations.begin(line, "txn", "writer")
    thread.current.sends.append(Record(f"{SOURCE}-{thread.partition}", name_of(line.words[0]), began=line.time))


def _tx_read(thread: Thread, line: LogLine) -> None:
    """`read offset key partition oid`: the next record that is processed, of the last poll."""
    offset, key, partition, oid = line.words
    where = f"{SOURCE}-{whole_number(partition)}"
    record = None if thread.others(key) else got(thread, where, name_of(oid), whole_number(offset))
    thread.input = Input(where, whole_number(offset), record, f"{key}/{whole_number(partition)}/{oid}")


def _tx_began(thread: Thread, line: LogLine) -> None:
    """`tx`: the output is sent, and the offset of the input with it."""
    if thread.input is None:
        raise ValueError("a transaction begins without a record to process")
    thread.current = thread.operations.begin(line, "txn", "member")
    thread.current.sends.append(Record(f"{TARGET}-0", thread.input.output, began=line.time))
    thread.current.inputs += [thread.input.record] if thread.input.record else []
    thread.current.offsets.append((thread.input.partition, thread.input.offset + 1))
    thread.input = None


def _tx_deciding(handler: Handler) -> Handler:
    """`cmt`, `brt`: where the line `tx` before it is missing, the transaction began by then."""

    def handle(thread: Thread, line: LogLine) -> None:
        missing = thread.current is None and thread.input is not None
        if missing:
            _tx_began(thread, line)
        handler(thread, line)
        if missing:
            raise ValueError(NO_BEGINNING)

    return handle


def _tx_seen(thread: Thread, line: LogLine) -> None:
    """`seen offset key server partition oid`: key streamed what server had sent."""
    offset, key, server, partition, oid = line.words
    if not thread.others(key, server):
        read_alone(thread, line, f"{TARGET}-0", f"{server}/{whole_number(partition)}/{name_of(oid)}", whole_number(offset))


def _tx_constructing(thread: Thread, line: LogLine) -> None:
    if line.words == ("streaming-consumer",):
        subscribed(thread, line)


# --------------------------------------------------------------------------------------------------
# All
# --------------------------------------------------------------------------------------------------
_COMMON: Mapping[str, Handler] = {
    "constructing": ignore,
    "constructed": ignore,
    "cmt": committing,
    "brt": aborting,
    "ok": ended,
    "err": failed_construction_or(broken),
    "time": failed_construction_or(broken),
    "seen": ignore,
    **dict.fromkeys(_REBALANCES, rebalanced),
}


@dataclass(frozen=True)
class Workload:
    """A workload.

    contract: what its settings promise, besides what every adopted history is taken to promise.
    handlers: what each command does; of `log` lines others say nothing.
    """

    name: str
    contract: Mapping[str, str]
    handlers: Mapping[str, Handler]
    known: ClassVar[str] = "reads-writes, tx-single-reads-writes, rw-subscribe and tx-subscribe"


READS_WRITES = Workload(
    "reads-writes",
    {"transactional": "false", "idempotence": "false"},  # `enable_idempotency` is not in the log
    {**_COMMON, "msg": _rw_sent, "ok": _rw_seen, "delta": _rw_acknowledged},
)
TX_SINGLE = Workload(
    "tx-single-reads-writes",
    {"transactional": "true"},
    {**_COMMON, "tx": _single_began, "log writen": _single_written, "cmt": _single_committing, "log read": _single_read},
)
RW_SUBSCRIBE = Workload(
    "rw-subscribe",
    {"transactional": "false", "consumption": "recorded"},
    {
        **_COMMON,
        "constructing": _subscribe_constructing,
        "send": _subscribe_sent,
        "poll": polling,
        "ok": _subscribe_ok,
        "err": _subscribe_err,
        "read": _subscribe_read,
        "commit": ignore,
    },
)
TX_SUBSCRIBE = Workload(
    "tx-subscribe",
    {"transactional": "true", "consumption": "recorded"},
    {
        **_COMMON,
        "constructing": _tx_constructing,
        "send": _tx_sent,
        "log tick": polling,
        "log ack": polled,
        "log err": poll_failed,
        "read": _tx_read,
        "tx": _tx_began,
        "cmt": _tx_deciding(committing),
        "brt": _tx_deciding(aborting),
        "seen": _tx_seen,
    },
)
