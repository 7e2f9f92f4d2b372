"""A way to write a history as compact rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.histories import History
from support.judging import judge_here

Judge = Callable[..., dict[str, Any]]


@pytest.fixture
def judged(tmp_path: Path) -> Judge:
    """Judge a history made of operations, in this process; the contract is that of transactions unless another is given."""

    def run(history: History, contract: Mapping[str, str] | None = None, checks: Any = None, **plan: Any) -> dict[str, Any]:
        return judge_here(tmp_path, history.ops, contract, checks, **plan)

    return run


@pytest.fixture
def judged_by_spark(spark: SparkSession, tmp_path: Path) -> Judge:
    """The same by a real session: for long histories, and for what executors do."""

    def run(history: History, contract: Mapping[str, str] | None = None, checks: Any = None, **plan: Any) -> dict[str, Any]:
        return judge_here(tmp_path, history.ops, contract, checks, spark, **plan)

    return run
