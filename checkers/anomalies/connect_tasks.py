"""Tasks and leaders of Kafka Connect that write although they must not (KIP-618): by the leaders' logs, and the coordinators'.

In the examples time is in ms, and every line is what the leader of the workers (`leader 1`, later `leader 2`) or an instance of a
task (`task 0`) did in a transaction of its own, or the `fence` of a task's producer. `generation 2` are configurations of two
tasks, `task-count 2` is the record that lets them start. Who `initialises` is another producer with the same transactional id.
`at 3` is the offset of its record. The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import STRUCK
from fencepost.checkers.contract.common_rules import UNFENCED_SOURCES, UNLESS_CONNECTOR, cut_off
from fencepost.checkers.contract.needs import SETTLING, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.connect_log import (
    CLOCKS,
    COMPLETE_COMMIT,
    LEADER,
    LOG_COMPACTED,
    NOT_READ,
    NOT_WHOLE,
    PREPARE_COMMIT,
    Cause,
    ConnectLog,
    Entry,
    Generation,
    Session,
    TaskCount,
    connect_log,
    entries_in,
    finding_rows,
    group_of_workers,
)
from fencepost.checkers.pipeline.source_log import COMMITTED, PLAIN, SourceLog, producer_text
from fencepost.checkers.selfcheck.connect_damages import DROP_COUNTS, HAUNT, WRITE_OUTSIDE
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import CONNECTOR

NO_PRODUCER = "no task had a transactional producer"
PRIVILEGED = (
    "connector",
    "generation",
    "restart",
    "task",
    "task-count",
)  # what leaders alone write; states and log levels all do
SESSION_KEY = "session-key"


def _judged(run: RunView) -> tuple[ConnectLog | None, CheckResult]:
    """The log of what tasks and leaders did; None where it cannot be judged, and the answer then."""
    log = connect_log(run)
    if log is None:
        return None, CheckResult(0)
    if log.unknown or log.lacking:
        return None, CheckResult(0, lacking=log.lacking, unknown=log.unknown)
    return log, CheckResult(0)


def _of_tasks(run: RunView) -> tuple[ConnectLog | None, CheckResult]:
    """The same for what needs every transaction of the tasks' producers."""
    log, answer = _judged(run)
    if log is None:
        return log, answer
    lacking = LOG_COMPACTED if log.compacted else "" if log.tasks else NO_PRODUCER
    return (None, CheckResult(0, lacking=lacking)) if lacking else (log, answer)


