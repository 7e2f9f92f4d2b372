"""A Spark session made ready for its first history while a test still runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from checkers.lawful_history import write_lawful
from checkers.verdict.judge import judge


def warm(spark: SparkSession) -> None:
    """Judge a tiny built-in history, so that JIT, code generation and Python workers are hot when the real one arrives."""
    with tempfile.TemporaryDirectory(prefix="fencepost-warm-") as folder:
        judge(write_lawful(Path(folder), transactions=200), spark=spark)
