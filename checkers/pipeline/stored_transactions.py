"""Transactions as the brokers' log segments have them (`stored.parquet`): when they wrote, and how and when they were decided.

Of each partition one replica is taken, the one with the most rows. What a producer has written in several partitions is one
transaction where the epoch is the same (with KIP-890 each transaction has its own) and there is a time at which all of it was
written and none of it decided.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.stored_kinds import CONTROL, DAMAGED_BATCH, LOG, MARKERS, REMOVED, STATES

MOST_ROWS = 20_000_000  # of the table, beyond which nothing is counted
NO_RECORDS = (*MARKERS, CONTROL, *STATES, REMOVED)  # rows that are neither records nor batches of them
COLUMNS = ["node", "partition", "offset", "leader_epoch", "producer_id", "producer_epoch", "timestamp", "kind"]


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


def stored_transactions(run: RunView) -> StoredTransactions | None:
    """The transactions that the log segments hold; None: there is no table, or it is too long or cannot be read."""
    path = run.stored
    if path is None or not os.path.lexists(path):
        return None
    try:
        if pq.read_metadata(path).num_rows > MOST_ROWS:
            return None
        table = pq.read_table(path, columns=COLUMNS)
    except (OSError, pa.ArrowException, KeyError):
        return None
    return of_rows(_one_replica(table).to_pandas())


def _one_replica(table: pa.Table) -> pa.Table:
    """The rows of one node for each partition."""
    counts = table.group_by(["partition", "node"]).aggregate([("offset", "count")]).to_pandas()
    chosen = counts.sort_values(["partition", "offset_count", "node"], ascending=[True, False, True]).drop_duplicates("partition")
    keys = pa.array(chosen["partition"] + "\n" + chosen["node"], pa.string())
    both = pc.binary_join_element_wise(table["partition"].cast(pa.string()), table["node"].cast(pa.string()), "\n")
    return table.filter(pc.is_in(both, value_set=keys))


def of_rows(rows: pd.DataFrame) -> StoredTransactions:
    """The transactions of rows of one replica of each partition; what tells of a log itself is left out."""
    starts, rows = rows.loc[rows["kind"] == LOG, "offset"], rows[rows["kind"] != LOG]
    rows = rows.sort_values(["partition", "offset"], ignore_index=True)
    whole = not starts.any() and not rows.drop_duplicates("partition")["offset"].any()
    marker = rows["kind"].isin(MARKERS)
    records = rows[~rows["kind"].isin(NO_RECORDS)]
    first = records.groupby("partition")["timestamp"].min().astype(int).to_dict()
    parts = _in_partitions(rows[rows["producer_id"] != NONE])
    decided = set(rows.loc[marker, "producer_id"])
    plain = records.loc[~records["producer_id"].isin(decided), ["partition", "timestamp"]]
    times = {str(name): value for name, value in first.items()}
    return StoredTransactions(_joined(parts), _leader_changes(rows), times, plain, whole)


def _leader_changes(rows: pd.DataFrame) -> int | None:
    """`StoredTransactions.leader_changes`. An older message format, and a damaged batch, say no epoch."""
    known = rows[(rows["leader_epoch"] >= 0) & (rows["kind"] != DAMAGED_BATCH)]
    before = known.groupby("partition", sort=False)["leader_epoch"].shift()
    changes = int((known["leader_epoch"] > before).sum())
    return changes if changes or len(known) == len(rows) else None


def _in_partitions(rows: pd.DataFrame) -> pd.DataFrame:
    """Transactions inside each partition, up to their markers; of those without a record nothing."""
    marker = rows["kind"].isin(MARKERS)
    keys = [rows["partition"], rows["producer_id"]]
    number = marker.groupby(keys).cumsum() - marker  # the marker belongs to what it ends
    table = rows.assign(number=number, marker=marker, record=~marker & (rows["kind"] != "control"))
    made = table.groupby(["partition", "producer_id", "number"], sort=False).agg(
        epoch=("producer_epoch", "first"),
        first=("timestamp", "first"),
        decided=("timestamp", "last"),
        kind=("kind", "last"),
        marked=("marker", "any"),
    )
    told = table[table["record"]].groupby(["partition", "producer_id", "number"], sort=False)["timestamp"]
    made = made.join(told.agg(last="max", records="count"), how="inner")
    return made[made["marked"]].reset_index()


def _joined(parts: pd.DataFrame) -> pd.DataFrame:
    """Transactions over all partitions: the parts of a producer and an epoch between whose last records and markers there is a
    common time."""
    parts = parts.assign(written=parts[["last", "decided"]].min(axis=1))  # two clocks
    parts = parts.sort_values(["producer_id", "epoch", "written", "decided"], ignore_index=True)
    keys = ["producer_id", "epoch"]
    reach = parts.groupby(keys)["decided"].cummax()
    new = (parts[keys] != parts[keys].shift()).any(axis=1) | (parts["written"] > reach.shift())
    grouped = parts.groupby(np.asarray(new.cumsum(), dtype=np.int64))
    return grouped.agg(
        producer_id=("producer_id", "first"),
        first=("first", "min"),
        last=("last", "max"),
        decided=("decided", "min"),
        kind=("kind", "last"),
        records=("records", "sum"),
        partitions=("partition", frozenset),
    ).reset_index(drop=True)
