"""Signals that end a command."""

import signal

import pytest

from fencepost.harness.system import ending_signals


@pytest.fixture(autouse=True)
def handlers():
    """The handlers of this process are what they were afterwards."""
    before = {number: signal.getsignal(number) for number in ending_signals.ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_ends_a_command_interrupts_it():
    for number in ending_signals.ENDING:
        signal.signal(number, signal.SIG_DFL)
    ending_signals.end_as_ctrl_c()
    for number in ending_signals.ENDING:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_what_is_ignored_stays_ignored():
    """`nohup` has SIGHUP ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert signal.SIGHUP not in ending_signals.heeded()
    ending_signals.end_as_ctrl_c()
    signal.raise_signal(signal.SIGHUP)
