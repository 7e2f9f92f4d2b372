"""What a session imports before SQL is used. In a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
from fencepost.checkers.engine.session import start_session
spark = start_session("local[1]")
assert spark.sparkContext.parallelize([1, 2]).sum() == 3
assert "pyspark.testing" not in sys.modules
from pyspark.sql import functions
frame = spark.range(1).select(functions.lit(np.int64(7)), functions.lit(np.array([1, 2])))
assert frame.first() == (7, [1, 2]), frame.first()
"""


@pytest.mark.spark
def test_sparks_tests_are_not_imported_for_numbers_of_numpy_and_sql_takes_these():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
