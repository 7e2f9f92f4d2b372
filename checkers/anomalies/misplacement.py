"""Records that were read where nobody sent them.

Each docstring is the definition of its anomaly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_rules import DAMAGED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, Sifted, rows_where
from fencepost.checkers.selfcheck.record_damages import GARBLE, INVADE, MISPLACE
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import first_of_each, read_rows
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api import record_ids
from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.promises import ONE_LOG

NOBODY = -1  # the identity of a strange record


def _may_have_sent(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    """A file of one worker held the sends of that worker's processes only.

    A record without an identity of this run (its bytes are another's, or damaged: -1) was sent by no line that is missing. Where
    identities are given to values, every value of nobody has a number below that, and it says nothing.
    """
    if contract["values"] != "unique" or any(row.v < NOBODY for row in finding.rows):
        return True
    senders = {record_ids.process_of(row.v) for row in finding.rows if row.v >= 0}
    if gap.slot is None or not gap.slots:
        return bool(senders)
    return any(sender % gap.slots == gap.slot for sender in senders)


def _unsent(log: PartitionLog) -> CheckResult:
    """Every distinct record read here that nobody sent here; which of them are phantoms is decided over all partitions."""
    which = log.unsent_reads.copy()
    if which.any():
        which[which] &= first_of_each(log.reads.offset[which], log.reads.identities(which))
    return CheckResult(len(log.reads), read_rows(log, which, log.reads.offset))


def _explain_phantom(finding: Finding, text: FindingText) -> str:
    row = finding.rows[0]
    why = text.unreadable(row) if row.v < 0 else "its identity was sent by no operation of this run"
    return f"{text.name(row.op)} read a record at {row.partition}@{row.offset} that nobody in this run sent: {why}."


@partition_check(
    "phantom",
    together=True,
    promise=ONE_LOG,
    attribution=Attribution.PARTITION,
    rules=(
        UNLESS_PRODUCER,
        Rule(INAPPLICABLE, "what readers got of senders that are not recorded was left out of the history", {"senders": "some"}),
        DAMAGED,
        Rule(FORBIDDEN, "a topic holds only what producers sent, unchanged (record checksums)"),
    ),
    evidence=Needs(
        ALL_READS,
        "a reader that is missing may have got one",
        {SENDS},
        "a line that is missing may have sent the record",
        _may_have_sent,
    ),
    damages=(
        INVADE,
        GARBLE,
    ),
    sift=lambda rows, run: Sifted(rows_where(rows, ~np.isin(rows["v"], list(run.misplaced)))),
    explain=_explain_phantom,
    needs="no record was read",
)
def phantom(log: PartitionLog) -> CheckResult:
    """A record that nobody in this run sent to any partition, or whose content does not match what was sent.

    compared: reads. One cause: the offset.

    Example::

        ms   process  operation  t-0                 outcome
        0-1  1        txn        send a@5            committed
        2-   2        txn        send b              unknown
        4-5  3        poll       read a@5, b@7
        6-7  4        poll       read a@5, x@6, b@7

    Found: read x@6. The client that sent b was killed before it got an acknowledgement; b is in the history all the same.

    Slow twin: `phantoms` in tests/support/reference.py.
    """
    return _unsent(log)


def _explain_wrong(finding: Finding, text: FindingText) -> str:
    row = finding.rows[0]
    reader = text.name(row.op, capital=False)
    sent = f"{text.writer(row, capital=True)} was sent to {text.destination(row.v)}"
    return f"{sent}, but {reader} read it at {row.partition}@{row.offset}."


@partition_check(
    "wrong-partition",
    together=True,
    promise=ONE_LOG,
    rules=(
        UNLESS_PRODUCER,
        Rule(
            INAPPLICABLE,
            "values are unique per key only: a record of another partition is nobody's (`phantom`)",
            {"values": "per key"},
        ),
        Rule(FORBIDDEN, "a record is stored in the partition to which it was sent"),
    ),
    evidence=Needs({SENDS, *ALL_READS}, ANYBODY),
    damages=(MISPLACE,),
    sift=lambda rows, run: Sifted(rows_where(rows, np.isin(rows["v"], list(run.misplaced)))),
    explain=_explain_wrong,
    needs="no record was read",
)
def wrong_partition(log: PartitionLog) -> CheckResult:
    """A record read from a topic or partition to which it was not sent, though it was sent to another.

    compared: reads. One cause: the offset.

    Example::

        ms   process  operation  t-0       t-1            outcome
        0-1  1        txn        send a@5  -              committed
        2-3  1        txn        send b@7  send c@3       committed
        4-5  2        poll       read a@5  read c@3
        6-7  3        poll       -         read c@3, b@4

    Found: read b@4.

    Slow twin: `wrong_partitions` in tests/support/reference.py.
    """
    return _unsent(log)
