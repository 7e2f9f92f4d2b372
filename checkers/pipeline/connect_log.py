"""The log of Connect's leaders and a connector's tasks, by the coordinators' log and the configuration topic (KIP-618).

Orders of two entries in one log are certain. Between two logs there are only timestamps: those of the coordinators' entries and
of markers, which brokers give, never those of records, which a producer may give long before it sends them. `slack_ms` is by how
much two may be wrong: what is nearer is not judged.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.source_log import COMMITTED, MARKERS, PLAIN, document, entries_of, has_connector, unread_logs
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import SECOND
from fencepost.harness.api.values import from_digits

ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = 1, 2, 3, 4, 5  # `TransactionState`
LEADER = "connect-cluster-"  # the transactional id of a leader begins so
COORDINATORS = "__transaction_state-"
CONFIGURATION = re.compile(r"([^/]*-connect\d*)-configs-\d+$")  # a partition of it, with the group of the workers
MARGIN_MS = 500  # clocks of one machine agree; a coordinator stamps an entry a little before it appends it
FENCING_TIMEOUTS = (1, 90_000)  # with which `Admin.fenceProducers` initialises a producer, by release (ms)

NOT_READ = "no configuration topic of workers that fencepost started was read"
NOT_WHOLE = "the configuration topic was not read from its beginning to its end"
LOG_COMPACTED = "the coordinators' log has been compacted: not every transaction of the connector's producers is in it"
CLOCKS = "how wrong the brokers' clocks were is not known"


class Entry(NamedTuple):
    """An entry of a leader's log (`checkers.pipeline.source_log.Entries`)."""

    partition: str
    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    kind: str
    name: str
    number: int
    ended: int
    op: int
    end: int

    @property
    def place(self) -> str:
        return f"{self.partition}@{self.offset}"

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch


def entries_in(table: pd.DataFrame) -> list[Entry]:
    """The entries of a table, in its order."""
    return [Entry(*row) for row in zip(*(table[name].tolist() for name in Entry._fields), strict=True)]


@dataclass(eq=False)
class Transaction:
    """A transaction as its coordinator had it; None: never.

    began: its first partition was added.
    decided: its commit or abort was prepared.
    completed: it was complete.
    """

    began: Entry | None
    decided: Entry | None = None
    completed: Entry | None = None

    @property
    def committed(self) -> bool:
        return self.decided is not None and self.decided.number == PREPARE_COMMIT


@dataclass(eq=False)
class Session:
    """A producer from its initialisation to the next one with its transactional id.

    number: 0, 1, ... among those of its id.
    before: the session before it.
    after: the session that followed.
    stale: entries after its start that are of an earlier session.
    whole: every decision follows what it decides.
    ids: the producer ids that it had.
    """

    transactional_id: str
    number: int
    start: Entry
    before: Session | None = None
    after: Session | None = None
    transactions: list[Transaction] = field(default_factory=list)
    stale: list[Entry] = field(default_factory=list)
    whole: bool = True
    ids: set[int] = field(default_factory=set)

    @property
    def is_leader(self) -> bool:
        return self.transactional_id.startswith(LEADER)

    @property
    def wrote(self) -> bool:
        return any(transaction.began for transaction in self.transactions)

    def add(self, entry: Entry) -> None:
        """The next entry of the coordinator that is of this session."""
        last = self.transactions[-1] if self.transactions else None
        if entry.number == ONGOING:
            if last is None or last.decided:
                self.transactions.append(Transaction(entry))
        elif entry.number in (PREPARE_COMMIT, PREPARE_ABORT):
            if last is None or last.decided:
                self.whole &= entry.number == PREPARE_ABORT or bool(self.stale)  # KIP-890: an empty one may be aborted
                last = Transaction(None)
                self.transactions.append(last)
            last.decided = entry
        elif entry.number in (COMPLETE_COMMIT, COMPLETE_ABORT):
            self.whole &= bool((last and last.decided) or self.stale)
            if last is not None:
                last.completed = entry
        self.ids.add(entry.producer_id)

    def precedes(self, entry: Entry) -> bool:
        """True if an entry after this session's start is of an earlier one."""
        if entry.producer_id in self.ids:
            return entry.producer_id == self.start.producer_id and entry.producer_epoch < self.start.producer_epoch
        earlier = self.before
        while earlier is not None:
            if entry.producer_id in earlier.ids:
                return True
            earlier = earlier.before
        return False


def sessions_in(rows: Sequence[Entry]) -> list[Session]:
    """The sessions of one transactional id, from its coordinator's entries in order."""
    sessions: list[Session] = []
    for entry in rows:
        last = sessions[-1] if sessions else None
        if entry.kind == "initialised":
            sessions.append(Session(entry.name, len(sessions), entry, last, ids={entry.producer_id}))
            if last:
                last.after = sessions[-1]
        elif last is None:  # its beginning is missing
            sessions.append(Session(entry.name, 0, entry, whole=False, ids={entry.producer_id}))
        elif last.precedes(entry):
            last.stale.append(entry)
        else:
            last.add(entry)
    return sessions


