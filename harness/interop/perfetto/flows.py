"""Arrows of a trace: from the send of a record to the first poll that returned it, for as many records as a trace shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fencepost.harness.interop.perfetto.reading import Batches

MOST_FLOWS = 50_000
SENT, POLLED = 0, 1  # kinds of records
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Flows:
    """Records with an arrow.

    sent: record -> its number. polled: (record, when it was first returned, the operation that polled it) -> its number.
    """

    sent: dict[int, int] = field(default_factory=dict)
    polled: dict[tuple[int, int, int], int] = field(default_factory=dict)


def flows_of(source: Batches, wanted: Iterable[int], most: int = MOST_FLOWS) -> Flows:
    """The arrows of a history: of the records that are wanted, and of the first others, up to `most`.

    Two passes over the records; of each only numbers are held. A record that nobody sent, or that was returned before it was
    sent, has none.
    """
    chosen = _chosen(source, np.unique(np.fromiter(wanted, dtype=np.int64)), most)
    began, returned, operation = np.full(len(chosen), _NEVER), np.full(len(chosen), _NEVER), np.full(len(chosen), -1)
    for batch in source(["index", "mops"]):
        at, _, time = _known(chosen, *_columns(batch, SENT, "v", "began"))
        began[at] = time
        at, of, time = _known(chosen, *_columns(batch, POLLED, "v", "ended"))
        order = np.argsort(time, kind="stable")[::-1]  # the last assignment stays: the earliest return
        at, of, time = at[order], of[order], time[order]
        earlier = time < returned[at]
        returned[at[earlier]], operation[at[earlier]] = time[earlier], of[earlier]
    got = np.flatnonzero((returned != _NEVER) & (began <= returned)).tolist()
    rows = zip(chosen[got].tolist(), returned[got].tolist(), operation[got].tolist(), strict=True)
    numbered = [(v, when, op, number) for number, (v, when, op) in enumerate(rows, 1)]
    return Flows({v: number for v, _, _, number in numbered}, {(v, when, op): number for v, when, op, number in numbered})


def _known(chosen: Any, of: Any, v: Any, time: Any) -> tuple[Any, Any, Any]:
    """Of records with a known time that were chosen: their places among these, their operations and times."""
    at = np.searchsorted(chosen, v)
    known = (at < len(chosen)) & (time >= 0)
    known[known] = chosen[at[known]] == v[known]
    return at[known], of[known], time[known]


def _chosen(source: Batches, wanted: Any, most: int) -> Any:
    """Identities, rising: those that are wanted, and the first that were sent."""
    chosen = wanted[wanted >= 0][:most]
    for batch in source(["index", "mops"]):
        if len(chosen) >= most:
            break
        _, v = _columns(batch, SENT, "v")
        others = v[~np.isin(v, chosen)]
        first = np.sort(np.unique(others, return_index=True)[1])[: most - len(chosen)]
        chosen = np.union1d(chosen, others[first])
    return chosen.astype(np.int64)


def _columns(batch: Any, kind: int, *names: str) -> list[Any]:
    """The operation of each record of a kind, and some columns of it; -1 where a number is unknown."""
    lists = batch.column("mops")
    mops = lists.flatten()
    some = np.flatnonzero(mops.field("kind").to_numpy(zero_copy_only=False) == kind)
    of = batch.column("index").take(pc.list_parent_indices(lists)).to_numpy(zero_copy_only=False)
    return [of[some], *(pc.fill_null(mops.field(name), -1).to_numpy(zero_copy_only=False)[some] for name in names)]
