"""The version order of a partition: which records are visible, and where each of them surely lies.

Offsets are sparse (markers and aborted records occupy some), so distances are counted in known records, never in offsets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints, with_false
from fencepost.checkers.model.values import ABORTED, NONE
from fencepost.checkers.views.final_witness import final_witness
from fencepost.checkers.views.log import PartitionLog


def fixed(log: PartitionLog) -> Bools:
    """Sends that lie at one offset, by acknowledgement and by every read. What lies at two has no place in an order."""
    low, high = log.places_read
    acknowledged = log.sends.offset
    agreed = (low == NONE) | (acknowledged == NONE) | (low == acknowledged)
    return np.asarray((log.place != NONE) & (low == high) & agreed, dtype=np.bool_)


def lost(log: PartitionLog) -> Bools:
    """Sends that the final read did not return although it had to: promises, which are `lost-write`'s, and what others had got
    before it began, which is `stale-read`'s.
    """
    judged, returned, _ = final_witness(log)
    return np.asarray(log.promised & judged & ~returned) | _vanished(log)


def _vanished(log: PartitionLog) -> Bools:
    """Sends that somebody got before a complete read_committed final read began, and that no such read returned."""
    perhaps = log.seen & ~log.seen_final & ~log.shared(aborted) & ~log.uncalled
    if log.settings.deletes or not log.final.readers or not perhaps.any():
        return np.zeros(len(log.sends), dtype=np.bool_)
    got = [got_by(log, reads_before(log, process, began)) for process, _, began in log.final.readers]
    return np.asarray(perhaps & np.logical_or.reduce(got))


def reads_before(log: PartitionLog, process: Any, began: Any) -> Bools:
    """Reads of others, before a final reader at read_committed began, of what it had to return. They were at read_committed;
    outside transactions at any level, for both read up to the high watermark.
    """
    earlier = ~log.unsent_reads & (log.reads.process != process) & (log.reads.ended != NONE) & (log.reads.ended < began)
    plain = with_false(~log.sends.txn & log.covered)  # the last: records of nobody
    return np.asarray(earlier & (log.reads.committed | plain[log.reads.send] if plain.any() else log.reads.committed))


def got_by(log: PartitionLog, reads: Bools) -> Bools:
    """Sends that some reads returned, without those of transactions that were aborted, or for which commit was never called."""
    return np.asarray(log.seen_by(reads) & ~log.shared(aborted) & ~log.uncalled)


def aborted(log: PartitionLog) -> Bools:
    """Sends of transactions that surely failed."""
    return np.asarray(log.sends.txn & (log.sends.status == ABORTED))


def visible(log: PartitionLog) -> Bools:
    """Sends whose place in the version order is known: promised or read, not aborted, not lost, at one place."""
    known = log.promised | log.seen
    return np.asarray(known & log.shared(fixed) & ~log.shared(lost) & ~log.shared(aborted))


def committed_records(log: PartitionLog) -> Any:
    """Sends (positions) in transactions that committed, by their place, which is known: ok, or a read_committed reader got the
    record.
    """
    return log.in_place_order(log.sends.txn & log.shared(visible) & (log.promised | log.seen_committed))


def placed_reads(log: PartitionLog) -> Bools:
    """Reads of records that surely lie where they were read: at that place only, and neither lost nor aborted."""
    settled = with_false(log.shared(fixed) & ~log.shared(aborted) & ~log.shared(lost))  # the last: records of nobody
    return np.asarray(settled[log.reads.send])


def due(log: PartitionLog, committed: bool) -> Bools:
    """Sends that no reader at an isolation level may pass over: others got them, so they are in the log for ever.

    For read_committed: what a read_committed reader got, or, in a partition whose final read says nothing, a promise that
    anybody got. For read_uncommitted: what anybody got. Lost and aborted records are other findings; so are those for which
    commit was never called, where the final read does not have them (`dirty-read`).
    """
    sure = log.shared(fixed) & ~log.shared(lost)
    if not committed:
        return np.asarray(sure & log.seen)
    promised = log.promised & log.seen & (not log.final.committed)
    withdrawn = log.uncalled & ~log.seen_final & bool(log.final.committed)
    return np.asarray(sure & ~log.shared(aborted) & ~withdrawn & (log.seen_committed | promised))


def stretch_numbers(places: Ints, between: Ints, wanted: Ints) -> Ints:
    """The number of the stretch in which each wanted place lies.

    A stretch is a run of `places` (sorted, distinct) that no value of `between` (sorted) parts. Two neighbouring places are
    parted where more values of `between` lie below the upper one than up to and with the lower one; the number of a place is
    how often that happened up to it.
    """
    if not len(places):
        return np.zeros(len(wanted), dtype=np.int64)
    parted = np.searchsorted(between, places[1:], "left") > np.searchsorted(between, places[:-1], "right")
    return np.cumsum(np.r_[0, parted])[np.minimum(np.searchsorted(places, wanted), len(places) - 1)]
