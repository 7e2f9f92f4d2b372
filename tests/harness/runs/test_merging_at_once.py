"""Several processes that want one run's history merged: one merges, the others wait, all go on with the same history."""

from __future__ import annotations

import subprocess
import sys

import pyarrow.parquet as pq

from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run, write_plan
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.runs import merging
from fencepost.harness.system import liveness

MERGES = """
import sys
from pathlib import Path
from fencepost.harness.history import merge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.runs.merging import merged
times, before = [], merge.merge
merge.merge = lambda run: (times.append(1), before(run))[1]
run = merged(open_run(Path(sys.argv[1])), lambda: print("merging", flush=True))
print(len(times), run.path("history.parquet").stat().st_ino, flush=True)
"""


def test_two_processes_merge_a_run_once_and_read_the_same_file(tmp_path):
    write_plan(tmp_path, {"run": "aaaaaa", "contract": {}})
    out = HistoryWriter(tmp_path / "history" / "c0-0.jsonl", run="aaaaaa", slot=0, node="c0", role="writer", pid=1)
    out.process(0, isolation="read_committed", final=False, transactional_id="fp-r-0", client="librdkafka 2")
    out.invoke(0, 0, "txn", [["send", "t-0", 7]], "commit")
    argv = [sys.executable, "-c", MERGES, str(tmp_path)]
    with liveness.alone(tmp_path, merging.MERGE_LOCK):
        both = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [process.stdout.readline() for process in both] == ["merging\n"] * 2
    answers = [process.communicate(timeout=60)[0].split() for process in both]
    assert sorted(times for times, _ in answers) == ["0", "1"]
    assert len({inode for _, inode in answers}) == 1
    assert pq.read_table(open_run(tmp_path).path(RunFile.HISTORY)).num_rows == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
