"""The brokers' logs of a generated lawful history (`checkers.model.lawful_history`), as three replicas hold them.

Each process has a producer id. The epoch of an even process stays 0, as in the first protocol (KIP-98); each marker of an odd one
raises it, as in the second (KIP-890). Markers lie at the offsets that the history leaves free, in the order in which the
transactions ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.model.frames import pd
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
    sends = sends.assign(committed=committed, producer=FIRST_PRODUCER + sends["process"].astype(np.int64), **_epochs(sends))
    records = [row for _, log in sends.groupby("partition", sort=True) for row in _log(log)]
    named = rows.table.select(["process", "transactional_id"]).to_pylist()
    names = {row["process"]: row["transactional_id"] for row in named if row["transactional_id"] is not None}
    return on_all([*_states(sends, names), *records])


def _epochs(sends: pd.DataFrame) -> dict[str, Any]:
    """The epoch of each record, and of the marker of its transaction."""
    number = sends.groupby("process")["op"].rank("dense").astype(np.int64) - 1
    second = sends["process"] % 2
    return {"epoch": second * number, "marked": second * (number + 1)}


def _log(sends: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The records and markers of one partition, in order."""
    ends = sends.groupby("op").agg(
        end=("end", "max"),
        producer=("producer", "first"),
        committed=("committed", "first"),
        marked=("marked", "first"),
    )
    free = np.setdiff1d(np.arange(len(sends) + len(ends)), sends["offset"])
    partition, sequences = str(sends["partition"].iloc[0]), dict[tuple[int, int], int]()
    rows: list[dict[str, Any]] = []
    for row in sends.sort_values("offset").itertuples():
        sequence = sequences.get((row.producer, row.epoch), 0)
        sequences[row.producer, row.epoch] = sequence + 1
        who = {"v": row.v, "producer_epoch": row.epoch}
        rows.append(log_row(partition, row.offset, row.began, "record", row.producer, sequence, **who))
    for offset, row in zip(free.tolist(), ends.sort_values("end").itertuples(), strict=True):
        kind = "COMMIT" if row.committed else "ABORT"
        rows.append(log_row(partition, offset, row.end, kind, row.producer, coordinator_epoch=0, producer_epoch=row.marked))
    yield from sorted(rows, key=lambda row: int(row["offset"]))


def log_row(
    partition: str, offset: int, time: int, kind: str, producer_id: int, sequence: int = -1, **more: Any
) -> dict[str, Any]:
    """A row that is a batch of its own. time: ns."""
    row = {"partition": partition, "offset": int(offset), "leader_epoch": 0, "producer_id": int(producer_id), "producer_epoch": 0}
    row |= {"sequence": sequence, "timestamp": int(time) // _MS, "kind": kind, "v": None, "first_offset": int(offset)}
    row |= {
        "last_offset": int(offset),
        "first_sequence": sequence,
        "checksum": 7919 * int(offset) + 1,
        "transactional": kind != "log",
    }
    return {**row, "coordinator_epoch": -1, "state": None, **more}


def state_row(
    place: str,
    offset: int,
    time: int,
    kind: str,
    name: str,
    producer: int,
    epoch: int,
    partitions: Sequence[str],
    started: int,
) -> dict[str, Any]:
    """A record of a transactional id in a coordinator's log. time, started: ns."""
    values = [name, producer, epoch, -1, -1, 60_000, started // _MS, time // _MS, 0, list(partitions)]
    state = dict(zip(_STATE, values, strict=True))
    return log_row(place, offset, time, kind, -1, state=state, transactional=False, producer_epoch=-1)


def on_all(rows: Sequence[Mapping[str, Any]], nodes: Sequence[str] = NODES) -> pa.Table:
    """Some rows as all nodes hold them, with a row for each log."""
    ends = {str(row["partition"]): int(row["offset"]) + 1 for row in sorted(rows, key=lambda row: int(row["offset"]))}
    heads = [log_row(partition, 0, 0, kind="log", producer_id=-1, last_offset=end, checksum=0) for partition, end in ends.items()]
    whole = [{**row, "node": node} for node in nodes for row in (*heads, *rows)]
    whole.sort(key=lambda row: (row["partition"], row["offset"], row["kind"] != "log", row["node"]))
    return pa.Table.from_pylist(whole, schema=history.schema(history.STORED))


def _states(sends: pd.DataFrame, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """The records of the coordinators' topic, in the order of its partitions and offsets. names: process -> transactional id."""
    transactions = sends.groupby("op").agg(
        process=("process", "first"),
        time=("time", "min"),
        end=("end", "max"),
        committed=("committed", "first"),
        partitions=("partition", lambda names: sorted(set(names))),
        epoch=("epoch", "first"),
        marked=("marked", "first"),
    )
    events: list[tuple[int, int, int, str, list[str], int]] = []
    for process, own in transactions.groupby("process"):
        events.append((0, int(process), 0, "Empty", [], 0))
        for row in own.itertuples():
            word = "Commit" if row.committed else "Abort"
            events.append((row.time, int(process), row.time, "Ongoing", row.partitions, row.epoch))
            events.append((row.end - 2, int(process), row.time, f"Prepare{word}", row.partitions, row.marked))
            events.append((row.end, int(process), row.time, f"Complete{word}", [], row.marked))
    ends: dict[int, int] = {}
    rows = []
    for time, process, started, kind, partitions, epoch in sorted(events):
        number = process % COORDINATORS
        offset = ends.get(number, 0)
        ends[number] = offset + 1
        name, place = names.get(process, f"id-{process}"), f"__transaction_state-{number}"
        rows.append(state_row(place, offset, time, kind, name, FIRST_PRODUCER + process, int(epoch), partitions, started))
    yield from sorted(rows, key=lambda row: (row["partition"], row["offset"]))
