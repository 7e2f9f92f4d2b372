"""What the positions of a connector's source can be, by the contract's `positions` and by what the run shows (docs/connect.md).

A position that a record tells, and a stored offset, are what the options of the workload say they are. Where these are wrong - a
log sequence number taken for a count, an offset of the transaction for one of its rows - a correct connector would look guilty.
So what no position can do is found first, and is no finding: then nobody knows.

* Dense positions are taken at their word: they rise by one.
* All others are told by what one task did by itself, between its start and its end: it reads forward. Where a task goes back, the
  positions are not in the source's order; where most stored offsets do not fit the records of their transactions, they are not
  of these positions.
* Unstated positions count as dense where nearly all between the first and the last one are there.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.connect_log import ConnectLog
from fencepost.checkers.pipeline.source_log import COMMITTED, SourceLog
from fencepost.checkers.views.run_view import RunView

DENSE, SPARSE, ORDERED, UNSTATED = "dense", "sparse", "ordered", "unstated"  # of the contract's `positions`
EVIDENT = 0.9  # of unstated positions between the first and the last one: so many are there where they are a count
REMEDY = "say what they are: `positions`, or a number that rises by one: `sequence_by` (docs/connect.md)"


class SourceMapping:
    """What is known of the positions of a run. Made once for all checks of a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self._run, self._log = run, run.shared(SourceLog)
        self.kind = run.contract.get("positions", DENSE)

    @property
    def sequenced(self) -> bool:
        """True if records tell their number in a sequence, beside their position."""
        return self._log.entries.parted.sequenced

    @cached_property
    def dense(self) -> bool:
        """True if positions rise by one, as somebody has said, or as nearly all of them show."""
        return self.kind == DENSE or (self.kind == UNSTATED and not self.sequenced and not self.no_count and not self.repeating)

    # ---- records alone -----------------------------------------------------------------------------
    @cached_property
    def no_count(self) -> str:
        """The reason why unstated positions are no count; empty where they may be one."""
        if self._log.entries.parted.known:
            return f"positions have several parts: what is missing between two of them cannot be told; {REMEDY}"
        rows = self._log.visible.drop_duplicates(["part", "number"]).groupby("part")["number"].agg(["min", "max", "size"])
        rows = rows[rows["size"] > 1]
        there, between = int(rows["size"].sum()), int((rows["max"] - rows["min"] + 1).sum())
        if there >= EVIDENT * between:
            return ""
        return (
            f"positions are no count that rises by one: of {between:,} between the first and the last one {there:,} are there; "
            f"{REMEDY}"
        )

    @property
    def shared_positions(self) -> bool:
        """True if several records may have one position."""
        return self.kind == ORDERED or (self.kind == UNSTATED and bool(self.repeating))

    @cached_property
    def repeating(self) -> str:
        """The reason why a position is not one record's own: one life of a task has it in several."""
        records, position = self._log.records, ["name", "number"]
        inside = records[records["txn"] != NONE]
        inside = inside.assign(session=self._run.shared(ConnectLog).sessions_of(inside))
        known = inside[(inside["session"] != NONE) & (inside["ended"] == COMMITTED)]
        twice = known[known.duplicated(["session", *position])]
        if twice.empty:
            twice = inside[inside.duplicated(["partition", "txn", "producer_id", "producer_epoch", *position])]
        if twice.empty:
            return ""
        row = twice.iloc[0]
        where = f"{row['partition']}@{row['offset']}"
        return f"one task wrote several records with one position, as {where}, so it is not one record's own; {REMEDY}"

    # ---- records and stored offsets ----------------------------------------------------------------
    @cached_property
    def doubt(self) -> str:
        """The reason why positions cannot be compared in their order, and with stored offsets; empty where they can."""
        if self.kind == DENSE:
            return ""
        return self._unordered or self._unreached

    @cached_property
    def _unordered(self) -> str:
        """A step back that a task made by itself, in words."""
        connect, log = self._run.shared(ConnectLog), self._log
        for rows, what in ((log.records, "the position of a record"), (log.offsets, "the stored offset")):
            known = rows[rows["number"] >= 0]
            known = known.assign(session=connect.sessions_of(known)).sort_values(["partition", "offset"])
            known = known[known["session"] != NONE]
            steps = known.groupby(["part", "partition", "session"])["number"].diff()
            back = known[(steps < 0).to_numpy()]
            if len(back):
                row = back.iloc[0]
                where = f"{row['partition']}@{row['offset']}"
                return f"{what} goes back within one life of a task, at {where}: positions are not in the order of the source"
        return ""

    @cached_property
    def _unreached(self) -> str:
        """That most stored offsets do not fit the records of their transactions, in words."""
        log, keys = self._log, ["name", "producer_id", "producer_epoch"]
        reached = log.offsets[log.offsets["number"] >= 0].groupby(keys)["number"].max().rename("stored")
        records = log.records[log.records["ended"] == COMMITTED]
        known = records.groupby(keys)["number"].agg(["min", "max"]).join(reached, how="inner")
        after = known.sort_values("min").groupby("name")["min"].shift(-1).reindex(known.index)
        beyond = (known["stored"] >= after.fillna(np.inf)) & (known["max"] < after.fillna(np.inf))
        wrong = int(((known["stored"] < known["max"]) | beyond).sum())
        if 2 * wrong <= len(known):
            return ""
        return (
            f"of {wrong} in {len(known)} producers and epochs the stored offset does not fit the positions of the records: "
            "`offset_position` does not lead to a record's position, or `position_by` does not"
        )