@dataclass(frozen=True, eq=False)
class Generation:
    """A set of task configurations.

    connector: its name after the group of its workers and a slash.
    tasks: how many.
    since: up to then surely no reader of the topic could read it (ms).
    until: from then on surely every reader of the topic could (ms; None: not known).
    """

    connector: str
    tasks: int
    entry: Entry
    since: int
    until: int | None


@dataclass(frozen=True, eq=False)
class TaskCount:
    """A task-count record.

    tasks: how many producers the next round is to fence.
    since: before, nobody could read it (ms).
    """

    connector: str
    tasks: int
    entry: Entry
    since: int


class ConnectLog:
    """The log of leaders and tasks. Made once for all checks of a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self.run = run
        self.stored = entries_of(run).stored

    # ---- whether there is enough to judge --------------------------------------------------------
    @cached_property
    def lacking(self) -> str:
        """The reason why nothing can be compared; empty when something can."""
        if self.configuration.empty:
            return NOT_READ
        return "" if all(_from_beginning(rows) for _, rows in self.configuration.groupby("partition")) else NOT_WHOLE

    @cached_property
    def unknown(self) -> str:
        """The reason why no answer can be given: a log that could not be read."""
        return unread_logs(self.run)

    @cached_property
    def compacted(self) -> bool:
        """True if the coordinators' log has lost entries."""
        return any(not session.whole for session in self.sessions)

    # ---- the coordinators' log ---------------------------------------------------------------------
    @cached_property
    def _transitions(self) -> pd.DataFrame:
        """Its entries, in their order."""
        chosen = self.stored["partition"].str.contains(COORDINATORS, regex=False)
        chosen &= self.stored["kind"].isin(("initialised", "transaction"))
        return self.stored[chosen].sort_values(["partition", "offset"])

    @cached_property
    def _of_ids(self) -> list[list[Entry]]:
        """Entries of the coordinators by transactional id. An id is two where two Kafka clusters have it."""
        entries: dict[tuple[str, bool], list[Entry]] = defaultdict(list)
        for entry in entries_in(self._transitions):
            if isinstance(entry.name, str):
                entries[entry.name, entry.partition.startswith(f"{SECOND}/")].append(entry)
        return [entries[key] for key in sorted(entries)]

    @cached_property
    def sessions(self) -> list[Session]:
        """Every session of every transactional id, those of one id in their order."""
        return [session for rows in self._of_ids for session in sessions_in(rows)]

    @cached_property
    def leaders(self) -> list[Session]:
        return [session for session in self.sessions if session.is_leader]

    @cached_property
    def tasks(self) -> list[Session]:
        """Sessions of the connector's tasks, at the Kafka cluster of its records: who is fenced elsewhere is not fenced."""
        return [
            session for session in self.sessions if not session.is_leader and session.start.partition.startswith(COORDINATORS)
        ]

    @cached_property
    def groups(self) -> list[str]:
        """The groups of the workers, one for each Connect cluster, by their leaders' transactional ids."""
        return list(dict.fromkeys(leader.transactional_id.removeprefix(LEADER) for leader in self.leaders))

    def task_of(self, transactional_id: str) -> tuple[str, int]:
        """Connector and number of the task with a transactional id; number NONE: it is not named as KIP-618 says."""
        for group in self.groups:
            own, _, number = transactional_id.removeprefix(f"{group}-").rpartition("-")
            if transactional_id.startswith(f"{group}-") and own and number.isdecimal():
                return f"{group}/{own}", from_digits(number)
        return "", NONE

    @cached_property
    def timeouts(self) -> frozenset[int]:
        """The timeouts (ms) of the tasks' producers, without those that a fencing may have."""
        return frozenset(session.start.number for session in self.tasks if session.wrote) - set(FENCING_TIMEOUTS)

    @cached_property
    def bumping(self) -> bool:
        """True if every commit raises the producer's epoch: transaction protocol v2 (KIP-890)."""
        ended = [
            transaction
            for session in self.sessions
            for transaction in session.transactions
            if transaction.committed and transaction.began
        ]
        return all(
            transaction.decided and transaction.began and transaction.decided.producer_epoch > transaction.began.producer_epoch
            for transaction in ended
        )

    def may_continue(self, session: Session) -> bool:
        """True if a session may be of the same producer as the one before.

        After an abort a producer may raise its own epoch (KIP-360), which the second protocol of transactions leaves to the
        coordinator.
        """
        last = session.before.transactions[-1] if session.before and session.before.transactions else None
        return last is not None and not last.committed and not self.bumping

    @cached_property
    def _starts(self) -> Mapping[int, tuple[list[int], list[int]]]:
        """Producer id -> the epochs from which on its entries are of sessions, and these by their positions."""
        starts: dict[int, dict[int, int]] = defaultdict(dict)
        for at, session in enumerate(self.sessions):
            starts[session.start.producer_id][session.start.producer_epoch] = at
            for number in session.ids - {session.start.producer_id}:  # its epochs gave out in the middle
                starts[number].setdefault(0, at)
        return {number: (sorted(epochs), [epochs[epoch] for epoch in sorted(epochs)]) for number, epochs in starts.items()}

    def session_of(self, producer_id: int, epoch: int) -> Session | None:
        """The session in which a producer wrote with an epoch."""
        epochs, places = self._starts.get(producer_id, ([], []))
        at = bisect_right(epochs, epoch) - 1
        return self.sessions[places[at]] if at >= 0 else None

    def sessions_of(self, rows: pd.DataFrame) -> Ints:
        """The position among `sessions` of each entry's; NONE: of none."""
        positions = np.full(len(rows), NONE, dtype=np.int64)
        ids, epochs = rows["producer_id"].to_numpy(), rows["producer_epoch"].to_numpy()
        for number, (starts, places) in self._starts.items():
            mine = np.flatnonzero(ids == number)
            at = np.searchsorted(starts, epochs[mine], side="right") - 1
            positions[mine] = np.where(at >= 0, np.asarray(places)[np.maximum(at, 0)], NONE)
        return positions

    def of_entries(self, rows: pd.DataFrame) -> set[int]:
        """`id` of the sessions that wrote some entries."""
        return {id(self.sessions[at]) for at in self.sessions_of(rows) if at != NONE}

    # ---- the configuration topic ---------------------------------------------------------------------
    @cached_property
    def configuration(self) -> pd.DataFrame:
        """Its entries, by offset; those of each Connect cluster's topic one after the other."""
        return self.stored[[bool(CONFIGURATION.search(name)) for name in self.stored["partition"]]]

    @cached_property
    def _visible(self) -> dict[str, tuple[int, int | None]]:
        """Place of a committed transactional entry -> when it surely was not yet, and surely was, visible (ms).

        Not before its marker was appended; surely once its transaction is complete, as the coordinator waits until all replicas
        in sync have the marker. A leader's transactions are all in this topic, so their order tells which is which.
        """
        complete: dict[tuple[int, int], list[Entry]] = defaultdict(list)
        for completion in (txn.completed for session in self.leaders for txn in session.transactions):
            if completion:
                complete[completion.producer].append(completion)
        seen: dict[tuple[int, int], int] = defaultdict(int)
        pending: dict[int, list[Entry]] = defaultdict(list)
        visible: dict[str, tuple[int, int | None]] = {}
        for entry in entries_in(self.configuration):
            if entry.kind not in MARKERS:
                pending[entry.producer_id].append(entry)
                continue
            number, ends = seen[entry.producer], complete[entry.producer]
            until = ends[number].timestamp if number < len(ends) else None
            visible |= {pending_entry.place: (entry.timestamp, until) for pending_entry in pending.pop(entry.producer_id, ())}
            seen[entry.producer] += 1
        return visible

    def _effective(self, kind: str) -> Iterator[tuple[Entry, int, int | None]]:
        """Entries of a kind that readers of the topic get, with since when, and when surely."""
        table = self.configuration
        for entry in entries_in(table[(table["kind"] == kind) & table["ended"].isin((PLAIN, COMMITTED))]):
            since, until = self._visible.get(entry.place, (entry.timestamp, None)) if entry.ended else (entry.timestamp, None)
            yield entry, since, until

    @cached_property
    def generations(self) -> list[Generation]:
        return [
            Generation(_connector(entry), entry.number, entry, since, until)
            for entry, since, until in self._effective("generation")
        ]

    @cached_property
    def task_counts(self) -> list[TaskCount]:
        return [TaskCount(_connector(entry), entry.number, entry, since) for entry, since, _ in self._effective("task-count")]

    def fenced_after(self, generation: Generation) -> list[TaskCount]:
        """The task-count records of its connector after a generation."""
        return [
            count
            for count in self.task_counts
            if count.connector == generation.connector and count.entry.offset > generation.entry.offset
        ]

    # ---- times ------------------------------------------------------------------------------------------
    @cached_property
    def slack_ms(self) -> int | None:
        """The time (ms) by which timestamps of two logs may be wrong against each other; None: nobody knows.

        A marker lies between the decision of its transaction and its completion. How far markers are outside is how much two
        clocks have disagreed.
        """
        if self.run.clock_error_s is None:
            return None
        return MARGIN_MS + round(1000 * self.run.clock_error_s) + self._contradiction_ms

    @cached_property
    def _contradiction_ms(self) -> int:
        """The time (ms) between the marker that is farthest outside and the nearest transaction of its producer and epoch."""
        marks = self.stored[self.stored["kind"].isin(tuple(MARKERS))]
        columns = (marks[name].tolist() for name in ("producer_id", "producer_epoch", "timestamp"))
        spans = self._completions
        known = (marker for marker in zip(*columns, strict=True) if marker[:2] in spans)
        return max([0, *(_outside(at, *spans[number, epoch]) for number, epoch, at in known)])

    @cached_property
    def _completions(self) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
        """Transactions by producer and epoch: when they were decided, in order, and when each was complete (ms)."""
        by_producer: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for rows in self._of_ids:
            decisions = (entry for entry in rows if PREPARE_COMMIT <= entry.number <= COMPLETE_ABORT)
            for decision, following in pairwise(decisions):
                if decision.producer == following.producer and following.number == decision.number + 2:
                    by_producer[decision.producer].append((decision.timestamp, following.timestamp))
        ordered = {producer: sorted(spans) for producer, spans in by_producer.items()}
        return {
            producer: ([decided for decided, _ in spans], [completed for _, completed in spans])
            for producer, spans in ordered.items()
        }

    @cached_property
    def first_records(self) -> dict[tuple[str, int, int], Entry]:
        """The lowest position of a source among the committed records that a producer wrote in an epoch."""
        table = self.stored[(self.stored["kind"] == "record") & (self.stored["ended"] == COMMITTED)].sort_values("number")
        table = table.drop_duplicates(["name", "producer_id", "producer_epoch"])
        return {(entry.name, *entry.producer): entry for entry in entries_in(table)}

    @cached_property
    def _epoch_ns(self) -> int | None:
        """CLOCK_MONOTONIC less the wall clock, by what readers got soonest after it was written; None: nobody read anything."""
        read = entries_of(self.run).read
        known = read[(read["timestamp"] > 0) & ~read["final"]]
        return int((known["end"] - known["timestamp"] * 1_000_000).min()) if len(known) else None

    def wall_ms(self, moment_ns: int) -> float | None:
        """The time of a CLOCK_MONOTONIC moment by the brokers' clocks, about (ms); None: nobody knows."""
        return None if self._epoch_ns is None else (moment_ns - self._epoch_ns) / 1e6

    def moment(self, entry: Entry) -> int:
        """The time at which an entry was written, about (CLOCK_MONOTONIC ns); when it was read, where nobody knows."""
        return entry.end if self._epoch_ns is None else max(0, entry.timestamp * 1_000_000 + self._epoch_ns)

    # ---- requests ----------------------------------------------------------------------------------------
    @cached_property
    def requests(self) -> list[dict[str, Any]]:
        """Requests to Connect in order: `method`, `path`, `body`, `status`, `answer`, and `op`, `end`, the operation's."""
        columns = ("index", "f", "end", "detail")
        rows = self.run.history.of_kind(columns, "rest").sort_by("index").to_pylist()
        return [{**document(row["detail"]), "op": row["index"], "end": row["end"] or 0} for row in rows]


