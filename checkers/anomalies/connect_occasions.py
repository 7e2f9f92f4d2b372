"""Occasions of KIP-618's promises about tasks, met and violated: starts, fencing, transactional ids, answers by REST."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.checkers.anomalies.connect_tasks import config_topic_writer, fencing_skipped, log_rounds, pending, starts
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.connect_log import ConnectLog, Entry, entries_in
from fencepost.checkers.pipeline.source_log import COMMITTED, SourceLog
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.values import from_digits

NUMBERED = "fencepost.NumberedSource"
REFUSED = (404, 409, 500)
# Of a worker that could not forward a request; of a leader that writes nothing any more (docs/discoveries.md).
BROKEN = re.compile("IO Error|without claiming write privileges|fencable send")
EMPTY = re.compile("from state READY to state ABORTING_TRANSACTION")  # of a producer that has no transaction
FENCING = re.compile("zombie fencing|fenceZombie")


@dataclass
class Occasions:
    """Occasions of a promise: how often it was met, and what violated it.

    met: how often.
    entries: of each violation that logs show, the entries that show it, with their roles.
    requests: answers that show a violation.
    elsewhere: violations that are no findings here, as another check finds them, or they harm no record.
    measured: what the table says besides, in words.
    """

    met: int = 0
    entries: list[list[tuple[Entry, str]]] = field(default_factory=list)
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    elsewhere: int = 0
    measured: str = ""

    @property
    def violated(self) -> int:
        return len(self.entries) + len(self.requests) + self.elsewhere


# --------------------------------------------------------------------------------------------------
# Starts and fencing
# --------------------------------------------------------------------------------------------------
def started(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that wrote; without a task-count record before, they are `unfenced-start`."""
    judged = [start for start in run.shared(starts) if start.session.wrote and not log.compacted]
    return Occasions(sum(start.count is not None for start in judged), elsewhere=sum(start.count is None for start in judged))


def given_up(run: RunView, log: ConnectLog) -> Occasions:
    """Producers of tasks that were made when newer configurations were there, and no task-count record yet."""
    late = [start for start in run.shared(starts) if start.count is None and start.session.start.number in log.timeouts]
    late = [] if log.compacted else late
    return Occasions(sum(not start.session.wrote for start in late), elsewhere=sum(start.session.wrote for start in late))


def fenced(run: RunView, log: ConnectLog) -> Occasions:
    """Before a task-count record, the producers of all tasks that the record before counts are initialised anew."""
    answer = Occasions()
    slack = log.slack_ms
    if slack is None or log.compacted:
        return answer
    took = []
    for before, count in log_rounds(log):
        if before is None or before.tasks <= 0 or fencing_skipped(log, before, count):
            continue
        span = pending(log, before, count)[0].since - slack, count.since + slack
        took.append(count.since - pending(log, before, count)[-1].since)
        missing = [number for number in range(before.tasks) if not _initialised(log, count.connector, number, span)]
        answer.met += not missing
        answer.entries += [[(before.entry, "read"), (count.entry, "sent")]] if missing else []
    answer.measured = f"here {max(took) / 1000:.1f} s after configurations at most" if took else ""
    return answer


def _initialised(log: ConnectLog, connector: str, number: int, span: tuple[int, int]) -> bool:
    """True if a producer of a task was initialised within a time (ms)."""
    return any(
        log.task_of(session.transactional_id) == (connector, number) and span[0] <= session.start.timestamp <= span[1]
        for session in log.tasks
    )


def single(run: RunView, log: ConnectLog) -> Occasions:
    """Between configurations of one task after another and their task-count record no producer is initialised by a fencing.

    Judged while the connector has never had more tasks: a fencing that was begun before may end late.
    """
    answer = Occasions()
    slack = log.slack_ms
    others = run.fencings is None or run.fencings or run.shared(SourceLog).altered
    if slack is None or log.compacted or not log.timeouts or others:
        return answer  # the fencing of an operator, or before offsets are altered, looks like a leader's
    for before, count in log_rounds(log):
        span = pending(log, before, count)[0].since - slack, count.since + slack
        known = [
            generation
            for generation in log.generations
            if generation.connector == count.connector and generation.since <= span[1]
        ]
        if before is None or not fencing_skipped(log, before, count) or max(generation.tasks for generation in known) > 1:
            continue
        fences = [
            session for session in log.tasks if log.task_of(session.transactional_id)[0] == count.connector and not session.wrote
        ]
        fences = [
            session
            for session in fences
            if span[0] < session.start.timestamp < span[1] and session.start.number not in log.timeouts
        ]
        answer.met += not fences
        answer.entries += [[(count.entry, "read"), *((session.start, "sent") for session in fences)]] if fences else []
    return answer


def dethroned(run: RunView, log: ConnectLog) -> Occasions:
    """Leaders that another has followed; what they write after it is `config-topic-writer`."""
    wrong = run.shared(config_topic_writer.function)
    late = len(set(wrong.rows["cause"][wrong.rows["role"] == "read"])) if wrong.count else 0
    return Occasions(max(0, sum(leader.after is not None for leader in log.leaders) - late), elsewhere=late)


