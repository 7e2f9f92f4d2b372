"""Programs that are run to their end, and those that do not end, or print without end, or leave others behind."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from support.processes import has_ended

from fencepost.harness.system import programs

CHILD = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"


def python(code):
    return [sys.executable, "-c", code]


def test_status_output_and_errors():
    done = programs.run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), 60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_both_streams_together():
    done = programs.run(python("import sys; print('out', flush=True); print('err', file=sys.stderr)"), 60, merged=True)
    assert (done.stdout, done.stderr) == ("out\nerr\n", "")


def test_bytes_that_are_no_utf_8_are_replaced():
    assert programs.run(python("import os; os.write(1, b'\\xff!')"), 60).stdout == "\ufffd!"


def test_it_has_no_input():
    assert programs.run(python("print(repr(input()) if False else repr(__import__('sys').stdin.read()))"), 60).stdout == "''\n"


def test_one_that_does_not_end_is_killed_with_its_children_and_its_output_is_kept():
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        programs.run(python(f"{CHILD}print(child.pid, flush=True)\nchild.wait()"), 2)
    assert has_ended(int(caught.value.output))
    assert time.monotonic() - began < 60


def test_what_it_leaves_behind_is_killed_and_not_waited_for():
    done = programs.run(python(f"{CHILD}print(child.pid, flush=True)"), 60)
    assert has_ended(int(done.stdout))


def test_output_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(programs, "MOST_OUTPUT", 1 << 16)
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        programs.run(["yes"], 1)
    assert len(caught.value.output) <= 1 << 16
    assert "bytes of this log were dropped here" in caught.value.output


def test_one_that_cannot_be_started(tmp_path):
    with pytest.raises(FileNotFoundError):
        programs.run([str(tmp_path / "absent")], 1)
