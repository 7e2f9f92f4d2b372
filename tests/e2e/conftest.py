"""The command in the tests' own process, on a Spark that is warm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.harness.cli import main


@pytest.fixture
def here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`fencepost ARGUMENTS --results ...` in this process, on the tests' own Spark session: exit code, output, error output."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main.main([*arguments, "--results", str(tmp_path / "results")])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    return call
