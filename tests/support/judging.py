"""The verdict on a few operations, in the tests' own process: no session is started for a short history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from support.histories import write_history


def no_session(*_: Any) -> Any:
    """Fail: no session may be needed here."""
    raise AssertionError("a short history needs no Spark session")


def judge_here(
    folder: Path,
    ops: Sequence[Mapping[str, Any]],
    contract: Mapping[str, str] | None = None,
    checks: Sequence[Any] | None = None,
    spark: Any = None,
    **plan: Any,
) -> Any:
    """The verdict's document for some operations (by all installed checks, or by some), judged in this process or by a session.

    `anomalies.parquet` lies in the folder after it.
    """
    (folder / "plan.json").write_text(json.dumps({"run": "r", "contract": {**CONTRACT, **(contract or {})}, **plan}))
    write_history(folder, ops)
    return judge(open_run(folder), spark=spark or no_session, here=spark is None, checks=checks)
