"""The requests on the wire of a generated lawful history (`checkers.model.lawful_history`), as proxies would have recorded them.

Each process has a producer id and a transactional id. Even processes use the first protocol (KIP-98), odd ones the second
(KIP-890), as in `checkers.selfcheck.lawful_logs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.values import COMMITTED, NONE
from fencepost.checkers.selfcheck.lawful_logs import FIRST_PRODUCER
from fencepost.harness.api.wire import NodeRecord, wire_schema, with_nodes

NODES = ("n1", "n2", "n3")
Row = dict[str, Any]


def named(rows: HistoryRows) -> HistoryRows:
    """The history with a transactional id for each process that has none."""
    at = rows.table.column_names.index("transactional_id")
    processes = rows.table["process"].to_pylist()
    names = [name or f"id-{process}" for name, process in zip(rows.table[at].to_pylist(), processes, strict=True)]
    field = pa.field("transactional_id", pa.string())
    return replace(rows, table=rows.table.set_column(at, field, pa.array(names, pa.string())))


def lawful_wire(rows: HistoryRows) -> list[Row]:
    """The rows of `wire.parquet` of a generated history, in the order of time."""
    sends = rows.sends
    seen = set(rows.reads.loc[rows.reads["committed"], "v"])
    visible = sends.assign(seen=sends["v"].isin(seen)).groupby("op")["seen"].any()
    sends = sends.assign(commits=sends["op"].map(visible) | (sends["status"] == COMMITTED))
    processes = rows.table["process"].to_pylist()
    ids = dict(zip(processes, rows.table["transactional_id"].to_pylist(), strict=True))
    ends = rows.ops["end"].to_numpy()
    made = (row for process, own in sends.groupby("process") for row in _of_process(int(process), str(ids[process]), own, ends))
    ordered = sorted(made, key=lambda row: int(row["forwarded_ns"]))
    return [{**row, "number": number, "correlation": number} for number, row in enumerate(ordered)]


def as_table(rows: list[Row]) -> pa.Table:
    """Rows as the table that a run records; the record of each broker is whole."""
    return with_nodes(pa.Table.from_pylist(rows, schema=wire_schema()), {node: NodeRecord() for node in NODES})


def _of_process(process: int, name: str, sends: pd.DataFrame, ends: Ints) -> Iterator[Row]:
    """An initialisation, and the requests of one transaction after the other. ends: the time of each operation's end, or NONE."""
    second, producer, epoch = bool(process % 2), FIRST_PRODUCER + process, 0
    who = {"client_id": f"c{process}", "transactional_id": name}
    first = int(sends["time"].min())
    yield row("InitProducerId", 4, first - 2, first - 1, **who, answer_producer_id=producer, answer_producer_epoch=0)
    sequences: dict[tuple[int, str], int] = {}
    transactions: dict[int, list[Any]] = {}
    for send in sends.sort_values(["time", "op"], kind="stable").itertuples():
        transactions.setdefault(int(send.op), []).append(send)
    for op, own in transactions.items():
        began, commits = int(own[0].time), bool(own[0].commits)
        ended = int(ends[op])
        ended = ended if ended != NONE else began + 1000
        names = sorted({send.partition for send in own})
        producing = {**who, "producer_id": producer, "producer_epoch": epoch}
        if not second:
            added = json.dumps([_place(partition) for partition in names])
            yield row("AddPartitionsToTxn", 3, began + 1, began + 2, **producing, partitions=added)
        for send in sorted(own, key=lambda send: int(send.offset)):
            yield _produce(send, producing, sequences, began, second)
        given = {"answer_producer_id": producer, "answer_producer_epoch": epoch + 1} if second else {}
        yield row("EndTxn", 5 if second else 3, ended - 2, ended - 1, **producing, committed=commits, **given)
        epoch += second


def _produce(send: Any, who: Mapping[str, Any], sequences: dict[tuple[int, str], int], began: int, second: bool) -> Row:
    """A batch of one record: those of a transaction do not lie side by side."""
    key = (int(who["producer_epoch"]), str(send.partition))
    first = sequences.get(key, 0)
    sequences[key] = first + 1
    batch = {"producer_id": who["producer_id"], "epoch": who["producer_epoch"], "first_sequence": first, "records": 1}
    batch |= {"crc": int(send.v) & 0xFFFFFFFF, "base_offset": 0, "transactional": True}
    request = json.dumps([{**_place(send.partition), "batches": [batch]}])
    answer = json.dumps([{**_place(send.partition), "error": "NONE", "base_offset": int(send.offset)}])
    return row("Produce", 12 if second else 9, began + 3, began + 4, **who, partitions=request, answer_partitions=answer)


def _place(partition: str) -> Row:
    topic, _, number = partition.rpartition("-")
    return {"topic": topic, "partition": int(number)}


def row(api: str, version: int, began: int, ended: int, **more: Any) -> Row:
    """A request that was answered without an error."""
    times = {"arrived_ns": began, "forwarded_ns": began, "answered_ns": ended, "returned_ns": ended}
    fixed = {"node": "n1", "connection": 1, "client": "10.0.0.1:5000", "copies": 1, "rules": [], "made_by_proxy": False}
    return {
        **fixed,
        "api": api,
        "version": version,
        **times,
        "error": "NONE",
        "partitions": "[]",
        "answer_partitions": "[]",
        **more,
    }
