"""A final read that ends below what others already got (KIP-320).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_occasions import LEADERS
from fencepost.checkers.contract.common_rules import COMPACTED, RETAINED, TRUNCATED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import FINAL_COMMITTED, LEVELS, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.read_damages import FORGET
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import AskAlone
from fencepost.checkers.views.versions import got_by, reads_before
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import COMPLETE


def _explain_stale(finding: Finding, text: FindingText) -> str:
    got, missing = finding.records("read"), finding.records("missing")
    final = next(row.op for row in got if row.v == NONE)
    seen = next(row for row in got if row.v != NONE)
    what = missing[0].place if len(missing) == 1 else f"{len(missing)} records ({text.places(missing)})"
    return (
        f"The complete read_committed final read of {text.process(final)} did not return {what}, "
        f"although {text.name(seen.op, capital=False)} got {seen.place} before it began."
    )


@partition_check(
    "stale-read",
    together=True,
    occasions=LEADERS,
    promise=COMPLETE,
    rules=(
        UNLESS_PRODUCER,
        COMPACTED,
        RETAINED,
        *TRUNCATED,
        Rule(FORBIDDEN, "what a read_committed reader got is below the high watermark and decided for ever (KIP-98, KIP-101)"),
    ),
    evidence=Needs(
        {SENDS, POLLS, FINAL_COMMITTED, LEVELS},
        "a reader that is missing may have got more before the final read began",
        {FINAL_COMMITTED, LEVELS},
        "the final read may have returned in a missing line what it seems to lack",
    ),
    damages=(FORGET,),
    explain=_explain_stale,
    needs="no read_committed reader got a record before a complete read_committed final read",
)
def stale_read(log: PartitionLog) -> CheckResult:
    """A complete read_committed final read lacks a record that another reader got before it began.

    The other reader is

    1. a read_committed one;
    2. for a record sent outside transactions, also a read_uncommitted one: both read up to the high watermark. In a partition
       whose last stable offset is stuck, such a record counts below the end of the final read, as it may be hidden above.

    The final read jumped over the record, or ended below it: what was visible once is not any more. For readers of the main phase
    nobody knows the end of the log that they should have seen; theirs is `poll-skip`. Records of aborted transactions, and of
    transactions for which commit was never called, are `aborted-read`'s and `dirty-read`'s.

    compared: records that somebody got before such a final read began. One cause: the final read.

    Example::

        ms   process  operation   t-0            outcome
        0-1  1        txn         send a@5       committed
        2-3  1        txn         send b@7       unknown
        4-5  2        poll        read a@5, b@7
        6-7  3        final read  read a@5

    Found: missing b@7, which was read b@7 by process 2 before. It committed then, whatever its client knows.

    Slow twin: `stale_reads` in tests/support/reference.py.
    """
    parts = [_stale(log, *reader) for reader in log.final.readers]
    rows = [part.rows for part in parts if part.rows]
    return CheckResult(sum(part.compared for part in parts), join_rows(*rows) if rows else {})


def _stale(log: PartitionLog, process: Any, final: Any, began: Any) -> CheckResult:
    """The answer about one final read.

    final: its operation (history index).
    began: when its process began its first operation (ns).

    Of a joined log these are arrays, of one final read in each partition.
    """
    reads, sends = log.reads, log.sends
    earlier = reads_before(log, process, began)
    known = got_by(log, earlier)
    compared = int(known.sum())
    missing = true_positions(known & ~log.seen_by(reads.process == process))
    if not len(missing):
        return CheckResult(compared)
    if log.parts is not None:
        raise AskAlone
    # Of every missing record one earlier read: the first one in the order of `earlier`.
    earlier_reads = true_positions(earlier)
    read_sends, first = np.unique(reads.send[earlier_reads], return_index=True)
    witness = earlier_reads[first[np.isin(read_sends, missing)]]
    # A row for the final read itself, which returned nothing of this; then the witnesses; then the missing records.
    nothing = np.int64(NONE)
    rows = {
        "op": np.r_[np.int64(final), reads.op[witness], sends.op[missing]],
        "v": np.r_[nothing, reads.identities(witness), sends.v[missing]],
        "offset": np.r_[nothing, reads.offset[witness], log.place[missing]],
    }
    role = np.array(["read"] * (1 + len(witness)) + ["missing"] * len(missing), dtype=object)
    return CheckResult(compared, {"cause": np.full(len(role), final), **rows, "time": np.full(len(role), began), "role": role})
