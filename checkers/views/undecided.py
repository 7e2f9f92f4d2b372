"""Transactions of unknown outcome (`info`): what each partition knows of their records, put together over all partitions.

A read_committed reader that gets one record of a transaction proves that it committed, and that all of its records had been
appended by then: its markers follow its records (KIP-98). So a record of it that nobody got lies below every record of its
partition that was sent after that. The proof may lie in another partition, so each partition hands out rows, and the second step
of a check judges them together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints, true_positions
from fencepost.checkers.model.results import Rows, count_rows, has_role, rows_where
from fencepost.checkers.model.values import COMMITTED, FOREVER, NONE
from fencepost.checkers.views.final_witness import last_sent
from fencepost.checkers.views.log import PartitionLog, slices
from fencepost.checkers.views.result_rows import send_rows

PROOF, UNREAD, UNACKNOWLEDGED = "proof", "unread", "unacknowledged"  # roles of rows between the two steps of a check


def undecided_rows(log: PartitionLog, undecided: Bools, promised: Bools, judged: Bools, returned: Bools) -> list[dict[str, Any]]:
    """Rows for sends of transactions of unknown outcome (`undecided`), by role; their cause is -2 - operation.

    PROOF: a read_committed reader got it; time: when first. `missing`: a promise that had to be returned and was not (`judged`,
    `returned`: `final_witness`). UNREAD: a promise that nobody got, and nothing in this partition says that anybody had to; time:
    when the last-sent of the records was sent that surely passed it (0: nobody knows). UNACKNOWLEDGED: the same of a record that
    was not acknowledged, and that the proof promises all the same.
    """
    if not undecided.any():
        return []
    proof = undecided & log.seen_committed
    unread = undecided & tried(log) & ~log.swallowed & ~judged & ~log.seen & (not log.final.committed)
    last = np.maximum(0, last_sent(log)) if unread.any() else None
    cause = -2 - log.sends.op
    return [
        send_rows(log, proof, cause, PROOF, _first_read(log, proof)),
        send_rows(log, undecided & promised & judged & ~returned, cause, "missing"),
        send_rows(log, unread & promised, cause, UNREAD, last),
        send_rows(log, unread & ~promised, cause, UNACKNOWLEDGED, last),
    ]


def tried(log: PartitionLog) -> Bools:
    """Sends that belong to their transaction: not those of a transaction that ended before it came to them."""
    sends = log.sends
    return np.asarray((sends.began != NONE) | (sends.status == COMMITTED) | ~sends.finished)


def _first_read(log: PartitionLog, which: Bools) -> Ints:
    """The time at which each of some sends was first returned at read_committed (others: FOREVER)."""
    reads, first = log.reads, np.full(len(log.sends), FOREVER)
    for part in slices(len(reads) if which.any() else 0):
        known = part.start + true_positions(reads.committed[part] & (reads.send[part] >= 0) & (reads.ended[part] != NONE))
        known = known[which[reads.send[known]]]
        np.minimum.at(first, reads.send[known], reads.ended[known])
    return first


def passed_in_time(rows: Rows) -> Rows:
    """Rows in which those unread sends are missing that lie below a record that was read: it was sent after their proof.

    Only where the place is unknown: of a known place the partition itself said that nobody read beyond it. What was passed and
    not acknowledged is left out: `torn-transaction` has it.
    """
    if not count_rows(rows) or not (unread := has_role(rows, UNREAD, UNACKNOWLEDGED)).any():
        return rows
    passed = unread & (rows["offset"] == NONE) & (rows["time"] > _first_proof(rows))
    role = np.where(passed & has_role(rows, UNREAD), "missing", rows["role"])
    return rows_where({**rows, "role": role}, ~(passed & has_role(rows, UNACKNOWLEDGED)))


def _first_proof(rows: Rows) -> Ints:
    """For each row the time of the first proof of its operation; FOREVER where there is none."""
    proof = has_role(rows, PROOF)
    ops, numbers = np.unique(rows["op"], return_inverse=True)
    first = np.full(len(ops), FOREVER)
    np.minimum.at(first, numbers[proof], rows["time"][proof])
    return np.asarray(first[numbers])
