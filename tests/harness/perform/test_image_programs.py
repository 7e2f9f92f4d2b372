"""Programs in images: a worker and the performer, and between them what would be two pipes."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from fencepost.harness.api import ClusterError, Program
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform import instance, remote_program
from fencepost.harness.perform.image_programs import ImagePrograms
from fencepost.harness.perform.instance import Instance, Launch
from fencepost.harness.perform.remote_program import RemoteProgram

PLAN = {"prefix": "fp-ab12-", "topics": {"in": {}, "out": {}}, "bootstrap": "10.0.0.1:9092"}
PROGRAM = Program(command=(), image="mine:1", input="in", output="out")


class Started:
    """A container, by what is used of it."""

    def __init__(self):
        self.ended, self.status = threading.Event(), 0

    def wait(self, timeout=None):
        self.ended.wait(60)
        return self.status

    def end(self, status):
        self.status = status
        self.ended.set()


class Docker:
    """A cluster that runs images; refusal: why it does not."""

    def __init__(self, refusal=""):
        self.refusal, self.started, self.signals = refusal, [], []

    def run_image(self, client, image, argv, environment, log, directory):
        if self.refusal:
            raise ClusterError(self.refusal)
        self.started.append((client, image, argv, dict(environment), log, directory))
        self.program = Started()
        return self.program

    def signal_image(self, client, signal):
        self.signals.append((client, signal))
        self.program.end(143 if signal == "SIGTERM" else 137)


def joined(cluster, tmp_path):
    """A remote program whose worker is c2."""
    programs = ImagePrograms(cluster, tmp_path, "mine:1", ("serve",))
    made = RemoteProgram(lambda message: programs.take(2, message["program"], made.answered))
    return made


def test_an_image_starts_with_the_variables_of_fencepost_and_none_of_this_machines(tmp_path):
    cluster = Docker()
    program = joined(cluster, tmp_path)
    assert program.start({"FENCEPOST_INPUT": "in", "PATH": "/bin"}) == ""
    ((client, image, argv, environment, log, directory),) = cluster.started
    assert (client, image, argv, environment) == ("c2", "mine:1", ("serve",), {"FENCEPOST_INPUT": "in"})
    assert (log, directory) == (tmp_path / "logs" / "c2" / "application.log", tmp_path / "data" / "c2")
    assert program.poll() is None
    cluster.program.end(3)
    assert program.wait(60) == 3


def test_it_gets_sigterm_and_is_killed_when_it_does_not_end(tmp_path):
    cluster = Docker()
    program = joined(cluster, tmp_path)
    program.start({})
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.terminate()
    assert (program.wait(60), cluster.signals) == (143, [("c2", "SIGTERM")])
    program.start({})
    assert program.poll() is None
    program.kill()
    assert (program.wait(60), cluster.signals[1:]) == (137, [("c2", "SIGKILL")])


def test_an_image_that_cannot_be_started_is_answered_with_the_reason(tmp_path, monkeypatch):
    assert joined(Docker("there is no image mine:1"), tmp_path).start({}) == "there is no image mine:1"
    assert "on a cluster in Docker" in joined(object(), tmp_path).start({})
    monkeypatch.setattr(remote_program, "STARTED_S", 0.01)
    assert RemoteProgram(lambda message: None).start({}) == "no answer within 0 s"


class Control:
    on_program = None

    def __init__(self):
        self.stop = threading.Event()


def test_an_instance_of_an_image_has_lives_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr(instance, "PAUSE_S", 0.01)
    (tmp_path / "logs" / "c2").mkdir(parents=True)
    (tmp_path / "logs" / "c2" / "application.log").write_text("no such topic\n")
    cluster, control, reports = Docker(), Control(), []
    programs = ImagePrograms(cluster, tmp_path, "mine:1", ())

    def report(message):
        reports.append(message)
        if "program" in message:
            programs.take(2, message["program"], control.on_program)
            if len(cluster.started) == 1:
                cluster.program.end(1)
            else:
                control.stop.set()

    writer = HistoryWriter(tmp_path / "c2-0.jsonl", run="ab12", slot=2, node="c2", role="instance", pid=1)
    Instance(Launch.of_program(PLAN, PROGRAM, 2, tmp_path / "data" / "c2"), (2, 2), writer, control, report, tmp_path).run()
    lines = [json.loads(line) for line in (tmp_path / "c2-0.jsonl").read_text().splitlines()]
    endings = [line["value"]["ending"] for line in lines if line.get("type") == "ok"]
    assert endings[0].startswith("exit 1: no such topic")
    assert endings[1:] == ["exit 143"]
    assert cluster.signals == [("c2", "SIGTERM")]
