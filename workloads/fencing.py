"""Transactions that other instances of the same transactional id interrupt, at each call of the producer in turn.

KIP-98 (a new instance with the same transactional id fences the old one), KIP-360, KIP-588 and KIP-890. One instance of a
writer, from an `initialise` to the next, goes through one cell of the matrix: a transaction with the cell's interruption, and a
second one with which the same instance goes on, whatever the first one's errors were.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import HOUR_S, Between, CallError, Client, Operation, Outcome, Outgoing, PlannedOperation, Role, Writer
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.support import outcomes
from fencepost.workloads.support.deciding import CALL_S
from fencepost.workloads.support.default_faults import OF_TRANSACTIONAL_IDS
from fencepost.workloads.support.polling import note, reader_operations
from fencepost.workloads.transactions import Transactions

OFFSETS = "send_offsets"
CALLS = ("begin", "send", "flush", OFFSETS, "commit", "abort")
MOMENTS = ("before", "during", "after")
ALONE, IDLE, NEIGHBOUR, BURST, EXPIRY = "alone", "idle", "neighbour", "burst", "expiry"
FENCE, MOVE, KILL, FINISH, DELETE = "fence", "move", "kill", "finish", "delete"
FAULTS: Mapping[str, tuple[str, float, Mapping[str, str]]] = {  # at a call: the fault, how long it lasts (s), its options
    FENCE: ("fence-producers", 0.0, {"target": "id:{id}"}),
    MOVE: ("move-coordinator", 1.0, {"target": "coordinator:{id}"}),
    KILL: ("kill", 2.0, {"target": "coordinator:{id}"}),
}
FAULT_CALLS, FAULT_MOMENTS = ("send", OFFSETS, "commit", "abort"), ("before", "during")
AGAIN = "again"  # the second transaction of the same instance
RIVAL = "rival"  # a transaction of the rival
CELLS = (*(f"{moment} {call}" for call in CALLS for moment in MOMENTS), ALONE, IDLE, NEIGHBOUR, BURST)
OTHER_ID = "-neighbour"  # appended to the transactional id
INITIALISE_S = 15.0
IDLE_MARGIN_S = 2.0  # coordinators look for timed out transactions once a second (clusters/kafka/broker_settings.py)


@dataclass(frozen=True, kw_only=True)
class Fencing(Transactions):
    """Transactional producers, each with rivals that take over its transactional id before, during or after one of its calls.

    Each instance of a writer goes through one cell, all of them in turn: a rival initialises before, during or after `begin`,
    `send`, `flush`, `send_offsets`, `commit` or `abort` of a transaction, and commits one of its own; it initialises five times
    before the commit (`burst`); the transaction idles beyond its timeout before its commit (`idle`); a producer with another id
    commits in between (`neighbour`); nothing happens (`alone`). Then the instance goes on with a second transaction. With
    `expiry_s` there is one cell more: a rival takes over between two transactions, and both idle until their id is forgotten.
    With `at_calls` there are cells like `kill before commit`, in which the cluster is struck right before or during a call: an
    operator fences the producer (`fence`), its coordinator moves (`move`) or is killed (`kill`); and one in which another process
    commits the flushed transaction with the stored producer id and epoch, as Flink's sink does (`finish`), and one in which a
    topic is deleted that the transaction has written to, beside the others (`delete`).

    writers: processes that write (each with a consumer of its own)
    readers: read_committed processes that only poll
    uncommitted_readers: the same at read_uncommitted
    partitions: of the one topic
    sends: records per transaction, (fewest, most); spread over as many partitions as possible
    poll_share: chance of a poll beside each send
    think_ms: pause before each micro-operation and before the decision
    flush_before_abort: wait for the records' acknowledgements before an abort, also one of the cell's own (librdkafka 4849)
    transaction_timeout_s: the producers' transaction.timeout.ms
    only: these cells, separated by commas; empty: all
    without: calls whose cells are left out, separated by commas: send_offsets for clients that commit no offsets in transactions
    expiry_s: how long a fenced instance idles until its id has expired; 0: there is no such cell
    at_calls: what else happens at calls, in cells of its own: fence, move, kill, finish, delete, separated by commas
    first_epoch: before the run the epochs of all transactional ids are raised so far; 32766 is the last one of a producer id
    record_bytes: about the size of a record's value
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_TRANSACTIONAL_IDS

    writers: Annotated[int, Between(1, 500)] = 3
    readers: Annotated[int, Between(0, 500)] = 1
    sends: Annotated[tuple[int, int], Between(1, 10_000)] = (1, 3)
    poll_share: Annotated[float, Between(0, 1)] = 0.1
    abort_share: Annotated[float, Between(0, 1)] = 0.0
    transaction_timeout_s: Annotated[float, Between(0, HOUR_S)] = 6.0
    only: str = ""
    without: str = ""
    expiry_s: Annotated[float, Between(0, HOUR_S)] = 0.0
    at_calls: str = ""
    first_epoch: Annotated[int, Between(0, 32_766)] = 0

    def __post_init__(self) -> None:
        demand_bounds(self)
        super().__post_init__()
        if foreign := [name for name in _listed(self.at_calls) if name not in (*FAULTS, FINISH, DELETE)]:
            raise ValueError(f"at_calls = {', '.join(foreign)!r}: there are {', '.join((*FAULTS, FINISH, DELETE))}")
        if unknown := [cell for cell in self._chosen if cell not in self._known]:
            raise ValueError(f"only = {', '.join(unknown)!r}: no cell of that name; there are {', '.join(self._known)}")
        if strange := [call for call in _listed(self.without) if call not in CALLS]:
            raise ValueError(f"without = {', '.join(strange)!r}: no call of that name; there are {', '.join(CALLS)}")
        if not self.cells:
            raise ValueError(f"only = {self.only!r}, without = {self.without!r}: no cell is left")

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the matrix under these options."""
        left_out = _listed(self.without)
        return tuple(cell for cell in self._chosen or self._known if cell_of(cell)[2] not in left_out)

    @property
    def _known(self) -> tuple[str, ...]:
        listed = _listed(self.at_calls)
        struck = [
            f"{name} {moment} {call}" for name in listed if name in FAULTS for moment in FAULT_MOMENTS for call in FAULT_CALLS
        ]
        return (*CELLS, *([EXPIRY] if self.expiry_s else []), *struck, *(name for name in (FINISH, DELETE) if name in listed))

    @property
    def _chosen(self) -> tuple[str, ...]:
        return _listed(self.only)

    def roles(self) -> tuple[Role, ...]:
        offsets = any(cell_of(cell)[2] == OFFSETS for cell in self.cells)
        needs = ("offsets-in-transactions",) if offsets else ()
        return tuple(
            replace(role, polls=True, rivals=True, operator=bool(self.at_calls), needs=(*role.needs, *needs))
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
                yield PlannedOperation(f="initialise", mops=(), cell=cell)
                intent = "abort" if cell.endswith(" abort") else "commit"
                yield replace(next(transactions), intent=intent, cell=cell)
                yield replace(next(transactions), intent="commit", cell=AGAIN)

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """An `initialise`, a poll, or one transaction; errors end no process: the next `initialise` makes another producer."""
        if op.planned.f == "initialise":
            return initialised(op, client)
        if op.rivals is None or op.planned.f != "txn":
            return super().perform(op, client, run)
        if op.planned.cell == EXPIRY:
            take_over(op)
            time.sleep(self.expiry_s)
        if op.operator is not None and cell_of(op.planned.cell)[0] in FAULTS:
            op.operator.reserve()
        doomed = op.operator.make_topic() if op.operator is not None and op.planned.cell == DELETE else ""
        outcome = super().perform(op, Interrupted(client, op, doomed), run)  # type: ignore[arg-type]
        op.renew = op.planned.cell == FINISH  # whose producer knows nothing of its commit
        return outcome

    def _body(self, op: Operation, client: Client, run: str) -> None:
        super()._body(op, client, run)
        cell = op.planned.cell
        if cell.endswith(" flush") or cell in (IDLE, FINISH):
            client.flush(CALL_S)
        if cell_of(cell)[2] == OFFSETS:
            partitions = sorted({mop[1] for mop in op.planned.mops if mop[0] == "send"})
            client.send_offsets(dict.fromkeys(partitions, 0), client.group(), CALL_S)
        if cell == IDLE:
            time.sleep(self.transaction_timeout_s + IDLE_MARGIN_S)


def _listed(text: str) -> tuple[str, ...]:
    """The names in an option, separated by commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def cell_of(cell: str) -> tuple[str, str, str]:
    """Split a cell into who acts, the moment and the call: `kill before commit`; a rival's cells have no name in front."""
    words = cell.split(" ")
    who = words.pop(0) if words[0] in FAULTS else RIVAL
    moment, _, call = " ".join(words).partition(" ")
    return who, moment, call


