"""Damages to what leaders of Connect and tasks wrote, as the partitions' leaders have it. Clean in, damaged out, or None."""

from __future__ import annotations

from random import Random

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.pipeline_damages import with_structs
from fencepost.checkers.selfcheck.record_damages import pick
from fencepost.checkers.selfcheck.source_damages import ENTRIES, is_record, stored_entries

CONFIGURATION, COORDINATORS, LEADERS = "-connect-configs-", "__transaction_state-", "connect-cluster-"


def drop_counts(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The configuration topic has no task-count record after the first configurations of some tasks."""
    entries = stored_entries(rows)
    counts = entries[entries["kind"] == "task-count"]
    if counts.empty or entries[entries["kind"] == "initialised"]["name"].str.startswith(LEADERS).all():
        return None
    entries.loc[counts.index, "kind"] = "restart"
    partition = counts["partition"].iloc[0]
    return _damaged(rows, entries, f"the {len(counts)} task-count records in {partition} are requests to restart", partition)


def write_outside(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A connector's configuration was written outside transactions."""
    entries = stored_entries(rows)
    fit = entries[(entries["kind"] == "connector") & entries["transactional"].eq(True)]
    if fit.empty:
        return None
    entry = pick(fit.reset_index(), rng)
    entries.loc[entry["index"], ["producer_id", "producer_epoch"]] = -1
    entries.loc[entry["index"], "transactional"] = False
    return _damaged(rows, entries, f"{entry['partition']}@{entry['offset']} was written outside transactions", entry["partition"])


def haunt(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A record of a task has the epoch of the producer before, although it lies after another one of its own producer."""
    entries = stored_entries(rows)
    if entries.empty:
        return None
    starts = entries[(entries["kind"] == "initialised") & ~entries["name"].str.startswith(LEADERS)]
    starts = starts[starts["producer_epoch"] > 0][["producer_id", "producer_epoch", "offset"]]
    later = starts.sort_values("offset").drop_duplicates("producer_id")  # the second producer of each id
    records = entries[is_record(entries)].reset_index()
    records = records.merge(later.rename(columns={"producer_epoch": "start"}).drop(columns="offset"), on="producer_id")
    records = records[records["producer_epoch"] >= records["start"]].sort_values(["partition", "offset"])
    fit = records[records.duplicated(["partition", "producer_id"])]
    fit = fit[fit["offset"] < fit.groupby(["partition", "producer_id"])["offset"].transform("max")]  # a marker surely follows
    if fit.empty:
        return None
    record = pick(fit, rng)
    entries.loc[record["index"], "producer_epoch"] = record["start"] - 1
    what = f"{record['partition']}@{record['offset']} is of the producer before, in epoch {record['start'] - 1}"
    return _damaged(rows, entries, what, record["partition"])


def rename_id(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A task has a transactional id of another form."""
    entries = stored_entries(rows)
    if entries.empty:
        return None
    wrote = entries.loc[is_record(entries), "producer_id"].unique()
    ids = entries[entries["partition"].str.startswith(COORDINATORS) & entries["producer_id"].isin(wrote)]
    ids = ids[~ids["name"].str.startswith(LEADERS)]
    if ids.empty:
        return None
    name = pick(ids.drop_duplicates("name"), rng)["name"]
    mine = entries["name"] == name
    partitions = entries.loc[entries["producer_id"].isin(ids.loc[ids["name"] == name, "producer_id"]), "partition"].unique()
    entries.loc[mine, "name"] = f"other-{name}"
    return _damaged(rows, entries, f"the transactional id {name} is other-{name}", *partitions)


def _damaged(rows: HistoryRows, entries: pd.DataFrame, what: str, *partitions: str) -> DamagedHistory:
    return DamagedHistory(with_structs(rows, ENTRIES, entries), what, partitions=frozenset(partitions))


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
NO_LEADER = "needs the configuration topic and the coordinators' log of a source connector"
DROP_COUNTS = PlantedDamage(
    "drop task counts", drop_counts, ("unfenced-start",), ("connect-promise",), f"{NO_LEADER}, and a start of a task"
)
WRITE_OUTSIDE = PlantedDamage("write outside", write_outside, ("config-topic-writer",), (), NO_LEADER)
HAUNT = PlantedDamage(
    "haunt",
    haunt,
    ("zombie-task",),
    ("source-offset-torn",),
    f"{NO_LEADER}, and a task that another instance has followed",
)
RENAME_ID = PlantedDamage("rename id", rename_id, ("connect-promise",), ("zombie-task",), NO_LEADER)
