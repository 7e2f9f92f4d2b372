"""KIP-618's promises, a row each: how often a run has met and violated them.

The docstring of the check is the definition of the anomaly. What is forbidden under which settings: `checkers.verdict.rules`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from checkers.anomalies.connect_tasks import config_topic_writer, fencing_skipped, log_rounds, pending, starts
from checkers.anomalies.sources import source_offset_torn
from checkers.api import CheckResult, join_rows, run_check
from checkers.partition.log import NONE
from checkers.pipeline.connect_log import ConnectLog, Entry, connect_log, entries_in, finding_rows
from checkers.pipeline.source_log import ABORTED, COMMITTED, PLAIN, SourceLog, in_second, of_workers
from checkers.run_view import RunView
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText

NUMBERED = "fencepost.NumberedSource"
REFUSED = (404, 409, 500)
UNREACHED = "IO Error"  # of a worker that could not forward a request
FENCING, DENIED = re.compile("zombie fencing|fenceZombie"), "AuthorizationException"
NO_OCCASION = "no promise of KIP-618 had an occasion"


@dataclass
class Occasions:
    """How a promise was kept. entries, requests: what shows each violation. elsewhere: violations that are no findings here, as
    another check finds them, or they harm no record."""

    met: int = 0
    entries: list[list[tuple[Entry, str]]] = field(default_factory=list)
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    elsewhere: int = 0

    @property
    def violated(self) -> int:
        return len(self.entries) + len(self.requests) + self.elsewhere


@dataclass(frozen=True)
class Promise:
    """One row. calls: where it is seen. source: the section of KIP-618, or another KIP."""

    situation: str
    calls: str
    demanded: str
    source: str
    occasions: Callable[[RunView, ConnectLog], Occasions]

    @property
    def place(self) -> str:
        return self.source if self.source.startswith("KIP-") else f"KIP-618: {self.source}"


# --------------------------------------------------------------------------------------------------
# Starts and fencing
# --------------------------------------------------------------------------------------------------
def _started(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that wrote; without a task-count record before, they are `unfenced-start`."""
    judged = [one for one in run.shared(starts) if one.session.wrote and not log.compacted]
    return Occasions(sum(one.count is not None for one in judged), elsewhere=sum(one.count is None for one in judged))


def _given_up(run: RunView, log: ConnectLog) -> Occasions:
    """Producers of tasks that were made when newer configurations were there, and no task-count record yet."""
    late = [one for one in run.shared(starts) if one.count is None and one.session.start.number in log.timeouts]
    late = [] if log.compacted else late
    return Occasions(sum(not one.session.wrote for one in late), elsewhere=sum(one.session.wrote for one in late))


def _fenced(run: RunView, log: ConnectLog) -> Occasions:
    """Before a task-count record, the producers of all tasks that the record before counts are initialised anew."""
    answer = Occasions()
    slack = log.slack_ms
    if slack is None or log.compacted:
        return answer
    for before, count in log_rounds(log):
        if before is None or before.tasks <= 0 or fencing_skipped(log, before, count):
            continue
        span = pending(log, before, count)[0].since - slack, count.since + slack
        missing = [number for number in range(before.tasks) if not _initialised(log, count.connector, number, span)]
        answer.met += not missing
        answer.entries += [[(before.entry, "read"), (count.entry, "sent")]] if missing else []
    return answer


def _initialised(log: ConnectLog, connector: str, number: int, span: tuple[int, int]) -> bool:
    """Whether a producer of a task was initialised within a time (ms)."""
    return any(
        log.task_of(one.transactional_id) == (connector, number) and span[0] <= one.start.timestamp <= span[1]
        for one in log.tasks
    )


def _single(run: RunView, log: ConnectLog) -> Occasions:
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
        known = [one for one in log.generations if one.connector == count.connector and one.since <= span[1]]
        if before is None or not fencing_skipped(log, before, count) or max(one.tasks for one in known) > 1:
            continue
        fences = [one for one in log.tasks if log.task_of(one.transactional_id)[0] == count.connector and not one.wrote]
        fences = [one for one in fences if span[0] < one.start.timestamp < span[1] and one.start.number not in log.timeouts]
        answer.met += not fences
        answer.entries += [[(count.entry, "read"), *((one.start, "sent") for one in fences)]] if fences else []
    return answer


