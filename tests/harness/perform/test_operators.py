"""Requests of workers over two pipes: done one after the other, healed and recorded like planned faults."""

from __future__ import annotations

import threading

import pytest

from fencepost.harness.api import ClusterError, Outcome
from fencepost.harness.perform import operators
from fencepost.harness.perform.fault_runner import FaultRunner
from fencepost.harness.perform.operators import OperatorService, RemoteOperator
from fencepost.harness.perform.performer import make_fault
from fencepost.nemesis.testing import FakeCluster

KILL = {"target": "coordinator:{id}"}


class Stage:
    """A service on a cluster in memory, and operators that ask it."""

    def __init__(self):
        self.cluster, self.lines, self.notes = FakeCluster(clients=3), [], []
        self.runner = FaultRunner(self.cluster, [], make_fault, self.lines.append)
        self.runner.start(0)
        self.service = OperatorService(self.cluster, self.runner, self.notes.append)

    def operator(self, slot=0, name="tx-0"):
        def report(message):
            threading.Thread(target=lambda: made.answered(self.service.answer(slot, message["operate"]))).start()

        made = RemoteOperator(report, lambda: name)
        return made


@pytest.fixture
def stage(monkeypatch):
    monkeypatch.setattr(operators, "ANSWER_S", 20.0)
    made = Stage()
    yield made
    made.runner.stop()


def test_a_fault_strikes_at_once_and_is_healed_at_the_latest_when_the_faults_are_over(stage):
    operator, node = stage.operator(), stage.cluster.transaction_coordinator("tx-0")
    assert operator.reserve()
    assert operator.strike("kill", 60.0, **KILL)
    assert stage.cluster.pid(node) is None
    assert stage.runner.stop() == []
    assert stage.cluster.whole()
    struck, healed = stage.lines
    assert (struck["kind"], struck["targets"], struck["effective"], struck["healed_ns"]) == ("kill", [node], True, 0)
    assert (healed["id"], healed["healed_ns"] > 0) == (struck["id"], True)


def test_who_has_not_reserved_strikes_nothing(stage):
    assert not stage.operator().strike("kill", 0.0, **KILL)
    assert (stage.lines, stage.cluster.whole()) == ([], True)


def test_one_after_the_other_and_the_next_when_the_one_before_is_healed(stage, monkeypatch):
    first, second = stage.operator(0), stage.operator(1)
    assert first.reserve()
    monkeypatch.setattr(operators, "RESERVE_S", 0.05)
    assert not second.reserve()
    assert first.strike("fence-producers", 0.0, target="id:{id}")
    monkeypatch.setattr(operators, "RESERVE_S", 20.0)
    assert second.reserve()
    assert [line["kind"] for line in stage.lines if line["healed_ns"]] == ["fence-producers"]


def test_a_reservation_of_which_no_use_is_made_expires(stage, monkeypatch):
    monkeypatch.setattr(operators, "RESERVED_S", 0.05)
    first, second = stage.operator(0), stage.operator(1)
    assert first.reserve()
    assert second.reserve()
    assert not first.strike("kill", 0.0, **KILL)


def test_a_fault_that_cannot_be_made_is_noted_and_frees_the_lane(stage):
    operator = stage.operator()
    assert operator.reserve()
    assert not operator.strike("kill", 0.0, target="nobody")
    assert "kill cannot be injected for c0" in stage.notes[0]
    assert operator.reserve()


def test_after_the_faults_nothing_strikes_any_more(stage):
    operator = stage.operator()
    assert operator.reserve()
    stage.runner.stop()
    assert not operator.strike("kill", 0.0, **KILL)
    assert stage.cluster.whole()


def test_an_open_transaction_is_finished_by_its_stored_producer_id_and_epoch(stage):
    stage.cluster.coordinated.begin("tx-0", "t-0")
    assert stage.operator().finish(commit=True) is Outcome.OK
    assert stage.cluster.transactions(["tx-0"])["tx-0"].state == "CompleteCommit"


def test_a_transaction_that_is_not_open_or_may_not_have_been_ended_is_unknown(stage):
    assert stage.operator().finish(commit=True) is Outcome.INFO
    stage.cluster.coordinated.begin("tx-0", "t-0")

    def silent(*_):
        raise ClusterError("no answer")

    stage.cluster.end_transaction = silent
    assert stage.operator().finish(commit=True) is Outcome.INFO


def test_without_an_answer_nothing_is_known(monkeypatch):
    monkeypatch.setattr(operators, "ANSWER_S", 0.01)
    requests = []
    operator = RemoteOperator(requests.append, lambda: "tx-0")
    assert not operator.reserve()
    assert operator.finish(commit=True) is Outcome.INFO
    assert [request["operate"]["do"] for request in requests] == ["reserve", "finish"]


def test_a_topic_is_made_and_deleted_and_none_of_the_workloads_can_be(stage):
    operator = stage.operator()
    name = operator.make_topic()
    assert f"{name}-0" in stage.cluster.topics
    assert operator.delete_topic(name)
    assert not operator.delete_topic("t")
    assert stage.cluster.topics == ("t-0", "t-1")


def test_a_topic_that_cannot_be_made_or_deleted_is_noted(stage):
    def refuse(*_):
        raise ClusterError("no controller")

    stage.cluster.create_topics = stage.cluster.delete_topic = refuse
    assert stage.operator().make_topic() == ""
    assert not stage.operator().delete_topic("x-doomed-1")
    assert len(stage.notes) == 2
