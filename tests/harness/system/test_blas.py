"""numpy starts no threads where nobody asked for them. In processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
before = dict(os.environ)
from fencepost.harness.system.blas import import_numpy_without_threads
import_numpy_without_threads()
assert "numpy" in sys.modules or len(sys.argv) > 1
assert dict(os.environ) == before, "what is started from here would have fewer threads too"
import numpy
print(len(os.listdir("/proc/self/task")))
"""


def threads(words=(), **environment):
    """The number of threads that a process has once it has imported numpy."""
    own = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words], capture_output=True, text=True, env={**own, **environment}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_numpy_starts_no_threads_and_the_environment_stays_as_it_is():
    assert threads() == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: there would be one thread anyway")
def test_whoever_asks_for_threads_has_them():
    assert threads(["theirs"], OPENBLAS_NUM_THREADS="2") == 2
