"""Work shared out among this process and forks of it."""

import os
import signal

import pytest

from fencepost.checkers.model import forks


def test_results_come_in_the_order_of_their_numbers():
    shared = [object() for _ in range(50_000)]
    made = forks.results(lambda number: (number, id(shared[number])), len(shared), 3)
    assert made == [(number, id(item)) for number, item in enumerate(shared)]


def test_a_single_piece_of_work_is_done_here():
    assert forks.results(lambda number: os.getpid(), 1, 4) == [os.getpid()]
    assert forks.results(lambda number: os.getpid(), 0, 4) == []


def in_forks(then):
    """A function that fails in a fork, and waits here until a fork has begun with a number."""
    here, (reading, writing) = os.getpid(), os.pipe()

    def make(number):
        if os.getpid() == here:
            return os.read(reading, 1)
        os.write(writing, b"x")
        return then()

    return make


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (lambda: 1 // 0, "ZeroDivisionError"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "by signal SIGKILL"),
        (lambda: os._exit(3), "with exit code 3"),
    ],
)
def test_what_goes_wrong_in_a_fork_is_raised_here(then, words):
    with pytest.raises(RuntimeError, match=words):
        forks.results(in_forks(then), 2, 2)


def test_an_error_here_leaves_no_fork_behind(monkeypatch):
    made, fork = [], os.fork

    def noted():
        made.append(fork())
        return made[-1]

    def make(number):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fork", noted)
    with pytest.raises(KeyboardInterrupt):
        forks.results(make, 100, 3)
    assert len(made) == 2
    for pid in made:
        with pytest.raises(ChildProcessError):  # it is gone, and was waited for
            os.waitpid(pid, os.WNOHANG)
