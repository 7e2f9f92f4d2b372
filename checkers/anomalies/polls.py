"""Order and completeness of reads from poll to poll: no record skipped, no step back (Jepsen's Kafka workload).

Each docstring is the definition of its anomaly. How the reads of a process are compared:
`checkers.anomalies.consecutive_reads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fencepost.checkers.anomalies.consecutive_reads import MOST_MISSING, ConsecutiveReads, ReadPairs, Skips, consecutive_reads
from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import READING, READING_PAST_ABORTS
from fencepost.checkers.contract.common_rules import COMPACTED, PASSED_IN_PART, RETAINED, TRUNCATED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import ACROSS, INSIDE
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.read_damages import REPEAT_INSIDE, SKIP_BETWEEN, SKIP_INSIDE, STEP_BACK
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import COMPLETE

_SUBSCRIBED = Rule(
    FORBIDDEN,
    "what one poll returns of a partition is in order and without a gap, and so is what a member of a group gets of a partition "
    "that it keeps between two rebalances; what lies across a rebalance, or where none is recorded, is not judged (KIP-429)",
    {"consumption": "subscribed"},
)
_IN_ORDER = "an assigned consumer returns every visible record of a partition once, in the order of offsets"

UNKNOWN_POSITION = (
    "nobody knows where the consumers stood: they were told anew what to read, or are members of a group whose rebalances are "
    "not in the history"
)
NO_PAIRS = "no process read two records of one partition"


# --------------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------------
def _pair_rows(log: PartitionLog, pairs: ReadPairs) -> dict[str, Any]:
    """Both reads of each pair, or the seek before the later one; the cause is the later one."""
    sought = np.zeros(len(pairs.after), dtype=np.bool_) if pairs.seek is None else pairs.seek != NONE
    some = (pairs.before != NONE) & ~sought
    which, cause = np.r_[pairs.before[some], pairs.after], np.r_[pairs.after[some], pairs.after]
    reads = log.reads
    rows = {"op": reads.op[which], "v": reads.identities(which), "offset": reads.offset[which], "time": reads.ended[cause]}
    made = {"cause": cause, **rows, "role": np.full(len(which), "read", dtype=object)}
    if not sought.any():
        return made
    cause = pairs.after[sought]
    nobodys, role = np.full(len(cause), NONE, dtype=np.int64), np.full(len(cause), "sought", dtype=object)
    seeks = {"op": pairs.seek[sought], "v": nobodys, "offset": pairs.sought[sought], "time": reads.ended[cause]}
    return join_rows(made, {"cause": cause, **seeks, "role": role})


def _skips(log: PartitionLog, same_operation: bool) -> CheckResult:
    """Skips inside operations, or from one operation to the next."""
    reads = log.shared(consecutive_reads)
    rows = [row for part in reads.skips for row in _skip_rows(log, part, part.pairs.same_operation == same_operation)]
    return CheckResult(int(reads.pairs[int(same_operation)]), join_rows(*rows) if rows else {}, _lacking(reads, same_operation))


def _lacking(reads: ConsecutiveReads, same_operation: bool) -> str:
    """The reason why there was nothing to compare, when it was not for want of reads."""
    return UNKNOWN_POSITION if reads.unknown[int(same_operation)] else ""


def _skip_rows(log: PartitionLog, part: Skips, wanted: Bools) -> Iterator[dict[str, Any]]:
    """Rows of the wanted pairs: both reads of each, and the records missing between them."""
    if not wanted.any():
        return
    cause = np.repeat(part.pairs.after, part.counts)
    missing, cause = (values[np.repeat(wanted, part.counts)] for values in (part.missing, cause))
    sends = log.sends
    rows = {"cause": cause, "op": sends.op[missing], "v": sends.v[missing], "offset": log.place[missing]}
    yield _pair_rows(log, part.pairs.pick(wanted))
    yield rows | {"time": log.reads.ended[cause], "role": np.full(len(missing), "missing", dtype=object)}


def _returns(log: PartitionLog, same_operation: bool) -> CheckResult:
    """Pairs that go back, or to the same record again."""
    reads = log.shared(consecutive_reads)
    rows = [
        _pair_rows(log, part.pick(wanted)) for part in reads.returns if (wanted := part.same_operation == same_operation).any()
    ]
    compared = int(reads.continued[int(same_operation)])
    return CheckResult(compared, join_rows(*rows) if rows else {}, _lacking(reads, same_operation))


# --------------------------------------------------------------------------------------------------
# poll-skip, int-poll-skip
# --------------------------------------------------------------------------------------------------
def _explain_skip(finding: Finding, text: FindingText) -> str:
    reads, missing = finding.records("read"), finding.records("missing")
    last = reads[-1]
    records = f"{len(missing)} records" if len(missing) < MOST_MISSING else f"{MOST_MISSING} records or more"
    over = f"{records} ({text.places(missing)})" if len(missing) > 1 else missing[0].place
    if sought := finding.records("sought"):
        who = text.process(last.op).capitalize()
        return f"{who} sought back to {sought[0].place}, and got {last.place} next, past {over}, which others got."
    if len(reads) == 1:
        began = f"{text.process(last.op).capitalize()} began at the log's start"
        return f"{began} and got {last.place} first, past {over}, which others got.{_rewound(text, NONE, last.op)}"
    first, same = reads[0], reads[0].op == last.op
    where = f"inside {text.name(last.op, capital=False)}" if same else f"between {_two(text, first.op, last.op)}"
    who = text.process(last.op).capitalize()
    rewound = _rewound(text, first.op, last.op)
    return f"{who} read {first.place} and next {last.place} ({where}), past {over}, which others got.{rewound}"


def _rewound(text: FindingText, first: int, last: int) -> str:
    """That the client went back between two operations (history indices), where it does so; the end of a sentence."""
    overview = text.run.overview
    own = overview.process == overview.process[overview.at(np.array([last]))[0]]
    failed = own & ~overview.ok & (overview.index > first) & (overview.index < last)
    if text.run.contract["aborted_polls"] != "rewound" or not failed.any():
        return ""
    return " What it got in operations that did not end ok does not count: its client goes back then."


def _two(text: FindingText, first: int, last: int) -> str:
    return f"{text.name(first, capital=False)} and {text.name(last, capital=False)}"


@partition_check(
    "poll-skip",
    together=True,
    occasions=READING_PAST_ABORTS,
    promise=COMPLETE,
    rules=(UNLESS_PRODUCER, COMPACTED, RETAINED, *TRUNCATED, PASSED_IN_PART, _SUBSCRIBED, Rule(FORBIDDEN, _IN_ORDER)),
    evidence=ACROSS,
    damages=(SKIP_BETWEEN,),
    explain=_explain_skip,
    needs=NO_PAIRS,
)
def poll_skip(log: PartitionLog) -> CheckResult:
    """From one operation to the next, the reads of a process skip a record that it had to be given.

    It had to be given a record that

    1. lies between the two reads in the version order, or, where the process begins at the log's start or sought back to it,
       below its first read;
    2. is visible at the reader's isolation level;
    3. is in the log for ever because others got it (`checkers.views.versions.due`). A record that nobody got at all is
       `lost-write`'s.

    compared: reads that continue an earlier operation of the same process, or begin at the log's start. One cause: the skip.

    Example::

        ms     process  operation  t-0                 outcome
        0-1    1        txn        send a@5            committed
        2-3    1        txn        send b@6            aborted
        4-5    1        txn        send c@8, d@9       committed
        6-7    2        poll       read a@5, c@8, d@9
        8-9    3        poll       read a@5
        10-11  3        poll       read d@9

    Found: missing c@8, between read a@5 and read d@9. b was aborted, and a transaction marker lies at 7.

    Slow twin: `poll_skips` in tests/support/reference.py.
    """
    return _skips(log, same_operation=False)


@partition_check(
    "int-poll-skip",
    together=True,
    occasions=READING_PAST_ABORTS,
    promise=COMPLETE,
    rules=(UNLESS_PRODUCER, COMPACTED, RETAINED, *TRUNCATED, PASSED_IN_PART, _SUBSCRIBED, Rule(FORBIDDEN, _IN_ORDER)),
    evidence=INSIDE,
    damages=(SKIP_INSIDE,),
    explain=_explain_skip,
    needs="no operation returned two records of one partition",
)
def int_poll_skip(log: PartitionLog) -> CheckResult:
    """Inside one operation, consecutive reads of a partition skip a record that the process had to be given.

    See `poll-skip`, which is the same from one operation to the next.

    compared: reads with a predecessor in the same operation. One cause: the skip.

    Example::

        ms   process  operation  t-0                 outcome
        0-1  1        txn        send a@5            committed
        2-3  1        txn        send b@6            aborted
        4-5  1        txn        send c@8, d@9       committed
        6-7  2        poll       read a@5, c@8, d@9
        8-9  3        poll       read a@5, d@9

    Found: missing c@8, between read a@5 and read d@9. b was aborted, and a transaction marker lies at 7.

    Slow twin: `int_poll_skips` in tests/support/reference.py.
    """
    return _skips(log, same_operation=True)


# --------------------------------------------------------------------------------------------------
# nonmonotonic-poll, int-nonmonotonic-poll
# --------------------------------------------------------------------------------------------------
def _explain_return(finding: Finding, text: FindingText) -> str:
    if sought := finding.records("sought"):
        read = finding.records("read")[-1]
        return (
            f"{text.process(read.op).capitalize()} sought back to {sought[0].place}, and got {read.place} next, which lies below."
        )
    low, high = finding.rows[0], finding.rows[-1]
    same = low.op == high.op
    where = f"inside {text.name(low.op, capital=False)}" if same else f"between {_two(text, *sorted((high.op, low.op)))}"
    how = "got it once more" if low.offset == high.offset else f"went back to {low.place}"
    return f"{text.process(low.op).capitalize()} read {high.place} and then {how} ({where})."


@partition_check(
    "nonmonotonic-poll",
    together=True,
    occasions=READING,
    promise=COMPLETE,
    attribution=Attribution.PAIR,
    rules=(UNLESS_PRODUCER, *TRUNCATED, _SUBSCRIBED, Rule(FORBIDDEN, _IN_ORDER)),
    evidence=ACROSS,
    damages=(STEP_BACK,),
    explain=_explain_return,
    needs=NO_PAIRS,
)
def nonmonotonic_poll(log: PartitionLog) -> CheckResult:
    """From one operation to the next, a process reads the same record again or goes back to an earlier one.

    Not where the client seeks back by design after an operation that did not end ok (contract `aborted_polls = "rewound"`,
    Jepsen's client), nor across an `assign` or `subscribe` that does not keep the partition. After a `seek` back nothing below
    the offset sought may come; after one to a place above all that the process had read, anything may.

    compared: reads that continue an earlier operation of the same process. One cause: the step back.

    Example::

        ms   process  operation  t-0            outcome
        0-1  1        txn        send a@5, b@6  committed
        2-3  2        poll       read a@5, b@6
        4-5  2        poll       read b@6
        6-7  3        poll       read a@5
        8-9  3        poll       read b@6

    Found: read b@6 twice, by process 2. Process 3 is another consumer.

    Slow twin: `nonmonotonic_polls` in tests/support/reference.py.
    """
    return _returns(log, same_operation=False)


@partition_check(
    "int-nonmonotonic-poll",
    together=True,
    occasions=READING,
    promise=COMPLETE,
    attribution=Attribution.PAIR,
    rules=(UNLESS_PRODUCER, *TRUNCATED, _SUBSCRIBED, Rule(FORBIDDEN, _IN_ORDER)),
    evidence=INSIDE,
    damages=(REPEAT_INSIDE,),
    explain=_explain_return,
    needs="no operation returned two records of one partition",
)
def int_nonmonotonic_poll(log: PartitionLog) -> CheckResult:
    """Inside one operation, a process reads the same record again or goes back to an earlier one.

    compared: reads with a predecessor in the same operation. One cause: the step back.

    Example::

        ms   process  operation  t-0                 outcome
        0-1  1        txn        send a@5, b@6       committed
        2-3  2        poll       read a@5, b@6
        4-5  3        poll       read a@5, b@6, a@5
        6-7  3        poll       read b@6

    Found: read b@6 and then read a@5, by process 3.

    Slow twin: `int_nonmonotonic_polls` in tests/support/reference.py.
    """
    return _returns(log, same_operation=True)
