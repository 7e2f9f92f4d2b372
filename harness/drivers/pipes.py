"""The standard input and output of a driver, as frames: nothing here waits for longer than it may, or holds more than it may."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any

from fencepost.harness.drivers import frames

LARGEST_ANSWER = 4 * frames.LARGEST  # all frames from a request to its answer
STEP_S = 0.25  # between two looks at the clock
COUNTED_S = 1.0  # of a step at most: in more, this process was frozen
_CHUNK = 1 << 20


class SilenceError(Exception):
    """A driver neither answers nor takes a request in time."""


class Patience:
    """The time that waits may last still. A step counts as `COUNTED_S` at most: a worker that was frozen did not wait.

    on_step: called at each step, with whether nothing was ready.
    """

    def __init__(self, limit_s: float, on_step: Callable[[bool], None] = lambda idle: None) -> None:
        self._left_s, self._last, self._on_step = limit_s, time.monotonic(), on_step

    def wait(self, poller: select.poll) -> list[tuple[int, int]]:
        """What is ready; waits until something is. Raises SilenceError."""
        while True:
            ready = poller.poll(STEP_S * 1000)
            self._step(not ready)
            if ready:
                return ready

    def _step(self, idle: bool) -> None:
        now = time.monotonic()
        self._left_s -= min(now - self._last, COUNTED_S)
        self._last = now
        self._on_step(idle)
        if self._left_s <= 0:
            raise SilenceError


class FramePipes:
    """The pipes to and from a driver."""

    def __init__(self, to: int, from_: int) -> None:
        self._to, self._from = to, from_
        for descriptor in (to, from_):
            os.set_blocking(descriptor, False)
        self._buffer = bytearray()
        self._taken = 0  # bytes since the last request
        self._reads, self._both = select.poll(), select.poll()
        self._reads.register(from_, select.POLLIN)
        for descriptor, kind in ((from_, select.POLLIN), (to, select.POLLOUT)):
            self._both.register(descriptor, kind)

    def send(self, request: bytes, patience: Patience) -> None:
        """Write a request; what the driver writes meanwhile is read, so that both cannot wait for each other.

        Raises BrokenPipeError, FrameError and SilenceError.
        """
        self._taken, left = 0, memoryview(request)
        while left:
            try:
                left = left[os.write(self._to, left) :]
            except BlockingIOError:
                ready = dict(patience.wait(self._both))
                if self._from in ready and not self._fill():
                    raise BrokenPipeError from None

    def receive(self, patience: Patience) -> dict[str, Any] | None:
        """The next object, None at the end. Raises FrameError and SilenceError."""
        if not self._await(frames.HEADER, patience) and not self._buffer:
            return None
        length = frames.length_of(bytes(self._buffer[: frames.HEADER]))
        if not self._await(frames.HEADER + length, patience):
            raise frames.FrameError(f"the stream ends after {len(self._buffer) - frames.HEADER} of {length} bytes of a frame")
        body = bytes(self._buffer[frames.HEADER : frames.HEADER + length])
        del self._buffer[: frames.HEADER + length]
        return frames.unpacked(body)

    def _await(self, count: int, patience: Patience) -> bool:
        """Read until the buffer has so many bytes; False at the end of the stream."""
        while len(self._buffer) < count:
            patience.wait(self._reads)
            if not self._fill():
                return False
        return True

    def _fill(self) -> int:
        """Read what is there; returns how many bytes, 0 at the end. Raises FrameError when there is no end to them."""
        try:
            data = os.read(self._from, _CHUNK)
        except BlockingIOError:
            return 1  # nothing yet
        self._buffer += data
        self._taken += len(data)
        if self._taken > LARGEST_ANSWER:
            raise frames.FrameError(f"more than {LARGEST_ANSWER >> 20} MiB without an answer among them")
        return len(data)
