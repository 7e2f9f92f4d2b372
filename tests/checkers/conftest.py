"""A way to write a history as compact rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.histories import History, write_history

from checkers.lawful_history import CONTRACT
from checkers.verdict.judge import judge
from harness.runs.directory import open_run


@pytest.fixture
def judged(spark: SparkSession, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Judge a history made of operations; the contract is that of transactions unless something else is given."""

    def run(history: History, contract: Mapping[str, str] | None = None, checks: Any = None, **plan: Any) -> dict[str, Any]:
        (tmp_path / "plan.json").write_text(json.dumps({"run": "r", "contract": {**CONTRACT, **(contract or {})}, **plan}))
        write_history(tmp_path, history.ops)
        return judge(open_run(tmp_path), spark=spark, checks=checks)

    return run
