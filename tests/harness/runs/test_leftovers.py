"""Leftovers of runs, and that nothing is touched that lives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from datetime import datetime, timezone

import pytest

from fencepost.harness.runs import leftovers
from fencepost.harness.runs.leftovers import Process
from fencepost.harness.system import liveness
from fencepost.harness.system.python_command import module_command

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
SANDBOX = (sys.executable, "-m", "fencepost.clusters.local.init", "--", "sleep", "60")
FIRST_PROCESS = """
import os, subprocess, sys
from fencepost.harness.system.python_command import module_command
from fencepost.harness.runs import leftovers
sandbox = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
while not (seen := [process for process in leftovers.processes() if process.is_sandbox]):
    pass
print(os.getpid(), seen[0].parent, len(leftovers.orphaned_sandboxes(leftovers.processes())))
"""


def a_run(root, run_id, created="2026-11-01T00:00:00Z"):
    directory = root / "nightly" / f"20261101T000000Z-{run_id}"
    (directory / "data" / "n1").mkdir(parents=True)
    (directory / "plan.json").write_text(json.dumps({"run": run_id, "created": created}))
    return directory


def unused(candidates, running=()):
    """Directories of the candidates that are not in use."""
    directories = []
    for candidate in candidates:
        with candidate.unused(running) as user:
            directories += [] if user else [candidate.directory]
    return directories


def test_data_of_a_run_that_is_over_is_left_over_and_of_a_running_one_is_not(tmp_path):
    """It is held, or, if its harness is of an older version, a process names it."""
    over, running, older = a_run(tmp_path, "aaaaaa"), a_run(tmp_path, "bbbbbb"), a_run(tmp_path, "cccccc")
    performer = Process(7, 1, ("python", "-m", "fencepost.harness.perform.performer", str(older)))
    with liveness.hold(running):
        assert unused(leftovers.data_directories(tmp_path), [performer]) == [over / "data"]
        assert unused(leftovers.old_runs(tmp_path, 5, NOW), [performer]) == [over]
    assert unused(leftovers.data_directories(tmp_path)) == [over / "data", running / "data", older / "data"]


def test_data_that_is_a_link_is_nothing_of_ours(tmp_path):
    run = a_run(tmp_path, "aaaaaa")
    (run / "data" / "n1").rmdir()
    (run / "data").rmdir()
    (run / "data").symlink_to(tmp_path)
    assert leftovers.data_directories(tmp_path) == []


def test_only_runs_older_than_the_given_age_are_old(tmp_path):
    a_run(tmp_path, "aaaaaa", created="2026-11-20T12:00:00Z")
    old = a_run(tmp_path, "bbbbbb", created="2026-11-10T12:00:00+00:00")
    undated = a_run(tmp_path, "cccccc", created="")
    assert [run.directory for run in leftovers.old_runs(tmp_path, 5, NOW)] == [old]
    os.utime(undated, (0, 0))
    assert [run.directory for run in leftovers.old_runs(tmp_path, 5, NOW)] == [undated, old]


def test_a_program_that_names_a_sandbox_is_none():
    assert Process(10, 1, ("/usr/bin/python3.11", *SANDBOX[1:])).is_sandbox
    assert Process(10, 1, ("python", "-m", "fencepost.clusters.docker.init", "--", "python")).is_sandbox
    assert Process(10, 1, tuple(module_command("fencepost.clusters.local.init", "--", "python"))).is_sandbox
    for words in (
        ("grep", "-m", "fencepost.clusters.local.init"),
        ("python", "fencepost.clusters.local.init"),
        ("vi", "clusters/local/init.py"),
        ("",),
    ):
        assert not Process(10, 1, words).is_sandbox


@pytest.fixture
def sandbox():
    process = subprocess.Popen(SANDBOX, stdin=subprocess.PIPE, start_new_session=True)
    yield process
    process.kill()
    process.communicate()


def test_a_sandbox_is_an_orphan_when_no_process_has_the_other_end_of_its_lifeline(sandbox, monkeypatch):
    """Whatever its parent is. It would end by itself, if it were not frozen."""
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0.2)
    seen = [Process(sandbox.pid, 1, SANDBOX)]
    assert leftovers.orphaned_sandboxes(seen) == []
    sandbox.send_signal(signal.SIGSTOP)
    sandbox.stdin.close()
    assert leftovers.orphaned_sandboxes(seen) == seen
    leftovers.end(seen[0])
    assert sandbox.wait(60) == -signal.SIGKILL
    leftovers.end(seen[0])


def test_a_sandbox_that_is_ending_has_time_to(sandbox, monkeypatch):
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 60.0)
    sandbox.stdin.close()
    assert leftovers.orphaned_sandboxes([Process(sandbox.pid, 1, SANDBOX)]) == []


def test_what_cannot_be_seen_of_a_process_is_no_reason_to_end_it():
    with open(os.devnull) as nothing, subprocess.Popen(["sleep", "60"], stdin=nothing) as process:
        assert not leftovers.has_lost_its_harness(process.pid)
        process.kill()
    assert not leftovers.has_lost_its_harness(1 << 22)


def test_a_harness_that_is_process_1_of_a_container_lives():
    """The parent of its sandbox is process 1, and yet no orphan."""
    container = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
    argv = [*container, sys.executable, "-c", FIRST_PROCESS, *SANDBOX]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stdout == "1 1 0\n", done.stderr


def test_processes_are_seen_as_they_are():
    me = next(process for process in leftovers.processes() if process.pid == os.getpid())
    assert me.parent == os.getppid()
    assert "python" in me.command


def test_downloads_are_stale_when_no_fetch_is_under_way(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    for name in (".4.3.0-abandoned", ".4.3.0-fresh", "4.3.0"):
        (tmp_path / "kafka" / name).mkdir(parents=True)
    with liveness.hold(tmp_path / "kafka"):
        assert unused(leftovers.downloads()) == []
    assert sorted(unused(leftovers.downloads())) == [tmp_path / "kafka" / ".4.3.0-abandoned", tmp_path / "kafka" / ".4.3.0-fresh"]


def test_temporary_directories_of_killed_sessions_are_left_over(tmp_path, monkeypatch):
    """Not those in use, not links, not what is called otherwise; without a lock (of an older version) only after a day."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, live = (liveness.TemporaryPlace(kind) for kind in ("spark", "warm"))
    dead._hold.close()
    for name in ("fencepost-spark-old", "fencepost-shared-young", "fencepost-nemesis-kept", "somebodys"):
        (tmp_path / name).mkdir()
    (tmp_path / "fencepost-spark-link").symlink_to(tmp_path / "somebodys")
    os.utime(tmp_path / "fencepost-spark-old", (0, 0))
    assert unused(leftovers.temporary_directories()) == [*sorted([dead.path, tmp_path / "fencepost-spark-old"])]
    live.remove()
