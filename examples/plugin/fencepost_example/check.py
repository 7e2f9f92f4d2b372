"""A check: nobody reads what nobody has sent yet."""

from __future__ import annotations

import numpy as np

from fencepost.checkers.api import (
    ALLOWED,
    FORBIDDEN,
    NONE,
    CheckResult,
    Evidence,
    Needs,
    PartitionLog,
    Rule,
    partition_check,
    reads_with_writers,
)


@partition_check(
    "read-before-sent",
    needs="nobody read a record that this run sent",
    promise="no read before the send",
    rules=(
        Rule(ALLOWED, "the workload reads at read_uncommitted, and may see anything", {"isolation": "read_uncommitted"}),
        Rule(FORBIDDEN, "a broker has nothing to return before a producer has sent it"),
    ),
    evidence=Needs({Evidence.SENDS, Evidence.POLLS}, "a reader or a producer that is missing may show one"),
)
def read_before_sent(log: PartitionLog) -> CheckResult:
    """A poll returned a record before its producer had begun to send it (times are of one machine's CLOCK_MONOTONIC).

    compared: reads of records that this run sent. One cause: the operation that sent the record.
    """
    known = log.reads.send != NONE
    odd = np.zeros(len(known), dtype=np.bool_)
    odd[known] = log.reads.ended[known] < log.sends.began[log.reads.send[known]]
    return reads_with_writers(log, odd, compared=int(known.sum()))
