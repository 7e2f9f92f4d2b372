"""Time for which leaders of Connect try to fence the older tasks of a connector, and the bound by which they must give up.

KIP-618 ("Cannot fence out producers during rebalance") has the leader block a rebalance for half the session timeout at most.
Every release fences outside of rebalances, when a worker that starts a task asks for it, and gives up by other timeouts. The row
is judged by these (`RunView.fencing_s`).

A task that has failed for it is seen in answers about the connector's state. That a task waits without end is sure only where
the coordinators' log has a producer that was fenced for it, while no leader, worker or request came that may have ended the
round, and neither a fault nor a restart had it begin anew. Times are ms since 1970, as entries have them; those of answers are
derived from what readers got soonest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fencepost.checkers.anomalies.connect_occasions import FENCING, Occasions
from fencepost.checkers.pipeline.connect_log import FENCING_TIMEOUTS, LEADER, ConnectLog, Generation, Session, TaskCount
from fencepost.checkers.views.run_view import RunView

SUPERSEDED = re.compile("new (set of )?task config")  # why a round ended that newer configurations made needless
UNANSWERED = re.compile("IO Error trying to forward|Request timed out")  # the leader may go on, of whom a worker waits no longer
STILL = ("FAILED", "PAUSED", "STOPPED")  # states of a task that waits for no fencing
Span = tuple[float, float]


@dataclass(frozen=True)
class Pending:
    """Configurations whose older tasks have to be fenced, until their task-count record, newer ones, or the end (ms)."""

    generation: Generation
    until: float

    @property
    def since(self) -> float:
        return float(self.generation.since)


@dataclass(frozen=True)
class States:
    """States of a connector's tasks, by their numbers, as an answer says them.

    at: when it came (ms by the wall clock).
    reasons: by task whose fencing has failed, the reason.
    still: tasks that wait for no fencing.
    """

    at: float
    reasons: Mapping[str, str]
    still: frozenset[str]


def pending_generations(log: ConnectLog) -> Iterator[Pending]:
    """The configurations that need a round of fencing: all after a task-count record, but one task after one."""
    for connector in dict.fromkeys(count.connector for count in log.task_counts):
        steps: list[Generation | TaskCount] = [*log.generations, *log.task_counts]
        mine = sorted((change for change in steps if change.connector == connector), key=lambda change: change.entry.offset)
        before: TaskCount | None = None
        for step, after in pairwise([*mine, None]):
            if isinstance(step, TaskCount):
                before = step
            elif step and before and before.tasks > 0 and step.tasks > 0 and (before.tasks, step.tasks) != (1, 1):
                yield Pending(step, after.since if after else math.inf)


def given_up_in_time(run: RunView, log: ConnectLog) -> Occasions:
    """Rounds that were given up, after what time at most; violated by tasks that surely waited for longer than they may.

    Not judged: workers of somebody's own, whose settings are not known, several Connect clusters, whose answers are not told
    apart, and runs without a reader that gets records.
    """
    if run.fencing_s is None or log.slack_ms is None or log.compacted or len(log.groups) != 1 or log.wall_ms(0) is None:
        return Occasions()
    bound, rounds, answers = 1000 * run.fencing_s, list(pending_generations(log)), list(_answers(log))
    took = [ms for each in rounds for ms in _given_up(log, each, answers)]
    late = {each.generation: fence for each in rounds for fence in _endless(run, log, each, answers, bound + log.slack_ms)}
    longest = f", here after {max(took) / 1000:.1f} s at most" if took else ""
    entries = [[(generation.entry, "read"), (fence.start, "sent")] for generation, fence in late.items()]
    return Occasions(sum(ms <= bound for ms in took), entries, measured=f"by these settings after {run.fencing_s:g} s{longest}")


# --------------------------------------------------------------------------------------------------
# Rounds that were given up
# --------------------------------------------------------------------------------------------------
def _answers(log: ConnectLog) -> Iterator[States]:
    """The answers about the connector's state."""
    for request in log.requests:
        answer, at = request.get("answer"), log.wall_ms(request["end"])
        if request.get("method") == "GET" and isinstance(answer, dict) and "tasks" in answer and at is not None:
            tasks = [task for task in answer["tasks"] or () if isinstance(task, dict)]
            yield States(at, _reasons(tasks), frozenset(str(task.get("id")) for task in tasks if task.get("state") in STILL))


