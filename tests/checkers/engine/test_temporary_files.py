"""Sessions leave nothing in the temporary directory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SESSIONS = """
from fencepost.checkers.engine.session import start_session
for stopped in (True, False):
    session = start_session("local[1]")
    assert session.sparkContext.parallelize(range(9), 2).map(lambda one: (one % 2, one)).groupByKey().count() == 2
    if stopped:
        session.stop()
"""


@pytest.mark.nightly
@pytest.mark.spark
def test_sessions_one_after_the_other_leave_nothing_when_the_process_ends(tmp_path):
    """The second uses the JVM of the first, not its files; and nothing stops it."""
    done = subprocess.run([sys.executable, "-c", SESSIONS], env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=240)
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("fencepost-")] == []