def initialised(op: Operation, client: Client) -> Outcome:
    """An `initialise` operation: then the producer is another instance. Of one that failed nobody knows whether it took over."""
    op.value = {"cell": op.planned.cell}
    try:
        client.initialise(INITIALISE_S)
    except CallError as error:
        note(op, error)
        op.errors[-1]["call"] = op.planned.f  # a rival's first one opens its client
        op.renew = True
        return outcomes.judge("initialise", error, "no transaction").outcome
    return Outcome.OK


def take_over(op: Operation, suffix: str = "", times: int = 1) -> None:
    """A rival initialises, so many times, and commits a transaction in the partitions of the operation's."""
    assert op.rivals is not None
    rival = op.rivals(suffix)
    initialise = PlannedOperation(f="initialise", mops=(), cell=op.planned.cell)
    if [rival.perform(initialise) for _ in range(times)][-1] is Outcome.OK:
        sends = tuple(mop for mop in op.planned.mops if mop[0] == "send")
        rival.perform(replace(op.planned, mops=sends, intent="commit", think_s=0.0, cell=RIVAL))


def struck(op: Operation, who: str) -> None:
    """Have the fault of a cell injected now."""
    assert op.operator is not None
    kind, lasts_s, options = FAULTS[who]
    op.operator.strike(kind, lasts_s, **options)