# --------------------------------------------------------------------------------------------------
# Transactional ids
# --------------------------------------------------------------------------------------------------
def named(run: RunView, log: ConnectLog) -> Occasions:
    """Records are written by producers whose transactional id is group, connector and task."""
    if not log.groups or log.compacted:
        return Occasions()
    table = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"] == COMMITTED)]
    table = table.drop_duplicates(["producer_id", "producer_epoch"])
    sessions = log.sessions_of(table)
    fits = np.array([at != NONE and log.task_of(log.sessions[at].transactional_id)[1] != NONE for at in sessions], dtype=np.bool_)
    wrong = table[~fits].drop_duplicates("producer_id")
    good = {log.sessions[at].transactional_id for at in sessions[fits]}
    return Occasions(len(good), [[(entry, "sent")] for entry in entries_in(wrong)])


def apart(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that wrote, each in the topics of its own cluster alone, where there are several Connect clusters."""
    if len(log.groups) < 2 or log.compacted:
        return Occasions()
    table = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"] == COMMITTED)]
    table = table.assign(session=log.sessions_of(table), topic=table["partition"].str.rpartition("-")[0])
    table = table[table["session"] != NONE].drop_duplicates(["topic", "session"])
    names = [log.sessions[at].transactional_id for at in table["session"]]
    table = table.assign(task=names, group=[log.task_of(name)[0].partition("/")[0] for name in names])
    owners = table.groupby("topic")["group"].agg(lambda groups: groups.value_counts().idxmax())
    strange = table[table["group"] != table["topic"].map(owners)].drop_duplicates("task")
    return Occasions(table["task"].nunique() - len(strange), [[(entry, "sent")] for entry in entries_in(strange)])


# --------------------------------------------------------------------------------------------------
# Answers of the REST interface
# --------------------------------------------------------------------------------------------------
def failed_tasks(log: ConnectLog) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """Tasks that an answer says have failed: the request, the task, and the reason; each state once."""
    seen = set()
    for request in log.requests:
        answer = request.get("answer")
        for task in answer.get("tasks") or () if isinstance(answer, dict) else ():
            if isinstance(task, dict) and task.get("state") == "FAILED":
                state = str(task.get("id")), str(task.get("worker_id")), str(task.get("trace") or "")
                if state not in seen:
                    seen.add(state)
                    yield request, state[0], state[2]


def clear(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that have failed, each with a reason: those whose fencing was given up, and those without any reason."""
    failed = list(failed_tasks(log))
    return Occasions(
        sum(bool(FENCING.search(trace)) for *_, trace in failed), requests=[request for request, _, trace in failed if not trace]
    )


def empty_aborted(run: RunView, log: ConnectLog) -> Occasions:
    """Producers of tasks that have asked to abort a transaction without a record, and gone on; tasks that have failed for it."""
    most = max((_before_empty(configured(request)) for request in log.requests), default=0)
    if not most or log.compacted:
        return Occasions()
    table = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"] == COMMITTED)]
    sessions = log.sessions_of(table)
    written = np.bincount(sessions[sessions != NONE])
    return Occasions(
        int((written > most).sum()), requests=[request for request, _, trace in failed_tasks(log) if EMPTY.search(trace)]
    )


def _before_empty(config: Mapping[str, str]) -> int:
    """The most records that a session of the numbered source writes before it asks for such an abort; 0: it never does."""
    every, size = config.get("abort.empty.every", "0"), config.get("transaction.records", "10")
    aborts = config.get("connector.class") == NUMBERED and every.isdecimal() and size.isdecimal() and from_digits(every) > 0
    return (from_digits(every) + 2) * from_digits(size) if aborts else 0


def restart_refused(run: RunView, log: ConnectLog) -> Occasions:
    answers = [request["answer"] for request in log.requests if _of_task(request) and isinstance(request.get("answer"), dict)]
    # A worker that is not yet there has no such code.
    refused = [answer for answer in answers if answer.get("error_code") in REFUSED]
    return Occasions(sum(not BROKEN.search(str(answer.get("message"))) for answer in refused))


def _of_task(request: Mapping[str, Any]) -> bool:
    path = str(request.get("path", ""))
    return request.get("method") == "POST" and ((path.endswith("/restart") and "/tasks/" in path) or "includeTasks=true" in path)


def preflight(key: str, value: str, claim: str) -> Callable[[RunView, ConnectLog], Occasions]:
    """Configurations that a connector says it cannot keep: refused with 400.

    claim: the numbered source's key for what it says.
    """

    def occasions(run: RunView, log: ConnectLog) -> Occasions:
        answer = Occasions()
        for request in log.requests:
            config = configured(request)
            if config.get(key, "").lower() != value or config.get("connector.class") != NUMBERED:
                continue
            if config.get(claim, "supported") != "supported":
                answer.met += request.get("status") == 400
                answer.requests += [request] if request.get("status") in (200, 201) else []
        return answer

    return occasions


def configured(request: Mapping[str, Any]) -> Mapping[str, str]:
    """The configuration of a connector that a request creates or changes; empty: it does not."""
    body, path = request.get("body"), str(request.get("path", ""))
    if not isinstance(body, dict) or request.get("method") not in ("PUT", "POST"):
        return {}
    config = body if path.endswith("/config") else body.get("config")
    return {str(key): str(setting) for key, setting in config.items()} if isinstance(config, dict) else {}
