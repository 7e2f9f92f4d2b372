"""Transactions as the brokers' log segments have them (`stored.parquet`): when they wrote, and how and when they were decided.

Of each partition one replica is taken, the one with the most rows. What a producer has written in several partitions is one
transaction where the epoch is the same (with KIP-890 each transaction has its own) and there is a time at which all of it was
written and none of it decided.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.stored_kinds import CONTROL, DAMAGED_BATCH, LOG, MARKERS, REMOVED, STATES

MOST_ROWS = 20_000_000  # of the table, beyond which nothing is counted
NO_RECORDS = (*MARKERS, CONTROL, *STATES, REMOVED)  # rows that are neither records nor batches of them
NUMBERS = ("offset", "leader_epoch", "producer_id", "producer_epoch", "timestamp")
COLUMNS = ["node", "partition", "kind", *NUMBERS]
PARTS = ("partition", "producer_id", "epoch", "first", "last", "decided", "kind", "records")


@dataclass(frozen=True)
class StoredTransactions:
    """What the log segments of a run hold of transactions and leaders. Times are ms since 1970.

    transactions: `producer_id`, `first` and `last` (timestamps of its records), `decided` (of its first marker), `kind`
        (`COMMIT`, `ABORT`), `records`, `partitions` (a set of names).
    leader_changes: how often a leader epoch followed another one within a partition; None: none did, as far as epochs are known.
    first_records: by partition, the timestamp of its first record.
    plain: timestamps of records without a producer id or a marker, by partition.
    whole: each log begins at offset 0, so that of what is not in them nothing was deleted.
    """

    transactions: pd.DataFrame
    leader_changes: int | None = 0
    first_records: dict[str, int] = field(default_factory=dict)
    plain: pd.DataFrame = field(default_factory=lambda: pd.DataFrame())
    whole: bool = True


@dataclass(frozen=True)
class _Rows:
    """Rows of one replica of each partition, by partition and offset. partition: positions in `names`. kind: in `kinds`."""

    names: list[str]
    kinds: list[str]
    partition: Ints
    kind: Ints
    offset: Ints
    leader_epoch: Ints
    producer_id: Ints
    producer_epoch: Ints
    timestamp: Ints

    def of(self, *kinds: str) -> Bools:
        """Which rows are of some kinds."""
        wanted = np.array([kind in kinds for kind in self.kinds], dtype=np.bool_)
        return wanted[self.kind] if len(self.kind) else np.zeros(0, dtype=np.bool_)

    def take(self, which: Any) -> _Rows:
        """Some of the rows, or all in another order."""
        arrays = {name: getattr(self, name)[which] for name in ("partition", "kind", *NUMBERS)}
        return _Rows(self.names, self.kinds, **arrays)


def stored_transactions(run: RunView) -> StoredTransactions | None:
    """The transactions that the log segments hold; None: there is no table, it is too long or lacks values, or cannot be read."""
    path = run.stored
    if path is None or not os.path.lexists(path):
        return None
    try:
        if pq.read_metadata(path).num_rows > MOST_ROWS:
            return None
        table = pq.read_table(path, columns=COLUMNS, page_checksum_verification=True)
        lacking = any(table[name].null_count for name in COLUMNS if name != "leader_epoch")
    except (OSError, pa.ArrowException, KeyError):
        return None
    return None if lacking else of_rows(_one_replica(table))


def _one_replica(table: pa.Table) -> _Rows:
    """The rows of one node for each partition: of the one with the most, and of those alike the first by name."""
    (partition, names), (node, nodes), (kind, kinds) = (_coded(table[name]) for name in ("partition", "node", "kind"))
    rank = np.argsort(np.argsort(nodes))
    key = partition * len(nodes) + rank[node] if len(node) else partition
    logs, counts = np.unique(key, return_counts=True)
    of_partition = logs // max(len(nodes), 1)
    order = np.lexsort((logs, -counts, of_partition))
    chosen = logs[order][_changes(of_partition[order])]
    numbers = {name: table[name].fill_null(NONE).to_numpy().astype(np.int64) for name in NUMBERS}  # only leader epochs lack some
    rows = _Rows(names, kinds, partition, kind, **numbers).take(np.isin(key, chosen))
    return rows.take(np.lexsort((rows.offset, rows.partition)))


def _coded(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """A column of texts as positions among the distinct ones."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64), coded.dictionary.to_pylist()


