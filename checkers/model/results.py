"""Results of a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ROW_NUMBERS = ("cause", "op", "v", "offset", "time")


ROW_COLUMNS = ("partition", *ROW_NUMBERS, "role")


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


def join_rows(*parts: dict[str, Any]) -> dict[str, Any]:
    """Concatenate rows, column by column."""
    filled = [part for part in parts if len(part["op"])] or list(parts[:1])
    return filled[0] if len(filled) == 1 else {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}
