"""Transactions of which the brokers' logs say how they ended (`stored.parquet`), whatever their clients know.

A transaction ends with what its coordinator decided, whatever its client learned of it, and the markers in the partitions say
what that was (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fencepost.checkers.contract.common_rules import UNSURE_DECISIONS
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.failures import RAISED
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import Rows
from fencepost.checkers.model.values import INFO, NONE, LoggedDecisions
from fencepost.checkers.pipeline.instances import fenced_commits
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
from fencepost.checkers.views.false_acks import seemingly_uncommitted
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.evidence import Evidence


def logged_decisions(run: RunView) -> LoggedDecisions:
    """The transactions of unknown outcome that the logs have aborted, and those that they have committed."""
    return _decisions(run, run.overview.txn & (run.overview.status == INFO))


def decided_in_logs(run: RunView, ops: Ints) -> LoggedDecisions:
    """Those of some transactions that the logs have aborted, and those that they have committed, whatever their outcome."""
    return _decisions(run, run.overview.txn & np.isin(run.overview.index, ops))


def falsely_acknowledged(rows: Rows, run: RunView) -> Ints:
    """The operations whose acknowledged commit did not happen (`checkers.views.false_acks`), without those that the logs have
    committed all the same: what they sent is lost.
    """
    false = seemingly_uncommitted(rows, run, run.shared(fenced_commits))
    return np.setdiff1d(false, decided_in_logs(run, false).committed)


def _decisions(run: RunView, asked: Bools) -> LoggedDecisions:
    """What the logs have made of some transactions.

    aborted: a log has a record of it with an ABORT marker behind it, and no log has one with a COMMIT marker.
    committed: its commit may have been called, and every log of a partition has each record that it was to send there, at one
        place, with a COMMIT marker behind it that may be its own (`_commit_of_its_own`).

    None where logs are missing or damaged, or need not keep their markers: by the contract, or in a topic that is compacted. A
    partition of which a batch cannot be read says nothing.
    """
    if not asked.any() or Evidence.LOGS in run.missing or any(rule.holds(run.contract) for rule in UNSURE_DECISIONS):
        return LoggedDecisions()
    try:
        logs = run.shared(stored_logs)
        return _decided(run, logs, asked) if isinstance(logs, StoredLogs) else LoggedDecisions()
    except RAISED:  # a damaged table: the checks of logs say so, and it takes no other result with it
        return LoggedDecisions()


@dataclass(frozen=True)
class _Records:
    """Records of the transactions that are asked about, in the logs that are distinct, of the partitions to which they were sent:
    programs and connectors copy records elsewhere, with their identities, in transactions of their own.

    op: the operation of each.
    decision: the first marker of its producer behind it in its log (COMMIT, ABORT; NONE: there is none).
    own: that is a COMMIT marker which may be its own.
    """

    rows: StoredRows
    op: Ints
    decision: Ints
    own: Bools


def _decided(run: RunView, logs: StoredLogs, asked: Bools) -> LoggedDecisions:
    records = _records(run, logs, asked)
    aborted, committed = (records.op[records.decision == kind] for kind in (ABORT, COMMIT))
    whole = np.setdiff1d(committed, records.op[~records.own])
    return LoggedDecisions(np.setdiff1d(aborted, committed), _wholly_committed(run, logs, records, whole))


def _records(run: RunView, logs: StoredLogs, asked: Bools) -> _Records:
    rows = logs.distinct
    whole = ~(logs.lacking | np.array(may_be_compacted(run, logs), dtype=np.bool_))
    rows = rows.take(whole[rows.partition] & (rows.producer_id >= 0) & np.isin(rows.kind, (DATA, COMMIT, ABORT)))
    rows = rows.take(np.lexsort((rows.offset, rows.producer_id, rows.node, rows.partition)))
    ours = np.flatnonzero((rows.kind == DATA) & rows.transactional & (rows.v >= 0))
    op = operations_of(run, rows.v[ours])
    known = op != NONE
    known[known] = asked[run.overview.at(op[known])]
    known[known] = _sent_here(run, logs, rows.take(ours[known]), op[known])
    ours, op = ours[known], op[known]
    producer = producers_of(rows)
    marker = first_markers(rows, producer)[ours]
    decision = np.where(marker == NONE, NONE, rows.kind[marker])
    own = _commit_of_its_own(rows, ours, marker) & ~_replaced_coordinators(rows, producer)[producer[ours]]
    return _Records(rows.take(ours), op, decision, own)


def _sent_here(run: RunView, logs: StoredLogs, rows: StoredRows, op: Ints) -> Bools:
    """True for each record that one of some operations sent to the partition in which it lies."""
    sends = run.sends_of(np.unique(op))
    number = {name: number for number, name in enumerate(logs.partitions)}
    sent = pd.MultiIndex.from_arrays([sends["partition"].map(number).fillna(NONE).astype(np.int64), sends["v"]])
    return np.asarray(pd.MultiIndex.from_arrays([rows.partition, rows.v]).isin(sent))


def producers_of(rows: StoredRows) -> Ints:
    """A number for the log and producer id of each row, which rises. rows: in the order of (partition, node, producer id)."""
    key = np.stack([rows.partition, rows.node, rows.producer_id])
    return np.cumsum(np.r_[False, (np.diff(key, axis=1) != 0).any(axis=0)][: len(rows)])


def first_markers(rows: StoredRows, producer: Ints) -> Ints:
    """The first marker (position) from each row on in the same log and of the same producer id (NONE: there is none)."""
    place = np.where(rows.kind != DATA, np.arange(len(rows)), len(rows))
    following = np.minimum.accumulate(place[::-1])[::-1]
    known = following < len(rows)
    known[known] = producer[following[known]] == producer[known]
    return np.where(known, following, NONE)


def _commit_of_its_own(rows: StoredRows, ours: Ints, marker: Ints) -> Bools:
    """True for each record whose marker is COMMIT in the producer epoch of the record, or in the next one (KIP-890)."""
    raised = rows.producer_epoch[marker] - rows.producer_epoch[ours]
    return np.asarray((marker != NONE) & (rows.kind[marker] == COMMIT) & np.isin(raised, (0, 1)))


def _replaced_coordinators(rows: StoredRows, producer: Ints) -> Bools:
    """Of each producer, by its number, whether a marker has a lower coordinator epoch than the one before."""
    at = np.flatnonzero(rows.kind != DATA)
    lower = (np.diff(rows.coordinator_epoch[at]) < 0) & (np.diff(producer[at]) == 0)
    found = np.zeros(int(producer.max(initial=NONE)) + 1, dtype=np.bool_)
    found[producer[at][1:][lower]] = True
    return found


def _wholly_committed(run: RunView, logs: StoredLogs, records: _Records, ops: Ints) -> Ints:
    """Those of some operations whose commit may have been called, and whose records, each that they were to send, are in the logs
    where readers had to get them.
    """
    overview = run.overview
    at = overview.at(ops)
    ops = ops[~overview.aborting[at] & ((overview.decided[at] != NONE) | (overview.end[at] == NONE))]
    if not len(ops):
        return ops
    sends = run.sends_of(ops)
    fine = _had_to_be_read(run, sends, _places(logs, records, sends))
    return np.setdiff1d(ops, sends["op"].to_numpy()[~fine])


def _places(logs: StoredLogs, records: _Records, sends: pd.DataFrame) -> Ints:
    """The offset at which all logs of its partition that are distinct have each of some sends; NONE where they have not."""
    numbers = {name: number for number, name in enumerate(logs.partitions)}
    partition = np.array([numbers.get(name, len(numbers)) for name in sends["partition"]], dtype=np.int64)
    rows = pd.DataFrame({"partition": records.rows.partition, "v": records.rows.v, "offset": records.rows.offset})
    found = rows.groupby(["partition", "v"])["offset"].agg(["min", "max", "size"])
    found = found.reindex(pd.MultiIndex.from_arrays([partition, sends["v"]])).fillna(NONE).astype(np.int64)
    replicas = np.bincount([log.partition for log in logs.logs if log.distinct], minlength=len(numbers) + 1)
    alike = (found["min"] == found["max"]) & (found["size"] == replicas[partition])
    return np.where(alike, found["min"], NONE)


def _had_to_be_read(run: RunView, sends: pd.DataFrame, place: Ints) -> Bools:
    """True for each of some sends at a known place (NONE: it is not known) that is no other than that of its acknowledgement, and
    below the end of the complete read_committed final reads; in a partition without one, for those that were acknowledged.
    """
    finals, acknowledged = run.overview.final_reads, sends["offset"].to_numpy()
    ends = [finals[name].reach if name in finals and finals[name].committed else NONE for name in sends["partition"]]
    end = np.array(ends, dtype=np.int64)
    there = np.where(end != NONE, (place < end) & ((acknowledged == NONE) | (acknowledged == place)), acknowledged == place)
    return np.asarray((place != NONE) & there)