def deleted(op: Operation, client: Client, topic: str) -> None:
    """Write to a topic in the transaction too, and have it deleted as soon as the record is there. Raises CallError."""
    assert op.operator is not None
    client.send(Outgoing(topic=topic, partition=0, value=b"doomed"), lambda result: None)
    client.flush(CALL_S)
    op.operator.delete_topic(topic)


def finished(op: Operation, timeout_s: float) -> None:
    """A commit by another process, once all records are acknowledged; of one that is not known to have succeeded nobody knows how
    it ended. Raises CallError."""
    assert op.operator is not None
    if any(mop[0] == "send" and mop[5:6] in ([], [None]) for mop in op.value):  # the commit of a client's own would say so
        raise CallError("flush", "UNDELIVERED", 0, "not every record was acknowledged", abortable=True)
    if op.operator.finish(commit=True) is not Outcome.OK:
        raise CallError("commit", "UNKNOWN", 0, "another process was to commit with the stored producer id and epoch")


class Interrupted:
    """A client of an operation in whose cell something happens at one of the calls: at the first of them, once."""

    def __init__(self, client: Client, op: Operation, doomed: str = "") -> None:
        self._client, self._doomed = client, doomed
        self._pending: dict[str, Callable[[], AbstractContextManager[None]]] = {}
        self._plan(op, client)

    def _plan(self, op: Operation, client: Client) -> None:
        who, moment, call = cell_of(op.planned.cell)
        if who in FAULTS and op.operator is not None:
            self._pending[call] = lambda: interruption(moment, partial(struck, op, who))
        elif self._doomed:
            self._pending["commit"] = lambda: interruption("before", partial(deleted, op, client, self._doomed))
        elif moment == FINISH and op.operator is not None:
            self.commit = partial(finished, op)
        elif moment in MOMENTS:
            self._pending[call] = lambda: interruption(moment, lambda: take_over(op))
        elif moment == NEIGHBOUR:
            self._pending["commit"] = lambda: interruption("before", lambda: take_over(op, OTHER_ID))
        elif moment == BURST:
            self._pending["commit"] = lambda: interruption("before", lambda: take_over(op, times=5))

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        return self._interrupted(name, call) if name in self._pending else call

    def _interrupted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any) -> Any:
            with self._pending.pop(name, nullcontext)():
                return call(*arguments)

        return made


@contextmanager
def interruption(moment: str, act: Callable[[], None]) -> Iterator[None]:
    """Does something before, during or after what is inside, also when that raises."""
    if moment == "before":
        act()
        yield
        return
    beside = threading.Thread(target=act)
    if moment == "during":
        beside.start()
    try:
        yield
    finally:
        if moment == "after":
            beside.start()
        beside.join()
