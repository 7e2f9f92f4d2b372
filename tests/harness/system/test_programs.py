"""Programs that are run to their end, and those that do not end, or print without end, or leave others behind."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

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


def killed(argv):
    """The output of a program that does not end: it has a second to write it, and more where that was not enough."""
    for timeout_s in (1, 8, 60):
        with pytest.raises(subprocess.TimeoutExpired) as caught:
            programs.run(argv, timeout_s)
        if caught.value.output:
            break
    return caught.value.output


def test_one_that_does_not_end_is_killed_with_its_children_and_its_output_is_kept():
    assert has_ended(int(killed(python(f"{CHILD}print(child.pid, flush=True)\nchild.wait()"))))


def test_one_that_ends_while_this_process_does_not_run_has_ended_in_time(monkeypatch):
    class Process:
        def wait(self, timeout):
            now[0] = 61.0
            raise subprocess.TimeoutExpired("", timeout)

        def poll(self):
            return 0

    now = [0.0]
    monkeypatch.setattr(programs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert programs._await(Process(), 60.0, ())


def test_what_it_leaves_behind_is_killed_and_not_waited_for():
    done = programs.run(python(f"{CHILD}print(child.pid, flush=True)"), 60)
    assert has_ended(int(done.stdout))


def test_output_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(programs, "MOST_OUTPUT", 1 << 16)
    output = killed(["yes"])
    assert len(output) <= 1 << 16
    assert "bytes of this log were dropped here" in output


def test_one_that_cannot_be_started(tmp_path):
    with pytest.raises(FileNotFoundError):
        programs.run([str(tmp_path / "absent")], 1)
