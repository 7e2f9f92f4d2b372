"""The order of one producer's sends: `order-inversion`, and Jepsen's names for neighbours (KIP-98; Jepsen's Kafka workload).

Each docstring is the definition of its anomaly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import SENDING
from fencepost.checkers.contract.common_rules import ACKED_ALONE, UNLESS_PRODUCER, cut_off
from fencepost.checkers.contract.needs import ORDER
from fencepost.checkers.contract.rules import ALLOWED, FINAL_READS, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints, distinct, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.record_damages import SWAP_ACROSS, SWAP_INSIDE
from fencepost.checkers.selfcheck.schedules import scheduled
from fencepost.checkers.views.log import SLICE, PartitionLog, position_type, slices
from fencepost.checkers.views.result_rows import pair_rows
from fencepost.checkers.views.versions import lost, visible
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api import record_ids
from fencepost.harness.api.promises import ORDERED


def stored_backwards(finding: Finding, reads: pd.DataFrame) -> bool:
    """True if the first record of the finding's two, in the order of the calls, was read above the second."""
    first, second = sorted({row.v for row in finding.rows})[:1], sorted({row.v for row in finding.rows})[-1:]
    placed = reads[reads["offset"] != NONE]
    low, high = (placed.loc[placed["v"].isin(ids), "offset"] for ids in (second, first))
    return bool(len(low) and len(high) and high.min() > low.min())


_SENT_ORDER = "Jepsen's name for neighbours out of order; `order-inversion` judges the same among all sends of a producer"

EXAMPLES = 20  # of a lawful and frequent anomaly, in each partition


# --------------------------------------------------------------------------------------------------
# order-inversion
# --------------------------------------------------------------------------------------------------
def _explain_inversion(finding: Finding, text: FindingText) -> str:
    first, second = sorted(finding.rows[:2], key=lambda row: row.v)
    return (
        f"{text.writer(first, capital=True)} was sent to {first.partition} before {text.writer(second)}, "
        f"but lies after it (offsets {first.offset} and {second.offset})."
    )


@partition_check(
    "order-inversion",
    together=True,
    occasions=SENDING,
    promise=ORDERED,
    attribution=Attribution.PAIR,
    rules=(
        UNLESS_PRODUCER,
        *cut_off("a record that is gone, and read or acknowledged before, lay higher than its successor does", FINAL_READS),
        ACKED_ALONE,
        Rule(FORBIDDEN, "sequence numbers keep a producer's order in each partition (KIP-98)", {"transactional": "true"}),
        Rule(FORBIDDEN, "sequence numbers keep a producer's order in each partition (KIP-98)", {"idempotence": "true"}),
        Rule(FORBIDDEN, "max.in.flight=1: a send begins after the one before has ended", {"max_in_flight": "1"}),
        Rule(ALLOWED, "without idempotence, retries of several requests in flight may overtake each other"),
    ),
    evidence=ORDER,
    shown_by=stored_backwards,
    damages=(
        SWAP_INSIDE,
        SWAP_ACROSS,
    ),
    explain=_explain_inversion,
    needs="no process sent two records of known place to one partition",
)
def order_inversion(log: PartitionLog) -> CheckResult:
    """Two sends of one process to one partition that are stored the other way round.

    A send has to lie above

    1. under idempotence, so in transactions too, each send that was called before it, also one in flight together with it
       (KIP-98: sequence numbers);
    2. else each send that was acknowledged before it was called.

    A process is one producer instance: its successor after a crash is another process and is not compared with it. Places come
    from acknowledgements and from reads; a record at several places counts at the lowest. A lost record has no place
    (`lost-write`, `stale-read`), nor has one that the complete read_uncommitted final read does not find in the log.

    compared: sends with a predecessor of known place. One cause: the send that lies too low, with the highest predecessor.

    Example::

        ms   process  operation  t-0                      outcome
        0-1  1        txn        send a@7                 committed
        2-3  2        txn        send b@3                 committed
        4-5  1        txn        send c@5                 committed
        6-7  1        txn        send d@6                 committed
        8-9  3        poll       read b@3, c@5, d@6, a@7

    Found: sent c@5 and sent d@6, each below sent a@7. Process 2 is another producer.

    Slow twin: `order_inversions` in tests/support/reference.py.
    """
    known = true_positions((log.place != NONE) & ~log.shared(lost) & ~_cut_off(log)).astype(position_type(len(log.sends)))
    inversions = [_inverted(log, some) for some in _whole_processes(log, known)]
    compared = sum(count for _, _, count in inversions)
    low, high = (np.concatenate([known[:0], *(inversion[side] for inversion in inversions)]) for side in (0, 1))
    if not len(low):
        return CheckResult(compared)
    rows = pair_rows(log, np.r_[low, high], np.r_[low, low])
    return CheckResult(compared, rows | {"time": log.sends.began[np.r_[low, high]]})


