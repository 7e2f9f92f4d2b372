"""One record at several offsets of its partition (KIP-98, KIP-679).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_rules import UNLESS_PRODUCER, cut_off
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FINAL_READS, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints, positions_in
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import ABORTED, NONE
from fencepost.checkers.selfcheck.record_damages import REPEAT
from fencepost.checkers.views.log import PartitionLog, slices
from fencepost.checkers.views.result_rows import first_of_each, read_rows, send_rows
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import ONCE
from fencepost.harness.api.words import and_more, enumeration

NAMED = 6  # offsets of a record that a sentence names


def one_at_two_offsets(finding: Finding, reads: pd.DataFrame) -> bool:
    """True if a record of the finding was read at two offsets."""
    own = reads[reads["offset"] != NONE]
    own = own[own["v"].isin({row.v for row in finding.rows})]
    return bool((own.groupby(["partition", "v"])["offset"].nunique() > 1).any())


def _explain_duplicate(finding: Finding, text: FindingText) -> str:
    sent, read = finding.records("sent"), finding.records("read")
    offsets = sorted({record.offset for record in read})
    if len(sent) == 1 and len(offsets) == 1:
        acknowledged = f"it was acknowledged at offset {sent[0].offset}, and readers got it at {offsets[0]}"
        return f"{text.name(sent[0].op)} sent one record{sent[0].value_note} to {sent[0].partition}: {acknowledged}."
    if len(sent) > 1:
        return (
            f"{len(sent)} records that {text.name(sent[0].op, capital=False)} sent once each to {sent[0].partition} "
            f"are in the log more than once (offsets {offsets[0]} to {offsets[-1]})."
        )
    named = [str(offset) for offset in offsets[:NAMED]]
    places = enumeration(named) if len(offsets) <= NAMED else ", ".join(named) + and_more(len(offsets) - NAMED)
    record = f"one record{sent[0].value_note}"
    return f"{text.name(sent[0].op)} sent {record} to {sent[0].partition}, and readers got it at offsets {places}."


@partition_check(
    "duplicate",
    together=True,
    occasions=(Occasion.LEADER_MOVED, Occasion.SERVER_STRUCK, Occasion.CLIENT_STRUCK, Occasion.COMMIT_UNANSWERED),
    promise=ONCE,
    rules=(
        UNLESS_PRODUCER,
        *cut_off("a record that was read and then cut off is appended again by its retry, once in each log", FINAL_READS),
        Rule(
            FORBIDDEN,
            "transactional producers append a retry only once (KIP-98)",
            {"transactional": "true"},
            True,
        ),
        Rule(FORBIDDEN, "idempotent producers append a retry only once (KIP-98, KIP-679)", {"idempotence": "true"}, True),
        Rule(ALLOWED, "without idempotence a retry may be appended again: at least once is all that is promised"),
    ),
    evidence=Needs({SENDS, OUTCOMES, *ALL_READS}, ANYBODY),
    shown_by=one_at_two_offsets,
    damages=(REPEAT,),
    explain=_explain_duplicate,
    needs="no record was read at the isolation level in use",
)
def duplicate(log: PartitionLog) -> CheckResult:
    """One sent record at two or more offsets of its partition, both visible at the isolation level in use.

    A place of the record is

    1. an offset at which it was read: at read_committed; at any isolation level if the record was sent outside transactions, or
       the workload reads at read_uncommitted. The same offset read by many readers is one place.
    2. the offset of its acknowledgement, if the operation did not fail and nobody read another record there
       (`inconsistent-offset`).

    compared: records read at least once. One cause: the operation that sent them.

    Example::

        ms   process  operation  t-0                 outcome
        0-1  1        txn        send a@5            committed
        2-3  1        txn        send b@7            committed
        4-5  2        poll       read a@5, b@7, a@8
        6-7  3        poll       read a@5, b@7

    Found: sent a@5, read a@5 and read a@8. Two readers got b, both at one offset.

    Slow twin: `duplicates` in tests/support/reference.py.
    """
    sends, reads = log.sends, log.reads
    low, high = _places(log)
    elsewhere = (sends.offset != NONE) & (sends.status != ABORTED) & (low != NONE) & (sends.offset != low)
    elsewhere[elsewhere] = positions_in(reads.offset, sends.offset[elsewhere]) == NONE  # acknowledged where nobody read anything
    twice = (low != high) | elsewhere
    compared = int((low != NONE).sum())
    if not twice.any():
        return CheckResult(compared)
    visible = _visible(log)
    copies = visible.copy()  # of the reads that count, those of such sends, and each pair of send and offset once
    copies[visible] &= twice[reads.send[visible]]
    copies[copies] &= first_of_each(reads.send[copies], reads.offset[copies])
    acknowledged = send_rows(log, twice, sends.op, "sent")
    acknowledged["offset"] = np.where(elsewhere, sends.offset, log.place)[twice]
    return CheckResult(compared, join_rows(read_rows(log, copies, sends.op[reads.send]), acknowledged))


def _places(log: PartitionLog) -> tuple[Ints, Ints]:
    """Lowest and highest offset at which each send was read by those that count (NONE: by none)."""
    low, high = log.places_read
    if log.settings.read_uncommitted:
        return low, high
    if (low == high).all() and not (len(log.reads) and log.reads.offset[0] == NONE):  # each at one offset, whoever read it
        judged = log.seen_committed if log.reads.judged is log.reads.committed else log.seen_by(log.reads.judged)
        place = np.where(judged | (log.seen & ~log.sends.txn), low, NONE)
        return place, place
    visible = _visible(log)
    return (low, high) if (visible | log.unsent_reads).all() else log.span(visible)


def _visible(log: PartitionLog) -> Bools:
    """True for each read with a send that counts for it."""
    reads, visible = log.reads, ~log.unsent_reads
    if not log.settings.read_uncommitted and len(log.sends):
        for part in slices(len(reads)):
            visible[part] &= reads.judged[part] | ~log.sends.txn[reads.send[part]]
    return visible
