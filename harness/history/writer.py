"""The append-only record of what a worker does, written ahead (docs/history.md has the format).

Kept apart from `harness.history.merge` so that a worker starts without loading Arrow.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from fencepost.harness.api import Outcome
from fencepost.harness.api.beneath import appending
from fencepost.harness.api.values import HISTORY_VERSION
from fencepost.harness.system.whole_lines import write_line


def file_name(slot: int, incarnation: int) -> str:
    """The file of a worker: the place it works at, and how many workers that place had before."""
    return f"c{slot}-{incarnation}.jsonl"


class HistoryWriter:
    """Appends lines to one file; every line is handed to the kernel before the call returns."""

    def __init__(self, path: Path, **header: Any) -> None:
        self._fd = appending(path.parents[1], f"{path.parent.name}/{path.name}")
        self._encode = msgspec.json.Encoder().encode
        now = {"time": time.monotonic_ns(), "wall": time.time_ns()}
        self.write({"format": "fencepost-history", "version": HISTORY_VERSION, **header, **now})

    def write(self, line: dict[str, Any]) -> None:
        """Append one line. A write to the page cache survives the death of any process. Raises OSError: the disk is full."""
        write_line(self._fd, self._encode(line))

    def process(self, process: int, **fields: Any) -> None:
        """A new logical process begins: one producer and one consumer."""
        self.write({"type": "process", "process": process, "time": time.monotonic_ns(), **fields})

    def invoke(self, process: int, op: int, f: str, value: Any, intent: str | None = None, transactional_id: str = "") -> int:
        """Say what is about to be done; returns the time written (monotonic ns).

        transactional_id: of another producer than the process's own; empty: it uses that.
        """
        now = time.monotonic_ns()
        line = {"type": "invoke", "process": process, "op": op, "f": f, "time": now, "value": value}
        line |= {} if intent is None else {"intent": intent}
        self.write({**line, "transactional_id": transactional_id} if transactional_id else line)
        return now

    def complete(self, outcome: Outcome, process: int, op: int, f: str, value: Any, **fields: Any) -> int:
        """Say how it ended; returns the time written (monotonic ns)."""
        now = time.monotonic_ns()
        self.write({"type": outcome.value, "process": process, "op": op, "f": f, "time": now, "value": value, **fields})
        return now

    def close(self) -> None:
        os.close(self._fd)
