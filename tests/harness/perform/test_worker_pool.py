"""The pool of workers: a worker that ends by request is not replaced."""

import io
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from fencepost.clusters.kafka.instances import RunningInstances
from fencepost.harness.api import ClusterError
from fencepost.harness.perform.worker_pool import WorkerPool, unfinished

# Ends with its input, and reports nothing of that: as a worker whose last report has not been read yet.
WORKER = """
import sys
import time
print('{"ready": true}', flush=True)
sys.stdin.readline()
"""


class OneHost:
    """A cluster whose clients are plain processes of this machine."""

    def __init__(self):
        self.started = []

    def bootstrap(self):
        return "127.0.0.1:9092"

    def connection(self):
        return {}

    def spawn(self, node, argv, *, reads, **options):
        self.started.append(subprocess.Popen([sys.executable, "-c", WORKER], **options))
        return self.started[-1]


def test_after_the_stop_no_worker_is_replaced_and_before_it_every_one(tmp_path):
    """A replacement would write while the final readers read."""
    cluster, notes = OneHost(), []
    pool = WorkerPool(cluster, tmp_path, 2, notes.append)
    pool.start([0, 1])
    cluster.started[0].kill()
    assert tended(pool, lambda: pool.replaced == 1)
    assert len(cluster.started) == 3
    pool.stop(60.0)
    pool.tend()
    assert [worker.poll() is not None for worker in cluster.started] == [True] * 3
    assert (pool.replaced, len(cluster.started)) == (1, 3)
    assert notes == ["worker 0 is gone (exit -9); replaced"]


class Scaled(OneHost, RunningInstances):
    """One whose clients are instances of a program."""

    def __init__(self, states):
        super().__init__()
        RunningInstances.__init__(self)
        self.note_instances(states)

    def running(self):
        return [number for number, worker in enumerate(self.started) if worker.poll() is None]


def tended(pool, condition):
    """Tend the pool until a condition holds; returns whether it does."""
    deadline = time.monotonic() + 60
    while not (holds := condition()) and time.monotonic() < deadline:
        pool.tend()
        time.sleep(0.01)
    return holds


def test_a_retired_instance_ends_and_runs_again_when_it_is_recalled(tmp_path):
    cluster, notes = Scaled({"c0": True, "c1": True}), []
    pool = WorkerPool(cluster, tmp_path, 2, notes.append)
    pool.start([0, 1])
    cluster.retire("c1")
    assert tended(pool, lambda: cluster.running() == [0])
    pool.tend()
    assert (pool.replaced, len(cluster.started), notes) == (0, 2, [])
    cluster.recall("c1")
    assert tended(pool, lambda: cluster.running() == [0, 2])
    pool.stop(60.0)
    assert cluster.running() == []


def test_a_spare_is_started_when_it_is_recalled_and_not_after_the_stop(tmp_path):
    cluster = Scaled({"c0": True, "c1": False})
    announced = []
    pool = WorkerPool(cluster, tmp_path, 2, lambda _: None, announced.extend)
    pool.start([0])
    pool.tend()
    assert len(cluster.started) == 1
    cluster.recall("c1")
    assert tended(pool, lambda: cluster.running() == [0, 1])
    assert announced == [(0, 0), (1, 0)]
    cluster.retire("c1")
    assert tended(pool, lambda: cluster.running() == [0])
    pool.stop(60.0)
    cluster.recall("c1")
    pool.tend()
    assert cluster.running() == []


def test_a_worker_that_goes_on_learns_that_the_workload_is_over_and_so_does_its_replacement(tmp_path):
    cluster = OneHost()
    pool = WorkerPool(cluster, tmp_path, 2, lambda _: None)
    pool.start([0, 1])
    pool.close_down({1})  # these workers end with any line
    assert tended(pool, lambda: len(cluster.started) == 3)
    assert cluster.started[2].wait(60) == 0
    assert cluster.started[0].poll() is None
    pool.stop(60.0)


class Scripted(OneHost):
    """A cluster whose clients report some lines each, and go on (`None`) or end."""

    def __init__(self, *scripts):
        super().__init__()
        self.scripts = list(scripts)

    def spawn(self, node, argv, *, reads, **options):
        lines = [line for line in self.scripts[len(self.started)] if line]
        wait = "sys.stdin.read()" if None in self.scripts[len(self.started)] else ""
        program = f"import sys\nfor line in {lines!r}: print(line, flush=True)\n{wait}"
        self.started.append(subprocess.Popen([sys.executable, "-c", program], **options))
        return self.started[-1]


def test_a_worker_that_is_gone_is_waited_for_no_longer(tmp_path):
    """A final reader that somebody has killed, one whose disk is full, one that hangs, and one that has done its work."""
    cluster = Scripted([None], ['{"broken": "no room is left"}'], [None], ['{"done": true}', None])
    killed, full, hanging, done = WorkerPool(cluster, tmp_path, 4, lambda _: None).launch(range(4), {slot: {} for slot in "0123"})
    killed.popen.kill()
    assert unfinished(killed, 60.0) == "it is gone (exit -9)"
    assert unfinished(full, 60.0) == "no room is left"
    assert unfinished(done, 60.0) == ""
    assert unfinished(hanging, 0.0) == "it was not done within 0 s"
    for process in cluster.started:
        process.kill()
        process.wait()


class Unheard(OneHost):
    """A cluster whose clients have ended, and their reports come later."""

    def spawn(self, node, argv, *, reads, **options):
        reading, self.reports = os.pipe()
        ended = {"poll": lambda: 0, "wait": lambda timeout=None: 0, "returncode": 0}
        self.started.append(SimpleNamespace(stdin=io.BytesIO(), stdout=os.fdopen(reading, "rb"), **ended))
        os.write(self.reports, b'{"ready": true}\n')
        return self.started[-1]


@pytest.mark.parametrize("last", ["", '{"done": true}', '{"broken": "no room is left"}'])
def test_what_a_worker_has_said_at_its_end_is_heard_before_it_is_replaced(tmp_path, last):
    cluster = Unheard()
    pool = WorkerPool(cluster, tmp_path, 1, lambda _: None)
    pool.start([0])
    pool.tend()
    assert pool.replaced == 0
    worker = pool._workers[0]
    os.write(cluster.reports, f"{last}\n".encode() if last else b"")
    os.close(cluster.reports)
    assert worker.over.wait(60)
    if "broken" in last:
        with pytest.raises(ClusterError, match="no room is left"):
            pool.tend()
    else:
        pool.tend()
        assert pool.replaced == ("done" not in last)


def test_a_worker_that_says_that_it_is_done_and_ends_between_two_looks_has_done_its_work():
    over = threading.Event()

    class Done(threading.Event):
        def wait(self, timeout=None):
            before = self.is_set()
            self.set()
            over.set()
            return before

    ended = SimpleNamespace(wait=lambda: 0)
    assert unfinished(SimpleNamespace(done=Done(), over=over, broken="", popen=ended), 60.0) == ""
