"""A final read that ends below what others already got (KIP-320).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_occasions import LEADERS
from fencepost.checkers.contract.common_rules import COMPACTED, RETAINED, TRUNCATED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import FINAL, FINAL_COMMITTED, FINAL_UNCOMMITTED, LEVELS, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.read_damages import FORGET
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import AskAlone
from fencepost.checkers.views.versions import fixed, got_by, lost, reads_before
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.promises import COMPLETE

UNCOMMITTED_READ = "read-uncommitted"  # the role of a final read at that level


def _in_the_final_read(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    """A gap in the final reads of one level explains nothing about those of the other."""
    own = FINAL_UNCOMMITTED if finding.records(UNCOMMITTED_READ) else FINAL_COMMITTED
    return own in gap.evidence or LEVELS in gap.evidence


def _explain_stale(finding: Finding, text: FindingText) -> str:
    got, missing, uncommitted = (finding.records(role) for role in ("read", "missing", UNCOMMITTED_READ))
    final = next(row.op for row in (*uncommitted, *got) if row.v == NONE)
    seen = next(row for row in got if row.v != NONE)
    what = missing[0].place if len(missing) == 1 else f"{len(missing)} records ({text.places(missing)})"
    level = "read_uncommitted" if uncommitted else "read_committed"
    return (
        f"The complete {level} final read of {text.process(final)} did not return {what}, "
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
        {SENDS, POLLS, *FINAL, LEVELS},
        "a reader that is missing may have got more before the final read began",
        {*FINAL, LEVELS},
        "the final read may have returned in a missing line what it seems to lack",
        _in_the_final_read,
    ),
    damages=(FORGET,),
    explain=_explain_stale,
    needs="no read_committed reader got a record before a complete final read",
)
def stale_read(log: PartitionLog) -> CheckResult:
    """A complete final read lacks a record that another reader got before it began.

    The other reader is

    1. a read_committed one;
    2. for a record sent outside transactions, also a read_uncommitted one: both read up to the high watermark. In a partition
       whose last stable offset is stuck, such a record counts below the end of the final read, as it may be hidden above.

    The final read jumped over the record, or ended below it: what was visible once is not any more. For readers of the main phase
    nobody knows the end of the log that they should have seen; theirs is `poll-skip`. Records of aborted transactions, and of
    transactions for which commit was never called, are `aborted-read`'s and `dirty-read`'s.

    A read_uncommitted final read has to return the same. Counted are of it what the read_committed ones do not lack as well, and
    what lies where nobody skipped it: above all that it returned, or, where it may have begun anywhere, below.

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
    parts += [_stale(log, *reader, uncommitted=True) for reader in log.final.witnesses]
    rows = [part.rows for part in parts if part.rows]
    return CheckResult(sum(part.compared for part in parts), join_rows(*rows) if rows else {})


def _stale(log: PartitionLog, process: Any, final: Any, began: Any, uncommitted: bool = False) -> CheckResult:
    """The answer about one final read.

    uncommitted: it is one at read_uncommitted.

    final: its operation (history index).
    began: when its process began its first operation (ns).

    Of a joined log these are arrays, of one final read in each partition.
    """
    reads, sends = log.reads, log.sends
    earlier = reads_before(log, process, began)
    known = got_by(log, earlier)
    compared = int(known.sum())
    own = reads.process == process
    lacking = known & ~log.seen_by(own)
    if uncommitted and lacking.any() and log.parts is None:
        lacking &= ~log.shared(lost) & ~_passed(log, own)
    missing = true_positions(lacking)
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
    first_role = UNCOMMITTED_READ if uncommitted else "read"
    role = np.array([first_role] + ["read"] * len(witness) + ["missing"] * len(missing), dtype=object)
    return CheckResult(compared, {"cause": np.full(len(role), final), **rows, "time": np.full(len(role), began), "role": role})


def _passed(log: PartitionLog, own: Bools) -> Bools:
    """Sends that a reader skipped between two of its reads, or before the first one, where it had to begin at the log's start:
    `poll-skip`'s.
    """
    offsets = log.reads.offset[own]
    offsets = offsets[offsets != NONE]
    if not len(offsets):
        return np.zeros(len(log.sends), dtype=np.bool_)
    low = NONE if log.settings.from_start else int(offsets[0])
    return np.asarray(log.shared(fixed) & (log.place > low) & (log.place < offsets[-1]))
