"""As much of Spark as a short history needs, in this process: its partitions are judged one after the other, in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from checkers.lawful_history import CONTRACT
from checkers.verdict.judge import judge
from harness.runs.directory import open_run
from support.histories import write_history


class LocalData:
    """An RDD that is a list."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)

    def flatMap(self, make: Callable[[Any], Iterable[Any]]) -> LocalData:
        return LocalData(chain.from_iterable(map(make, self._items)))

    def collect(self) -> list[Any]:
        return self._items


def local_spark() -> Any:
    """Stands for a session where a history is short (`checkers.spark.gathering.SHORT_HISTORY`)."""
    context = SimpleNamespace(
        master="this process", defaultParallelism=1, parallelize=lambda items, tasks: LocalData(items), broadcast=None
    )
    return SimpleNamespace(sparkContext=context, stop=lambda: None)


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
    return judge(open_run(folder), spark=spark or local_spark(), checks=checks)
