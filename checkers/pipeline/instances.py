"""Instances of transactional ids: who had initialised when, and from when on each was fenced (KIP-98).

An instance reaches from an `initialise` of a process to the next one under the same id. It is fenced once another process has
finished an `initialise` under that id that began after its own was over, or an operator has fenced the id, in a call that began
after it (`fencings` of a fault's evidence). Where the two overlap, nobody knows which of them came later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow.dataset as ds

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.run_view import RunView

_IDENTS = ("index", "process", "transactional_id", "f")
COLUMNS = ("index", "process", "transactional_id", "f", "type", "time", "end")
NO_INSTANCES = "no instance of a transactional id was initialised in the history (no `initialise` operation)"
_INDEX_BITS = 40  # of an operation's history index, beside its process


def _empty() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Instances:
    """Instances in order of (process, `initialise`); times in ns.

    process: whose.
    op: its `initialise` (history index).
    began: when that was called.
    ready: when that had ended ok (NONE: it did not).
    fenced: from when on it is fenced (FOREVER: never).
    fenced_by: the operation that fenced it (NONE: none, or an operator).
    disturbed: before that nothing known can have fenced it: the first call of an `initialise` under its id, or of an operator's,
        that was not over when its own began, or of which nobody knows whether it ever takes effect (FOREVER: none; its own
        beginning where nobody knows what operators did).
    pooled: operations of producers (history indices, rising) of processes that initialised several ids.
    pooled_ident: of each of these the number of its id (NONE: not known, or never initialised).
    """

    process: Ints = field(default_factory=_empty)
    op: Ints = field(default_factory=_empty)
    ident: Ints = field(default_factory=_empty)
    began: Ints = field(default_factory=_empty)
    ready: Ints = field(default_factory=_empty)
    fenced: Ints = field(default_factory=_empty)
    fenced_by: Ints = field(default_factory=_empty)
    disturbed: Ints = field(default_factory=_empty)
    pooled: Ints = field(default_factory=_empty)
    pooled_ident: Ints = field(default_factory=_empty)

    def __len__(self) -> int:
        return len(self.op)

    def at(self, process: Ints, op: Ints) -> Ints:
        """The instances (positions) of operations by process and history index; NONE where the process has none by then. Where it
        initialised several ids, each for a producer, that of the operation's own id; one `initialise` opens all producers.
        """
        keys = self.process << _INDEX_BITS | self.op
        last = np.searchsorted(keys, process.astype(np.int64) << _INDEX_BITS | op) - 1
        same = (last >= 0) & (self.process[np.maximum(last, 0)] == process) if len(self) else np.zeros(len(op), np.bool_)
        found = np.where(same, last, NONE)
        several = np.isin(op, self.pooled)
        found[several] = self._in_pools(process[several], op[several])
        return found

    def _in_pools(self, process: Ints, op: Ints) -> Ints:
        """The same of operations of processes that initialised several ids."""
        idents = 1 + int(self.ident.max(initial=0))
        ident = self.pooled_ident[np.searchsorted(self.pooled, op)]
        keys = (self.process * idents + self.ident) << _INDEX_BITS | self.op
        order = np.argsort(keys)
        last = np.searchsorted(keys[order], (process.astype(np.int64) * idents + ident) << _INDEX_BITS | op) - 1
        found = order[np.maximum(last, 0)]
        same = (ident != NONE) & (last >= 0) & (self.process[found] == process) & (self.ident[found] == ident)
        return np.where(same, found, NONE)


def instances(run: RunView) -> Instances:
    """The instances of a run's history; none where no `initialise` is recorded."""
    named = (row for row in run.history.of_kind(COLUMNS, "initialise").to_pylist() if row["transactional_id"] is not None)
    rows = sorted(named, key=lambda row: (row["process"], row["index"]))
    if not rows:
        return Instances()
    names = {name: number for number, name in enumerate(sorted({row["transactional_id"] for row in rows}))}
    numbers = {
        "process": [row["process"] for row in rows],
        "op": [row["index"] for row in rows],
        "ident": [names[row["transactional_id"]] for row in rows],
        "began": [row["time"] for row in rows],
        "ready": [row["end"] if row["type"] == "ok" else NONE for row in rows],
    }
    known = {name: np.array(values, dtype=np.int64) for name, values in numbers.items()}
    over = np.array([FOREVER if row["end"] is None else row["end"] for row in rows], dtype=np.int64)
    fencing = _fencing(known, over)
    for fencings in _by_operators(run, names):
        _add_operators(fencing, known, over, fencings)
    if run.fencings is None:
        fencing["disturbed"] = known["began"].copy()
    return Instances(**known, **fencing, **_pools(run, known, names))


