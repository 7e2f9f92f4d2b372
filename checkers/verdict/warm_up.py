"""A Spark session made ready for its first history while a test still runs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.system import liveness


def warm(spark: SparkSession) -> None:
    """Judge a tiny built-in history, so that JIT, code generation and Python workers are hot when the real one arrives."""
    with liveness.temporary_directory("warm") as folder:
        judge(write_lawful(folder, transactions=200), spark=spark)
