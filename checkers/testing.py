"""One partition's log made by hand, for testing partition checks in milliseconds, without Spark and without Kafka.

Public: authors of checks of their own test against it. See docs/plugin-checks.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.history.scan import COLUMNS_OF, FINAL, FINISHED, READS, SENDS, TXN, UNCOMMITTED
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import ABORTED, COMMITTED, INFO, NONE, FinalRead, Resets, Settings
from fencepost.checkers.views.assembly import sorted_log
from fencepost.checkers.views.log import PartitionLog
from fencepost.harness.api import record_id

STATUS = {"ok": COMMITTED, "fail": ABORTED, "info": INFO}


class PartitionBuilder:
    """Builds a partition's log from sends and reads, in call order, a millisecond (10^6 ns) after one another.

    Times can be given instead: nanoseconds. A record is named by what `send` returned.
    """

    def __init__(self, partition: str = "t-0") -> None:
        self.partition, self.now = partition, 1_000_000_000
        self._sent: list[dict[str, int]] = []
        self._read: list[dict[str, int]] = []

    def send(
        self, offset: int | None = None, *, process: int = 0, outcome: str = "ok", txn: bool = False, began: int | None = None
    ) -> int:
        """A record that was sent, and acknowledged at `offset` (None: not). outcome: of its operation, ok, fail or info."""
        began, op = self._time(began), len(self._sent) + len(self._read)
        flags = STATUS[outcome] + TXN * txn + FINISHED
        v = record_id(process, op, 0)
        place, ended = (NONE, NONE) if offset is None else (offset, began + 1000)
        row = {"op": op, "v": v, "began": began, "ended": ended, "offset": place}
        decided = began + 2000 if txn and outcome != "fail" else NONE
        self._sent.append({**row, "flags": flags, "decided": decided, "over": began + 3000 if outcome == "ok" else NONE})
        return v

    def read(
        self, v: int, offset: int, *, process: int = 1, committed: bool = True, final: bool = False, at: int | None = None
    ) -> None:
        """A record that a poll returned; `final`: of the final phase."""
        op = len(self._sent) + len(self._read)
        flags = COMMITTED + FINISHED + FINAL * final + UNCOMMITTED * (not committed)
        self._read.append({"op": op, "process": process, "flags": flags, "v": v, "offset": offset, "ended": self._time(at)})

    def log(self, final: FinalRead | None = None) -> PartitionLog:
        """The partition's log, as a check gets it."""
        sent, read = _columns(self._sent, COLUMNS_OF[SENDS]), _columns(self._read, COLUMNS_OF[READS])
        return sorted_log(self.partition, sent, read, final or FinalRead(), Settings(), Resets())

    def _time(self, given: int | None) -> int:
        self.now += 1_000_000
        return self.now if given is None else given


def found(result: CheckResult) -> list[tuple[str, int, int]]:
    """The findings of a check, as (role, record, offset), sorted."""
    rows = result.rows
    if not rows:
        return []
    return sorted(
        (str(role), int(v), int(offset)) for role, v, offset in zip(rows["role"], rows["v"], rows["offset"], strict=True)
    )


def _columns(rows: list[dict[str, int]], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows], dtype=np.int8 if name == "flags" else np.int64) for name in names}
