"""Rounds of fencing that a leader of Connect gives up in time, too late, or never."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from support.connect_histories import EPOCH_MS, ConnectStory
from support.histories import answer, finding, violated
from support.judging import judge_here

from fencepost.checkers.anomalies.connect_fencing_time import given_up_in_time
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.pipeline.connect_log import Entry, Generation, Session, TaskCount

CHECKS = [check for check in installed_checks()[0] if check.name == "connect-promise"]
CONTRACT = {"connect": "enabled", "transactional": "false"}
FENCING_S = 100.0
TRACE = "ConnectException: Failed to perform zombie fencing\nCaused by: TimeoutException: fenceProducer(api=INIT_PRODUCER_ID)"
UNANSWERED = "IO Error trying to forward REST request: Idle timeout expired at fenceZombieSourceTasks"
GROUP, CONNECTOR = "fp-connect", "fp-connect/source"


def status(*failed, trace=TRACE, state="FAILED"):
    """An answer about the connector's state: some of three tasks have failed, the others wait."""
    tasks = [{"id": task, "state": state if task in failed else "UNASSIGNED", "trace": trace} for task in range(3)]
    return {"method": "GET", "path": "/connectors/source/status", "status": 200, "answer": {"tasks": tasks}}


def restart(*restarted):
    """A request to restart tasks, and the answer that these are; none: what becomes of it is not known."""
    tasks = [{"id": task, "state": "RESTARTING" if task in restarted else "UNASSIGNED"} for task in range(3)]
    return {"method": "POST", "path": "/connectors/source/restart", "answer": {"tasks": tasks} if restarted else None}


def entry(now, offset, kind="generation", number=0):
    return Entry("fp-connect-configs-0", offset, now, 1, 0, kind, "source", number, 3, 0, 0)


class Log:
    """Three tasks were counted; configurations come at 10 s, a round that fences task 0 begins at 11 s; 0 ms are 0 ns."""

    groups, compacted, slack_ms = (GROUP,), False, 500

    def __init__(self, requests, fenced=(11_000,), tasks=2, counted=None, leaders=()):
        self.requests = [{**request, "end": now * 10**6} for now, request in requests]
        self.generations = [Generation(CONNECTOR, tasks, entry(10_000, 5), 10_000, 10_000)]
        counts = [(1000, 3), *([] if counted is None else [(counted, 9)])]
        self.task_counts = [TaskCount(CONNECTOR, 3, entry(now, offset), now) for now, offset in counts]
        self.tasks = [Session("task 0", number, entry(now, number, number=90_000)) for number, now in enumerate(fenced)]
        self.leaders = [Session(f"connect-cluster-{GROUP}", number, entry(now, number)) for number, now in enumerate(leaders)]

    def task_of(self, _):
        return CONNECTOR, 0

    def wall_ms(self, moment_ns):
        return moment_ns / 10**6


def judged(requests, faults=(), lives=(), **log):
    """Counts of how often the promise was met and violated, and its measured text."""
    history = SimpleNamespace(of_kind=lambda *_: pa.table({"time": pa.array([now * 10**6 for now in lives], pa.int64())}))
    run = SimpleNamespace(fencing_s=FENCING_S, faults=faults, history=history)
    row = given_up_in_time(run, Log(requests, **log))
    return row.met, row.violated, row.measured


def endless(until=400_000):
    """Answers that say nothing of a failure."""
    return [(now, status()) for now in range(20_000, until + 1, 20_000)]


# --------------------------------------------------------------------------------------------------
# In time
# --------------------------------------------------------------------------------------------------
def test_the_tasks_of_a_round_fail_one_after_the_other():
    requests = [(12_000, status()), (102_000, status(0)), (103_000, status(0, 1)), (104_000, restart(0, 1)), (111_000, status())]
    assert judged(requests, counted=110_000) == (1, 0, "by these settings after 100 s, here after 92.0 s at most")


def test_each_round_that_was_given_up_counts():
    requests = [(100_000, status(0, 1)), (101_000, restart(0, 1)), (102_000, status()), (190_000, status(0, 1))]
    assert judged(requests)[:2] == (2, 0)


def test_a_worker_that_waits_no_longer_for_its_leader_ends_no_round():
    """Its task has failed in time; the leader gives up later, and has tried since the configurations came."""
    requests = [(105_000, status(1))]
    for now in (41_000, 72_000):
        requests += [(now, status(0, trace=UNANSWERED)), (now + 1000, restart(0)), (now + 2000, status())]
    assert judged(sorted(requests, key=lambda pair: pair[0])) == (
        3,
        0,
        "by these settings after 100 s, here after 95.0 s at most",
    )


