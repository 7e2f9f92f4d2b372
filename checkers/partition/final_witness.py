"""The final read as a witness: which sends it had to return, and which of them it did."""

from __future__ import annotations

import numpy as np

from checkers.arrays import Bools, Ints
from checkers.partition.log import NONE, PartitionLog
from checkers.partition.passed_over import passed_over
from checkers.partition.positions import Positions

NO_FINAL = "no final read was complete, and nobody read a promised record or past one"
NO_PASSING = (
    "no final read was complete, polls are missing in the history that may have returned anything, and nobody is known to have "
    "read a promised record or on past one"
)


def final_witness(log: PartitionLog) -> tuple[Bools, Bools, str]:
    """Three answers about the sends of a partition: `judged`, `returned`, and in words what was lacking to judge them all.

    judged: a send that had to be returned if it is a promise. returned: a send that was. So a promise is lost where `judged` is
    true and `returned` is false. The best witness that there is decides:

    1. A complete read_committed final read judges every send. In a partition whose last stable offset is stuck it judges what
       lies below (`covered`); what lies above is hidden from it, and judged only where a complete read_uncommitted final read
       did not return it either.
    2. Else a complete read_uncommitted final read judges every send.
    3. Else a send is judged if somebody returned it, or if its place lies below the highest offset that was read: at
       read_committed for sends in transactions, at any level for the others. The tail above may simply be unpolled. Where the
       history does not tell what some poll returned, `passed_over` narrows this down to what one consumer surely passed.
    """
    if log.final.committed:
        in_the_log = log.seen_witness if log.final.uncommitted else np.ones(len(log.sends), np.bool_)
        return log.covered | (~log.covered & ~in_the_log), log.seen_final, ""
    if log.final.uncommitted:
        return np.ones(len(log.sends), np.bool_), log.seen_witness, ""
    reads = log.reads
    highest = np.where(log.sends.txn, _highest(reads.offset[reads.committed]), _highest(reads.offset))
    below = np.asarray((log.place != NONE) & (log.place < highest))
    if isinstance(log.resets, Positions) and log.resets.may_lack_reads(log.partition):
        return log.seen | (below & log.shared(passed_over)), log.seen, NO_PASSING
    return log.seen | below, log.seen, NO_FINAL


def _highest(offsets: Ints) -> int:
    """The last of rising offsets (NONE: there are none)."""
    return int(offsets[-1]) if len(offsets) else NONE