def _cut_off(log: PartitionLog) -> Bools:
    """Sends that are in the log no more, by a complete read_uncommitted final read, which returns aborted ones too."""
    if log.settings.deletes or not log.final.uncommitted:
        return np.zeros(len(log.sends), dtype=np.bool_)
    return np.asarray(~log.seen_witness & ~log.seen_final)


def _whole_processes(log: PartitionLog, sends: Ints) -> list[Ints]:
    """Sends (positions, rising: so sorted by process) in parts of about `SLICE`, each process in one part."""
    last = record_ids.process_of(log.sends.v[sends[SLICE - 1 : -1 : SLICE]])  # the processes in which `SLICE` sends more end
    next_process = np.searchsorted(log.sends.v, record_ids.of(last + 1, 0, 0), side="left")
    cuts = distinct(np.searchsorted(sends, next_process, side="left"))
    return np.split(sends, cuts[cuts < len(sends)])


def _inverted(log: PartitionLog, sends: Ints) -> tuple[Ints, Ints, int]:
    """Sends (positions, in the order of process and call) that lie below a predecessor, the highest such predecessor of each,
    and how many sends had a predecessor.

    The predecessors of a send follow one another in an `order` of all sends by process: in that of the calls, those called before
    it; in that of the acknowledgements, those acknowledged before it was called. They begin where its process begins, so the
    highest of them is a maximum over `order` that begins anew with each process.
    """
    process, place = record_ids.process_of(log.sends.v[sends]), log.place[sends]
    if log.settings.pipelined_order:
        order = ends = np.arange(len(sends))  # ends: where the predecessors of each send end in `order`
    else:
        order, ends = _acknowledged_before(log, sends, process)
    number, firsts = _numbered(process)
    candidates = true_positions(ends > np.searchsorted(order, firsts)[number])
    highest = order[_running_highest(place[order], number[order])[ends[candidates] - 1]]
    inverted = place[highest] > place[candidates]
    return sends[candidates[inverted]], sends[highest[inverted]], len(candidates)


def _acknowledged_before(log: PartitionLog, sends: Ints, process: Ints) -> tuple[Ints, Ints]:
    """The acknowledged ones of some sends in the order of process and acknowledgement; and where in that order those of its
    process end that were acknowledged before each send was called.

    Calls and acknowledgements are sorted together. As many acknowledgements as stand before a call, so far its predecessors go;
    of one moment the call comes first.
    """
    began, ended = log.sends.began[sends], log.sends.ended[sends]
    acked = true_positions(log.acked[sends])
    is_ack = np.arange(len(sends) + len(acked)) >= len(sends)
    together = np.lexsort((is_ack, np.r_[began, ended[acked]], np.r_[process, process[acked]]))
    ends = np.empty(len(together), dtype=np.int64)
    ends[together] = np.cumsum(is_ack[together])
    return acked[together[is_ack[together]] - len(sends)], ends[: len(sends)]


def _numbered(groups: Ints) -> tuple[Ints, Ints]:
    """Groups (rising) numbered from 0, and where each begins."""
    begins = np.ones(len(groups), dtype=np.bool_)
    np.not_equal(groups[1:], groups[:-1], out=begins[1:])
    return np.cumsum(begins) - 1, true_positions(begins)


