"""The workload `mirror`: workers of Connect between the writers and the readers of `application`."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from fencepost.harness.api import ConnectAnswer, LogRecord, Operation, Outcome
from fencepost.workloads.mirror import Mirror

PARTITIONS = ["in-0", "in-1", "mirror.in-0", "mirror.in-1"]
STORED = b'["source",{"cluster":"mirror","partition":1,"topic":"in"}]'  # the key of an offset that MirrorMaker stores


def role(name):
    return next(declared for declared in Mirror().roles() if declared.name == name)


def test_a_worker_is_an_instance_that_is_judged_as_a_program():
    worker = role("instance")
    assert worker.runs is worker.connect
    assert (worker.program.input, worker.program.output, worker.program.group) == ("in", "mirror.in", "")
    assert role("conductor").runs is None
    assert {name: spec.partitions for name, spec in Mirror(partitions=3).topics().items()} == {"in": 3, "mirror.in": 3}


def test_writers_write_only_the_input():
    planned = islice(Mirror().operations(role("writer"), PARTITIONS, Random(1)), 30)
    assert {mop[1] for operation in planned for mop in operation.mops if mop[0] == "send"} == {"in-0", "in-1"}


class Rest:
    directory, bootstrap, second, config = Path(), "10.0.0.1:9092", "10.0.0.2:9092", {}

    def ask(self, method, path, body=None):
        self.config.update(body)
        return ConnectAnswer(201, {}, "c3")


@pytest.mark.parametrize(("isolation", "support"), [("read_committed", "required"), ("read_uncommitted", "requested")])
def test_the_connector_is_configured_with_both_clusters_and_how_to_read(isolation, support, monkeypatch):
    monkeypatch.setattr("fencepost.workloads.connect.clock.sleep", lambda _: None)
    workload = Mirror(isolation=isolation, config={"tasks.max": "7"})
    op = Operation.of(3, 0, next(workload.operations(role("conductor"), PARTITIONS, Random(1))))
    assert workload.perform(op, Rest(), "r") is Outcome.OK
    config = Rest.config
    assert config["source.cluster.bootstrap.servers"] == config["target.cluster.bootstrap.servers"] == "10.0.0.1:9092"
    assert (config["consumer.isolation.level"], config["exactly.once.support"]) == (isolation, support)
    assert config["tasks.max"] == "7"


def record(topic, key, value):
    place = {"partition": f"{topic}-0", "offset": 0, "timestamp_ms": 0, "producer_id": 1, "producer_epoch": 0}
    return LogRecord(**place, transactional=True, kind="record", key=key, value=value)


def test_of_the_logs_only_connects_own_state_is_recorded():
    workload = Mirror()
    assert workload.entry(record("mirror.in", b"k", b'{"source":"3","number":1}'), "fp-") is None
    assert workload.entry(record("fp-connect-offsets", b'["source",{"source":"3"}]', b'{"number":1}'), "fp-") is None
    assert workload.entry(record("fp-connect-configs", b"commit-source", b'{"tasks":2}'), "fp-").kind == "generation"
    assert {"mirror.in", "fp-connect-configs"} <= set(workload.logs("fp-"))


def test_the_source_may_be_another_cluster(monkeypatch):
    monkeypatch.setattr("fencepost.workloads.connect.clock.sleep", lambda _: None)
    workload = Mirror(source_cluster="second", readers=2, writers=3)
    assert {name: spec.cluster for name, spec in workload.topics().items()} == {"in": "second", "mirror.in": ""}
    places = [(declared.name, declared.cluster) for declared in workload.roles() if declared.name != "instance"]
    assert sorted(places) == sorted(
        [("writer", "second")] * 3 + [("reader", "second")] * 2 + [("reader", "")] * 2 + [("conductor", "")]
    )
    assert {declared.cluster for declared in workload.roles() if declared.worker} == {""}
    op = Operation.of(3, 0, next(workload.operations(role("conductor"), PARTITIONS, Random(1))))
    assert workload.perform(op, Rest(), "r") is Outcome.OK
    servers = {name: Rest.config[f"{name}.cluster.bootstrap.servers"] for name in ("source", "target")}
    assert servers == {"source": "10.0.0.2:9092", "target": "10.0.0.1:9092"}


def test_offsets_are_not_altered_here():
    with pytest.raises(ValueError, match="changes: after reset-offsets records may be copied again"):
        Mirror(changes=("tasks", "reset-offsets"))


def test_stored_offsets_are_of_the_input_and_asked_for_no_position():
    plans, paths, ended = Mirror().operations(role("conductor"), PARTITIONS, Random(1)), [], None
    planned = next(plans)
    for _ in range(9):
        paths.append(planned.request["path"].removeprefix("/connectors/source"))
        ended = Operation.of(3, 0, planned)
        ended.outcome, ended.value = Outcome.OK, {**ended.value, "status": 200, "answer": {}}
        planned = plans.send(ended)
    assert paths.count("/status") > 3
    assert "/offsets" not in paths
    assert Mirror().entry(record("fp-connect-offsets", STORED, b'{"offset":469}'), "fp-") is None
