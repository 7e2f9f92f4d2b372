"""`fencepost example`: programs that come with fencepost, on its own interpreter."""

from __future__ import annotations

import os
import sys

import pytest

from fencepost.harness.cli import main
from fencepost.harness.cli.example import BOOTSTRAP, OF_RUNS
from fencepost.harness.system.package_files import EXAMPLES, example_programs


def run(*words):
    with pytest.raises(SystemExit) as left:
        main.main(["example", *words])
    return left.value.code


def test_without_a_name_all_are_listed_with_what_they_are(capsys):
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    listed = lines[: len(example_programs())]
    assert [line.split()[0] for line in listed] == list(example_programs())
    assert all(len(line.split()) > 5 for line in listed)
    assert str(EXAMPLES) in lines[-1]


def test_a_program_is_run_with_all_words_behind_its_name(monkeypatch):
    executed = []
    monkeypatch.setattr(os, "execv", lambda *what: executed.append(what))
    assert run("streams", "fetch", "--help", "-x", "4.2.0") == 0
    program = str(EXAMPLES / "applications" / "streams.py")
    assert executed == [(sys.executable, [sys.executable, program, "fetch", "--help", "-x", "4.2.0"])]


def test_an_unknown_program_is_a_mistake(capsys):
    assert run("stream") == 254
    assert 'unknown program "stream"; did you mean "streams"?' in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, path in example_programs().items() if path.parent.name in OF_RUNS])
def test_a_program_of_a_run_says_which_run_starts_it(monkeypatch, capsys, name):
    """By hand it has no broker: it would end with a traceback."""
    monkeypatch.delenv(BOOTSTRAP, raising=False)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it is started"))
    assert run(name) == 254
    said = capsys.readouterr().err
    (command, *_) = [line for line in said.splitlines() if line.startswith("fencepost run -w ")]
    assert f"/{name}.py" in command or command == "fencepost run -w sink", "the sink that comes along is the workload's default"
    assert "  " not in command
    monkeypatch.setenv(BOOTSTRAP, "127.0.0.1:9092")
    monkeypatch.setattr(os, "execv", lambda *_: None)
    assert run(name) == 0
