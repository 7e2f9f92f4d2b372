"""Damages to transactions: torn, shown although they failed, read too early. As in `records`: clean in, damaged out, or None."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import COMMITTED_TXN, DamagedHistory, PlantedDamage
from fencepost.checkers.model.values import ABORTED, NONE
from fencepost.checkers.selfcheck.accompanying import SKIPS, STEPS
from fencepost.checkers.selfcheck.record_damages import pick


def tear(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """One record of a committed transaction with records in several partitions vanishes from every read."""
    txn = _transaction(rows, rng, partitions=2)
    if txn is None:
        return None
    lost = pick(txn, rng)
    what = f"of the {len(txn)} records of transaction {lost['op']}, the one at {lost['partition']}@{lost['place']} is gone"
    return DamagedHistory(rows.unread([lost["v"]]), what, frozenset(txn["v"]))


def _transaction(rows: HistoryRows, rng: Random, partitions: int = 1) -> pd.DataFrame | None:
    """All records of one transaction that is complete in the reads, in so many partitions at least."""
    whole = rows.complete[rows.complete["txn"]]
    wide = whole.groupby("op")["partition"].nunique()
    wide = wide.index[wide >= partitions]
    return whole[whole["op"] == wide[rng.randrange(len(wide))]] if len(wide) else None


def deny(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A committed transaction is returned to readers at read_uncommitted only, as if it had been aborted."""
    txn = _transaction(rows, rng)
    if txn is None:
        return None
    reads = rows.reads[rows.reads["v"].isin(txn["v"])]
    if not (reads["final"] & ~reads["committed"]).any():
        return None
    what = f"no reader at read_committed gets any of the {len(txn)} records of transaction {txn['op'].iloc[0]}"
    return DamagedHistory(rows.without(reads.index[reads["committed"]]), what, frozenset(txn["v"]))


def show_aborted(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A final reader at read_committed gets every record of a transaction that surely failed."""
    spots = rows.shared(_aborted)
    if not spots:
        return None
    op = sorted(spots)[rng.randrange(len(spots))]
    what = f"all records of the failed transaction {op} ({len(spots[op])}) are returned at read_committed"
    return DamagedHistory(rows.with_reads(spots[op]), what, frozenset(spots[op]["v"]))


def show_half(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A final reader at read_committed gets one of several records of a transaction that surely failed (KAFKA-17754)."""
    spots = {op: spot for op, spot in rows.shared(_aborted).items() if len(spot) > 1}
    if not spots or not (rows.reads["final"] & rows.reads["committed"]).any():
        return None
    op = sorted(spots)[rng.randrange(len(spots))]
    shown = rng.randrange(len(spots[op]))
    what = f"one of the {len(spots[op])} records of the failed transaction {op} is returned at read_committed"
    return DamagedHistory(rows.with_reads(spots[op].iloc[shown : shown + 1]), what, frozenset(spots[op]["v"]))


def _aborted(rows: HistoryRows) -> dict[int, pd.DataFrame]:
    """Transactions that surely failed, acknowledged and read by nobody: how they would look in the order of a last reader."""
    sends = rows.sends[rows.sends["txn"]]
    unseen = ~sends["v"].isin(rows.reads.loc[rows.reads["committed"], "v"])
    fit = (sends["status"] == ABORTED) & (sends["offset"] != NONE) & unseen
    whole = fit.groupby(sends["op"]).all()
    orders = _orders(rows)
    chosen = sends[sends["op"].isin(whole.index[whole])]
    return {int(op): spot for op, some in chosen.groupby("op") if (spot := _spots(orders, some)) is not None}


def _orders(rows: HistoryRows) -> dict[str, pd.DataFrame]:
    """Partition -> the reads of one reader that reads it last."""
    lasts = rows.last_polls((True,)).drop_duplicates("partition").set_index("partition")["process"]
    reads = rows.reads[rows.reads["process"] == rows.reads["partition"].map(lasts)]
    return {str(partition): some for partition, some in reads.groupby("partition")}


def _spots(orders: Mapping[str, pd.DataFrame], records: pd.DataFrame) -> pd.DataFrame | None:
    """Reads of records in their places in the order of one reader that reads last; None when one has no place there."""
    made = []
    for record in records.itertuples():
        reads = orders.get(record.partition)
        offsets = np.empty(0) if reads is None else reads["offset"].to_numpy()
        below = np.flatnonzero(offsets < record.offset)
        if reads is None or not len(below) or not (offsets > record.offset).any():
            return None
        before = reads.iloc[below[-1]]
        made.append({**before, "at": before["at"] + 0.5, "v": record.v, "offset": record.offset})
    return pd.DataFrame(made)


def read_early(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A read_committed reader got a record just before the commit of its transaction was called; one sent outside
    transactions, just before it was sent."""
    sent = rows.witnessed[rows.witnessed["txn"] & (rows.witnessed["decided"] > rows.witnessed["ended"] + 1)]
    limit, what = "decided", "its commit is called"
    if not len(sent):
        sent = rows.witnessed[~rows.witnessed["txn"] & (rows.witnessed["began"] != NONE)]
        limit, what = "began", "it is sent"
    if not len(sent):
        return None
    record = pick(sent, rng)
    reads = rows.reads[rows.reads["committed"] & (rows.reads["v"] == record["v"])]
    early = rows.with_values(reads.index[:1], "ended", record[limit] - 1)
    return DamagedHistory(early, f"{record['partition']}@{record['place']} is read 1 ns before {what}", frozenset([record["v"]]))


def read_own(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A transaction polls its own record."""
    levels = rows.ops["isolation"].to_numpy()
    txns = rows.witnessed[rows.witnessed["txn"] & (rows.witnessed["ended"] != NONE)]
    txns = txns[levels[txns["op"]] == "read_committed"]
    if not len(txns):
        return None
    record = pick(txns, rng)
    at = rows.mops.loc[rows.mops["op"] == record["op"], "at"].max() + 0.5
    own = {"op": record["op"], "at": at, "partition": record["partition"], "v": record["v"], "offset": record["place"]}
    added = pd.DataFrame([{**own, "ended": record["ended"] + 1}])
    return DamagedHistory(rows.with_reads(added), f"transaction {record['op']} polls its own record", frozenset([record["v"]]))


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
TEAR = PlantedDamage("tear", tear, ("torn-transaction", "lost-write"), SKIPS, f"{COMMITTED_TXN}, from two partitions")
DENY = PlantedDamage(
    "deny",
    deny,
    ("false-ack",),
    (),
    f"{COMMITTED_TXN} and at read_uncommitted by a final reader",
)
SHOW_ABORTED = PlantedDamage(
    "show aborted",
    show_aborted,
    ("aborted-read",),
    (),
    "needs a failed transaction whose records were all acknowledged, between records that were read",
)
SHOW_HALF = PlantedDamage(
    "show half",
    show_half,
    ("torn-transaction", "aborted-read"),
    (),
    "needs a failed transaction of several records, all acknowledged, between records that a final reader read",
)
READ_EARLY = PlantedDamage(
    "read early",
    read_early,
    ("dirty-read",),
    ("lso-overrun",),
    "needs a committed record, read at read_committed",
)
READ_OWN = PlantedDamage(
    "read own",
    read_own,
    ("dirty-read",),
    (*STEPS, "lso-overrun"),
    f"{COMMITTED_TXN}, by a process that reads read_committed",
)
