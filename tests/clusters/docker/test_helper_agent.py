"""The agent in a node's helper container: it ends with its standard input, or with its lease.

Here it runs in a network namespace of its own instead of a container.
"""

import json
import subprocess
import sys
import time

import pytest

from fencepost.clusters.docker import helper_agent

PATIENCE_S = 120


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


def test_without_requests_the_agent_ends_after_its_lease(agent):
    """With requests it outlives its lease; then it writes why it ends."""
    process, lease_s = next(filter(None, (renewed_in_time(agent, lease_s) for lease_s in (0.5, 0.5, 0.5, 1, 2, 4, 8, 16))))
    assert json.loads(process.stdout.readline()) == {"error": f"the harness has not renewed the lease for {lease_s} s"}
    assert process.wait(PATIENCE_S) == 0


def renewed_in_time(agent, lease_s):
    """An agent that has been asked all through its lease, and the lease; None: this process or it was held up."""
    process = agent(lease_s)
    try:
        return (process, lease_s) if all(ask_later(process, lease_s / 4) == {} for _ in range(5)) else None
    except BrokenPipeError:
        return None


def ask_later(process, wait_s):
    time.sleep(wait_s)
    return ask(process, do="renew")


def test_the_agent_ends_with_its_standard_input(agent):
    process = agent(600)
    assert "handle" in ask(process, do="drop", address="10.9.9.9", share=1.0)
    assert ask(process, do="counters")["counters"]
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