def _dethroned(run: RunView, log: ConnectLog) -> Occasions:
    """Leaders that another has followed; what they write after it is `config-topic-writer`."""
    wrong = config_topic_writer.function(run)
    late = len(set(wrong.rows["cause"][wrong.rows["role"] == "read"])) if wrong.count else 0
    return Occasions(max(0, sum(one.after is not None for one in log.leaders) - late), elsewhere=late)


# --------------------------------------------------------------------------------------------------
# Stored offsets
# --------------------------------------------------------------------------------------------------
def _read_committed(run: RunView, log: ConnectLog) -> Occasions:
    """After an aborted offset the next producer of a source reads on from the last committed one."""
    answer = Occasions()
    stored = log.stored[(log.stored["kind"] == "offset") & log.stored["transactional"]]
    stored = stored.assign(session=log.sessions_of(stored))
    first = _first_records(log)
    for (_, name), rows in stored.groupby(["partition", "name"]):
        for committed, aborted, following in _after_abort(entries_in(rows), rows["session"].tolist()):
            began = first.get((name, *following.producer))
            if began is None or aborted.number <= committed.number:
                continue
            answer.met += began.number == committed.number + 1
            answer.entries += [[(aborted, "read"), (began, "sent")]] if began.number == aborted.number + 1 else []
    return answer


def _after_abort(rows: Sequence[Entry], sessions: Sequence[int]) -> Iterator[tuple[Entry, Entry, Entry]]:
    """The last committed offset of a source, an aborted one, and the next offset that another producer commits."""
    committed: Entry | None = None
    aborted: tuple[Entry, int] | None = None
    for entry, session in zip(rows, sessions, strict=True):
        if entry.ended == ABORTED and committed is not None:
            aborted = entry, session
        elif entry.ended == COMMITTED:
            if committed is not None and aborted is not None and session != aborted[1]:
                yield committed, aborted[0], entry
            committed, aborted = entry, None


def _first_records(log: ConnectLog) -> dict[tuple[str, int, int], Entry]:
    """The lowest position of a source among the committed records that a producer wrote in an epoch."""
    table = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"] == COMMITTED)].sort_values("number")
    table = table.drop_duplicates(["name", "producer_id", "producer_epoch"])
    return {(one.name, *one.producer): one for one in entries_in(table)}


def _copied(run: RunView, log: ConnectLog) -> Occasions:
    """What the workers' topic gets of a connector with an offsets topic of its own was committed there. No task reads it."""
    stored = log.stored[log.stored["kind"] == "offset"]
    shared = of_workers(log.stored["partition"])[stored.index]
    own, copies = stored[~shared], stored[shared & (stored["ended"] == PLAIN)]
    if own.empty or not (own["ended"] == COMMITTED).any():
        return Occasions()
    fate: dict[tuple[str, int], set[int]] = defaultdict(set)
    for entry in entries_in(own):
        fate[entry.name, entry.number].add(entry.ended)
    judged = [(one, fate.get((one.name, one.number), set())) for one in entries_in(copies)]
    wrong = sum(ends == {ABORTED} for _, ends in judged)
    return Occasions(sum(COMMITTED in ends for _, ends in judged), elsewhere=wrong)


def _stored_there(run: RunView, log: ConnectLog) -> Occasions:
    """Where the records go to another Kafka cluster than the workers': offsets that are committed on that of the records."""
    if not in_second(log.configuration["partition"]).any():
        return Occasions()
    mine = (log.stored["kind"] == "offset") & (log.stored["ended"] == COMMITTED) & ~in_second(log.stored["partition"])
    torn = source_offset_torn.function(run)
    return Occasions(int(mine.sum()), elsewhere=len(set(torn.rows["cause"])) if torn.count else 0)


def _migrated(run: RunView, log: ConnectLog) -> Occasions:
    """The first task that stores offsets in the connector's own topic reads on from the last one in the workers' topic."""
    answer = Occasions()
    if run.shared(SourceLog).altered or log.slack_ms is None:
        return answer
    stored = log.stored[(log.stored["kind"] == "offset") & (log.stored["ended"] == COMMITTED)]
    shared = of_workers(log.stored["partition"])[stored.index]
    first = _first_records(log)
    for name, rows in stored[~shared].sort_values("timestamp").groupby("name"):
        own, before = entries_in(rows.iloc[:1])[0], stored[shared & (stored["name"] == name)]
        began = first.get((name, *own.producer))
        if before.empty or began is None or int(before["timestamp"].max()) + log.slack_ms >= own.timestamp:
            continue
        last = entries_in(before.sort_values("offset").iloc[-1:])[0]
        answer.met += began.number == last.number + 1
        answer.entries += [[(last, "read"), (began, "sent")]] if began.number <= last.number else []
    return answer