def _changes(*keys: Ints) -> Bools:
    """Which rows are the first, or have another key than the row before."""
    new = np.ones(len(keys[0]), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return new


def of_rows(rows: _Rows) -> StoredTransactions:
    """The transactions of these rows; what tells of a log itself is left out."""
    of_logs = rows.of(LOG)
    starts, rows = rows.offset[of_logs], rows.take(~of_logs)
    whole = not starts.any() and not rows.offset[_changes(rows.partition)].any()
    records = rows.take(~rows.of(*NO_RECORDS))
    begins = np.flatnonzero(_changes(records.partition))
    first = np.minimum.reduceat(records.timestamp, begins) if len(begins) else begins
    times = {records.names[at]: time for at, time in zip(records.partition[begins].tolist(), first.tolist(), strict=True)}
    plain = records.take(~np.isin(records.producer_id, rows.producer_id[rows.of(*MARKERS)]))
    frame = pd.DataFrame({"partition": [plain.names[at] for at in plain.partition.tolist()], "timestamp": plain.timestamp})
    return StoredTransactions(_joined(_in_partitions(rows), rows.names), _leader_changes(rows), times, frame, whole)


def _leader_changes(rows: _Rows) -> int | None:
    """`StoredTransactions.leader_changes`. An older message format, and a damaged batch, say no epoch."""
    known = rows.take((rows.leader_epoch >= 0) & ~rows.of(DAMAGED_BATCH))
    changes = int((np.diff(known.leader_epoch, prepend=0) > 0)[~_changes(known.partition)].sum())
    return changes if changes or len(known.offset) == len(rows.offset) else None


def _in_partitions(rows: _Rows) -> dict[str, Ints]:
    """Transactions inside each partition, up to their markers; of those without a record nothing."""
    at = np.flatnonzero(rows.producer_id != NONE)
    at = at[np.lexsort((rows.producer_id[at], rows.partition[at]))]
    rows = rows.take(at)
    marker = rows.of(*MARKERS)
    record = ~marker & ~rows.of(CONTROL)
    new = _changes(rows.partition, rows.producer_id)
    new[1:] |= marker[:-1]  # the marker belongs to what it ends
    begins = np.flatnonzero(new)
    if not len(begins):
        return dict.fromkeys(PARTS, begins)
    ends = np.append(begins[1:], len(new)) - 1
    parts = {
        "partition": rows.partition[begins],
        "producer_id": rows.producer_id[begins],
        "epoch": rows.producer_epoch[begins],
        "first": rows.timestamp[begins],
        "last": np.maximum.reduceat(np.where(record, rows.timestamp, np.iinfo(np.int64).min), begins),
        "decided": rows.timestamp[ends],
        "kind": rows.of("COMMIT")[ends].astype(np.int64),
        "records": np.add.reduceat(record.astype(np.int64), begins),
    }
    kept = np.flatnonzero(marker[ends] & (parts["records"] > 0))
    kept = kept[np.argsort(at[begins[kept]], kind="stable")]
    return {name: parts[name][kept] for name in PARTS}


def _joined(parts: dict[str, Ints], names: list[str]) -> pd.DataFrame:
    """Transactions over all partitions: the parts of a producer and an epoch between whose last records and markers there is a
    common time."""
    written = np.minimum(parts["last"], parts["decided"])  # two clocks
    order = np.lexsort((parts["decided"], written, parts["epoch"], parts["producer_id"]))
    parts, written = {name: parts[name][order] for name in PARTS}, written[order]
    new = _changes(parts["producer_id"], parts["epoch"])
    times, rank = np.unique(parts["decided"], return_inverse=True)
    reach = np.maximum.accumulate(np.cumsum(new) * len(times) + rank) % max(len(times), 1)  # within a producer and an epoch
    new[1:] |= written[1:] > times[reach[:-1]]
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], len(new)) if len(begins) else begins
    partitions = parts["partition"].tolist()

    def each(reduce: np.ufunc, name: str) -> Ints:
        return reduce.reduceat(parts[name], begins) if len(begins) else begins

    return pd.DataFrame(
        {
            "producer_id": parts["producer_id"][begins],
            "first": each(np.minimum, "first"),
            "last": each(np.maximum, "last"),
            "decided": each(np.minimum, "decided"),
            "kind": np.where(parts["kind"][ends - 1] == 1, "COMMIT", "ABORT").astype(object),
            "records": each(np.add, "records"),
            "partitions": [frozenset(names[at] for at in partitions[begin:end]) for begin, end in zip(begins, ends, strict=True)],
        }
    )