# --------------------------------------------------------------------------------------------------
# Zombies
# --------------------------------------------------------------------------------------------------
def _explain_zombie(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(ConnectLog)
    session = next(zombie for zombie, cause in log.run.shared(_zombies)[1] if _same(cause, finding))
    fence, wrote = finding.records("read")[0], finding.records("sent")
    producer, epoch = session.start.producer
    who = f"The producer {producer_text(producer)} of {session.transactional_id} that was initialised in epoch {epoch}"
    who = f"{who} ({session.start.place})"
    how = "all older tasks had to be fenced before" if "configs" in fence.partition else "a later one with its id is at"
    return f"{who} has committed {text.places(wrote)}, though {how} {fence.place}."


def _same(cause: Cause, finding: Finding) -> bool:
    return {(entry.partition, entry.offset) for entry, _ in cause} == {(row.partition, row.offset) for row in finding.rows}


def _zombies(run: RunView) -> tuple[int, list[tuple[Session, Cause]]]:
    """The number of superseded sessions of tasks, and of those that went on: what they committed, and what had fenced them."""
    log = run.shared(ConnectLog)
    superseded = [*_decided_late(log), *_written_late(log), *_never_fenced(log)]
    first: dict[Session, Cause] = {}
    for session, cause in superseded:
        first.setdefault(session, cause)
    return sum(task.wrote and task.after is not None for task in log.tasks), list(first.items())


def _decided_late(log: ConnectLog) -> Iterator[tuple[Session, Cause]]:
    """Transactions of an earlier session that a coordinator commits after the start of the next one."""
    for session in log.tasks:
        late = [entry for entry in session.stale if entry.number in (PREPARE_COMMIT, COMPLETE_COMMIT)]
        for producer in dict.fromkeys(entry.producer for entry in late):
            zombie = log.session_of(*producer) or session
            yield zombie, [(session.start, "read"), *((entry, "sent") for entry in late if entry.producer == producer)]


def _written_late(log: ConnectLog) -> Iterator[tuple[Session, Cause]]:
    """Committed records that lie in their partition after what a later session of their task has there."""
    tasks = {owner.transactional_id: number for number, owner in enumerate(log.sessions) if not owner.is_leader}
    if len(tasks) == sum(not owner.is_leader for owner in log.sessions):
        return  # no task has a later session
    of_session = np.array([tasks.get(owner.transactional_id, NONE) for owner in log.sessions], dtype=np.int64)
    table = log.stored[log.stored["kind"].isin(("record", "offset", "COMMIT", "ABORT")) & (log.stored["producer_id"] >= 0)]
    table = table.assign(session=log.sessions_of(table))
    table = table[np.append(of_session, NONE)[table["session"]] != NONE]
    session = table["session"].to_numpy()
    newest = _highest_so_far(session, pd.factorize(table["partition"])[0], of_session[session])
    table = table.assign(newest=newest)
    late = table[(session < newest) & (table["ended"] == COMMITTED) & table["kind"].isin(("record", "offset"))]
    for (partition, at), rows in late.groupby(["partition", "session"]):
        newer = table[(table["partition"] == partition) & (table["session"] == rows["newest"].iloc[0])].iloc[:1]
        yield (
            log.sessions[at],
            [*((entry, "read") for entry in entries_in(newer)), *((entry, "sent") for entry in entries_in(rows))],
        )


def _highest_so_far(values: Ints, partition: Ints, task: Ints) -> Ints:
    """The highest of some values (0 or more) up to each one, of those with the same partition and the same task."""
    order = np.lexsort((task, partition))
    places = np.stack([partition, task])[:, order]
    first = np.r_[True, (places[:, 1:] != places[:, :-1]).any(axis=0)][: len(order)]
    above = np.cumsum(first) * (values.max(initial=0) + 1)  # a group's values are above those of the groups before it
    highest = np.empty(len(order), dtype=np.int64)
    highest[order] = np.maximum.accumulate(values[order] + above) - above
    return highest


def _never_fenced(log: ConnectLog) -> Iterator[tuple[Session, Cause]]:
    """Transactions that surely began after a task-count record, of a producer that is surely older than the configurations before
    it, and that no other has followed meanwhile. One task before and after needs no fencing."""
    slack = log.slack_ms
    if slack is None:
        return
    for before, count in log_rounds(log):
        connector = count.connector
        if before is None or fencing_skipped(log, before, count):
            continue
        generation = next(step for step in reversed(log.generations) if step.connector == connector and _is_before(step, count))
        for session in log.tasks:
            if log.task_of(session.transactional_id)[0] != connector or session.start.timestamp + slack >= generation.since:
                continue
            late = [
                transaction.began
                for transaction in session.transactions
                if transaction.began and transaction.committed and transaction.began.timestamp > count.since + slack
            ]
            if late:
                yield session, [(count.entry, "read"), *((entry, "sent") for entry in late)]


def _is_before(generation: Generation, count: TaskCount) -> bool:
    return generation.entry.offset < count.entry.offset


def log_rounds(log: ConnectLog) -> list[tuple[TaskCount | None, TaskCount]]:
    """The task-count records that follow configurations of their connector, each with the record before it."""
    rounds: list[tuple[TaskCount | None, TaskCount]] = []
    for connector in dict.fromkeys(record.connector for record in log.task_counts):
        mine = [record for record in log.task_counts if record.connector == connector]
        for before, count in pairwise([None, *mine]):
            assert count is not None
            if pending(log, before, count):
                rounds.append((before, count))
    return rounds


def pending(log: ConnectLog, before: TaskCount | None, count: TaskCount) -> list[Generation]:
    """The configurations between two task-count records of a connector."""
    start = before.entry.offset if before else NONE
    return [
        generation
        for generation in log.generations
        if generation.connector == count.connector and start < generation.entry.offset < count.entry.offset
    ]


def fencing_skipped(log: ConnectLog, before: TaskCount, count: TaskCount) -> bool:
    """True if no fencing is needed: one task before and after, which fences the older one itself."""
    return before.tasks == 1 and pending(log, before, count)[-1].tasks == 1


@run_check(
    "zombie-task",
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("the coordinator may forget who had fenced whom"),
        *UNFENCED_SOURCES,
        Rule(FORBIDDEN, "older tasks are fenced before newer ones start, and commit nothing afterwards (KIP-618)"),
    ),
    evidence=Needs({SETTLING}, "not all that the leaders have is known"),
    damages=(HAUNT,),
    across=True,
    explain=_explain_zombie,
    needs=f"{NOT_READ}, or no producer of a task was followed by another",
)
def zombie_task(run: RunView) -> CheckResult:
    """A task that commits something although it was fenced, by another producer with its transactional id or by a generation.

    By one log:

    1. its coordinator decides on a commit of the older producer after the newer one was initialised;
    2. a committed record or offset of the older producer lies in a partition after what the newer one, or its fencing, left
       there.

    Across logs, where timestamps differ by more than clocks may be wrong:

    3. a transaction begins after a task-count record, of a producer that was initialised before the configurations to which that
       record belongs, and that nobody has fenced.

    compared: producers of tasks that wrote, and that another one with their transactional id followed. One cause: the older
    producer.

    Example::

        ms     who       does
        0      leader 1  initialises
        1000   leader 1  generation 2
        2000   leader 1  task-count 2
        3000   task 0    initialises
        4000   task 0    writes at 0
        5000   task 0    initialises again
        6000   task 0    writes at 2
        7000   task 0    writes as before at 4

    Found: read t-0@2 and sent t-0@4. The second instance was the newer one.

    Slow twin: `zombie_tasks` in tests/support/connect_reference.py.
    """
    log, answer = _of_tasks(run)
    if log is None:
        return answer
    compared, zombies = run.shared(_zombies)
    return CheckResult(max(compared, len(zombies)), finding_rows(log, (cause for _, cause in zombies)))


