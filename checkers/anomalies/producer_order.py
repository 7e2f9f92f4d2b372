"""The order of sends: against real time across producers, and Jepsen's names for neighbours of one producer.

Each docstring is the definition of its anomaly. What is forbidden under which settings: `checkers.verdict.rules`. Only records of
known place in the version order count (`checkers.partition.versions.visible`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.api import CheckResult, partition_check
from checkers.arrays import Ints
from checkers.partition.log import NONE, PartitionLog
from checkers.partition.versions import visible
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText

EXAMPLES = 20  # of a lawful and frequent anomaly, in each partition
LATEST = np.iinfo(np.int64).max
_OP, _PROCESS = 12, 39  # bits below the operation and the process in an identity


def _rows(log: PartitionLog, which: Ints, cause: Ints) -> dict[str, Any]:
    """Rows of sends by position, each with the send that is its cause; the time is when that one was called."""
    sends = log.sends
    rows = {"cause": cause, "op": sends.op[which], "v": sends.v[which], "offset": log.place[which], "time": sends.began[cause]}
    return {**rows, "role": np.full(len(which), "sent", dtype=object)}


# --------------------------------------------------------------------------------------------------
# real-time-inversion
# --------------------------------------------------------------------------------------------------
def _explain_inversion(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    return (
        f"{text.name(high.op)} had its record at {high.place} acknowledged before {text.name(low.op, capital=False)} "
        f"sent the one that lies below it, at {low.place}."
    )


@partition_check(
    "real-time-inversion",
    explain=_explain_inversion,
    needs="no send began after another producer's was acknowledged in its partition",
)
def real_time_inversion(log: PartitionLog) -> CheckResult:
    """A send that began after another producer's send was acknowledged lies before it in the same partition.

    compared: sends that began after some acknowledgement in their partition. One cause: the send that lies too low, with the
    one above it that was acknowledged first.
    """
    rows = np.flatnonzero(log.shared(visible) & (log.sends.began != NONE))
    rows = rows[np.argsort(log.place[rows], kind="stable")]
    if not len(rows):
        return CheckResult(0)
    began, process = log.sends.began[rows], log.sends.v[rows] >> _PROCESS
    ended = np.where(log.sends.ended[rows] != NONE, log.sends.ended[rows], LATEST)
    compared = int((began > ended.min()).sum())
    low, high = _inverted(began, ended, process)
    if not len(low):
        return CheckResult(compared)
    return CheckResult(compared, _rows(log, rows[np.r_[low, high]], rows[np.r_[low, low]]))


def _inverted(began: Ints, ended: Ints, process: Ints) -> tuple[Ints, Ints]:
    """Positions, in the order of places, of sends that lie too low, and for each the one above that was acknowledged first."""
    first = _first_above(ended)
    late = np.flatnonzero(began > np.r_[ended, LATEST][first])
    own = process[first[late]] == process[late]
    low, high = [late[~own]], [first[late[~own]]]
    for who in np.unique(process[late[own]]):  # its own sends above hide those of others: look again without them
        mine = late[own & (process[late] == who)]
        above = _first_above(np.where(process == who, LATEST, ended))[mine]
        bad = began[mine] > np.r_[ended, LATEST][above]
        low.append(mine[bad])
        high.append(above[bad])
    return np.concatenate(low), np.concatenate(high)


def _first_above(ended: Ints) -> Ints:
    """For each place, where among the higher places the smallest time is (beyond the last: none)."""
    count = len(ended)
    lowest = np.minimum.accumulate(ended[::-1])[::-1]
    at = np.where(ended == lowest, np.arange(count), count)  # where a suffix has its minimum
    nearest = np.minimum.accumulate(at[::-1])[::-1]
    first = np.r_[nearest[1:], count]
    return np.asarray(np.where(np.r_[lowest[1:], LATEST] == LATEST, count, first), dtype=np.int64)


# --------------------------------------------------------------------------------------------------
# nonmonotonic-send, int-nonmonotonic-send, int-send-skip
# --------------------------------------------------------------------------------------------------
def _neighbours(log: PartitionLog) -> tuple[Ints, Ints, Any]:
    """Sends that follow each other in one process, in the order of their calls; and whether one operation made both."""
    rows = np.flatnonzero(log.shared(visible))  # sends are sorted by process, operation and sequence
    before, after = rows[:-1], rows[1:]
    v = log.sends.v
    same = v[before] >> _PROCESS == v[after] >> _PROCESS
    before, after = before[same], after[same]
    return before, after, v[before] >> _OP == v[after] >> _OP


def _turned(log: PartitionLog, inside: bool) -> CheckResult:
    before, after, together = log.shared(_neighbours)
    mine = together == inside
    before, after = before[mine], after[mine]
    back = log.place[after] <= log.place[before]
    low, high = after[back], before[back]
    return CheckResult(len(after), _rows(log, np.r_[low, high], np.r_[low, low]) if len(low) else {})


def _explain_turned(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    if low.op == high.op:
        return f"{text.name(low.op)} sent {high.place} first and {low.place} next, which lies before it."
    later = text.name(low.op, capital=False)
    return f"{text.name(high.op)} sent {high.place}, and {later} sent {low.place} after it, which lies before it."


@partition_check("nonmonotonic-send", explain=_explain_turned, needs="no process sent to one partition in two operations")
def nonmonotonic_send(log: PartitionLog) -> CheckResult:
    """From one operation to the next that sends there, a process's send lies before its predecessor in the version order.

    Jepsen's name; `order-inversion` compares with every earlier send of the process and holds in more cases.

    compared: sends with a predecessor in an earlier operation. One cause: the later send.
    """
    return _turned(log, inside=False)


@partition_check("int-nonmonotonic-send", explain=_explain_turned, needs="no operation sent two records to one partition")
def int_nonmonotonic_send(log: PartitionLog) -> CheckResult:
    """Inside one operation, a later send to a partition lies before an earlier one in the version order.

    Jepsen's name; see `order-inversion`.

    compared: sends with a predecessor in the same operation. One cause: the later send.
    """
    return _turned(log, inside=True)


def _explain_send_skip(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    return f"{text.name(low.op)} sent {low.place} and next {high.place}; other producers' records lie between them."


@partition_check("int-send-skip", explain=_explain_send_skip, needs="no operation sent two records to one partition")
def int_send_skip(log: PartitionLog) -> CheckResult:
    """Inside one operation, other visible records lie between two consecutive sends to one partition. Lawful, and frequent.

    Only the first examples of a partition are kept; the reason says how many more there were.

    compared: sends with a predecessor in the same operation. One cause: the later send.
    """
    before, after, together = log.shared(_neighbours)
    before, after = before[together], after[together]
    places = np.sort(log.place[log.shared(visible)])
    between = np.searchsorted(places, log.place[after], "left") - np.searchsorted(places, log.place[before], "right")
    skip = np.flatnonzero(between > 0)
    kept = skip[:EXAMPLES]
    low, high = before[kept], after[kept]
    rows = _rows(log, np.r_[low, high], np.r_[high, high]) if len(kept) else {}
    return CheckResult(len(after), rows, more=len(skip) - len(kept))