def _reasons(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    failed = {str(task.get("id")): str(task.get("trace")) for task in tasks if task.get("state") == "FAILED"}
    return {task: trace for task, trace in failed.items() if FENCING.search(trace) and not SUPERSEDED.search(trace)}


def _given_up(log: ConnectLog, pending: Pending, answers: Iterable[States]) -> Iterator[float]:
    """The time (ms) after which tasks have failed at the latest, since the configurations, or since the leader gave up before.

    The tasks of a round fail one after the other: they count once, until somebody asks for a restart.
    """
    restarts = list(_requests(log, "POST"))
    begun, last, before = pending.since, -math.inf, set[tuple[str, str]]()
    for answer in (states for states in answers if pending.since <= states.at <= pending.until):
        failed = set(answer.reasons.items())
        if failed - before and (last == -math.inf or any(last < restart < answer.at for restart in restarts)):
            yield answer.at - begun
        if failed - before:
            last = answer.at
            begun = begun if all(UNANSWERED.search(reason) for _, reason in failed - before) else answer.at
        before = failed


def _requests(log: ConnectLog, *methods: str) -> Iterator[float]:
    """Times at which requests of these kinds ended."""
    ends = (log.wall_ms(request["end"]) for request in log.requests if request.get("method") in methods and request["end"])
    return (end for end in ends if end is not None)


# --------------------------------------------------------------------------------------------------
# Tasks that wait without end
# --------------------------------------------------------------------------------------------------
def _endless(run: RunView, log: ConnectLog, pending: Pending, answers: Sequence[States], bound: float) -> Iterator[Session]:
    """Producers that were fenced in a round for which a task surely waited longer than it may."""
    if run.faults is None or not answers:
        return
    end = min(pending.until, answers[-1].at)
    turns = sorted(turn for turn in _turns(run, log, pending.generation) if pending.since < turn < end)
    tasks = [str(task) for task in range(pending.generation.tasks)]
    breaks = {task: [*_faults(run, log), *_restarts(log, task)] for task in tasks}
    for begin, until in pairwise([pending.since, *turns, end]):
        for fence in _fences(log, pending.generation, (begin, until))[:1]:
            span = float(fence.start.timestamp), until
            if any(_quiet(wait, breaks[task]) > bound for task in tasks for wait in _waits(task, answers, span)):
                yield fence


def _turns(run: RunView, log: ConnectLog, generation: Generation) -> Iterator[float]:
    """Times at which a round may have ended, or another begun."""
    group = generation.connector.partition("/")[0]
    yield from (leader.start.timestamp for leader in log.leaders if leader.transactional_id == f"{LEADER}{group}")
    yield from _requests(log, "PUT", "DELETE", "PATCH")
    lives = run.history.of_kind(("f", "time"), "instance")["time"].to_pylist()
    yield from (at for at in map(log.wall_ms, lives) if at is not None)


def _fences(log: ConnectLog, generation: Generation, span: Span) -> list[Session]:
    """The producers of a connector's tasks that a leader has initialised within a time, in order."""
    mine = [session for session in log.tasks if log.task_of(session.transactional_id)[0] == generation.connector]
    fences = [
        session for session in mine if session.start.number in FENCING_TIMEOUTS and span[0] <= session.start.timestamp <= span[1]
    ]
    return sorted(fences, key=lambda session: session.start.timestamp)


def _waits(task: str, answers: Iterable[States], span: Span) -> Iterator[Span]:
    """The times within a span in which no answer says that a task waits no more."""
    begin: float | None = span[0]
    for answer in answers:
        if answer.at > span[1]:
            break
        if task in answer.still and begin is not None and answer.at > span[0]:
            yield begin, answer.at
        begin = None if task in answer.still else begin if begin is not None else max(answer.at, span[0])
    if begin is not None:
        yield begin, span[1]


def _restarts(log: ConnectLog, task: str) -> Iterator[Span]:
    """Times at which a task may have been restarted on request: the answer says which tasks are, where there is an answer."""
    for request in log.requests:
        answer, at = request.get("answer"), log.wall_ms(request["end"])
        listed = answer.get("tasks") if isinstance(answer, dict) else None
        others = [other for other in listed or () if other.get("state") != "RESTARTING"]
        if request.get("method") == "POST" and at is not None and task not in {str(other.get("id")) for other in others}:
            yield at, at


def _faults(run: RunView, log: ConnectLog) -> Iterator[Span]:
    for began, healed in run.faults or ():
        yield log.wall_ms(began) or -math.inf, (log.wall_ms(healed) if healed else None) or math.inf


def _quiet(span: Span, breaks: Iterable[Span]) -> float:
    """The longest time within a span without a break."""
    longest, free = 0.0, span[0]
    for began, over in sorted(breaks):
        longest, free = max(longest, min(began, span[1]) - free), max(free, over)
    return max(longest, span[1] - free)