def test_a_round_that_newer_configurations_end_is_not_given_up():
    trace = "Failed to complete zombie fencing because a new set of task configs was generated"
    assert judged([(30_000, status(0, trace=trace))])[:2] == (0, 0)


# --------------------------------------------------------------------------------------------------
# Too late, or never
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("last", [[], [(401_000, status(0))]], ids=["never", "much too late"])
def test_a_round_that_goes_on_is_a_violation(last):
    assert judged([*endless(), *last])[:2] == (0, 1)


def test_a_round_that_comes_to_its_end_much_too_late_is_a_violation():
    assert judged([*endless(), (402_000, status())], counted=401_000)[:2] == (0, 1)


def test_a_task_may_wait_without_end_while_others_fail_and_are_restarted():
    requests = []
    for now in range(20_000, 300_000, 20_000):
        requests += [(now, status(0)), (now + 1000, restart(0)), (now + 2000, status())]
    assert judged(requests)[:2] == (14, 1)


@pytest.mark.parametrize("state", ["FAILED", "PAUSED"])
def test_tasks_that_failed_for_something_else_or_are_paused_wait_for_nothing(state):
    still = status(0, 1, 2, trace="java.lang.IllegalStateException", state=state)
    assert judged([(12_000, still), (300_000, still)])[:2] == (0, 0)


def test_a_round_that_may_still_end_in_time_is_not_judged():
    assert judged(endless(100_000))[:2] == (0, 0)


@pytest.mark.parametrize("faults", [[(5 * 10**9, 320 * 10**9)], [(200 * 10**9, None)], None], ids=["healed", "active", "unknown"])
def test_while_faults_are_active_no_leader_has_to_give_up(faults):
    requests = endless(301_000 if faults and not faults[0][1] else 400_000)
    assert judged(requests, faults, fenced=(101_000,))[:2] == (0, 0)


@pytest.mark.parametrize(
    "turn",
    [{"leaders": (90_000,)}, {"lives": (90_000,)}, {"more": {"method": "PUT", "path": "/pause"}}, {"more": restart()}],
    ids=["leader", "worker", "request", "restart"],
)
def test_another_round_may_have_begun(turn):
    more = [(90_000, turn.pop("more"))] if "more" in turn else []
    assert judged(sorted([*endless(180_000), *more], key=lambda pair: pair[0]), **turn)[:2] == (0, 0)


@pytest.mark.parametrize("log", [{"fenced": ()}, {"tasks": 0}], ids=["no task was fenced", "no task is configured"])
def test_where_no_round_is_known_to_have_begun_none_is_missing(log):
    assert judged(endless(), **log)[:2] == (0, 0)


# --------------------------------------------------------------------------------------------------
# Whole histories
# --------------------------------------------------------------------------------------------------
def story(requests):
    """The same with the leaders' logs; a reader gets a record when it has its timestamp."""
    log = ConnectStory()
    log.lead()
    log.configure("generation", 3)
    log.configure("task-count", 3)
    log.start(0)
    log.write(0)
    log.now = 10_000
    log.configure("generation", 2)
    log.now = 11_000
    log.fence(0)
    ops = log.ops
    like = {**ops[0], "process": 3, "f": "rest", "role": "conductor", "mops": [], "final": False}
    for number, (now, request) in enumerate(requests):
        at = {"index": 1000 + number, "op": number, "time": now * 10**6, "end": now * 10**6}
        ops.append({**like, **at, "detail": json.dumps(request)})
    row = log.logs["t-0"][0]
    at = (row["timestamp"] - EPOCH_MS) * 10**6
    read = {"process": 4, "role": "reader", "f": "poll", "index": 9000, "op": 0, "time": at, "end": at, "entries": [row]}
    return [*ops, {**like, **read}]


@pytest.mark.parametrize(
    ("requests", "known", "counts"),
    [
        ([(12_000, status()), (103_000, status(0))], {"fencing_s": FENCING_S}, (1, 0)),
        (endless(), {"fencing_s": FENCING_S}, (0, 1)),
        (endless(), {}, (0, 0)),
    ],
    ids=["met", "violated", "settings unknown"],
)
def test_the_row_of_the_table(tmp_path, requests, known, counts):
    document = judge_here(tmp_path, story(requests), CONTRACT, CHECKS, connect={"4.3.0": known})
    (row,) = (
        match for match in answer(document, "connect-promise")["table"] if match["situation"].startswith("the leader cannot")
    )
    assert (row["met"], row["violated"]) == counts
    assert ("by these settings after 100 s" in row["demanded"]) == bool(known)
    assert violated(document) == (["connect-promise"] if counts[1] else [])
    if counts[1]:
        assert "fp-connect-configs-0@4, the leader cannot fence" in finding(document, "connect-promise")["sentence"]
