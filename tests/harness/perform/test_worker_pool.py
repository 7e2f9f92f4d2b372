"""The pool of workers: who ends as asked is not replaced."""

import subprocess
import sys

from harness.perform.worker_pool import WorkerPool

# Ends with its input, and reports nothing of that: as a worker whose last report has not been read yet.
WORKER = """
import sys
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


def test_after_the_stop_nobody_is_replaced_and_before_it_everybody(tmp_path):
    """A replacement would write while the final readers read."""
    cluster, notes = OneHost(), []
    pool = WorkerPool(cluster, tmp_path, 2, notes.append)
    pool.start([0, 1])
    cluster.started[0].kill()
    cluster.started[0].wait()
    pool.tend()
    assert (pool.replaced, len(cluster.started)) == (1, 3)
    pool.stop(30.0)
    pool.tend()
    assert [one.poll() is not None for one in cluster.started] == [True] * 3
    assert (pool.replaced, len(cluster.started)) == (1, 3)
    assert notes == ["worker 0 is gone (exit -9); replaced"]
