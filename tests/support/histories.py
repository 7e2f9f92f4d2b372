"""Histories as compact rows, for literal stories.

    h = History()
    h.txn(0, sends={"t-0": 5})                 # process 0 commits one record, acknowledged at offset 5
    h.final({"t-0": [5]})                      # complete final reads at both levels that return offset 5

Records are named by (process, operation, sequence); `h.v(partition, offset)` finds the one acknowledged at a place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api import record_id
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
KEPT = frozenset({"held", "held without occasion"})  # answers of what was compared and not found
STEP = 1_000_000  # a millisecond between the operations of a story


class History:
    """A story's operations, each a millisecond after the one before."""

    def __init__(self) -> None:
        self.ops: list[dict[str, Any]] = []
        self.now = 1_000_000_000
        self._next: dict[int, int] = {}
        self._places: dict[tuple[str, int], int] = {}

    def v(self, partition: str, offset: int) -> int:
        """The record acknowledged at a place."""
        return self._places[partition, offset]

    def add(self, process: int, f: str, mops: Sequence[tuple[Any, ...]] = (), type: str = "ok", **fields: Any) -> int:
        """Any operation; returns its index."""
        op = self._next.get(process, 0)
        self._next[process] = op + 1
        start = self.now
        self.now += STEP
        row = {"index": len(self.ops), "process": process, "slot": process, "op": op, "node": "c0", "role": "writer"}
        row |= {"isolation": COMMITTED, "transactional_id": None, "final": False, "f": f, "type": type, "intent": None}
        row |= {
            "time": start,
            "end": start + STEP - 1,
            "decided": None,
            "mops": list(mops),
            "errors": [],
            "strange": [],
            "detail": None,
        }
        self.ops.append({**row, **fields})
        return len(self.ops) - 1

    def txn(
        self,
        process: int,
        sends: Mapping[str, int | Sequence[int | None] | None],
        type: str = "ok",
        reads: Iterable[tuple[str, int, int]] = (),
        **fields: Any,
    ) -> int:
        """A transaction that sends records, given by the offsets at which they were acknowledged (None: not acknowledged)."""
        mops = [*self._sends(process, sends), *(self._read(*read, self.now + STEP // 2) for read in reads)]
        decided = None if type == "fail" else self.now + STEP // 2 + 1
        return self.add(process, "txn", mops, type, **{"intent": "commit", "decided": decided, **fields})

    def send(self, process: int, sends: Mapping[str, Any], type: str = "ok", **fields: Any) -> int:
        """Sends outside transactions."""
        return self.add(process, "send", self._sends(process, sends), type, **fields)

    def poll(self, process: int, reads: Mapping[str, Sequence[Any]], isolation: str = COMMITTED, **fields: Any) -> int:
        """A poll; a record is an offset (the record acknowledged there) or a pair (offset, v)."""
        mops = [
            self._read(partition, *self._pair(partition, item), self.now + STEP // 2)
            for partition, got in reads.items()
            for item in got
        ]
        return self.add(process, "poll", mops, isolation=isolation, **{"role": "reader", **fields})

    def final(
        self,
        committed: Mapping[str, Sequence[Any]],
        uncommitted: Mapping[str, Sequence[Any]] | None = None,
        end: int = 1000,
        position: int = 1000,
    ) -> None:
        """Final reads at both isolation levels, complete unless `position` is below `end`."""
        for process, isolation, reads in (
            (90, COMMITTED, committed),
            (91, UNCOMMITTED, committed if uncommitted is None else uncommitted),
        ):
            self.poll(process, reads, isolation, final=True, role="final")
            detail = json.dumps({partition: [0, end, position] for partition in reads})
            self.add(process, "final-read", isolation=isolation, final=True, role="final", detail=detail)

    def cut_short(self, partition: str) -> None:
        """The read_committed final read of a partition did not come to its end."""
        for op in self.ops:
            if op["f"] == "final-read" and op["isolation"] == COMMITTED:
                places = json.loads(op["detail"])
                op["detail"] = json.dumps({**places, partition: [0, 1000, 4]})

    def settle(self, offsets: Mapping[str, tuple[int, int]], type: str = "ok", bound_s: float = 30.0) -> None:
        detail = json.dumps({"partitions": offsets, "bound_s": bound_s})
        self.add(-1, "settle", type=type, isolation=None, role="harness", detail=detail)

    def _sends(self, process: int, sends: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        mops, op = [], self._next.get(process, 0)
        for partition, offsets in sends.items():
            for offset in offsets if isinstance(offsets, (list, tuple)) else [offsets]:
                v = record_id(process, op, len(mops))
                if offset is not None:
                    self._places[partition, offset] = v
                began = self.now + 10 * len(mops) + 1
                mops.append((0, partition, v, offset, began, None if offset is None else began + 5))
        return mops

    def _pair(self, partition: str, item: Any) -> tuple[int, int]:
        return item if isinstance(item, tuple) else (item, self._places[partition, item])

    def _read(self, partition: str, offset: int, v: int, returned: int) -> tuple[Any, ...]:
        return 1, partition, v, offset, None, returned


def write_history(folder: Path, ops: Sequence[Mapping[str, Any]]) -> None:
    """Write operations as `history.parquet`, in the order of their times."""
    names = ("kind", "partition", "v", "offset", "began", "ended")
    rows = [
        {**op, "mops": [dict(zip(names, mop, strict=True)) if isinstance(mop, tuple) else mop for mop in op["mops"]]}
        for op in ops
    ]
    rows = [{**row, "index": index} for index, row in enumerate(sorted(rows, key=lambda row: row["time"]))]
    table = pa.Table.from_pylist(rows, schema=OPS_SCHEMA)
    pq.write_table(table, folder / "history.parquet", use_dictionary=False, compression="none")  # there are thousands of them


def write_faults(folder: Path, *receipts: Mapping[str, Any]) -> None:
    pq.write_table(
        pa.Table.from_pylist([{"planned_ns": 0, **receipt} for receipt in receipts], schema=FAULTS_SCHEMA),
        folder / "faults.parquet",
    )


def violated(document: Mapping[str, Any]) -> list[str]:
    """Names of the forbidden anomalies that were found."""
    return sorted(row["name"] for row in document["properties"] if row["verdict"] == "violated")


def answer(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The answer for one anomaly, forbidden or allowed."""
    return next(row for row in (*document["properties"], *document["allowed"]) if row["name"] == name)


def finding(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The only finding of one anomaly."""
    (match,) = [row for row in document["findings"] if row["anomaly"] == name]
    return match
