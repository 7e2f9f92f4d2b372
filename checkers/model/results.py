"""Results of a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.checkers.model.frames import pd

ROW_NUMBERS = ("cause", "op", "v", "offset", "time")
ROW_COLUMNS = ("partition", *ROW_NUMBERS, "role")
Rows = Mapping[str, Any]  # the rows of a result: columns (`ROW_COLUMNS`) as arrays of one length; no column: no row
NO_ROWS: Rows = {}


@dataclass(frozen=True)
class CheckResult:
    """The findings of a check in one place, and how much it compared there.

    compared: how many things were really compared; 0 means the anomaly had no chance to show.
    rows: one row per record involved, columns as arrays of one length:
        cause   rows with one cause make one finding
        op      history index of the operation whose record this is (the writer of `sent`/`missing`, the reader of `read`)
        v, offset   the record and its place (offset -1: unknown)
        time    CLOCK_MONOTONIC ns at which it went wrong
        role    `sent`, `read` or `missing`
        partition   only for run checks; a partition check need not say where it is
    lacking: when nothing was compared, what was missing, in words.
    more: how many findings were left out because `rows` has examples only (anomalies that are lawful and frequent).
    unknown: why no answer can be given although there were no rows, in words.
    bound: what was not compared because of a bound of the check's own, in words; the anomaly is absent up to it.
    several: of partition checks: operations (history indices), one entry for each of some records, those of one operation next to
        each other. An operation with two or more entries over all partitions is one thing more that was compared.
    table: of run checks that compare with a table of their own: its rows in words, each with `met` and `violated` (how often);
    the
        report shows it.
    """

    compared: int
    rows: dict[str, Any] = field(default_factory=dict)
    lacking: str = ""
    more: int = 0
    unknown: str = ""
    several: Any = ()
    table: Sequence[Mapping[str, Any]] = ()
    bound: str = ""

    @property
    def count(self) -> int:
        return len(self.rows["op"]) if self.rows else 0


@dataclass(frozen=True)
class Sifted:
    """The suspicious rows of all partitions that stay after the first look at them (`Check.sift`).

    rows: columns as arrays of one length; no column where no row stays.
    compared, unread: added to what was compared, and to the promises that nobody got or had to get.
    """

    rows: Rows
    compared: int = 0
    unread: int = 0


def count_rows(rows: Rows) -> int:
    return len(rows["op"]) if rows else 0


def rows_where(rows: Rows, which: Any) -> Rows:
    """The rows at which a boolean array is true."""
    return {name: column[which] for name, column in rows.items()} if which.any() else NO_ROWS


def has_role(rows: Rows, *roles: str) -> Any:
    """True for each row with one of these roles."""
    return np.logical_or.reduce([np.asarray(rows["role"] == role, dtype=np.bool_) for role in roles])


def frame_of(rows: Rows) -> pd.DataFrame:
    """Rows as a data frame."""
    return pd.DataFrame(dict(rows), columns=list(ROW_COLUMNS))


def rows_of(frame: pd.DataFrame) -> Rows:
    """A data frame as rows."""
    return {name: frame[name].to_numpy() for name in ROW_COLUMNS} if len(frame) else NO_ROWS


def join_rows(*parts: dict[str, Any]) -> dict[str, Any]:
    """Concatenate rows, column by column."""
    filled = [part for part in parts if len(part["op"])] or list(parts[:1])
    return filled[0] if len(filled) == 1 else {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}
