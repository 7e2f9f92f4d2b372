"""Values of a program's state that no abort of an operator on a changelog's partition explains (KIP-664).

Such an abort hides values that the program holds for committed: its stores have them, and its group commits their inputs. The
records stay in the changelog, which the leaders' logs have whole, with what was aborted. It commits nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.applications import Application
from fencepost.checkers.pipeline.operator_aborts import aborted_inside, outputs_in_log
from fencepost.checkers.pipeline.source_log import ABORTED, COMMITTED, PLAIN, STRANGE
from fencepost.checkers.pipeline.stores import COUNTED, LAST, REMOVED, VALUES, StateStores
from fencepost.checkers.views.run_view import RunView


def _aborted_behind(records: pd.DataFrame, offset: float) -> pd.DataFrame:
    """Of the records of a key, the aborted ones behind its last committed one. offset: of that; NaN, NONE: it has none."""
    behind = records["offset"] > (NONE if pd.isna(offset) else offset)
    return records[behind & (records["ended"] == ABORTED)]


def differences_hidden(stores: StateStores, changelog: str, position: int, pairs: pd.DataFrame) -> bool:
    """True if a copy of a store has, of each key in which it differs, the value of an aborted record of its changelog."""
    log = stores.logs[changelog]
    below = log[log["kind"].isin(VALUES) & (log["offset"] < position)]
    for pair in pairs.itertuples(index=False):
        kind, number = (REMOVED, NONE) if pd.isna(pair.kind) else (pair.kind, pair.number)
        aborted = _aborted_behind(below[below["name"] == pair.name], pair.offset_log)
        same = (aborted["kind"] == kind) & ((aborted["number"] == number) | (kind == REMOVED))
        if not (same | (aborted["kind"] == STRANGE)).any():
            return False
    return True


class HiddenValues:
    """What aborts of an operator may have done to the last values of changelogs. Made once for a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self.run, self.stores, self.program = run, run.shared(StateStores), run.shared(Application)

    def explain(self, row: pd.Series) -> bool:
        """True if they may have made the value of a key wrong. row: of `WrongState.table`."""
        if self.run.shared(aborted_inside):
            return True
        logs = {name: log for name, log in self.stores.logs.items() if name.rpartition("-")[0] == row["topic"]}
        if not all(self.stores.whole(log) for log in logs.values()):
            return True  # compaction removes aborted records first
        records = pd.concat(list(logs.values()))
        records = records[(records["name"] == row["name"]) & records["kind"].isin(VALUES)]
        if ((records["ended"] == ABORTED) & (records["kind"] == STRANGE)).any():
            return True
        if set(records["kind"]) & {LAST}:
            return self._last_one(row, records)
        count = int(row["number"]) if row["kind"] == COUNTED else 0
        if count < row["inputs"]:
            return int(row["inputs"]) - count <= _counts_hidden(records)
        return self._processed(row, count)

    def _last_one(self, row: pd.Series, records: pd.DataFrame) -> bool:
        aborted = _aborted_behind(records, row["offset"])
        if row["inputs"] and (aborted["number"] == row["v"]).any():
            return True
        return row["kind"] == LAST and self._beyond_group(int(row["number"]), row["name"]) and self._processed(row, 1)

    def _beyond_group(self, v: int, name: str) -> bool:
        """True for an input of a key that does not lie below the offset of the group, as after an abort on its own partition."""
        inputs = self.program.inputs if self.program.outputs.declared["group"] else self.program.inputs.iloc[:0]
        mine = inputs[(inputs["v"] == v) & (inputs["partition"] == name.rsplit("/", 2)[0])]
        return bool((mine["offset"] >= mine["partition"].map(self.program.committed).fillna(NONE)).any())

    def _processed(self, row: pd.Series, count: int) -> bool:
        """True unless fewer outputs of a key are in the log than the program has to make of so many inputs: an abort on the
        group's own partition, or on that of an output, lets it process an input and not say so."""
        made = self._outputs
        return made is None or made["/".join(row["name"].rsplit("/", 2)[1:])] >= count * int(self.program.fewest)

    @cached_property
    def _outputs(self) -> Counter[str] | None:
        """How many outputs are in the log of each key; None: that is not known."""
        outputs = outputs_in_log(self.run, self.program)
        return None if outputs is None else Counter(f"{process}/{number}" for process, number in outputs["key"])


def _counts_hidden(records: pd.DataFrame) -> int:
    """How many inputs the aborted records of a key count, each beyond the committed one before it."""
    hidden, before = 0, 0
    for record in records.sort_values(["partition", "offset"]).itertuples(index=False):
        count = record.number if record.kind == COUNTED else 0
        if record.ended in (PLAIN, COMMITTED):
            before = count
        elif record.ended == ABORTED:
            hidden += max(0, count - before)
    return hidden