def _running_highest(values: Ints, number: Ints) -> Ints:
    """The place of the highest value so far of each position's group (the first of equal ones). The groups' numbers rise.

    Every value is lifted above all of the groups before its own, so that one running maximum serves all groups.
    """
    if not len(values):
        return values
    span = int(values.max()) + 1
    if (int(number[-1]) + 1) * span > np.iinfo(np.int64).max:
        values = np.unique(values, return_inverse=True)[1]
        span = len(values)
    lifted = values + number * span
    rises = np.ones(len(lifted), dtype=np.bool_)
    np.greater(lifted[1:], np.maximum.accumulate(lifted)[:-1], out=rises[1:])
    return np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))


# --------------------------------------------------------------------------------------------------
# nonmonotonic-send, int-nonmonotonic-send, int-send-skip
# --------------------------------------------------------------------------------------------------
def _neighbours(log: PartitionLog) -> tuple[Any, Any, Any]:
    """Visible sends that follow each other in one process, in the order of their calls; and whether one operation made both.

    Sends are sorted by process, operation and sequence, so each is compared with the next one in the array.
    """
    sent = true_positions(log.shared(visible)).astype(position_type(len(log.sends)))
    same, in_one_operation = (np.empty(max(0, len(sent) - 1), dtype=np.bool_) for _ in range(2))
    for part in slices(len(same)):
        v = log.sends.v[sent[part.start : part.stop + 1]]
        process, operation = record_ids.process_of(v), record_ids.operation_key_of(v)
        same[part], in_one_operation[part] = process[1:] == process[:-1], operation[1:] == operation[:-1]
    return sent[:-1][same], sent[1:][same], in_one_operation[same]


def _descents(log: PartitionLog, same_operation: bool) -> CheckResult:
    """Neighbours of which the later lies at or below the earlier."""
    before, after, in_one_operation = log.shared(_neighbours)
    compared, found = 0, [(after[:0], before[:0])]
    for part in slices(len(before)):
        wanted = in_one_operation[part] == same_operation
        earlier, later = before[part][wanted], after[part][wanted]
        descent = log.place[later] <= log.place[earlier]
        compared += len(later)
        found.append((later[descent], earlier[descent]))
    low, high = map(np.concatenate, zip(*found, strict=True))
    return CheckResult(compared, pair_rows(log, np.r_[low, high], np.r_[low, low]) if len(low) else {})


