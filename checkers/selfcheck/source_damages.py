"""Damages to what a source connector wrote, as the final reader and the leaders have it. Clean in, damaged out, or None."""

from __future__ import annotations

from random import Random
from typing import Any

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.pipeline_damages import structs_of, with_structs
from fencepost.checkers.selfcheck.record_damages import pick

ENTRIES = "entries"


def drop_position(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The read_committed final reader does not get a record between two others of its source."""
    entries, final = _final(rows)
    inner = final[final["number"].between(*_bounds(final), inclusive="neither")]
    if inner.empty:
        return None
    gone = pick(inner, rng)
    what = f"{gone['name']}:{gone['number']} at {gone['partition']}@{gone['offset']} is not returned"
    same = (final[["name", "number", "kind"]] == gone[["name", "number", "kind"]]).all(axis=1)
    rest = entries.drop(index=final.index[same])
    return _damaged(rows, rest, what, final)


def repeat_position(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The read_committed final reader gets a record once more."""
    entries, final = _final(rows)
    if final.empty:
        return None
    again = pick(final, rng)
    end = int(entries.loc[entries["partition"] == again["partition"], "offset"].max())
    what = f"{again['name']}:{again['number']} lies at {again['partition']}@{end + 1}, too"
    return _damaged(rows, _and(entries, {**again, "offset": end + 1}), what, final)


def tear_offset(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A stored offset is in another transaction than its records: of another producer."""
    entries = stored_entries(rows)
    fit = _stored(entries)
    if fit.empty:
        return None
    torn = pick(fit, rng)
    mine = (entries["partition"] == torn["partition"]) & (entries["producer_id"] == torn["producer_id"])
    near = mine & (entries["offset"] >= torn["offset"])
    marker = entries[near & entries["kind"].isin(("COMMIT", "ABORT"))].sort_values("offset").head(1).index
    foreign = int(entries["producer_id"].max()) + 1
    entries.loc[[*entries.index[near & (entries["offset"] == torn["offset"])], *marker], "producer_id"] = foreign
    what = f"the offset {torn['name']}:{torn['number']} at {torn['partition']}@{torn['offset']} is of another producer"
    return _damaged(rows, entries, what, _final(rows)[1], torn["partition"])


def lower_offset(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A stored offset names an earlier position than the one before it in its partition."""
    entries = stored_entries(rows)
    stored = _stored(entries).sort_values(["partition", "offset"])
    before = stored.groupby(["partition", "name"])["number"].shift()
    fit = stored[before > 0].assign(before=before[before > 0])
    if fit.empty:
        return None
    lower = pick(fit, rng)
    place = (entries["partition"] == lower["partition"]) & (entries["offset"] == lower["offset"])
    entries.loc[place, "number"] = int(lower["before"]) - 1
    what = f"the offset of {lower['name']} at {lower['partition']}@{lower['offset']} goes back to {int(lower['before']) - 1}"
    return _damaged(rows, entries, what, _final(rows)[1], lower["partition"])


def is_record(entries: pd.DataFrame) -> pd.Series:
    """True for each entry of a connector's record: `record`, or `record 2/3` of a position that gives several."""
    return entries["kind"].astype(object).str.startswith("record").fillna(False).astype(bool)


def stored_entries(rows: HistoryRows) -> pd.DataFrame:
    """The entries of all operations, with the position of each one's operation (`op`)."""
    entries = structs_of(rows, ENTRIES)
    return entries if ENTRIES in rows.table.column_names else entries.assign(**dict.fromkeys(_COLUMNS, 0))


_COLUMNS = ("kind", "name", "number", "producer_id", "producer_epoch", "transactional")  # of no entries


def _final(rows: HistoryRows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All entries, and the records of a connector among them that the read_committed final reader got."""
    entries, ops = stored_entries(rows), rows.ops
    finals = ops.index[ops["final"].astype(bool) & (ops["isolation"] == "read_committed")]
    return entries, entries[entries["op"].isin(finals) & is_record(entries)]


def _bounds(final: pd.DataFrame) -> tuple[Any, Any]:
    """The first and the last position of each row's source."""
    grouped = final.groupby("name")["number"]
    return grouped.transform("min"), grouped.transform("max")


def _stored(entries: pd.DataFrame) -> pd.DataFrame:
    """Offsets of transactions that are committed."""
    markers = entries[entries["kind"].isin(("COMMIT", "ABORT"))][["partition", "producer_id", "offset", "kind"]]
    offsets = entries[(entries["kind"] == "offset") & (entries["transactional"] == True) & (entries["number"] > 0)]  # noqa: E712
    ended = pd.merge_asof(
        offsets.reset_index().sort_values("offset"),
        markers.rename(columns={"kind": "fate"}).sort_values("offset"),
        on="offset",
        by=["partition", "producer_id"],
        direction="forward",
    )
    return ended[ended["fate"] == "COMMIT"].set_index("index")


def _and(entries: pd.DataFrame, more: dict[str, Any]) -> pd.DataFrame:
    return pd.concat([entries, pd.DataFrame([more])[list(entries.columns)]], ignore_index=True)


def _damaged(rows: HistoryRows, entries: pd.DataFrame, what: str, final: pd.DataFrame, *partitions: str) -> DamagedHistory:
    touched = frozenset({*partitions, *final["partition"].unique()})
    return DamagedHistory(with_structs(rows, ENTRIES, entries), what, partitions=touched)


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
NO_CONNECTOR = "needs records of a source connector that were read back"
DROP_POSITION = PlantedDamage("drop position", drop_position, ("source-loss",), (), f"{NO_CONNECTOR}, three of one source")
REPEAT_POSITION = PlantedDamage("repeat position", repeat_position, ("source-duplicate",), (), NO_CONNECTOR)
TEAR_OFFSET = PlantedDamage("tear offset", tear_offset, ("source-offset-torn",), (), f"{NO_CONNECTOR}, with offsets")
LOWER_OFFSET = PlantedDamage(
    "lower offset",
    lower_offset,
    ("source-offset-regression",),
    ("source-offset-torn",),
    f"{NO_CONNECTOR}, and two offsets of one source",
)
