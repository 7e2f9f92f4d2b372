"""The watchdog beside a node in Docker: it lives while somebody says something, and ends with its input or its lease.

Here in a network namespace of its own instead of a container.
"""

import json
import subprocess
import sys
import time

import pytest

from clusters.docker import helper_agent


@pytest.fixture
def agent():
    started = []

    def start(lease_s):
        argv = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-m", helper_agent.__name__, str(lease_s)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert json.loads(process.stdout.readline()) == {"ready": True}
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(process, **request):
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_a_harness_that_falls_silent_loses_its_node(agent):
    """Renewed, it outlives its lease several times; then it says why it ends."""
    process = agent(1.0)
    for _ in range(6):
        time.sleep(0.4)
        assert ask(process, do="renew") == {}
    assert json.loads(process.stdout.readline()) == {"error": "the harness has not renewed the lease for 1 s"}
    assert process.wait(30) == 0


def test_it_ends_with_its_input(agent):
    process = agent(600)
    assert "handle" in ask(process, do="drop", address="10.9.9.9", share=1.0)
    assert ask(process, do="counters")["counters"]
    process.stdin.close()
    assert process.wait(30) == 0