def _altered(run: RunView, log: ConnectLog) -> Occasions:
    """After an offset was altered, or reset, the next producer of the source reads on from there, or begins as at first.

    Not judged: requests without an answer, as they may be carried out when the connector goes on.
    """
    source, answer = run.shared(SourceLog), Occasions()
    if not source.altered or source.unordered:
        return answer
    asked = source.alterations["certain"]
    stored = log.stored[(log.stored["kind"] == "offset") & (log.stored["ended"] == COMMITTED)]
    stored = stored.assign(certain=asked.reindex(stored.index), session=log.sessions_of(stored))
    first = _first_records(log)
    for (_, name), rows in stored.groupby(["partition", "name"]):
        origin = first.get((name, *entries_in(rows.iloc[:1])[0].producer))
        for alteration, following in _following(rows):
            began = first.get((name, *following.producer))
            begin = alteration.number + 1 if alteration.number >= 0 else origin and origin.number
            if began is not None and begin is not None:
                answer.met += began.number == begin
                answer.entries += [[(alteration, "read"), (began, "sent")]] if began.number != begin else []
    return answer


def _following(rows: pd.DataFrame) -> Iterator[tuple[Entry, Entry]]:
    """Of the committed offsets of one source the last of neighbouring alterations, and the offset that another producer stores
    next than had stored the one before."""
    last, alteration = NONE, None
    for entry, session, certain in zip(entries_in(rows), rows["session"], rows["certain"], strict=True):
        if pd.isna(certain):
            if alteration is not None and session != last:
                yield alteration, entry
            last, alteration = session, None
        else:
            alteration = entry if certain else None


# --------------------------------------------------------------------------------------------------
# Transactional ids
# --------------------------------------------------------------------------------------------------
def _named(run: RunView, log: ConnectLog) -> Occasions:
    """Records are written by producers whose transactional id is group, connector and task."""
    if not log.groups or log.compacted:
        return Occasions()
    table = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"] == COMMITTED)]
    table = table.drop_duplicates(["producer_id", "producer_epoch"])
    sessions = log.sessions_of(table)
    fits = np.array([at != NONE and log.task_of(log.sessions[at].transactional_id)[1] != NONE for at in sessions], dtype=np.bool_)
    wrong = table[~fits].drop_duplicates("producer_id")
    good = {log.sessions[at].transactional_id for at in sessions[fits]}
    return Occasions(len(good), [[(one, "sent")] for one in entries_in(wrong)])


def _apart(run: RunView, log: ConnectLog) -> Occasions:
    """Where there are several Connect clusters: tasks that wrote, each in the topics of its own cluster alone."""
    if len(log.groups) < 2 or log.compacted:
        return Occasions()
    table = log.stored[(log.stored["kind"] == "record") & (log.stored["ended"] == COMMITTED)]
    table = table.assign(session=log.sessions_of(table), topic=table["partition"].str.rpartition("-")[0])
    table = table[table["session"] != NONE].drop_duplicates(["topic", "session"])
    names = [log.sessions[at].transactional_id for at in table["session"]]
    table = table.assign(task=names, group=[log.task_of(name)[0].partition("/")[0] for name in names])
    owners = table.groupby("topic")["group"].agg(lambda groups: groups.value_counts().idxmax())
    strange = table[table["group"] != table["topic"].map(owners)].drop_duplicates("task")
    return Occasions(table["task"].nunique() - len(strange), [[(one, "sent")] for one in entries_in(strange)])


# --------------------------------------------------------------------------------------------------
# Answers of the REST interface
# --------------------------------------------------------------------------------------------------
def _failed_tasks(log: ConnectLog) -> Iterator[tuple[Mapping[str, Any], str, str]]:
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


def _clear(run: RunView, log: ConnectLog) -> Occasions:
    """Tasks that have failed, each with a reason: those whose fencing was given up, and those without any reason."""
    failed = list(_failed_tasks(log))
    return Occasions(
        sum(bool(FENCING.search(trace)) for *_, trace in failed), requests=[one for one, _, trace in failed if not trace]
    )


def _denied(run: RunView, log: ConnectLog) -> Occasions:
    return Occasions(sum(DENIED in trace for *_, trace in _failed_tasks(log)))