def _pools(run: RunView, known: Mapping[str, Ints], names: Mapping[str, int]) -> dict[str, Ints]:
    """The columns of `Instances` about processes that initialised several ids, each for a producer of its own."""
    pairs = np.unique(np.stack([known["process"], known["ident"]]), axis=1)
    process, count = np.unique(pairs[0], return_counts=True)
    several = process[count > 1].tolist()
    if not several:
        return {}
    theirs = ds.field("f").isin(["txn", "misuse", "initialise"]) & ds.field("process").isin(several)
    rows = sorted((row["index"], row["transactional_id"]) for row in run.history.select(_IDENTS, theirs).to_pylist())
    numbers = [(index, names.get(ident or "", NONE)) for index, ident in rows]
    pooled, ident = np.array(numbers, dtype=np.int64).reshape(-1, 2).T
    return {"pooled": pooled, "pooled_ident": ident}


def _by_operators(run: RunView, names: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Fencings by operators: the id's number, when they began to, and when they had surely done so (FOREVER: unknown)."""
    known = [fencing for fencing in run.fencings or () if fencing.transactional_id in names]
    return [
        (names[fencing.transactional_id], fencing.began, FOREVER if fencing.ended is None else fencing.ended) for fencing in known
    ]


def _add_operators(fencing: dict[str, Ints], known: dict[str, Ints], over: Ints, fenced_by: tuple[int, int, int]) -> None:
    """Take one call of an operator into the columns of `_fencing`."""
    ident, began, ended = fenced_by
    same = known["ident"] == ident
    disturbed = same & (ended > known["began"])
    fencing["disturbed"][disturbed] = np.minimum(fencing["disturbed"][disturbed], began)
    earlier = same & (began >= over) & (ended < fencing["fenced"])
    fencing["fenced"][earlier], fencing["fenced_by"][earlier] = ended, NONE


def _fencing(known: dict[str, Ints], over: Ints) -> dict[str, Ints]:
    """The columns of `Instances` that say who fenced whom. over: when each `initialise` had ended."""
    fenced, fenced_by, disturbed = (np.full(len(over), value, dtype=np.int64) for value in (FOREVER, NONE, FOREVER))
    for ident in np.unique(known["ident"]):
        same = np.flatnonzero(known["ident"] == ident)
        for at in same.tolist():
            others = same[same != at]
            if len(later := others[_surely_later(known, over, at, others)]):
                first = later[known["ready"][later].argmin()]
                fenced[at], fenced_by[at] = known["ready"][first], known["op"][first]
            disturbing = others[(known["ready"][others] == NONE) | (known["ready"][others] > known["began"][at])]
            disturbed[at] = known["began"][disturbing].min(initial=FOREVER)
    return {"fenced": fenced, "fenced_by": fenced_by, "disturbed": disturbed}


def _surely_later(known: dict[str, Ints], over: Ints, at: int, others: Ints) -> Bools:
    """True for each instance of another process that initialised after this one was over, and ended ok."""
    foreign = known["process"][others] != known["process"][at]
    return np.asarray(foreign & (known["ready"][others] != NONE) & (known["began"][others] >= over[at]))


def any_fenced(run: RunView) -> bool:
    """True if some instance was fenced."""
    return bool((run.shared(instances).fenced != FOREVER).any())


def fenced_operations(run: RunView) -> pd.DataFrame:
    """Transactions of instances that were fenced before they ended: op, fenced (when, ns), fenced_by, decided, status."""
    overview, all_instances = run.overview, run.shared(instances)
    if not any_fenced(run):
        return _no_operations()
    at = np.flatnonzero(overview.txn & np.isin(overview.process, all_instances.process))
    op = overview.index[at].astype(np.int64)
    own = all_instances.at(overview.process[at], op)
    at, op, own = at[own != NONE], op[own != NONE], own[own != NONE]
    late = (overview.end[at] == NONE) | (np.maximum(overview.end[at], overview.decided[at]) > all_instances.fenced[own])
    columns = {"fenced": all_instances.fenced[own], "fenced_by": all_instances.fenced_by[own]}
    columns |= {"decided": overview.decided[at], "status": overview.status[at]}
    return pd.DataFrame({"op": op, **columns})[late & (all_instances.fenced[own] != FOREVER)]


@cache
def _no_operations() -> pd.DataFrame:
    return pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in ("op", "fenced", "fenced_by", "decided", "status")})


def fenced_commits(run: RunView) -> Ints:
    """Transactions (history indices) whose commit was called after their instance had been fenced."""
    if not any_fenced(run):
        return np.empty(0, dtype=np.int64)
    operations = run.shared(fenced_operations)
    return np.asarray(operations.loc[operations["decided"] > operations["fenced"], "op"], dtype=np.int64)
