"""The history of a run, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.checkers.history.source import LocalSource, Source
from fencepost.harness.api.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def source_of(run: Run, spark: Callable[[], SparkSession]) -> Source:
    """The merged history of a run. Only one on another file system asks for a session."""
    if not run.is_remote:
        return LocalSource(Path(run.history))
    from fencepost.checkers.history.spark_source import SparkSource

    return SparkSource(run.history, spark())
