"""Campaigns performed by an engine that performs nothing."""

from __future__ import annotations

import pytest
from support.fake_engine import FakeEngine

from fencepost.harness.cli import console, main


@pytest.fixture
def fencepost(stranger, monkeypatch, capsys):
    """Runs `fencepost` with arguments; returns its exit code, standard output and standard error."""
    engines = []

    def engine(results, master, on_event, spark_conf, *further):
        engines.append(call.engine(results=results, master=master, on_event=on_event, spark_conf=spark_conf))
        return engines[-1]

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main.main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    monkeypatch.setattr(console, "engine", engine)
    for name in ("COLUMNS", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    call.engines, call.engine = engines, FakeEngine
    return call
