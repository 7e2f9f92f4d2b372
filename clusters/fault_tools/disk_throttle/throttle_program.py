"""Starts a broker and delays what it writes to its disk.

`python -m fencepost.clusters.fault_tools.disk_throttle.throttle_program PAGE DATA ARGV...`:

PAGE is the file descriptor of the shared page, DATA the directory on the disk. The program is the broker's parent, and neither
outlives the other: the broker dies with it (prctl(2), PR_SET_PDEATHSIG), and it ends as the broker ended.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from fencepost.clusters.fault_tools.disk_throttle import shared_page, system_calls
from fencepost.clusters.fault_tools.disk_throttle.shared_page import SharedPage
from fencepost.clusters.fault_tools.disk_throttle.system_calls import Listener, SystemCall

_POLL_S = 0.05  # how often it reads whether the fault has ended
_PR_SET_PDEATHSIG = 1
_CANNOT = 126


class OperationQueue:
    """The waiting operations of a node, and when they may continue; all faults on the disk add up."""

    def __init__(self, page: SharedPage) -> None:
        self._slots = list(page.slots)
        self._free_s: dict[int, float] = {}  # number -> when all that came before has been written
        self._waiting: list[tuple[float, int, SystemCall, int, float, list[int]]] = []
        self._arrived = 0

    def slow(self) -> bool:
        """Return whether any fault slows the disk now."""
        return any(slot.number for slot in self._slots)

    def add(self, call: SystemCall, size: int, now_s: float) -> None:
        """Queue an operation of so many bytes that arrives now."""
        due_s, numbers = now_s, []
        for slot in self._slots:
            if number := slot.number:
                numbers.append(number)
                if slot.bytes_s:
                    due_s = self._free_s[number] = max(due_s, self._free_s.get(number, 0.0)) + size / slot.bytes_s
                due_s += slot.delay_s
        self._arrived += 1
        heapq.heappush(self._waiting, (due_s, self._arrived, call, size, now_s, numbers))

    def due(self, now_s: float) -> list[tuple[SystemCall, int, float, list[int]]]:
        """The operations that may continue now, all when nothing is slow any more: (call, bytes, when it arrived, its faults)."""
        released = []
        while self._waiting and (self._waiting[0][0] <= now_s or not self.slow()):
            _, _, call, size, arrived_s, numbers = heapq.heappop(self._waiting)
            released.append((call, size, arrived_s, numbers))
        return released

    def count(self, size: int, held_s: float, numbers: Sequence[int]) -> None:
        """Count an operation that was delayed, and has continued."""
        for slot in self._slots:
            if slot.number in numbers:
                slot.operations += 1
                slot.bytes += size
                slot.longest_s = max(slot.longest_s, held_s)

    def wait_s(self, now_s: float) -> float:
        """The time until the next operation is due, at most."""
        return min(_POLL_S, max(0.0, self._waiting[0][0] - now_s)) if self._waiting else 1.0


def serve(listener: Listener, disk: OperationQueue, data: str) -> None:
    """Answer notifications for ever."""
    writes = {number for name, number in system_calls.numbers().items() if name in system_calls.WRITES}
    mapped = system_calls.numbers()["msync"]  # its argument is no file, but a JVM syncs no memory but that of its files
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        ready = poll.poll(disk.wait_s(time.monotonic()) * 1000)
        call = listener.take() if ready else None
        now_s = time.monotonic()
        if call and disk.slow() and (call.number == mapped or system_calls.is_within(data, call.thread, call.file)):
            disk.add(call, call.size if call.number in writes else 0, now_s)
        elif call:
            listener.let_go(call)
        if due := disk.due(now_s):
            _release(listener, disk, due)


def _release(listener: Listener, disk: OperationQueue, due: Sequence[tuple[SystemCall, int, float, list[int]]]) -> None:
    """Let operations continue, and count them. Who continues may end at once; its end is heard of when all are counted."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    for held, size, arrived_s, numbers in due:
        if listener.let_go(held):
            disk.count(size, time.monotonic() - arrived_s, numbers)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


class _Ended(Exception):
    """The broker ended."""


def main(argv: Sequence[str]) -> NoReturn:
    """Be the broker's parent, until its end."""
    descriptor, data, command = int(argv[0]), argv[1].rstrip("/") + "/", argv[2:]
    os.set_inheritable(descriptor, False)
    page, own_pid = shared_page.attach(descriptor), os.getpid()
    parent_end, child_end = socket.socketpair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _become(command, child_end, own_pid)
    child_end.close()
    page.pid = child

    def check_child(*_: Any) -> None:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise _Ended

    with suppress(_Ended):
        signal.signal(signal.SIGCHLD, check_child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _, descriptors, _, _ = socket.recv_fds(parent_end, 1, 1)
        if descriptors:
            serve(Listener(descriptors[0]), OperationQueue(page), data)
        while True:
            signal.pause()
    _end_like(os.waitpid(child, 0)[1])


def _become(command: Sequence[str], child_end: socket.socket, parent: int) -> NoReturn:
    """Become the broker, under the filter."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            socket.send_fds(child_end, [b"."], [system_calls.install()])
            os.execvp(command[0], list(command))
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started on a disk that can be slow: {error}\n")
        sys.stderr.flush()
    os._exit(_CANNOT)


def _end_like(status: int) -> NoReturn:
    """End as the broker ended: by the same signal, or with the same status."""
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # SIGKILL cannot be set
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(sys.argv[1:])
