"""The end of a program's work: it has processed its whole input, as far as the harness can see."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from fencepost.harness.api import ClusterError, Outcome, Program
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform import draining
from fencepost.harness.perform.draining import Draining, last_inputs

PROGRAM = Program(command=("true",), input="in", output="out", quiet_s=0.0, drain_s=60.0)
IMPATIENT = replace(PROGRAM, drain_s=0.05)


class Admin:
    """Answers with one after the other; an error is raised."""

    def __init__(self, groups, ends):
        self.groups, self.ends = list(groups), list(ends)

    def group_offsets(self, *_):
        return following(self.groups)

    def end_offsets(self, *_):
        return following(self.ends)


def following(answers):
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """A hundredth of a second goes by from one look at it to the next, and no wait takes longer."""
    clock = SimpleNamespace(monotonic=count(step=0.01).__next__, sleep=lambda _: None)
    monkeypatch.setattr(draining, "time", clock)


def drained(group, *groups, ends=({"out-0": 5},), program=PROGRAM):
    tended = []
    admin = Admin(groups, ends)
    done, value = Draining(program, group, {"in-0": 7}, ["out-0"], lambda: admin, lambda: tended.append(1)).wait()
    assert value["drained"] is done
    return done, len(tended)


def test_a_group_has_caught_up_when_its_offsets_lie_beyond_the_last_input():
    assert drained("g", {}, ClusterError("no coordinator"), {"in-0": 7}, {"in-0": 8}) == (True, 4)


def test_a_group_that_does_not_catch_up_is_waited_for_no_longer_than_allowed():
    assert drained("g", {"in-0": 7}, program=IMPATIENT)[0] is False


def test_a_progress_that_is_not_known_is_told_once_and_named_at_the_end():
    said = []
    admin = Admin([{}], [ClusterError("psql ended with status 2")])
    waiting = Draining(IMPATIENT, "g", {"in-0": 7}, ["out-0"], lambda: admin, lambda: None, say=said.append)
    assert waiting.wait()[0] is False
    assert said == ["its progress is not known: psql ended with status 2"]
    assert waiting.problem == "psql ended with status 2"


def test_offsets_of_a_group_are_read_while_the_output_does_not_grow():
    assert drained("g", {"in-0": 8}, ends=[{"out-0": 5}, {"out-0": 6}, {"out-0": 6}]) == (True, 2)


def test_without_a_group_the_output_must_have_stopped_growing():
    assert drained("")[0] is True
    assert drained("", ends=({"out-0": 0},), program=IMPATIENT)[0] is False, "it has processed nothing"
    assert drained("", ends=({"out-0": 0},), program=replace(PROGRAM, outputs=(0, 1)))[0] is True, "it may drop its inputs"
    assert drained("", ends=[{"out-0": number} for number in range(1000)], program=IMPATIENT)[0] is False


def test_a_program_behind_another_one_is_done_at_the_ends_of_what_that_one_wrote():
    def waited(ends, *groups, program=PROGRAM):
        class Both(Admin):
            def end_offsets(self, partitions, isolation):
                return {"out-0": 5} if partitions == ["out-0"] else ends

        admin = Both(groups, [])
        draining = Draining(program, "g", {}, ["out-0"], lambda: admin, lambda: None, inputs=["in-0", "in-1"])
        return draining.wait()[0], len(admin.groups)

    ends, slow = {"in-0": 8, "in-1": 0}, replace(PROGRAM, quiet_s=60.0)
    assert waited(ends, {}, {"in-0": 3}, {"in-0": 7, "in-1": None}, program=slow) == (True, 1), "behind it lies the marker"
    assert waited(ends, {"in-0": 3}, program=replace(IMPATIENT, quiet_s=60.0))[0] is False
    assert waited(ends, {"in-0": 3}, program=replace(PROGRAM, quiet_s=0.02))[0] is True, "what follows may be aborted"


def test_the_last_inputs_are_those_of_transactions_that_ended_ok(tmp_path):
    writer = HistoryWriter(tmp_path / "c0-0.jsonl", run="r", slot=0, node="c0", role="writer", pid=1)
    for number, (outcome, offset, decided) in enumerate(
        [(Outcome.OK, 3, 5), (Outcome.OK, 9, None), (Outcome.INFO, 12, 5), (Outcome.FAIL, 15, None), (Outcome.OK, None, 5)]
    ):
        value = [["send", "in-0", number << 12, offset, 1, 2]]
        writer.invoke(0, number, "txn", [["send", "in-0", number << 12]], "commit")
        writer.complete(outcome, 0, number, "txn", value, errors=[], **({"decided": decided} if decided else {}))
    with (tmp_path / "c0-0.jsonl").open("a") as file:
        file.write('{"type": "ok", "proc')
    assert last_inputs(tmp_path) == {"in-0": 3}


def statuses(folder, name, *tasks):
    """The history of a conductor that reads these states of the connector's tasks, in this order; None: it has no status."""
    writer = HistoryWriter(folder / name, run="r", slot=3, node="c3", role="conductor", pid=1)
    for number, states in enumerate(tasks):
        answer = {"connector": {"state": "RUNNING"}}
        answer |= {"tasks": [{"id": at, "state": state} for at, state in enumerate(states or ())]}
        writer.invoke(3, number, "rest", {"method": "GET", "path": "/connectors/source/status"})
        value = {"method": "GET", "path": "/connectors/source/status", "status": 200, "answer": answer}
        if states is None:
            value |= {"status": 404, "answer": {"error_code": 404, "message": "No status found for connector source"}}
        writer.complete(Outcome.OK, 3, number, "rest", value, errors=[])
    writer.close()


@pytest.mark.parametrize(
    ("tasks", "still"),
    [
        ((["RUNNING", "FAILED"], ["RUNNING", "RUNNING"]), False),
        ((["RUNNING", "RUNNING"], ["RUNNING", "FAILED"]), True),
        ((["RUNNING"], ["RESTARTING"], []), True),
        ((["RUNNING"], []), True),
        (([],), True),
        ((None,), True),
        (([], ["RUNNING"]), False),
        ((), False),
    ],
)
def test_a_task_stands_still_that_did_not_run_when_it_was_last_seen(tmp_path, tasks, still):
    statuses(tmp_path, "c3-0.jsonl", *tasks)
    assert draining.task_stands_still(tmp_path) is still


def test_a_program_is_not_done_while_a_task_stands_still():
    """Its output does not grow either."""
    seen = [True, True, False]
    admin = Admin([], [{"out-0": 5}])
    patient = Draining(PROGRAM, "", {"in-0": 7}, ["out-0"], lambda: admin, lambda: None, lambda: seen.pop(0)).wait()
    assert (patient[0], seen) == (True, [])
    impatient = Draining(IMPATIENT, "", {"in-0": 7}, ["out-0"], lambda: admin, lambda: None, lambda: True).wait()
    assert (impatient[0], impatient[1]["drained"]) == (False, False)
