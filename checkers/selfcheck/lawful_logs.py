"""The brokers' logs of a generated lawful history (`checkers.model.lawful_history`), as three replicas hold them.

Each process has a producer id whose epoch stays 0: the first protocol (KIP-98). Markers lie at the
offsets that the history leaves free, in the order in which the transactions ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.values import COMMITTED
from fencepost.harness.api import history

NODES = ("n1", "n2", "n3")
COORDINATORS = 3  # partitions of `__transaction_state`
FIRST_PRODUCER = 1 << 40
_MS = 1_000_000
_STATE = [column.name for column in history.STRUCTS["state"]]


def lawful_logs(rows: HistoryRows) -> pa.Table:
    """What `stored.parquet` holds of a generated history."""
    sends = rows.sends
    seen = set(rows.reads.loc[rows.reads["committed"], "v"])
    visible = sends.assign(seen=sends["v"].isin(seen)).groupby("op")["seen"].any()
    committed = sends["op"].map(visible) | (sends["status"] == COMMITTED)
    sends = sends.assign(committed=committed, producer=FIRST_PRODUCER + sends["process"].astype(np.int64))
    records = [row for _, log in sends.groupby("partition", sort=True) for row in _log(log)]
    named = rows.table.select(["process", "transactional_id"]).to_pylist()
    names = {row["process"]: row["transactional_id"] for row in named if row["transactional_id"] is not None}
    states = list(_states(sends, names))
    ends: dict[str, int] = {}
    for row in (*states, *records):
        ends[row["partition"]] = row["offset"] + 1
    heads = [_row(partition, 0, 0, kind="log", producer_id=-1, last_offset=end, checksum=0) for partition, end in ends.items()]
    whole = [{**row, "node": node} for node in NODES for row in (*heads, *states, *records)]
    whole.sort(key=lambda row: (row["partition"], row["offset"], row["kind"] != "log", row["node"]))
    return pa.Table.from_pylist(whole, schema=history.schema(history.STORED))


def _log(sends: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The records and markers of one partition, in order."""
    ends = sends.groupby("op").agg(end=("end", "max"), producer=("producer", "first"), committed=("committed", "first"))
    free = np.setdiff1d(np.arange(len(sends) + len(ends)), sends["offset"])
    partition, sequences = str(sends["partition"].iloc[0]), dict[int, int]()
    rows: list[dict[str, Any]] = []
    for row in sends.sort_values("offset").itertuples():
        sequence = sequences.get(row.producer, 0)
        sequences[row.producer] = sequence + 1
        rows.append(_row(partition, row.offset, row.began, "record", row.producer, sequence, v=row.v))
    for offset, row in zip(free.tolist(), ends.sort_values("end").itertuples(), strict=True):
        rows.append(_row(partition, offset, row.end, "COMMIT" if row.committed else "ABORT", row.producer, coordinator_epoch=0))
    yield from sorted(rows, key=lambda row: int(row["offset"]))


def _row(partition: str, offset: int, time: int, kind: str, producer_id: int, sequence: int = -1, **more: Any) -> dict[str, Any]:
    """A row that is a batch of its own."""
    row = {"partition": partition, "offset": int(offset), "leader_epoch": 0, "producer_id": int(producer_id), "producer_epoch": 0}
    row |= {"sequence": sequence, "timestamp": int(time) // _MS, "kind": kind, "v": None, "first_offset": int(offset)}
    row |= {
        "last_offset": int(offset),
        "first_sequence": sequence,
        "checksum": 7919 * int(offset) + 1,
        "transactional": kind != "log",
    }
    return {**row, "coordinator_epoch": -1, "state": None, **more}


def _states(sends: pd.DataFrame, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """The records of the coordinators' topic, in the order of its partitions and offsets. names: process -> transactional id."""
    transactions = sends.groupby("op").agg(
        process=("process", "first"),
        time=("time", "min"),
        end=("end", "max"),
        committed=("committed", "first"),
        partitions=("partition", lambda names: sorted(set(names))),
    )
    events: list[tuple[int, int, int, str, list[str]]] = []
    for process, own in transactions.groupby("process"):
        events.append((0, int(process), 0, "Empty", []))
        for row in own.itertuples():
            word = "Commit" if row.committed else "Abort"
            events.append((row.time, int(process), row.time, "Ongoing", row.partitions))
            events.append((row.end - 2, int(process), row.time, f"Prepare{word}", row.partitions))
            events.append((row.end, int(process), row.time, f"Complete{word}", []))
    ends: dict[int, int] = {}
    rows = []
    for time, process, started, kind, partitions in sorted(events):
        number = process % COORDINATORS
        offset = ends.get(number, 0)
        ends[number] = offset + 1
        values = [
            names.get(process, f"id-{process}"),
            FIRST_PRODUCER + process,
            0,
            -1,
            -1,
            60_000,
            started // _MS,
            time // _MS,
            0,
            partitions,
        ]
        state = dict(zip(_STATE, values, strict=True))
        place = f"__transaction_state-{number}"
        rows.append(_row(place, offset, time, kind, -1, state=state, transactional=False, producer_epoch=-1))
    yield from sorted(rows, key=lambda row: (row["partition"], row["offset"]))
