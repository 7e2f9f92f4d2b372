"""An instance of a program: its environment, its lives, its end."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.harness.api import Program
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform import instance
from fencepost.harness.perform.instance import Instance, Launch, environment, group_of

PLAN = {"prefix": "fp-ab12-", "topics": {"in": {}, "fp-ab12-out": {}}, "bootstrap": "10.0.0.1:9092"}
PROGRAM = Program(command=("true",), input="in", output="out")


NAMES = [f"FENCEPOST_{name}" for name in ("BOOTSTRAP", "CONNECTION", "INPUT", "OUTPUT", "GROUP", "INSTANCE", "DIRECTORY")]
NAMES.append("FENCEPOST_TRANSACTIONAL_ID")


class Control:
    def __init__(self):
        self.stop = threading.Event()


def lives(tmp_path, code, stop_after=None):
    """The reports and endings of an instance of a Python program; it is stopped after `stop_after` reports."""
    reports, control = [], Control()
    (tmp_path / "logs" / "c2").mkdir(parents=True)

    def report(message):
        reports.append(message)
        if len(reports) == stop_after:
            control.stop.set()

    program = replace(PROGRAM, command=(sys.executable, "-c", code) if isinstance(code, str) else code)
    writer = HistoryWriter(tmp_path / "c2-0.jsonl", run="ab12", slot=2, node="c2", role="instance", pid=1)
    Instance(Launch.of_program(PLAN, program, 2, tmp_path / "data" / "c2"), (2, 2), writer, control, report, tmp_path).run()
    lines = [json.loads(line) for line in (tmp_path / "c2-0.jsonl").read_text().splitlines()]
    return reports[1:], [line["value"]["ending"] for line in lines if line.get("type") == "ok"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(instance, "PAUSE_S", 0.01)
    monkeypatch.setattr(instance, "STARTED_S", 0.2)
    monkeypatch.setattr(instance, "SHORT_S", 60.0)  # a busy machine may need long to start Python
    monkeypatch.setattr(instance, "leads_group", lambda: False)  # or the tests' own group would be asked to end


def test_the_environment_says_where_everything_is_and_holds_no_variable_of_a_secret(monkeypatch):
    monkeypatch.setenv("PASSWORD_OF_IT", "hidden-here")
    variables = environment({**PLAN, "connection": {"sasl.password": "env:PASSWORD_OF_IT"}}, PROGRAM, 2, Path("/run/data/c2"))
    assert {name: variables.get(name) for name in NAMES} == {
        "FENCEPOST_BOOTSTRAP": "10.0.0.1:9092",
        "FENCEPOST_CONNECTION": '{"sasl.password": "hidden-here"}',
        "FENCEPOST_INPUT": "in",
        "FENCEPOST_OUTPUT": "fp-ab12-out",
        "FENCEPOST_GROUP": "fp-ab12-application",
        "FENCEPOST_INSTANCE": "2",
        "FENCEPOST_DIRECTORY": "/run/data/c2",
        "FENCEPOST_TRANSACTIONAL_ID": "fp-ab12-2",
    }
    assert "PASSWORD_OF_IT" not in variables
    plan = {**PLAN, "cluster": {"description": {"services": {"db": "10.0.0.9:5432"}}}}
    assert environment(plan, PROGRAM, 2, Path("/run/data/c2"))["FENCEPOST_SERVICE_DB"] == "10.0.0.9:5432"


def test_the_group_is_the_environments_or_one_of_its_own_or_unknown():
    assert [group_of(PLAN, replace(PROGRAM, group=name)) for name in ("FENCEPOST_GROUP", "mine", "")] == [
        "fp-ab12-application",
        "mine",
        "",
    ]


def test_a_program_that_ends_at_once_again_and_again_is_an_error_with_its_last_lines(tmp_path):
    frames = "\\tat org.Client.start(Client.java:12)\\n\\t... 7 more"
    reports, endings = lives(tmp_path, f"import sys; print('no such topic\\\\n{frames}'); sys.exit(3)")
    (broken,) = [report["broken"] for report in reports if "broken" in report]
    assert "ends at once again and again: exit 3: no such topic" in broken
    assert len(endings) == instance.MOST_SHORT


def test_a_command_that_is_not_there_is_an_error_at_once(tmp_path):
    reports, endings = lives(tmp_path, ("/nowhere/at-all",))
    assert "/nowhere/at-all cannot be started: No such file or directory" in reports[-1]["broken"]
    assert len(endings) == 1


def test_an_instance_is_ready_when_it_has_lived_for_a_while_and_ends_when_stopped(tmp_path):
    reports, endings = lives(tmp_path, "import time; time.sleep(60)", stop_after=2)
    assert reports == [{"ready": True}]
    assert endings == ["signal 15"]


def test_a_program_that_ends_is_started_again_with_a_note(tmp_path):
    reports, endings = lives(tmp_path, "print('bye')", stop_after=5)
    notes = [report["note"] for report in reports if "note" in report]
    assert len(notes) >= 2
    assert notes[0].startswith("instance c2 ended (exit 0: bye (")
    assert len(endings) >= len(notes)
