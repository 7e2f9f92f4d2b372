"""The slow disks of a cluster on this machine: brokers started by their throttle programs, and the present delays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fencepost.clusters.fault_tools.disk_throttle import shared_page, thread_waits
from fencepost.clusters.fault_tools.disk_throttle.shared_page import SLOTS, ThrottleSlot
from fencepost.harness.api import ClusterError, HeldBack
from fencepost.harness.system.python_command import module_command

_CANNOT = "calls cannot be held back here (seccomp)"
_PROGRAM = "fencepost.clusters.fault_tools.disk_throttle.throttle_program"
_FORK_S, _POLL_S = 20.0, 0.002
_TRIAL_S, _TRIAL_POLL_S = 60.0, 0.02


class ThrottledProcess:
    """A broker that a throttle program started: the part of `subprocess.Popen` that a cluster uses, with the broker's own pid."""

    def __init__(self, program: subprocess.Popen[bytes], pid: int) -> None:
        self._program, self.pid = program, pid

    def poll(self) -> int | None:
        return self._program.poll()

    def wait(self, timeout: float | None = None) -> int:
        return self._program.wait(timeout)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal to the broker, while it lives; its program ends as it ends."""
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)


class Throttles:
    """Nodes whose disks can be slow: name -> the directory on the node's disk. Safe to use from several threads."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self._directories = {node: str(home.resolve()) + "/" for node, home in directories.items()}
        self._descriptors = {node: shared_page.make() for node in directories}
        self._pages = {node: shared_page.attach(descriptor) for node, descriptor in self._descriptors.items()}
        self._slow: dict[int, dict[str, ThrottleSlot]] = {}
        self._numbers = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def start(self, node: str, argv: Sequence[str], **popen: Any) -> ThrottledProcess:
        """Start a node's process; `popen` as for `subprocess.Popen`."""
        page, descriptor = self._pages[node], self._descriptors[node]
        page.pid = 0
        command = module_command(_PROGRAM, str(descriptor), self._directories[node], *argv)
        program = subprocess.Popen(command, pass_fds=[descriptor], **popen)
        deadline = time.monotonic() + _FORK_S
        while not page.pid and program.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return ThrottledProcess(program, page.pid or program.pid)  # one that ended has written the reason to its node's log

    def slow(self, nodes: Iterable[str], delay_ms: float, mb_s: float) -> int:
        """Make disks slow, in addition to present faults; a number for `end`. Raises ClusterError when no slot is free."""
        with self._lock:
            free = {node: next((slot for slot in self._pages[node].slots if not slot.number), None) for node in nodes}
            if full := [node for node, slot in free.items() if slot is None]:
                raise ClusterError(f"{', '.join(full)}: {SLOTS} faults slow that disk already; no more can be page apart")
            self._numbers += 1
            self._slow[self._numbers] = {node: slot for node, slot in free.items() if slot is not None}
            for slot in self._slow[self._numbers].values():
                slot.delay_s, slot.bytes_s = delay_ms / 1000, mb_s * 1e6
                slot.operations = slot.bytes = 0
                slot.longest_s = 0.0
                slot.number = self._numbers
            return self._numbers

    def held_back(self, number: int) -> dict[str, HeldBack]:
        """The delays of a fault so far; empty when it has ended."""
        with self._lock:
            return {node: _result(slot) for node, slot in self._slow.get(number, {}).items()}

    def end(self, number: int) -> dict[str, HeldBack]:
        """End a fault, and let waiting operations continue; what it has delayed. Empty when it has ended already."""
        with self._lock:
            slots = self._slow.pop(number, {})
            for slot in slots.values():
                slot.number = 0
            return {node: _result(slot) for node, slot in slots.items()}

    def end_all(self) -> None:
        for number in list(self._slow):
            self.end(number)

    def waits(self, processes: Mapping[str, int], for_s: float) -> dict[str, float]:
        """The longest time, in milliseconds, that a thread of each node's process was seen in one write or sync of its data."""
        return thread_waits.longest_ms({node: (pid, self._directories[node]) for node, pid in processes.items()}, for_s)


def _result(slot: ThrottleSlot) -> HeldBack:
    return HeldBack(operations=slot.operations, bytes=slot.bytes, longest_ms=round(slot.longest_s * 1000, 1))


@lru_cache(maxsize=1)
def trouble() -> str:
    """The reason why no disk can be slow here, by a trial; else empty."""
    try:
        return _try()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{_CANNOT}: {error}"


def _try() -> str:
    """The trial: a program that syncs a file is delayed, seen to wait, and continues."""
    with TemporaryDirectory() as name, Path(name, "output").open("w+") as output:
        throttles = Throttles({"it": Path(name)})
        number = throttles.slow(["it"], _TRIAL_S * 1000, 0.0)
        syncs = f"import os; os.fsync(os.open({name!r}, os.O_RDONLY | os.O_DIRECTORY))"
        process = throttles.start("it", [sys.executable, "-c", syncs], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        waited_ms = 0.0
        try:
            while not waited_ms and process.poll() is None:
                waited_ms = throttles.waits({"it": process.pid}, _TRIAL_POLL_S)["it"]
            throttles.end(number)
            status = process.wait(_TRIAL_S)
        finally:
            process.kill()
            throttles.close()
        output.seek(0)
        why = output.read().strip() or "a call was not held back, or could not be seen to be"
        return f"{_CANNOT}: {why}" if status or not waited_ms else ""
