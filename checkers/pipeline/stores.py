"""The state stores of a program, as its instances dumped them, and their changelogs, as the leaders have them.

A copy of a store's partition is an operation `read-store`: a row of kind `active` or `standby` with the position up to which the
copy has its changelog, and its keys. A changelog is read by `read-log` (docs/history.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.source_log import COMMITTED, MARKERS, OPEN, PLAIN, STRANGE, entries_of
from fencepost.checkers.views.run_view import RunView

COUNTED, LAST, STORED, REMOVED = "counted", "last", "stored", "removed"
VALUES = (COUNTED, LAST, STORED, REMOVED, STRANGE)
ROLES = ("active", "standby")
READ_STORE = "read-store"
_COLUMNS = ["partition", "offset", "kind", "name", "number", "op", "end"]


@dataclass(frozen=True)
class StoreCopy:
    """The copy that an instance has of one partition of a store.

    partition: `c2:CHANGELOG-0`.
    position: the end of what it has of the changelog; NONE: not known.
    rows: the row about the copy, then its keys: `partition`, `offset` (number of the row), `kind`, `name` (the key), `number`,
        `op`, `end`.
    """

    partition: str
    role: str
    position: int
    rows: pd.DataFrame

    @property
    def node(self) -> str:
        return self.partition.partition(":")[0]

    @property
    def changelog(self) -> str:
        return self.partition.partition(":")[2]

    @property
    def keys(self) -> pd.DataFrame:
        return self.rows[self.rows["kind"].isin(VALUES) & (self.rows["kind"] != REMOVED)]  # it has no key whose value is null


def has_stores(run: RunView) -> bool:
    """True if the history has stores or changelogs of a program of somebody's own."""
    return run.contract["application"] != "none" and run.contract["connect"] == "none" and run.history.has("entries")


class StateStores:
    """Copies and changelogs of a run. Made once for all checks of a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self.run = run
        self._read = entries_of(run).read
        self.logs: Mapping[str, pd.DataFrame] = dict(iter(entries_of(run).stored.groupby("partition", sort=True)))

    @cached_property
    def copies(self) -> list[StoreCopy]:
        dumped = self._read[self._read["f"] == READ_STORE]
        return [_copy(rows[_COLUMNS]) for _, rows in dumped.groupby("op", sort=True)]

    @cached_property
    def problem(self) -> str:
        """The reason why the copies of some instance are not known; empty when all are."""
        rows = self.run.history.of_kind(("f", "type", "detail"), READ_STORE).to_pylist()
        failed = [json.loads(row["detail"] or "{}") for row in rows if row["type"] != "ok"]
        return "; ".join(f"{failure.get('node', 'an instance')}: {failure.get('problem', 'nobody knows')}" for failure in failed)

    def incomparable(self, copy: StoreCopy) -> str:
        """The reason why a copy cannot be compared with its changelog; empty when it can."""
        log = self.logs.get(copy.changelog)
        if copy.position == NONE:
            return "a copy moved while it was dumped, or does not tell its position"
        if log is None:
            return "the changelog of a copy was not read, or is empty"
        if log["kind"].str.endswith(" batch").any():
            return "a changelog is compressed in a way that is not read here"
        if not self.whole(log):
            return "a changelog has lost records by compaction or retention"
        return "" if copy.position <= len(log) else "a copy has a later position than its changelog"

    def whole(self, log: pd.DataFrame) -> bool:
        """True if a changelog has every offset from 0 on: what it lacks was never there."""
        return bool(len(log) and log["offset"].min() == 0 and log["offset"].max() + 1 == len(log))

    def values(self, log: pd.DataFrame) -> pd.DataFrame:
        """The last committed record of each key of a changelog, tombstones too, by key; without keys that are undecided."""
        records = log[log["kind"].isin(VALUES)]
        decided = records[records["ended"].isin((PLAIN, COMMITTED)) & ~records["name"].isin(self.undecided(log))]
        return decided.drop_duplicates(["partition", "name"], keep="last")[_COLUMNS].sort_values(["name", "partition"])

    def undecided(self, log: pd.DataFrame) -> set[str]:
        """Keys with a record of which nobody knows whether it is committed."""
        return set(log.loc[log["kind"].isin(VALUES) & (log["ended"] == OPEN), "name"])

    @cached_property
    def opaque(self) -> bool:
        """True if a changelog has records that cannot be read here."""
        known = {*VALUES, *MARKERS, "control"}
        return any(not set(log["kind"]) <= known for log in self.logs.values())


def _copy(rows: pd.DataFrame) -> StoreCopy:
    head = rows[rows["kind"].isin(ROLES)]
    role, position = (str(head["kind"].iloc[0]), int(head["number"].iloc[0])) if len(head) else ("", NONE)
    return StoreCopy(str(rows["partition"].iloc[0]), role, position, rows.sort_values("offset"))