def _explain_descent(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    if low.op == high.op:
        return f"{text.name(low.op)} sent {high.place} first and {low.place} next, which lies before it."
    later = text.name(low.op, capital=False)
    return f"{text.name(high.op)} sent {high.place}, and {later} sent {low.place} after it, which lies before it."


@partition_check(
    "nonmonotonic-send",
    together=True,
    occasions=SENDING,
    promise=ORDERED,
    rules=(
        UNLESS_PRODUCER,
        Rule(ALLOWED, _SENT_ORDER),
    ),
    evidence=ORDER,
    damages=(SWAP_ACROSS,),
    explain=_explain_descent,
    needs="no process sent to one partition in two operations",
)
def nonmonotonic_send(log: PartitionLog) -> CheckResult:
    """From one operation to the next that sends there, a process's send lies before its predecessor in the version order.

    Jepsen's name; `order-inversion` compares with every earlier send of the process and holds in more cases.

    compared: sends with a predecessor in an earlier operation. One cause: the later send.

    Example::

        ms   process  operation  t-0                      outcome
        0-1  1        txn        send a@7                 committed
        2-3  2        txn        send b@3                 committed
        4-5  1        txn        send c@5                 committed
        6-7  1        txn        send d@6                 committed
        8-9  3        poll       read b@3, c@5, d@6, a@7

    Found: sent a@7 and sent c@5. d lies above its predecessor c.

    Slow twin: `nonmonotonic_sends` in tests/support/reference.py.
    """
    return _descents(log, same_operation=False)


@partition_check(
    "int-nonmonotonic-send",
    together=True,
    occasions=SENDING,
    promise=ORDERED,
    rules=(
        UNLESS_PRODUCER,
        Rule(ALLOWED, _SENT_ORDER),
    ),
    evidence=ORDER,
    damages=(SWAP_INSIDE,),
    explain=_explain_descent,
    needs="no operation sent two records to one partition",
)
def int_nonmonotonic_send(log: PartitionLog) -> CheckResult:
    """Inside one operation, a later send to a partition lies before an earlier one in the version order.

    Jepsen's name; see `order-inversion`.

    compared: sends with a predecessor in the same operation. One cause: the later send.

    Example::

        ms   process  operation  t-0                 outcome
        0-1  1        txn        send a@7, b@5       committed
        2-3  1        txn        send c@8, d@9       committed
        4-5  2        txn        send e@3            committed
        6-7  3        poll       read e@3, b@5, a@7
        8-9  3        poll       read c@8, d@9

    Found: sent a@7 and sent b@5.

    Slow twin: `int_nonmonotonic_sends` in tests/support/reference.py.
    """
    return _descents(log, same_operation=True)


def _numbered_places(log: PartitionLog) -> Any:
    """The places of visible sends, numbered from 0 in their order: an entry for every send, of the others 0."""
    sent = log.in_place_order(log.shared(visible))
    number = np.zeros(len(log.sends), dtype=sent.dtype)
    reached = 0
    for part in slices(max(0, len(sent) - 1)):
        numbers = np.cumsum(np.diff(log.place[sent[part.start : part.stop + 1]]) > 0, dtype=sent.dtype)
        numbers += reached
        number[sent[part.start + 1 : part.stop + 1]] = numbers
        reached = int(numbers[-1])
    return number


def _first_in_each(log: PartitionLog, ops: Any) -> Any:
    """The first examples of each partition among some sends, of which these are the operations."""
    if log.parts is None:
        return slice(EXAMPLES)
    number = log.parts.numbers(ops)
    return np.arange(len(number)) - np.searchsorted(number, number) < EXAMPLES


def _explain_send_skip(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    return f"{text.name(low.op)} sent {low.place} and next {high.place}; other producers' records lie between them."


@partition_check(
    "int-send-skip",
    together=True,
    occasions=SENDING,
    promise=ORDERED,
    rules=(
        UNLESS_PRODUCER,
        Rule(ALLOWED, "transactions share partitions: others' records may lie between two of one's own"),
    ),
    evidence=ORDER,
    damages=(scheduled("int-send-skip", ("G0",)),),
    explain=_explain_send_skip,
    needs="no operation sent two records to one partition",
)
def int_send_skip(log: PartitionLog) -> CheckResult:
    """Inside one operation, other visible records lie between two consecutive sends to one partition. Lawful, and frequent.

    Only the first examples of a partition are kept; the reason says how many more there were.

    compared: sends with a predecessor in the same operation. One cause: the later send.

    Example::

        ms     process  operation  t-0                            outcome
        0-9    1        txn        send a@5, b@7                  committed
        2-3    2        txn        send c@6                       committed
        4-9    3        txn        send d@8, e@10                 committed
        5-6    2        txn        send f@9                       aborted
        10-11  4        poll       read a@5, c@6, b@7, d@8, e@10

    Found: sent a@5 and sent b@7, around c. Between d and e lies an aborted record only.

    Slow twin: `int_send_skips` in tests/support/reference.py.
    """
    before, after, same_operation = log.shared(_neighbours)
    inside = true_positions(same_operation)
    before, after = before[inside], after[inside]
    number = _numbered_places(log)
    skips = true_positions(number[after] - number[before] > 1)  # some visible record lies between the two
    examples = skips[_first_in_each(log, log.sends.op[after[skips]])]
    low, high = before[examples], after[examples]
    rows = pair_rows(log, np.r_[low, high], np.r_[high, high]) if len(examples) else {}
    return CheckResult(len(after), rows, more=len(skips) - len(examples))
