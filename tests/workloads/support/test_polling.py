"""Polls outside transactions."""

from __future__ import annotations

import pytest

from fencepost.harness.api import Operation, Outcome, clock
from fencepost.workloads.support.polling import FAILED_POLL_PAUSE_S, read, reader_operations
from fencepost.workloads.testing import FakeClient, error


class Waits:
    """A clock on which waiting takes no time. seconds: how long each wait was."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def monotonic(self) -> float:
        return sum(self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def waits():
    """Lengths of the test's waits."""
    waits = Waits()
    with clock.waiting_by(waits):
        yield waits.seconds


def poll(client):
    operation = Operation.of(1, 0, next(reader_operations()))
    return read(operation, client, "run1"), operation


def test_a_reader_whose_client_fails_at_once_pauses_after_each_poll(waits):
    client = FakeClient({"poll": [error("poll", "BROKEN")] * 3})
    assert [poll(client)[0] for _ in range(3)] == [Outcome.FAIL] * 3
    assert waits == [FAILED_POLL_PAUSE_S] * 3


def test_a_poll_that_succeeds_is_followed_by_no_pause(waits):
    assert poll(FakeClient())[0] is Outcome.OK
    assert waits == []


def test_a_fatal_error_ends_the_process_and_is_recorded(waits):
    outcome, operation = poll(FakeClient({"poll": [error("poll", "BROKEN", fatal=True)]}))
    assert (outcome, operation.renew, operation.errors[0]["name"]) == (Outcome.FAIL, True, "BROKEN")
