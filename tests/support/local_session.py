"""What stands in for a Spark session where a short history is judged in one process: no JVM, no workers, milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.lawful_history import CONTRACT
from checkers.verdict.judge import judge
from harness.runs.directory import open_run
from support.histories import write_history


class _Rows:
    """A list with the methods of an RDD that a short history needs."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> _Rows:
        return _Rows(made for item in self._items for made in function(item))

    def collect(self) -> list[Any]:
        return self._items


class _Context:
    master, defaultParallelism = "local", 1

    def parallelize(self, items: Iterable[Any], tasks: int = 1) -> _Rows:
        return _Rows(items)


class LocalSession:
    """A session for histories of few operations."""

    sparkContext = _Context()


def judge_here(
    folder: Path,
    ops: Sequence[Mapping[str, Any]],
    contract: Mapping[str, str] | None = None,
    checks: Sequence[Any] | None = None,
    **plan: Any,
) -> Any:
    """The verdict's document for some operations, judged in this process (by all installed checks, or by some).

    `anomalies.parquet` lies in the folder after it.
    """
    (folder / "plan.json").write_text(json.dumps({"run": "r", "contract": {**CONTRACT, **(contract or {})}, **plan}))
    write_history(folder, ops)
    return judge(open_run(folder), spark=LocalSession(), checks=checks)  # type: ignore[arg-type]