def _outside(at: int, decided: Sequence[int], completed: Sequence[int]) -> int:
    """The time (ms) from a moment to the nearest transaction, before its decision or after its completion."""
    last, following = bisect_right(decided, at) - 1, bisect_left(decided, at)
    after = [at - completed[last]] if last >= 0 else []
    ahead = [decided[following] - at] if following < len(decided) else []
    return min(after + ahead)


def _from_beginning(rows: pd.DataFrame) -> bool:
    """True if a partition was read from its first entry on, without a hole."""
    offsets = rows["offset"].to_numpy()
    return bool(len(offsets) and offsets[0] == 0 and (np.diff(offsets) == 1).all())


def _connector(entry: Entry) -> str:
    """The connector that a record of a configuration topic is about, with the group of the topic's workers."""
    return f"{group_of_workers(entry.partition)}/{entry.name}"


def group_of_workers(partition: str) -> str:
    """The group of the workers whose configuration topic has this partition."""
    match = CONFIGURATION.search(partition)
    return match[1] if match else ""


Cause = Sequence[tuple[Entry, str]]  # entries and their roles


def finding_rows(log: ConnectLog, causes: Iterable[Cause]) -> dict[str, Any]:
    """Rows of a check's result: a finding for each cause."""
    rows = [
        {"partition": entry.partition, "cause": -2 - number, "op": entry.op, "v": NONE, "offset": entry.offset}
        | {"time": log.moment(entry), "role": role}
        for number, cause in enumerate(causes)
        for entry, role in dict.fromkeys(cause)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}


def connect_log(run: RunView) -> ConnectLog | None:
    """The log of leaders and tasks; None: no connector was run."""
    return run.shared(ConnectLog) if has_connector(run) else None