# --------------------------------------------------------------------------------------------------
# Starts
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Start:
    """A producer of a task that was surely made when these configurations were there to be read.

    count: the first task-count record after them that was, or may have been, there too; None: there was surely none.
    """

    session: Session
    generation: Generation
    count: TaskCount | None


def starts(run: RunView) -> list[Start]:
    """The starts of tasks that can be judged: those that cannot be the continuation of a producer that was there before.

    A worker that alters offsets takes the id of task 0, and starts no task (KIP-875).
    """
    log = run.shared(ConnectLog)
    altering = log.of_entries(run.shared(SourceLog).alterations)
    slack = log.slack_ms
    if slack is None:
        return []
    started = []
    for session in (task for task in log.tasks if id(task) not in altering):
        now, connector = session.start.timestamp, log.task_of(session.transactional_id)[0]
        known = [generation for generation in log.generations if generation.connector == connector and generation.tasks > 0]
        known = [generation for generation in known if generation.until is not None and generation.until + slack < now]
        if known and not log.may_continue(session):
            counts = [count for count in log.fenced_after(known[-1]) if count.since <= now + slack]
            started.append(Start(session, known[-1], counts[0] if counts else None))
    return started


def _explain_unfenced(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(ConnectLog)
    generation, start = finding.records("read")[0], finding.records("sent")[0]
    session = next(task for task in log.tasks if (task.start.partition, task.start.offset) == (start.partition, start.offset))
    later = next((record.entry.place for record in log.task_counts if record.entry.offset > generation.offset), "")
    count = f"the first one is {later}, written later" if later else "there is none"
    return (
        f"The producer of {session.transactional_id} was initialised at {start.place} and wrote, when the configurations "
        f"{generation.place} had been committed; a task-count record has to come between, and {count}."
    )


@run_check(
    "unfenced-start",
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("the configuration topic may lose a task-count record that workers had read"),
        *UNFENCED_SOURCES,
        Rule(FORBIDDEN, "a task starts only when a task-count record lies after its configurations (KIP-618)"),
    ),
    evidence=Needs(
        {SETTLING},
        "not all that the leaders have is known",
        {SETTLING},
        "a line that is missing may hold the task-count record, or the fencing",
    ),
    damages=(DROP_COUNTS,),
    across=True,
    explain=_explain_unfenced,
    needs=f"{NOT_READ}, or no task surely started after its configuration",
)
def unfenced_start(run: RunView) -> CheckResult:
    """A task that starts and writes when new configurations are there, and no task-count record after them.

    When its producer is initialised, a worker reads the configuration topic to its end, and gives up where newer configurations
    are: so a task that writes has those that were there before.

    1. Configurations are there if their transaction was complete before the producer was initialised, by more than clocks may be
       wrong. Configurations without tasks (of a connector that is stopped) start none.
    2. A task-count record counts if it may have been there.

    Not judged: a producer that may be an older one with a new epoch (KIP-360).

    compared: producers of tasks that wrote, and were made when configurations were surely there. One cause: the producer.

    Example::

        ms     who       does
        0      leader 1  initialises
        1000   leader 1  generation 2
        2000   leader 1  task-count 2
        3000   task 0    initialises
        4000   task 0    writes at 0
        5000   leader 1  generation 3
        7000   task 2    initialises
        8000   task 2    writes at 2

    Found: read configs-0@4 and sent task-2@0. Nobody had fenced task 0.

    Slow twin: `unfenced_starts` in tests/support/connect_reference.py.
    """
    log, answer = _of_tasks(run)
    if log is None:
        return answer
    if log.slack_ms is None:
        return CheckResult(0, lacking=CLOCKS)
    judged = [start for start in run.shared(starts) if start.session.wrote]
    causes = [[(start.generation.entry, "read"), (start.session.start, "sent")] for start in judged if start.count is None]
    return CheckResult(len(judged), finding_rows(log, causes))


