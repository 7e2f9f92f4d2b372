"""A request to stop, before and after the workload has begun."""

import os
import signal

import pytest

from fencepost.harness.api.errors import NotBegun
from fencepost.harness.perform.stop_request import LEAVE, StopRequest


@pytest.fixture
def stop():
    made = StopRequest(lambda: os.kill(os.getpid(), LEAVE))
    before = signal.signal(LEAVE, lambda *_: made.leave())
    yield made
    signal.signal(LEAVE, before)


def test_before_the_workload_begins_it_is_heeded_at_once_and_once(stop):
    with pytest.raises(NotBegun, match=r"nothing to judge \(Ctrl-C\)"):
        stop.ask("Ctrl-C")
    stop.ask("SIGTERM")  # meanwhile the cluster is being ended
    with pytest.raises(NotBegun):
        stop.begin()


def test_afterwards_it_is_noted(stop):
    stop.begin()
    stop.ask("Ctrl-C")
    stop.ask("SIGTERM")
    assert stop.by == "Ctrl-C"
