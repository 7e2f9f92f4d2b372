"""Commits that were acknowledged and did not happen: what each partition knows, put together over all partitions.

A transaction whose commit returned ok, and none of whose records a read_committed reader got, may have been lost, or never have
been committed. It was never committed where the log holds a record of it all the same, as the final read at read_uncommitted
shows, or where its instance had been fenced before commit was called. `lost-write` and `false-ack` decide this by the same
rows, so that each transaction is a finding of one of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.results import Rows, has_role
from fencepost.checkers.model.values import COMMITTED
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import send_rows
from fencepost.checkers.views.run_view import RunView

HIDDEN, SHOWN = "hidden", "shown"  # roles of rows between the two steps of a check


def false_ack_rows(log: PartitionLog, missing: Bools) -> list[dict[str, Any]]:
    """Rows for missing records of transactions whose commit returned ok, by role.

    HIDDEN: the log holds it: the complete read_uncommitted final read returned it, and the complete read_committed one had to,
    if it is committed. SHOWN: some read_committed reader got it, so it had been committed.
    """
    if not missing.any():
        return []
    suspicious = missing & log.commit_returned
    hidden = suspicious & log.covered & log.seen_witness
    roles = ((HIDDEN, hidden), (SHOWN, suspicious & log.seen_committed))
    return [send_rows(log, which, log.sends.op, role) for role, which in roles]


def seemingly_uncommitted(rows: Rows, run: RunView, fenced: Ints) -> Ints:
    """The operations whose acknowledged commit did not happen, by the missing, hidden and shown records of all partitions.

    fenced: operations whose instance had been fenced before commit was called.
    """
    ops = rows["op"]
    evident = ops[has_role(rows, HIDDEN) | np.isin(ops, fenced)]
    if not len(evident):
        return np.empty(0, dtype=np.int64)
    known = run.transactional(ops) & (run.status(ops) == COMMITTED) & ~np.isin(ops, ops[has_role(rows, SHOWN)])
    known &= ~np.isin(ops, run.decisions.committed)
    candidates = np.intersect1d(ops[known], evident)
    if not len(candidates):
        return np.empty(0, dtype=np.int64)
    sends = run.sends_of(candidates)
    sends = sends[sends["op"].isin(candidates)]
    gone = sends["v"].isin(rows["v"][has_role(rows, "missing")]) & ~sends["v"].isin(run.misplaced)
    whole = gone.groupby(sends["op"]).all()
    return np.asarray(whole.index[whole], dtype=np.int64)
