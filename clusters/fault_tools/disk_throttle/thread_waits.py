"""The time that threads really wait for a disk, as the kernel shows it: proc(5), /proc/PID/task/TID/syscall.

This is independent of the throttle program. A thread that several samples show in the same call, without having run in between,
has been in it from the first sample to the last. So a result is never too long, and too short by two sampling intervals at most.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from fencepost.clusters.fault_tools.disk_throttle import system_calls

_SAMPLE_S = 0.004  # a sample of the hundred threads of a broker takes half of that

NodeData = tuple[int, str]  # a process id, and the directory that its data is in
Wait = tuple[int, str, str]  # a thread, the call it is in with all arguments, and how often it has run


def longest_ms(processes: Mapping[str, NodeData], for_s: float) -> dict[str, float]:
    """The longest time that a thread of each process (any name -> where) was seen in one write or sync of its data.

    Samples for `for_s` seconds, and twice at least. Raises OSError where /proc may not be read.
    """
    longest_s = dict.fromkeys(processes, 0.0)
    begun: dict[tuple[str, Wait], float] = {}
    deadline = time.monotonic() + for_s
    while True:
        now_s = time.monotonic()
        present = {(name, wait): now_s for name, process in processes.items() for wait in _waiting(*process)}
        begun = {key: begun.get(key, now_s) for key in present}
        for (name, _), since_s in begun.items():
            longest_s[name] = max(longest_s[name], now_s - since_s)
        if now_s >= deadline:
            return {name: round(seconds * 1000, 1) for name, seconds in longest_s.items()}
        time.sleep(_SAMPLE_S)


def _waiting(pid: int, data: str) -> Iterator[Wait]:
    """The threads of a process that are in such a call now."""
    numbers = system_calls.numbers()
    wanted, mapped = {str(number) for number in numbers.values()}, str(numbers["msync"])
    for task in _listed(f"/proc/{pid}/task"):
        number, _, arguments = (call := _read(f"/proc/{pid}/task/{task}/syscall")).partition(" ")
        if number in wanted and (number == mapped or system_calls.is_within(data, int(task), int(arguments.split()[0], 16))):
            yield int(task), call, _read(f"/proc/{pid}/task/{task}/schedstat")


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _read(path: str) -> str:
    """The content of a file of /proc; empty when its thread is gone."""
    try:
        with open(path) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