def _restart_refused(run: RunView, log: ConnectLog) -> Occasions:
    answers = [one["answer"] for one in log.requests if _of_task(one) and isinstance(one.get("answer"), dict)]
    refused = [one for one in answers if one.get("error_code") in REFUSED]  # a worker that is not yet there has no such code
    return Occasions(sum(UNREACHED not in str(one.get("message")) for one in refused))


def _of_task(request: Mapping[str, Any]) -> bool:
    path = str(request.get("path", ""))
    return request.get("method") == "POST" and ((path.endswith("/restart") and "/tasks/" in path) or "includeTasks=true" in path)


def _preflight(key: str, value: str, told: str) -> Callable[[RunView, ConnectLog], Occasions]:
    """Configurations that a connector says it cannot keep: refused with 400. told: the numbered source's key for what it says."""

    def occasions(run: RunView, log: ConnectLog) -> Occasions:
        answer = Occasions()
        for request in log.requests:
            config = _configured(request)
            if config.get(key, "").lower() != value or config.get("connector.class") != NUMBERED:
                continue
            if config.get(told, "supported") != "supported":
                answer.met += request.get("status") == 400
                answer.requests += [request] if request.get("status") in (200, 201) else []
        return answer

    return occasions


def _configured(request: Mapping[str, Any]) -> Mapping[str, str]:
    """The configuration of a connector that a request creates or changes; empty: it does not."""
    body, path = request.get("body"), str(request.get("path", ""))
    if not isinstance(body, dict) or request.get("method") not in ("PUT", "POST"):
        return {}
    config = body if path.endswith("/config") else body.get("config")
    return {str(key): str(one) for key, one in config.items()} if isinstance(config, dict) else {}


# --------------------------------------------------------------------------------------------------
# The table
# --------------------------------------------------------------------------------------------------
_LOGS = "configuration topic, coordinators' log"
PROMISES = (
    Promise(
        "a task writes records",
        _LOGS,
        "a task-count record lies after the configurations that were there (else `unfenced-start`)",
        "Task count records; Source task startup",
        _started,
    ),
    Promise(
        "configurations follow a task-count record",
        _LOGS,
        "the producers of all tasks that it counts are fenced before the next one",
        "Zombie fencing by the leader",
        _fenced,
    ),
    Promise(
        "one task follows one task",
        _LOGS,
        "no round of fencing: the new task fences the older one",
        "Zombie fencing by the leader",
        _single,
    ),
    Promise(
        "a producer is made, and newer configurations are there",
        _LOGS,
        "the worker reads to their end, and the task does not write (else `unfenced-start`)",
        "Source task startup",
        _given_up,
    ),
    Promise(
        "another leader follows",
        "configuration topic",
        "the older one writes nothing more (else `config-topic-writer`)",
        "Leader access to config topic",
        _dethroned,
    ),
    Promise(
        "the leader could not fence, and a task has failed",
        "status",
        "FAILED, with the reason; for how long it tried is not judged",
        "Cannot fence out producers",
        _clear,
    ),
    Promise(
        "a restart of tasks comes while their worker's view is old, or they are gone",
        "restart",
        "409, 404 or 500; what an accepted one does is judged as any start",
        "Manual restart of fenced-out tasks",
        _restart_refused,
    ),
    Promise(
        "the next task of a source starts after an aborted offset",
        "offsets topics, records",
        "it reads on from the last committed one",
        "Offset reads",
        _read_committed,
    ),
    Promise(
        "a connector with an offsets topic of its own",
        "offsets topics",
        "the workers' topic gets only what was committed there",
        "Offset (and record) writes; Smooth migration",
        _copied,
    ),
    Promise(
        "a connector's records go to another Kafka cluster than the workers'",
        "offsets topics, records",
        "its offsets are stored there, in the transactions of the records (else `source-offset-torn`)",
        "Offset (and record) writes; Per-connector offsets topics",
        _stored_there,
    ),
    Promise(
        "a connector gets an offsets topic of its own",
        "offsets topics, records",
        "its tasks read on from what the workers' topic has, as long as their own has nothing",
        "Smooth migration",
        _migrated,
    ),
    Promise(
        "offsets are altered or reset while the connector is stopped",
        "offsets topic, records",
        "its tasks read on from there, after a reset from where they began at first",
        "KIP-875: Altering Offsets",
        _altered,
    ),
    Promise(
        "exactly.once.support = required of a connector that does not say so",
        "configure",
        "400",
        "Public Interfaces",
        _preflight("exactly.once.support", "required", "answer.exactly.once"),
    ),
    Promise(
        "transaction.boundary = connector of a connector that cannot",
        "configure",
        "400",
        "Public Interfaces",
        _preflight("transaction.boundary", "connector", "answer.boundaries"),
    ),
    Promise(
        "a task writes in transactions",
        "coordinators' log, records",
        "its transactional id is GROUP-CONNECTOR-TASK",
        "Offset (and record) writes",
        _named,
    ),
    Promise(
        "several Connect clusters share a Kafka cluster, with connectors of one name",
        "coordinators' log, records",
        "their tasks have transactional ids of their own groups, and each writes for its own cluster",
        "Offset (and record) writes",
        _apart,
    ),
    Promise(
        "a permission is missing", "status", "FAILED, with the error as its reason", "Connector principal permissions", _denied
    ),
)