# --------------------------------------------------------------------------------------------------
# The configuration topic
# --------------------------------------------------------------------------------------------------
def _explain_writer(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(ConnectLog)
    rows, newer = finding.records("sent"), finding.records("read")
    table = log.configuration
    first = table[(table["partition"] == rows[0].partition) & (table["offset"] == rows[0].offset)].iloc[0]
    what = f"{text.places(rows)} ({first['kind']} {first['name']})"
    if not first["transactional"]:
        return f"{what} was written outside transactions: not by the producer of a leader."
    who = f"{what} was committed by producer {producer_text(first['producer_id'])} in epoch {first['producer_epoch']}"
    return f"{who}, after {newer[0].place} of a later leader." if newer else f"{who}, which is no leader's."


@run_check(
    "config-topic-writer",
    occasions=STRUCK,
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("the coordinator may forget which leader was the last"),
        Rule(
            ALLOWED,
            "a leader with exactly.once.source.support=disabled writes outside transactions, and none is fenced (KIP-618)",
            {"connect": "disabled"},
        ),
        Rule(FORBIDDEN, "the leader alone writes to the configuration topic, in transactions that fence older ones (KIP-618)"),
    ),
    evidence=Needs({SETTLING}, "not all that the leaders have is known"),
    damages=(WRITE_OUTSIDE,),
    across=True,
    explain=_explain_writer,
    needs=f"{NOT_READ}, or {NOT_WHOLE}",
)
def config_topic_writer(run: RunView) -> CheckResult:
    """A committed entry of the configuration topic that only the leader may write, and that another has written.

    Another writes

    1. outside transactions;
    2. as a leader that was superseded: in the order of this log, a later leader's producer has a record or a marker before;
    3. as no leader: no producer with the leaders' transactional id had the entry's producer id.

    Only the leader writes configurations, task-count records, restarts and session keys. States (pause, resume, stop) and levels
    of loggers are written by any worker, outside transactions.

    compared: committed entries of the leader's kinds. One cause: a producer.

    Example::

        ms     who       does
        0      leader 1  initialises
        1000   leader 1  generation 1
        2000   leader 2  initialises
        3000   leader 2  generation 2
        4000   leader 1  task-count 1

    Found: read configs-0@2 and sent configs-0@4.

    Slow twin: `config_topic_writers` in tests/support/connect_reference.py.
    """
    log, answer = _judged(run)
    if log is None:
        return answer
    table = log.configuration
    own = table["kind"].isin(PRIVILEGED) | ((table["kind"] == "other") & (table["name"] == SESSION_KEY))
    own &= table["ended"].isin((PLAIN, COMMITTED))
    causes = [cause for _, rows in table.groupby("partition") for cause in _writers(log, rows, own[rows.index])]
    return CheckResult(int(own.sum()), finding_rows(log, causes))


def _writers(log: ConnectLog, table: pd.DataFrame, own: pd.Series) -> Iterator[Cause]:
    """The entries of a configuration topic that no leader of its workers, or a dethroned one, has written: by producer."""
    group = group_of_workers(str(table["partition"].iloc[0]))
    leaders = [leader for leader in log.leaders if leader.transactional_id == f"{LEADER}{group}"]
    place = {id(session): number for number, session in enumerate(leaders)}
    newest: tuple[int, Entry] | None = None
    causes: dict[tuple[str, int, int], list[tuple[Entry, str]]] = {}
    inside, mine = table["transactional"].to_numpy(), own.to_numpy()
    for at, entry in enumerate(entries_in(table)):
        session = log.session_of(*entry.producer) if inside[at] else None
        number = place.get(id(session), NONE)
        if newest is None or number > newest[0]:
            newest = (number, entry) if number != NONE else newest
        if not mine[at]:
            continue
        if not inside[at]:
            causes.setdefault(("outside", *entry.producer), []).append((entry, "sent"))
        elif number == NONE and leaders and not log.compacted:
            causes.setdefault(("strange", *entry.producer), []).append((entry, "sent"))
        elif newest is not None and NONE != number < newest[0]:
            causes.setdefault(("dethroned", *entry.producer), [(newest[1], "read")]).append((entry, "sent"))
    yield from causes.values()
