"""Generated lawful histories: to warm Spark up, to test the checks, and to measure them at any size.

A small model of Kafka, in whole arrays: processes run one transaction after the other, transactions of different processes
overlap, markers and aborted records occupy offsets, a read_committed reader gets a record once every transaction that began at
or below it has ended, and final readers go through everything at both isolation levels.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.model.arrays import Ints
from fencepost.harness.api import history, record_ids
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.run import Plan, Run, RunFile
from fencepost.harness.api.values import PLAN_SCHEMA

PROMISED = {"transactional": "true", "isolation": "read_committed", "min_insync_replicas": "2"}
CONTRACT = {name: PROMISED.get(name, key.default) for name, key in CONTRACT_KEYS.items() if key.planned}
COMMIT, ABORT, LOST_COMMIT, LOST_ABORT = range(4)  # fates; the lost ones are `info`, and only the log knows
TYPES = np.array(["ok", "fail", "info", "info"], dtype=object)
SHARES = (0.80, 0.16, 0.02, 0.02)
MS = 1_000_000
POLL, FINAL_POLL = 50, 500
EMPTY = {column.name: history.arrow_type(column.type) for column in history.OPERATIONS if column.name in ("errors", "strange")}
TEXTS = ("role", "isolation", "f", "type", "intent", "detail")


@dataclass(frozen=True)
class Mops:
    """Micro-operations as columns; `owner` is the row of the operation in its own batch of operations."""

    owner: Ints
    kind: int
    partition: Ints
    v: Ints
    offset: Ints
    began: Ints | None
    ended: Ints


def write_lawful(
    folder: Path,
    transactions: int = 1000,
    partitions: int = 4,
    processes: int = 8,
    sends: int = 4,
    seed: int = 0,
    row_group: int = 65536,
) -> Run:
    """Write `plan.json` and `history.parquet` of a run in which nothing is wrong."""
    rng = np.random.default_rng(seed)
    txns, log = _run(rng, transactions, partitions, processes, sends)
    batches = [_writers(txns, log), *_readers(log, processes, int(txns["end"].max()), partitions)]
    folder.mkdir(parents=True, exist_ok=True)
    operations = _history(batches, partitions)
    written = history.writing(operations.schema)
    pq.write_table(operations, folder / RunFile.HISTORY, row_group_size=row_group, **written)
    plan: Plan = {
        "schema": PLAN_SCHEMA,
        "run": f"lawful{seed}",
        "campaign": "lawful",
        "test": "lawful",
        "seed": seed,
        "expect": ["valid"],
        "contract": CONTRACT,
        "topics": {"t": {"partitions": partitions, "replication": 3, "settings": {}}},
    }
    (folder / RunFile.PLAN).write_text(json.dumps(plan))
    return Run(directory=folder, plan=plan)


def _run(
    rng: np.random.Generator, count: int, partitions: int, processes: int, sends: int
) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Transactions (one per row) and the records of the log, in the order of (partition, offset)."""
    process = np.sort(np.arange(count) % processes)
    first = np.searchsorted(process, process)
    op = np.arange(count) - first
    lasts = rng.integers(5 * MS, 50 * MS, count)
    through = np.cumsum(lasts + MS)
    start = 1000 * MS + through - lasts - np.where(first > 0, through[first - 1], 0)
    fate = rng.choice(4, count, p=SHARES)
    txns = {"process": process, "op": op, "start": start, "end": start + lasts, "decided": start + lasts * 9 // 10, "fate": fate}
    txn = np.repeat(np.arange(count), sends)
    seq = np.tile(np.arange(sends), count)
    partition = rng.integers(0, partitions, len(txn))
    began = txns["start"][txn] + lasts[txn] * (seq + 1) // (2 * sends + 2)
    marked = np.unique(np.stack([txn, partition]), axis=1)
    when = np.r_[began, txns["end"][marked[0]] - 1]
    where = np.r_[partition, marked[1]]
    order = np.lexsort((when, where))
    starts = np.searchsorted(where[order], np.arange(partitions))
    offset = np.empty(len(order), dtype=np.int64)
    offset[order] = np.arange(len(order)) - starts[where[order]]
    records = order[order < len(txn)]
    log = {"txn": txn, "partition": partition, "began": began, "v": record_ids.of(process[txn], op[txn], seq)}
    log = {name: values[records] for name, values in {**log, "offset": offset[: len(txn)]}.items()}
    log["fate"], end = fate[log["txn"]], txns["end"][log["txn"]]
    span = int(end.max()) + 1
    log["ready"] = np.maximum.accumulate(end + log["partition"] * span) - log["partition"] * span
    log["size"] = np.bincount(where, minlength=partitions)
    return txns, log


def _visible(log: dict[str, Ints]) -> Any:
    return np.isin(log["fate"], (COMMIT, LOST_COMMIT))


def _writers(txns: dict[str, Ints], log: dict[str, Ints]) -> tuple[dict[str, Any], Mops]:
    count = len(txns["fate"])
    ops: dict[str, Any] = {name: txns[name] for name in ("process", "op", "end")}
    ops |= {"time": txns["start"], "type": TYPES[txns["fate"]], "f": "txn", "role": "writer", "isolation": "read_committed"}
    aborts = txns["fate"] == ABORT
    ops |= {"decided": np.where(aborts, -1, txns["decided"]), "intent": np.where(aborts, "abort", "commit")}
    order = np.lexsort((log["v"], log["txn"]))
    columns = {name: log[name][order] for name in ("partition", "v", "offset", "began")}
    return {**ops, "count": count}, Mops(owner=log["txn"][order], kind=0, ended=columns["began"] + MS, **columns)


def _readers(log: dict[str, Ints], writers: int, over: int, partitions: int) -> list[tuple[dict[str, Any], Mops]]:
    """A read_committed reader while the run goes on, settling, then a final reader at each level."""
    during = _polls(log, _visible(log), log["ready"] + 2 * MS, writers, POLL, "reader", "read_committed")
    batches = [during, _settle(log, over + 5 * MS)]
    for number, isolation in enumerate(("read_committed", "read_uncommitted"), 1):
        which = _visible(log) if isolation == "read_committed" else np.ones(len(log["v"]), np.bool_)
        when = over + 10 * number * MS
        batches.append(_polls(log, which, np.full(len(which), when), writers + number, FINAL_POLL, "final", isolation))
        detail = json.dumps({f"t-{p}": [0, int(log["size"][p]), int(log["size"][p])] for p in range(partitions)})
        ops = {
            "process": writers + number,
            "op": batches[-1][0]["count"],
            "time": when + MS,
            "end": when + 2 * MS,
            "detail": detail,
        }
        batches.append(({**ops, "f": "final-read", "type": "ok", "role": "final", "isolation": isolation, "count": 1}, _none()))
    return batches


def _polls(
    log: dict[str, Ints], which: Any, when: Ints, process: int, size: int, role: str, isolation: str
) -> tuple[dict[str, Any], Mops]:
    rows = np.flatnonzero(which)
    rows = rows[np.argsort(when[rows], kind="stable")]
    owner = np.arange(len(rows)) // size
    count = int(owner[-1]) + 1 if len(rows) else 0
    last = np.minimum(np.arange(1, count + 1) * size, len(rows)) - 1
    step = 2 * np.arange(count)  # a poll begins when the one before it is over
    end = np.maximum.accumulate(when[rows][last] - step) + step
    start = np.maximum(end - MS, np.r_[end[:1] - MS, end[:-1] + 1])
    ops = {"process": process, "op": np.arange(count), "time": start, "end": end + 1, "f": "poll", "type": "ok"}
    columns = {name: log[name][rows] for name in ("partition", "v", "offset")}
    polled = Mops(owner=owner, kind=1, began=None, ended=end[owner], **columns)
    return {**ops, "role": role, "isolation": isolation, "count": count}, polled


def _settle(log: dict[str, Ints], when: int) -> tuple[dict[str, Any], Mops]:
    detail = json.dumps({f"t-{p}": [int(size), int(size)] for p, size in enumerate(log["size"])})
    ops = {
        "process": -1,
        "op": 0,
        "time": when,
        "end": when + 1,
        "f": "settle",
        "type": "ok",
        "role": "harness",
        "detail": detail,
    }
    return {**ops, "count": 1}, _none()


def _none() -> Mops:
    nothing = np.empty(0, dtype=np.int64)
    return Mops(nothing, 0, nothing, nothing, nothing, nothing, nothing)


# --------------------------------------------------------------------------------------------------
# To Parquet (docs/history.md)
# --------------------------------------------------------------------------------------------------
def _history(batches: list[tuple[dict[str, Any], Mops]], partitions: int) -> pa.Table:
    counts = [ops["count"] for ops, _ in batches]
    total = sum(counts)

    def column(name: str, absent: Any = None, dtype: Any = object) -> Any:
        return np.concatenate([np.broadcast_to(np.asarray(ops.get(name, absent), dtype), ops["count"]) for ops, _ in batches])

    time = column("time", 0, np.int64)
    order = np.argsort(time, kind="stable")
    rank = np.empty(total, dtype=np.int64)
    rank[order] = np.arange(total)
    process, decided = column("process", -1, np.int64)[order], column("decided", -1, np.int64)[order]
    role = column("role")[order]
    columns = {
        "index": pa.array(np.arange(total)),
        "process": pa.array(process, pa.int32()),
        "slot": pa.array(process, pa.int32()),
        "op": pa.array(column("op", 0, np.int64)[order]),
        "node": pa.repeat(pa.scalar("c0"), total),
        "transactional_id": _transactional_ids(process, role),
        "final": pa.array(role == "final"),
        "time": pa.array(time[order]),
        "end": pa.array(column("end", 0, np.int64)[order]),
        "decided": pa.array(decided, mask=decided < 0),
        "mops": _nested([mops for _, mops in batches], counts, rank, partitions),
    }
    columns |= {name: pa.nulls(total, kind) for name, kind in EMPTY.items()}
    columns |= {
        name: pa.array(column(name)[order], pa.string()) for name in ("role", "isolation", "f", "type", "intent", "detail")
    }
    return pa.table(columns)


def _transactional_ids(process: Ints, role: Any) -> pa.Array:
    """Each writer has an id of its own."""
    return pa.array([f"id-{number}" if of == "writer" else None for number, of in zip(process, role, strict=True)], pa.string())


def _nested(parts: list[Mops], counts: list[int], rank: Ints, partitions: int) -> pa.Array:
    before = np.r_[0, np.cumsum(counts)]
    owner = rank[np.concatenate([mops.owner + start for mops, start in zip(parts, before, strict=False)])]
    order = np.argsort(owner, kind="stable")
    kinds = np.concatenate([np.full(len(mops.owner), mops.kind, dtype=np.int8) for mops in parts])[order]
    began = np.concatenate([np.zeros(len(mops.owner), np.int64) if mops.began is None else mops.began for mops in parts])[order]
    flat = {
        name: np.concatenate([getattr(mops, name) for mops in parts])[order] for name in ("partition", "v", "offset", "ended")
    }
    topics = pa.array([f"t-{number}" for number in range(partitions)])
    fields = {
        "kind": pa.array(kinds),
        "partition": topics.take(pa.array(flat["partition"])),
        "v": pa.array(flat["v"]),
        "offset": pa.array(flat["offset"]),
        "began": pa.array(began, mask=kinds == 1),
        "ended": pa.array(flat["ended"]),
    }
    structs = pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
    bounds = np.searchsorted(owner[order], np.arange(len(rank) + 1))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), structs)
