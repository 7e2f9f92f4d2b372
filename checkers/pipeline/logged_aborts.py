"""Transactions that the brokers' logs have aborted (`stored.parquet`): of unknown outcome, or that their clients call aborted.

A transaction ends with what its coordinator decided, whatever its client learned of it, and the markers in the partitions say
what that was (KIP-98).
"""

from __future__ import annotations

import numpy as np

from fencepost.checkers.contract.common_rules import UNSURE_DECISIONS
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.failures import RAISED
from fencepost.checkers.model.values import INFO, NONE
from fencepost.checkers.pipeline.stored_logs import (
    ABORT,
    COMMIT,
    DATA,
    StoredLogs,
    StoredRows,
    may_be_compacted,
    operations_of,
    stored_logs,
)
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.evidence import Evidence

_NONE: Ints = np.empty(0, dtype=np.int64)


def logged_aborts(run: RunView) -> Ints:
    """The history indices of transactions of unknown outcome of which a log has a record with an ABORT marker behind it, and no
    log has one with a COMMIT marker.

    None where logs are missing or damaged, or need not keep their markers: by the contract, or in a topic that is compacted. A
    partition of which a batch cannot be read says nothing.
    """
    return _logged(run, run.overview.txn & (run.overview.status == INFO))


def aborted_in_logs(run: RunView, ops: Ints) -> Ints:
    """Those of some transactions that the logs have aborted in the same way, whatever their outcome."""
    return _logged(run, run.overview.txn & np.isin(run.overview.index, ops))


def _logged(run: RunView, asked: Bools) -> Ints:
    """The history indices of those operations (a mask) that the logs have aborted."""
    if not asked.any() or Evidence.LOGS in run.missing or any(rule.holds(run.contract) for rule in UNSURE_DECISIONS):
        return _NONE
    try:
        logs = run.shared(stored_logs)
        return _aborted(run, logs, asked) if isinstance(logs, StoredLogs) else _NONE
    except RAISED:  # a damaged table: the checks of logs say so, and it takes no other result with it
        return _NONE


def _aborted(run: RunView, logs: StoredLogs, wanted: Bools) -> Ints:
    rows = logs.distinct
    whole = ~(logs.lacking | np.array(may_be_compacted(run, logs), dtype=np.bool_))
    rows = rows.take(whole[rows.partition] & (rows.producer_id >= 0) & np.isin(rows.kind, (DATA, COMMIT, ABORT)))
    rows = rows.take(np.lexsort((rows.offset, rows.producer_id, rows.node, rows.partition)))
    ours = np.flatnonzero((rows.kind == DATA) & rows.transactional & (rows.v >= 0))
    op = operations_of(run, rows.v[ours])
    asked = op != NONE
    asked[asked] = wanted[run.overview.at(op[asked])]
    op, decision = op[asked], _decisions(rows)[ours[asked]]
    return np.setdiff1d(op[decision == ABORT], op[decision == COMMIT])


def _decisions(rows: StoredRows) -> Ints:
    """The kind of the first marker from each row on in the same log and of the same producer id (NONE: there is none).

    rows: in the order of (partition, node, producer id, offset).
    """
    key = np.stack([rows.partition, rows.node, rows.producer_id])
    log = np.cumsum(np.r_[False, (np.diff(key, axis=1) != 0).any(axis=0)][: len(rows)])
    place = np.where(rows.kind != DATA, np.arange(len(rows)), len(rows))
    following = np.minimum.accumulate(place[::-1])[::-1]
    known = following < len(rows)
    known[known] = log[following[known]] == log[known]
    decisions = np.full(len(rows), NONE, dtype=np.int64)
    decisions[known] = rows.kind[following[known]]
    return decisions
