"""The progress of a run: gaps without success, and the time to the first success after the last fault was healed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.engine.answers import Counts
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import ABORTED, COMMITTED, NONE


def count_operations(overview: Overview, counts: Counts, receipts: Sequence[Mapping[str, Any]] | None) -> dict[str, int | None]:
    """The `counts` of a verdict. receipts: None when nobody knows how many faults there were."""
    transactions = overview.status[overview.txn]
    ok, failed = int(overview.ok.sum()), int(overview.failed.sum())
    return {
        "operations": len(overview),
        "ok": ok,
        "fail": failed,
        "info": len(overview) - ok - failed,
        "transactions": len(transactions),
        "committed": int((transactions == COMMITTED).sum()),
        "aborted": int((transactions == ABORTED).sum()),
        "sent": counts.sent,
        "read": counts.read,
        "final_read": counts.final_read,
        "partitions": counts.partitions,
        "processes": int((overview.processes >= 0).sum()),
        "faults": None if receipts is None else len(receipts),
        "faults_without_effect": None if receipts is None else sum(receipt["effective"] is False for receipt in receipts),
    }


def progress(overview: Overview, receipts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The `progress` of a verdict, in seconds. A gap lies between two successes, or before the first or after the last one.

    `recovery_s` is null when nothing was healed or nothing succeeded after it.
    At the top it is of the fault healed last, which need not be the one of the longest gap.
    """
    begun = overview.time[overview.writer]
    if not len(begun):
        return {"longest_gap_s": 0.0, "recovery_s": None, "faults": []}
    done = np.sort(overview.end[overview.writer & overview.ok & (overview.end != NONE)])
    edges = np.r_[begun.min(), done, max(begun.max(), overview.end[overview.writer].max())]
    gaps = np.diff(edges) / 1e9
    faults = [
        {
            "id": int(receipt["id"]),
            "gap_s": _worst(edges, gaps, receipt),
            "recovery_s": _recovery_s(done, receipt["healed_ns"]),
        }
        for receipt in receipts
    ]
    recovery = _recovery_s(done, max((receipt["healed_ns"] or 0 for receipt in receipts), default=0))
    return {"longest_gap_s": float(gaps.max()), "recovery_s": recovery, "faults": faults}


def _recovery_s(done: Ints, healed_ns: int | None) -> float | None:
    """The time from a healing to the first success after it; None: it was not healed, or nothing succeeded after it."""
    after = done[np.searchsorted(done, healed_ns, side="right") :] if healed_ns else done[:0]
    return float(after[0] - healed_ns) / 1e9 if healed_ns and len(after) else None


def _worst(edges: Any, gaps: Any, receipt: Mapping[str, Any]) -> float:
    """The longest gap that overlaps a fault."""
    start = receipt["injected_ns"] or receipt["planned_ns"] or 0
    stop = receipt["healed_ns"] or edges[-1]
    overlapping = gaps[(edges[:-1] < stop) & (edges[1:] > start)]
    return float(overlapping.max()) if len(overlapping) else 0.0
