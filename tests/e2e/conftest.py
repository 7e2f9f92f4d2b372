"""The command in the tests' own process, on a Spark that is warm or on none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.judging import no_session

from fencepost.checkers.service import SparkJudge
from fencepost.harness.cli import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(spark: SparkSession, in_process: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`in_process`, on the tests' own Spark session."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    return in_process


@pytest.fixture
def without_spark(in_process: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`in_process`, for short histories: a session is not started, and who asks for one fails."""
    monkeypatch.setattr(SparkJudge, "start_session", no_session)
    return in_process


@pytest.fixture
def in_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """`fencepost ARGUMENTS --results ...` in this process: exit code, output, error output."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main.main([*arguments, "--results", str(tmp_path / "results")])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    return call
