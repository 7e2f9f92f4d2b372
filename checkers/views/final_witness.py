"""The final read as a witness: which sends it had to return, and which of them it did."""

from __future__ import annotations

import numpy as np

from fencepost.checkers.history.positions import Positions
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.log import PartitionLog, once
from fencepost.checkers.views.passed_over import appended_by, last_sent_above, passed_over

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
       simply be unpolled. Where the history does not tell what some poll returned, `checkers.views.passed_over` narrows this down
       to what that poll did not return, and to what some consumer surely passed.

    Of a topic that deletes records no send is judged.
    """
    if log.settings.deletes:
        return np.zeros(len(log.sends), np.bool_), log.seen, DELETED
    if log.final.committed:
        in_the_log = log.seen_witness if log.final.uncommitted else np.ones(len(log.sends), np.bool_)
        return log.covered | (~log.covered & ~in_the_log), log.seen_final, ""
    if log.final.uncommitted:
        return np.ones(len(log.sends), np.bool_), log.seen_witness, ""
    before = (log.place == NONE) & (appended_by(log) < last_sent(log))
    if may_lack_reads(log):
        below, lacking = log.shared(passed_over), NO_PASSING
    else:
        below, lacking = log.place != NONE, NO_FINAL
    below = below & (log.place < (log.reads.offset[-1] if len(log.reads) else NONE))
    return log.seen | below | before, log.seen, lacking


def may_lack_reads(log: PartitionLog) -> bool:
    """True if the history may lack records that were read from the partition."""
    return isinstance(log.resets, Positions) and len(log.resets.blind_polls(log.partition).op) > 0


@once
def last_sent(log: PartitionLog) -> Ints:
    """The time at which the last of the records was sent that surely passed each send of unknown place (NONE: nobody knows).

    Such a record lies above all that were in the log by then, and somebody read it. Where the history may lack reads, only what a
    consumer came to that surely passed the send counts.
    """
    if may_lack_reads(log):
        return last_sent_above(log)
    return np.full(len(log.sends), int(log.sends.began[log.seen].max(initial=NONE)), dtype=np.int64)
