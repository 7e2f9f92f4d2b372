"""The final read as a witness: which sends it had to return, and which of them it did."""

from __future__ import annotations

import numpy as np

from fencepost.checkers.history.positions import Positions
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.log import PartitionLog, once
from fencepost.checkers.views.passed_over import passed_from_start, passed_over

NO_FINAL = "no final read was complete, and nobody read a promised record or past one"
NO_PASSING = (
    "no final read was complete, polls are missing in the history that may have returned anything, and nobody is known to have "
    "read a promised record or on past one"
)

DELETED = "the topic deletes records: an absent record proves nothing"


@once
def final_witness(log: PartitionLog) -> tuple[Bools, Bools, str]:
    """Three answers about the sends of a partition: `judged`, `returned`, and in words what was lacking to judge them all.

    judged: a send that had to be returned if it is a promise. returned: a send that was. So a promise is lost where `judged` is
    true and `returned` is false. The best witness that there is decides:

    1. A complete read_committed final read judges every send. In a partition whose last stable offset is stuck it judges what
       lies below (`covered`); what lies above is hidden from it, and judged only where a complete read_uncommitted final read
       did not return it either.
    2. Else a complete read_uncommitted final read judges every send.
    3. Else a send is judged if somebody returned it, or if it lies below a record that was read: by its place, or, where that is
       unknown, because that record was sent after this one had been appended (`appended_by`, `last_sent`). The tail above may
       simply be unpolled. Where the history does not tell what some poll returned, `passed_over` narrows this down to what one
       consumer surely passed.

    Of a topic that deletes records no send is judged.
    """
    if log.settings.deletes:
        return np.zeros(len(log.sends), np.bool_), log.seen, DELETED
    if log.final.committed:
        in_the_log = log.seen_witness if log.final.uncommitted else np.ones(len(log.sends), np.bool_)
        return log.covered | (~log.covered & ~in_the_log), log.seen_final, ""
    if log.final.uncommitted:
        return np.ones(len(log.sends), np.bool_), log.seen_witness, ""
    below = np.asarray((log.place != NONE) & (log.place < (log.reads.offset[-1] if len(log.reads) else NONE)))
    before = (log.place == NONE) & (appended_by(log) < last_sent(log))
    if may_lack_reads(log):
        return log.seen | (below & log.shared(passed_over)) | before, log.seen, NO_PASSING
    return log.seen | below | before, log.seen, NO_FINAL


def may_lack_reads(log: PartitionLog) -> bool:
    """True if the history may lack records that were read from the partition."""
    return isinstance(log.resets, Positions) and log.resets.may_lack_reads(log.partition)


def appended_by(log: PartitionLog) -> Ints:
    """The time at which each send was surely in the log, if ever: its acknowledgement, or the ok end of its operation."""
    acknowledged, over = (np.where(time != NONE, time, FOREVER) for time in (log.sends.ended, log.sends.over))
    return np.minimum(acknowledged, over)


def last_sent(log: PartitionLog) -> int:
    """The time at which the last-sent of the records that were read was sent (NONE: nobody knows).

    It lies above all that were in the log by then. Where the history may lack reads, only what some consumer came to from the
    partition's start counts.
    """
    read = log.seen_by(log.shared(passed_from_start)) if may_lack_reads(log) else log.seen
    return int(log.sends.began[read].max(initial=NONE))
