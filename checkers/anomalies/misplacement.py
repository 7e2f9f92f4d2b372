"""Records that were read where nobody sent them.

Each docstring is the definition of its anomaly. What is forbidden under which settings: `checkers.verdict.rules`.
"""

from __future__ import annotations

from fencepost.checkers.api import partition_check
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import first_of_each, read_rows
from fencepost.checkers.views.wording import FindingText


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
    resolve=lambda rows, run: rows[~rows["v"].isin(run.misplaced)],
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
    resolve=lambda rows, run: rows[rows["v"].isin(run.misplaced)],
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
