"""A way to judge a history of compact rows, and a real Spark cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from histories import History, write_history
from pyspark.sql import SparkSession
from standalone import Driver, standalone

from checkers.judge import judge
from checkers.lawful import CONTRACT


@pytest.fixture
def judged(spark: SparkSession, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Judge a history made of operations; the contract is that of transactions unless something else is given."""

    def run(history: History, contract: Mapping[str, str] | None = None, checks: Any = None, **plan: Any) -> dict[str, Any]:
        (tmp_path / "plan.json").write_text(json.dumps({"run": "r", "contract": {**CONTRACT, **(contract or {})}, **plan}))
        write_history(tmp_path, history.ops)
        return judge(tmp_path, spark=spark, checks=checks)

    return run


@pytest.fixture(scope="session")
def far(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the standalone cluster's driver and executors know as `viewfs://far/runs`, too."""
    return tmp_path_factory.mktemp("far")


@pytest.fixture(scope="session")
def driver(far: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver on a standalone Spark cluster: all that is asked of it runs there, one after the other."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder) as master:
        mapped = f"spark.hadoop.fs.viewfs.mounttable.far.link./runs=file:{far}"
        twice = ("spark.stage.maxConsecutiveAttempts=2", "spark.task.maxFailures=2")  # as on one machine
        driver = Driver(master, folder / "driver.log", mapped, *twice)
        try:
            yield driver
        finally:
            driver.close()
