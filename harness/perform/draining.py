"""Waits until somebody's own program has processed its whole input.

Where the program's group is known, its committed offsets say so: they lie beyond the last input that was surely committed. Where
it is not, the program is taken for done when its output has not grown for a while, and no task of a connector stands still.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fencepost.harness.api import ClusterError, Isolation, Outcome, Program
from fencepost.harness.api.connect import connect_document
from fencepost.harness.history.lines import COMPLETION, decoded, opened

LOOK_S = 0.5
MARKER = 1  # of the last transaction: it lies behind the last record that a program gets
RUNNING = "RUNNING"  # the state of a task that does its work
_ANSWERED = (b'"status":200', b'"status":404')  # a connector's status is known, or it has none yet


def last_inputs(history: Path) -> dict[str, int]:
    """The highest offset in each partition of a record whose transaction (or send) ended ok, by the lines of the workers."""
    highest: dict[str, int] = {}
    for path in history.glob("c*-*.jsonl"):
        with opened(path) as file:
            for raw in file:
                with suppress(ValueError):  # cut off: its worker was killed
                    _take(raw, highest)
    return highest


def _take(raw: bytes, highest: dict[str, int]) -> None:
    which, line = decoded(raw)
    decided = line.f == "send" or line.decided is not None
    if which == COMPLETION and line.type == Outcome.OK.value and decided and isinstance(line.value, list):
        for mop in line.value:
            if getattr(mop, "v", None) is not None and mop.offset is not None:
                highest[mop.partition] = max(mop.offset, highest.get(mop.partition, -1))


def task_stands_still(history: Path) -> bool:
    """True if a connector had no task, or one that was not running, when its conductor last had its status; False without any."""
    newest: dict[str, bytes] = {}
    for path in sorted(history.glob("c*-*.jsonl"), key=lambda path: path.stat().st_mtime):
        with opened(path) as file:
            for raw in file:
                if b'"rest"' in raw and b'/status"' in raw and any(word in raw for word in _ANSWERED) and raw.endswith(b"}\n"):
                    newest[path.name.partition("-")[0]] = raw
    answers = [connect_document(json.loads(raw)["value"].get("answer")) for raw in newest.values()]
    tasks = [answer.get("tasks") if isinstance(answer, dict) else None for answer in answers]
    return any(not some or any(task.get("state") != RUNNING for task in some) for some in tasks)


class Offsets(Protocol):
    """Answers about a program's progress: of a cluster, or of a sink's store. Raises ClusterError."""

    def end_offsets(self, partitions: Sequence[str], isolation: Isolation) -> Mapping[str, int]: ...
    def group_offsets(self, group: str, partitions: Sequence[str]) -> Mapping[str, int | None]: ...


@dataclass
class Draining:
    """A wait for a program.

    group: its consumer group; empty when it is not known.
    last: `last_inputs` of the input's partitions.
    outputs: the partitions of its output.
    inputs: those of an input that another program of the run has filled, and `last` does not have: their ends count.
    offsets: for end offsets and those of the group: a client of the cluster, or the sink's store.
    tend: called between looks, as the instances run on.
    still: True if something is known to stand still; called only while nothing else says that the program is not done.
    say: told the first reason why nobody knows how far the program is.
    """

    program: Program
    group: str
    last: Mapping[str, int]
    outputs: Sequence[str]
    offsets: Callable[[], Offsets]
    tend: Callable[[], None]
    still: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda _: None
    inputs: Sequence[str] = ()
    _offsets: Mapping[str, int | None] = field(default_factory=dict)
    _ends: Mapping[str, int] = field(default_factory=dict)
    _grown_at: float = 0.0
    problem: str = ""  # why the last look told nothing

    def wait(self) -> tuple[bool, dict[str, Any]]:
        """True if it caught up within `drain_s`, and the value of the `drain` operation (docs/history.md)."""
        began = self._grown_at = time.monotonic()
        said = False
        while not (done := self._done()) and time.monotonic() - began < self.program.drain_s:
            if self.problem and not said:
                self.say(f"its progress is not known: {self.problem}")
                said = True
            self.tend()
            time.sleep(LOOK_S)
        value = {
            "group": self.group,
            "outputs": list(self.program.outputs),
            "output_partitions": list(self.outputs),
            "ordered": self.program.ordered,
            "counts": self.program.counts,
            "keys": self.program.keys,
            "store": self.program.store is not None,
            "drained": done,
            "waited_s": round(time.monotonic() - began, 3),
        }
        return done, value

    def _done(self) -> bool:
        """True if the program has caught up. The group's offsets are read only while the output does not grow."""
        self.problem = ""
        try:
            ends = self.offsets().end_offsets(list(self.outputs), Isolation.UNCOMMITTED)
            if ends != self._ends:
                self._ends, self._grown_at = ends, time.monotonic()
                return False
            if not self.group:
                quiet = time.monotonic() - self._grown_at >= self.program.quiet_s
                begun = any(ends.values()) or not self.program.outputs[0] or not self.last  # else it has processed nothing
                return quiet and begun and not self.still()
            if self.inputs:
                return self._reached_ends()
            offsets = self.offsets().group_offsets(self.group, list(self.last))
        except ClusterError as error:
            self.problem = str(error)
            return False
        return all((offsets.get(partition) or 0) > offset for partition, offset in self.last.items())

    def _reached_ends(self) -> bool:
        """True if the group has reached the ends of its input, or its offsets stand: what lies behind may be aborted."""
        ends = self.offsets().end_offsets(list(self.inputs), Isolation.COMMITTED)
        offsets = self.offsets().group_offsets(self.group, list(self.inputs))
        if all((offsets.get(partition) or 0) >= end - MARKER for partition, end in ends.items()):
            return True
        if offsets != self._offsets:
            self._offsets, self._grown_at = offsets, time.monotonic()
        return time.monotonic() - self._grown_at >= self.program.quiet_s
