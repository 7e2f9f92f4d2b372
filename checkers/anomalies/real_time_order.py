"""The order of sends against real time, across producers (Kafka appends what it acknowledges; KIP-101).

The docstring is the definition of the anomaly. Only records of
known place in the version order count (`checkers.views.versions.visible`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import SENDING
from fencepost.checkers.contract.common_rules import TRUNCATED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import ORDER
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints, distinct, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.selfcheck.read_damages import INVERT
from fencepost.checkers.views.log import PartitionLog, position_type, slices
from fencepost.checkers.views.result_rows import pair_rows
from fencepost.checkers.views.versions import visible
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api import record_ids
from fencepost.harness.api.promises import ORDERED


def _explain_inversion(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    return (
        f"{text.name(high.op)} had its record at {high.place} acknowledged before {text.name(low.op, capital=False)} "
        f"sent the one that lies below it, at {low.place}."
    )


@partition_check(
    "real-time-inversion",
    together=True,
    occasions=SENDING,
    promise=ORDERED,
    attribution=Attribution.PAIR,
    rules=(
        UNLESS_PRODUCER,
        *TRUNCATED,
        Rule(
            FORBIDDEN,
            "acks=all and one leader lineage: an acknowledged record lies before whatever is sent after it (KIP-101)",
            {"strict_realtime": "true", "acks": "all"},
        ),
        Rule(ALLOWED, "Kafka promises no order between producers; it is reported because replication should keep it"),
    ),
    evidence=ORDER,
    damages=(INVERT,),
    explain=_explain_inversion,
    needs="no send began after another producer's was acknowledged in its partition",
)
def real_time_inversion(log: PartitionLog) -> CheckResult:
    """A send that began after another producer's send was acknowledged lies before it in the same partition.

    compared: sends that began after some acknowledgement in their partition. One cause: the send that lies too low, with the
    one above it that was acknowledged first.

    Example::

        ms     process  operation  t-0                      outcome
        0-9    1        txn        send a@9                 committed
        2-3    2        txn        send b@7                 committed
        4-5    2        txn        send c@6                 committed
        10-11  3        txn        send d@8                 committed
        12-13  4        poll       read c@6, b@7, d@8, a@9

    Found: sent b@7, sent c@6 and sent d@8, each below sent a@9, which was acknowledged when they began. That c lies below b of
    the same producer is an `order-inversion`.

    Slow twin: `real_time_inversions` in tests/support/reference.py.
    """
    sent = log.in_place_order(log.shared(visible) & (log.sends.began != NONE))
    if not len(sent):
        return CheckResult(0)
    began = log.arrays.taken(log.sends.began, sent)
    process = log.in_slices(len(sent), np.int64, lambda part: record_ids.process_of(log.sends.v[sent[part]]))
    ended = log.in_slices(len(sent), np.int64, lambda part: _known_end(log.sends.ended[sent[part]]))
    compared = int((began > _first_acknowledged(log, sent, ended)).sum())
    low, high = _inverted(began, ended, process)
    if not len(low):
        return CheckResult(compared)
    return CheckResult(compared, pair_rows(log, sent[np.r_[low, high]], sent[np.r_[low, low]]))


def _known_end(ended: Ints) -> Ints:
    return np.where(ended != NONE, ended, FOREVER)


def _first_acknowledged(log: PartitionLog, sent: Ints, ended: Ints) -> Any:
    """The first acknowledgement among some sends, in the version order; of a joined log, for each that of its partition."""
    if log.parts is None:
        return ended.min()
    number = log.parts.numbers(log.sends.op[sent])
    begins = np.r_[True, number[1:] != number[:-1]]
    return np.minimum.reduceat(ended, true_positions(begins))[np.cumsum(begins) - 1]


def _inverted(began: Ints, ended: Ints, process: Ints) -> tuple[Ints, Ints]:
    """Sends that lie too low, and for each the one above it, of another producer, that was acknowledged first.

    All arrays are in the version order, and so are the positions that are returned. It is enough to compare each send with the
    one above it that was acknowledged first: if that one was not acknowledged before the send began, none was.
    """
    first = _first_acknowledged_above(ended)
    late = np.concatenate([first[:0], *(_late(began, ended, first, part) for part in slices(len(first)))])
    own = process[first[late]] == process[late]
    low, high = [late[~own]], [first[late[~own]]]
    # Where the first one is of the same producer it hides the others: look again with that producer's sends left out.
    for producer in distinct(process[late[own]]):
        hidden = late[own & (process[late] == producer)]
        above = _first_acknowledged_above(np.where(process == producer, FOREVER, ended))[hidden]
        inverted = began[hidden] > np.r_[ended, FOREVER][above]
        low.append(hidden[inverted])
        high.append(above[inverted])
    return np.concatenate(low), np.concatenate(high)


def _late(began: Ints, ended: Ints, first: Any, part: slice) -> Ints:
    """Some sends (positions) that began when the one that `first` says of each had been acknowledged."""
    before = np.where(first[part] < len(ended), ended[np.minimum(first[part], len(ended) - 1)], FOREVER)
    return np.asarray(part.start + true_positions(began[part] > before))


def _first_acknowledged_above(ended: Ints) -> Any:
    """The position with the smallest time among those above each position (`len(ended)`: none has a time).

    Of [5, 3, 9, 4] the minima of the suffixes are [3, 3, 4, 4], and each suffix has its minimum nearest at [1, 1, 3, 3]. What
    lies strictly above a position is the next suffix: [1, 3, 3, none].
    """
    count = len(ended)
    suffix_minimum = np.minimum.accumulate(ended[::-1])[::-1]
    above = np.full(count + 1, count, dtype=position_type(count + 1))  # at first, of each its own suffix's, and `count` for none
    for part in slices(count):
        nearest = part.start + true_positions(ended[part] == suffix_minimum[part])
        above[nearest] = nearest
    above = np.minimum.accumulate(above[::-1], out=above[::-1])[::-1][1:]
    above[:-1][suffix_minimum[1:] == FOREVER] = count
    return above
