"""A worker whose machine lacks something says what, instead of dying again and again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import errno, sys
from fencepost.harness.perform import worker
worker.read_plan = lambda directory: {}
def work(plan, place, report):
    raise ERROR
worker.work = work
worker.main(["/nowhere", "0", "0", "0"])
"""


def ended(error):
    environment = {
        **os.environ,
        "FENCEPOST_BOOTSTRAP": "b:1",
        "FENCEPOST_SECOND_BOOTSTRAP": "",
        "FENCEPOST_CONNECTION": "{}",
        "FENCEPOST_NODE": "c0",
    }
    argv = [sys.executable, "-c", PROGRAM.replace("ERROR", error)]
    return subprocess.run(argv, env=environment, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("OSError(errno.ENOSPC, 'No space left on device')", "no room is left on the disk"),
        ("OSError(errno.EMFILE, 'Too many open files')", "files here, which are too few"),
        ("MemoryError()", "not enough memory"),
    ],
)
def test_what_a_worker_lacks_ends_the_run_with_a_sentence(error, words):
    done = ended(error)
    assert done.returncode == 0
    assert words in json.loads(done.stdout)["broken"]


def test_a_bug_is_in_the_workers_log():
    done = ended("KeyError('oops')")
    assert (done.returncode, "KeyError: 'oops'" in done.stderr, done.stdout) == (1, True, "")