def judged(run: RunView) -> list[tuple[Promise, Occasions]]:
    """Every row with its occasions."""
    log = run.shared(ConnectLog)
    blind = bool(log.unknown or log.lacking)
    asked = {_clear, _denied, _restart_refused}
    return [
        (one, Occasions() if blind and one.occasions not in asked and one.calls != "configure" else one.occasions(run, log))
        for one in PROMISES
    ]


def _row(promise: Promise, found: Occasions) -> dict[str, Any]:
    words = {name: getattr(promise, name) for name in ("situation", "calls", "demanded")}
    return {**words, "source": promise.place, "met": found.met, "violated": found.violated}


def _explain(finding: Finding, text: FindingText) -> str:
    wrong = [(one, found) for one, found in text.run.shared(judged) if found.entries or found.requests]
    promise = next(one for one, found in wrong if _has(found, finding))
    places = [row for row in finding.rows if row.offset != NONE]
    where = f"By {text.places(places)}" if places else f"By an answer to {text.process(finding.operations[0])}"
    return f"{where}, {promise.situation}, where this is demanded: {promise.demanded} ({promise.place})."


def _has(found: Occasions, finding: Finding) -> bool:
    places = {(row.partition, row.offset) for row in finding.rows}
    if places == {("", NONE)}:
        return any(one["op"] in finding.operations for one in found.requests)
    return any({(one.partition, one.offset) for one, _ in cause} == places for cause in found.entries)


@run_check("connect-promise", across=True, explain=_explain, needs=NO_OCCASION)
def connect_promise(run: RunView) -> CheckResult:
    """Connect has not kept one of KIP-618's promises, by the rows of a table which the report shows with how often each was met.

    The rows are about task-count records, rounds of fencing, leaders, stored offsets, transactional ids, and answers of the REST
    interface. What another check finds (`unfenced-start`, `config-topic-writer`), and copies of aborted offsets, which harm no
    record, are counted in the table, and are no findings here.

    compared: occasions of all rows. One cause: an occasion.

    Example::

        ms     who       does
        0      leader 1  initialises
        1000   leader 1  generation 2
        2000   leader 1  task-count 2
        3000   task 0    initialises
        4000   task 0    writes at 0
        5000   leader 1  generation 3
        6000   leader 1  task-count 3

    Found: read configs-0@2 and sent configs-0@6. Nobody fenced task 0 between the two.

    Slow twin: `promises` in tests/support/connect_reference.py.
    """
    log = connect_log(run)
    if log is None:
        return CheckResult(0)
    rows = run.shared(judged)
    table = tuple(_row(promise, found) for promise, found in rows)
    compared = sum(found.met + found.violated for _, found in rows)
    parts = [finding_rows(log, [cause for _, found in rows for cause in found.entries])]
    parts.append(_request_rows([one for _, found in rows for one in found.requests]))
    parts = [one for one in parts if one]
    return CheckResult(compared, join_rows(*parts) if parts else {}, "" if compared else log.lacking, table=table)


def _request_rows(requests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows for violations that an answer shows; their causes are not those of `finding_rows`."""
    if not requests:
        return {}
    ops = np.array([one["op"] for one in requests], dtype=np.int64)
    none = np.full(len(ops), NONE, dtype=np.int64)
    words = {"partition": np.full(len(ops), "", dtype=object), "role": np.full(len(ops), "read", dtype=object)}
    return {**words, "cause": ops, "op": ops, "v": none, "offset": none, "time": np.array([one["end"] for one in requests])}
