"""A Python worker, or on a standalone cluster a whole executor, that is lost in the middle of a check."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_standalone_cluster import cluster  # noqa: F401 - the fixture

from checkers.lawful import write_lawful

PATIENCE_S = 300.0
# Judges a run with one more check, which on its first call ends something, and waits for it where that takes a moment.
JUDGE = """
import os, signal, sys, time
from pathlib import Path
from checkers.anomaly import Suspects, installed_checks, partition_check
from checkers.judge import judge
from checkers.session import start_session

folder, master, what, times = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
conf = dict(text.split("=") for text in sys.argv[5:])

def executor():
    at = os.getpid()
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{at}/cmdline").read_bytes():
        at = int(Path(f"/proc/{at}/stat").read_text().rpartition(")")[2].split()[1])
    return at

def fatal(log):
    "Ends its Python worker or its executor so many times, as the kernel does when memory gives out."
    for turn in range(times):
        try:
            (folder / f"ended-{turn}").open("x").close()
        except FileExistsError:
            continue
        os.kill(os.getpid() if what == "worker" else executor(), signal.SIGKILL)
        time.sleep(60)
    return Suspects(1)

judge(folder, start_session(master, conf=conf), checks=[*installed_checks()[0], partition_check("fatal")(fatal)])
"""


def judged(folder, master, what, times, *conf):
    """The verdict, the seconds it took, and how often the check ended something."""
    command = [sys.executable, "-c", JUDGE, str(folder), master, what, str(times), *conf]
    began = time.monotonic()
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}, start_new_session=True
    )
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"no verdict within {PATIENCE_S} s") from None
    assert process.returncode == 0, said[-3000:]
    assert time.monotonic() - began < PATIENCE_S
    return json.loads((folder / "verdict.json").read_text()), len(list(folder.glob("ended-*")))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    write_lawful(tmp_path, transactions=300, partitions=4, seed=3, row_group=200)
    return tmp_path


@pytest.mark.cluster
@pytest.mark.parametrize("what", ["worker", "executor"])
def test_what_is_lost_once_is_done_again_and_the_verdict_is_right(cluster, history, what):  # noqa: F811
    document, ended = judged(history, cluster, what, 1)
    assert ended == 1, "the check never ended anything"
    assert document["verdict"] == "valid", document["reason"]
    assert all(one["compared"] for one in document["properties"] if one["name"] in ("lost-write", "duplicate", "fatal"))


def test_a_worker_lost_once_on_this_machine_is_done_again(history):
    document, ended = judged(history, "local[2]", "worker", 1)
    assert ended == 1, "the check never ended anything"
    assert document["verdict"] == "valid", document["reason"]


@pytest.mark.cluster
def test_executors_that_are_lost_for_ever_end_in_an_honest_unknown(cluster, history):  # noqa: F811
    document, ended = judged(history, cluster, "executor", 1000, "spark.stage.maxConsecutiveAttempts=2")
    assert ended > 1
    assert document["verdict"] == "unknown"
    assert "the Spark job did not finish" in document["reason"]
