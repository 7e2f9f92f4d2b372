"""Work shared out among this process and forks of it, which have all that it has in memory, without a copy.

A fork lives for one call. It is killed with its parent, and does not hear Ctrl-C, which its parent answers.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import IO, Any, NoReturn, TypeVar

from fencepost.harness.system.parent_death import die_with

MOST_PROCESSES = 8
YOUNG_OBJECTS = 50_000  # that a fork makes before Python looks for garbage among them
_NUMBER = struct.Struct("<I")
_MOST_NUMBERS = 8_192  # in a pipe at once: 32 of the 64 KiB that Linux gives it
Made = TypeVar("Made")


def cores() -> int:
    """The number of processes that may be busy at once on behalf of this one."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def results(make: Callable[[int], Made], count: int, processes: int) -> list[Made]:
    """What a function makes of each number below `count`, in their order; whoever is free takes the next one.

    Raises what it raised in this process, and RuntimeError for what it raised in a fork, or when a fork ended early.
    """
    processes = min(processes, count)
    if processes < 2:
        return [make(number) for number in range(count)]
    made: dict[int, Made] = {}
    with ExitStack() as stack:
        numbers = _batches(stack, count)
        forks = [_Fork(stack, make, numbers) for _ in range(processes - 1)]
        made.update((number, make(number)) for number in numbers)
        for fork in forks:
            made.update(fork.results())
    return [made[number] for number in range(count)]


class _Numbers:
    """The numbers that are still to be taken, from a pipe that all processes read: a batch of a few at a time."""

    def __init__(self, pipe: int, count: int, batch: int) -> None:
        self._pipe, self._count, self._batch = pipe, count, batch

    def __iter__(self) -> Iterator[int]:
        while taken := os.read(self._pipe, _NUMBER.size):
            (first,) = _NUMBER.unpack(taken)
            yield from range(first, min(first + self._batch, self._count))


def _batches(stack: ExitStack, count: int) -> _Numbers:
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    batch = -(-count // _MOST_NUMBERS)
    os.write(writing, b"".join(_NUMBER.pack(first) for first in range(0, count, batch)))
    os.close(writing)
    return _Numbers(reading, count, batch)


class _Fork:
    """A fork that takes numbers until there are none; it is killed where the block ends before it does."""

    def __init__(self, stack: ExitStack, make: Callable[[int], Any], numbers: _Numbers) -> None:
        self._file = stack.enter_context(tempfile.TemporaryFile(prefix="fencepost-fork-"))  # noqa: SIM115 - `stack` closes it
        before_work = die_with(os.getpid())
        self._pid: int | None = os.fork()
        if self._pid == 0:
            _work(before_work, make, numbers, self._file)
        stack.callback(self._end)

    def results(self) -> list[tuple[int, Any]]:
        """What it made, with the numbers. Raises RuntimeError."""
        assert self._pid is not None
        _, status = os.waitpid(self._pid, 0)
        self._pid = None
        if code := os.waitstatus_to_exitcode(status):
            why = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise RuntimeError(f"a process that judged a part of the history ended early, {why}")
        self._file.seek(0)
        made, error = pickle.load(self._file)
        if error:
            raise RuntimeError(error)
        return made  # type: ignore[no-any-return]

    def _end(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def _work(before_work: Callable[[], None], make: Callable[[int], Any], numbers: _Numbers, file: IO[bytes]) -> NoReturn:
    """Work in a fork, and end it: nothing that its parent still has to do is done here."""
    try:
        before_work()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_DFL)
        gc.freeze()  # what is there already is looked at by nobody, and so stays shared with the parent
        gc.set_threshold(YOUNG_OBJECTS)
        made: list[tuple[int, Any]] = []
        error = ""
        try:
            made.extend((number, make(number)) for number in numbers)
        except Exception as raised:  # noqa: BLE001 - the parent raises it again
            made, error = [], f"{type(raised).__name__}: {raised}"
        pickle.dump((made, error), file, protocol=pickle.HIGHEST_PROTOCOL)
        file.flush()
        os._exit(0)
    finally:
        os._exit(1)
