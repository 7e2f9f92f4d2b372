"""Damages that close a cycle of dependencies. As in `records`: a clean history in, a damaged one out, or None."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.accompanying import FUTURE, STEPS
from fencepost.checkers.selfcheck.record_damages import pick


def _writers(rows: HistoryRows) -> pd.DataFrame:
    """One witnessed record of each transaction whose process reads at read_committed, in the order of the history."""
    levels = rows.ops["isolation"].to_numpy()
    txns = rows.witnessed[rows.witnessed["txn"] & (rows.witnessed["end"] > 0)]
    return txns[levels[txns["op"]] == "read_committed"].drop_duplicates("op").sort_values("op").reset_index(drop=True)


def with_polls(rows: HistoryRows, *pairs: tuple[Any, Any]) -> HistoryRows:
    """Each first transaction polls, as the last thing before it is decided, a record of the second."""
    made = []
    for reader, record in pairs:
        at = rows.mops.loc[rows.mops["op"] == reader["op"], "at"].max() + 0.5
        place = {"partition": record["partition"], "v": record["v"], "offset": record["place"]}
        made.append({"op": reader["op"], "at": at, **place, "ended": reader["decided"] - 1})
    return rows.with_reads(pd.DataFrame(made))


def read_each_other(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Two transactions of two processes, under way at the same time, poll each other's records."""
    txns = _writers(rows)
    after = txns.shift(-1)
    pairs = np.flatnonzero((txns["process"] != after["process"]) & (after["time"] < txns["end"]))
    if not len(pairs):
        return None
    chosen = int(pairs[rng.randrange(len(pairs))])
    first, second = txns.iloc[chosen], txns.iloc[chosen + 1]
    what = f"transactions {first['op']} and {second['op']} poll each other's records"
    return DamagedHistory(with_polls(rows, (first, second), (second, first)), what, frozenset([first["v"], second["v"]]))


def read_own_future(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A transaction polls a record of a later transaction of its own process."""
    txns = _writers(rows).sort_values(["process", "op"]).reset_index(drop=True)
    pairs = np.flatnonzero(txns["process"] == txns["process"].shift(-1))
    if not len(pairs):
        return None
    chosen = int(pairs[rng.randrange(len(pairs))])
    first, second = txns.iloc[chosen], txns.iloc[chosen + 1]
    what = f"transaction {first['op']} polls a record of {second['op']}, which its own process began later"
    return DamagedHistory(with_polls(rows, (first, second)), what, frozenset([second["v"]]))


def read_future(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A transaction polls a record of a transaction of another process that began after it had ended."""
    txns = _writers(rows)
    if not len(txns):
        return None
    first = pick(txns.iloc[: max(1, len(txns) // 2)], rng)
    later = txns[(txns["time"] > first["end"]) & (txns["process"] != first["process"])]
    if not len(later):
        return None
    second = later.iloc[0]
    what = f"transaction {first['op']} polls a record of {second['op']}, which began after it had ended"
    return DamagedHistory(with_polls(rows, (first, second)), what, frozenset([second["v"]]))


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
READ_EACH_OTHER = PlantedDamage(
    "read each other",
    read_each_other,
    ("G1c-wr",),
    (*FUTURE, *STEPS),
    "needs two committed transactions at one time whose processes read at read_committed",
)
READ_OWN_FUTURE = PlantedDamage(
    "read own future",
    read_own_future,
    ("G1c-wr-process",),
    (*FUTURE, *STEPS),
    "needs two committed transactions of one process that reads at read_committed",
)
READ_FUTURE = PlantedDamage(
    "read future",
    read_future,
    ("G1c-wr-realtime",),
    (*FUTURE, *STEPS),
    "needs two committed transactions one after the other whose processes read at read_committed",
)
