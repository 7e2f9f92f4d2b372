"""Looking until something is seen."""

from __future__ import annotations

import pytest

from fencepost.harness.api import clock
from fencepost.nemesis.support.waiting import poll_until


class Standing:
    """A clock that only waiting moves on."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


@pytest.fixture
def looks():
    """When somebody looked."""
    with clock.waiting_by(Standing()):
        yield []


def test_it_looks_as_long_as_it_may(looks):
    assert poll_until(lambda: looks.append(clock.monotonic()), bool, 1.0, every_s=0.5) is None
    assert looks == [0.0, 0.5, 1.0]


def test_it_looks_once_where_there_is_no_time(looks):
    assert poll_until(lambda: looks.append(clock.monotonic()), bool, 0.0) is None
    assert looks == [0.0]


def test_what_came_while_the_machine_paused_is_seen(looks):
    """The pause falls into the first look, and takes all the time."""

    def look():
        looks.append(clock.monotonic())
        clock.sleep(60.0)
        return len(looks) > 1

    assert poll_until(look, bool, 2.0)
