"""As much of Spark as a short history needs, in this process: its partitions are judged one after the other, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from types import SimpleNamespace
from typing import Any


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
