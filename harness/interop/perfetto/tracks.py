"""Tracks of a trace: a process for each node, its threads, and lanes for slices that overlap without one lying in the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Named = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Track:
    """The numbers by which an event says where it belongs."""

    pid: int
    tid: int


class Tracks:
    """Numbers for tracks, each named when it is first used.

    named: gets what is named (`process` or `thread`), its two numbers, and the name.
    """

    def __init__(self, named: Named) -> None:
        self._named = named
        self._processes: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], list[tuple[Track, int]]] = {}
        self._threads = 0

    def process(self, name: str) -> int:
        """The number of a process. Processes stand in the order in which they are first asked for."""
        if name not in self._processes:
            self._processes[name] = len(self._processes) + 1
            self._named("process", self._processes[name], 0, name)
        return self._processes[name]

    def of(self, process: str, thread: str) -> Track:
        """The first lane of a thread, for events without duration."""
        lanes = self._lanes.setdefault((process, thread), [])
        if not lanes:
            lanes.append((self._new(process, thread), -1))
        return lanes[0][0]

    def for_slice(self, process: str, thread: str, begin: int, end: int) -> Track:
        """The first lane of a thread that is free from `begin` on; it is taken until `end`."""
        lanes = self._lanes.setdefault((process, thread), [])
        for number, (track, until) in enumerate(lanes):
            if until <= begin:
                lanes[number] = (track, end)
                return track
        name = thread if not lanes else f"{thread} ({len(lanes) + 1})"
        lanes.append((self._new(process, name), end))
        return lanes[-1][0]

    def _new(self, process: str, thread: str) -> Track:
        pid = self.process(process)
        self._threads += 1
        self._named("thread", pid, self._threads, thread)
        return Track(pid, self._threads)
