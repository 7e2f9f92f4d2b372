"""What runs may leave behind."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone

from harness.runs import leftovers
from harness.runs.leftovers import Process

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


def a_run(root, run_id, created="2026-11-01T00:00:00Z"):
    directory = root / "nightly" / f"20261101T000000Z-{run_id}"
    (directory / "data" / "n1").mkdir(parents=True)
    (directory / "plan.json").write_text(json.dumps({"run": run_id, "created": created}))
    return directory


def test_data_of_a_run_that_is_over_is_left_over_and_of_a_running_one_is_not(tmp_path):
    over, running = a_run(tmp_path, "aaaaaa"), a_run(tmp_path, "bbbbbb")
    performer = Process(7, 1, f"python -m harness.perform.performer {running}")
    assert leftovers.data_directories(tmp_path, [performer]) == [over / "data"]
    assert leftovers.old_runs(tmp_path, 5, [performer], NOW) == [over]


def test_only_runs_older_than_asked_are_old(tmp_path):
    a_run(tmp_path, "aaaaaa", created="2026-11-20T12:00:00Z")
    old = a_run(tmp_path, "bbbbbb", created="2026-11-10T12:00:00+00:00")
    undated = a_run(tmp_path, "cccccc", created="")
    assert leftovers.old_runs(tmp_path, 5, [], NOW) == [old]
    os.utime(undated, (0, 0))
    assert leftovers.old_runs(tmp_path, 5, [], NOW) == [undated, old]


def test_a_sandbox_without_its_harness_is_an_orphan():
    mine = Process(10, 500, "python -m clusters.local.init -- python")
    lost = Process(11, 1, "python -m clusters.local.init -- python")
    lost_too = Process(13, 1, "python -m clusters.docker.init -- python")
    other = Process(12, 1, "sleep 5")
    assert leftovers.orphaned_sandboxes([mine, lost, lost_too, other]) == [lost, lost_too]


def test_processes_are_seen_as_they_are():
    me = next(process for process in leftovers.processes() if process.pid == os.getpid())
    assert me.parent == os.getppid()
    assert "python" in me.command


def test_only_a_download_that_nobody_works_at_is_stale(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    for name in (".4.3.0-abandoned", ".4.3.0-fresh", "4.3.0"):
        (tmp_path / "kafka" / name).mkdir(parents=True)
    os.utime(tmp_path / "kafka" / ".4.3.0-abandoned", (0, 0))
    os.utime(tmp_path / "kafka" / "4.3.0", (0, 0))
    assert leftovers.stale_fetches() == [tmp_path / "kafka" / ".4.3.0-abandoned"]
