"""A broker to try things on."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "brokers" / "one_broker.py"


def started(port):
    """The program, whose shell ignores Ctrl-C as one in the background does."""
    command = [sys.executable, str(PROGRAM), "--port", str(port)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken, started(port := taken.getsockname()[1]) as program:
        assert program.communicate()[0] == f"somebody listens at 127.0.0.1:{port} already; choose another one by --port\n"
        assert program.returncode == 1


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_listens_until_it_is_ended_and_leaves_nothing(number):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with started(port) as program:
        line = program.stdout.readline()
        assert f"listens at 127.0.0.1:{port}" in line, line + program.stdout.read()
        log = Path(line.partition("its log is ")[2].partition(". Ctrl-C")[0])
        assert log.exists()
        program.send_signal(number)
        assert (program.wait(30), log.parent.exists()) == (0, False)
