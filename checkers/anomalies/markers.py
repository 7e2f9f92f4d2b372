"""Markers that end transactions in the partitions' logs, beside what the coordinators logged (KIP-98, KIP-890).

Each docstring is the definition of its anomaly. Coordinators log their decision before they write markers, and that all are
written after them; what they logged: `checkers.pipeline.coordinator_log`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import DECIDING
from fencepost.checkers.contract.common_rules import (
    ABORTED_IN_PART,
    COORDINATOR_CUT_OFF,
    MARKERS_CUT_OFF,
    MARKERS_DELETED,
    UNLESS_DECIDED,
    UNLESS_TRANSACTIONAL,
    UNSURE_DECISIONS,
)
from fencepost.checkers.contract.needs import LOGS, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.pipeline.coordinator_log import CoordinatorLog, coordinator_log
from fencepost.checkers.pipeline.instances import NO_INSTANCES, instances
from fencepost.checkers.pipeline.marker_alignment import Aligned, Markers, align, data_groups, markers
from fencepost.checkers.pipeline.sent_here import sent_here, sent_rows
from fencepost.checkers.pipeline.stored_findings import Found, explained_by, found_by
from fencepost.checkers.pipeline.stored_logs import (
    ABORT,
    COMMIT,
    DATA,
    StoredLogs,
    StoredRows,
    joined,
    may_be_compacted,
    operations_of,
    stored_logs,
)
from fencepost.checkers.selfcheck.fencing_damages import OVERTAKEN
from fencepost.checkers.selfcheck.log_damages import DELAY, LOSE_MARKER, SPLIT, TURN
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import ATOMIC, FENCED, LIVE

WORDS = {COMMIT: "COMMIT", ABORT: "ABORT"}
NO_LATER = "no marker ended a transaction whose transactional id was initialised again later"
NO_MARKERS = "the logs have no marker of a transaction that its coordinator decided"
EVIDENCE = Needs({LOGS}, "what is missing of the logs may have shown it")


def _logs(run: RunView) -> tuple[StoredLogs, CoordinatorLog]:
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    return logs, run.shared(coordinator_log)


def markers_of(run: RunView) -> Markers:
    """The markers and decisions of a run."""
    return markers(*_logs(run))


def aligned_markers(run: RunView) -> Aligned:
    """Those that do not match."""
    logs, coordinators = _logs(run)
    gone = np.array(may_be_compacted(run, logs), dtype=np.bool_) | logs.lacking
    return align(logs, coordinators, run.shared(markers_of), gone.tolist())


# --------------------------------------------------------------------------------------------------
# wrong-marker
# --------------------------------------------------------------------------------------------------
def wrong_markers(run: RunView) -> Found:
    """Markers of another kind than the decision, of no decision, or once more without a reason; and those that are missing."""
    logs, coordinators = _logs(run)
    some, aligned = run.shared(markers_of), run.shared(aligned_markers)
    rows, sentences = [some.rows.take(slice(0, 0))], []
    known: set[int] = set()
    for at, transaction in aligned.other:
        known.add(at)
        rows.append(some.rows.take(slice(at, at + 1)))
        sentences.append(f"{_marker(logs, some.rows, at)}, but it ends {coordinators.text(transaction)}")
    for at in aligned.surplus:
        if some.rows.timestamp[at] <= coordinators.states.updated.max(
            initial=NONE
        ):  # later ones were decided after that was read
            known.add(at)
            rows.append(some.rows.take(slice(at, at + 1)))
            sentences.append(f"{_marker(logs, some.rows, at)}, and no coordinator logged a decision for it")
    for at in aligned.repeated:
        if run.faults is not None and not run.faults and _alike(some.rows, at):
            rows.append(some.rows.take(slice(at, at + 1)))
            sentences.append(f"{_marker(logs, some.rows, at)}, which repeats the one before although nothing failed")
    stale = _of_replaced_coordinators(some.rows) if run.contract["producer_expiry"] == "none" else {}
    for at, before in sorted(stale.items()):
        if at not in known:
            rows.append(some.rows.take(slice(at, at + 1)))
            epoch, earlier = some.rows.coordinator_epoch[at], some.rows.coordinator_epoch[before]
            sentences.append(
                f"{_marker(logs, some.rows, at)}, of coordinator epoch {epoch}, behind a marker of coordinator epoch {earlier} "
                f"at offset {some.rows.offset[before]}: its coordinator had been replaced"
            )
    for transaction, partition in aligned.missing:
        rows.append(_place(coordinators, transaction, partition))
        sentences.append(
            f"In {coordinators.partitions[partition]} there is no marker for {coordinators.text(transaction)}, although it "
            "logged that all were written"
        )
    return Found(len(some.transaction), joined(rows), sentences, lacking=coordinators.lacking or NO_MARKERS)


def _of_replaced_coordinators(rows: StoredRows) -> dict[int, int]:
    """Markers of a lower coordinator epoch than an earlier one of their producer id in the partition, each with the last one of
    the highest epoch before it.
    """
    latest: dict[tuple[int, int], int] = {}
    found = {}
    for at in np.lexsort((rows.offset, rows.producer_id, rows.partition)).tolist():
        key, epoch = (int(rows.partition[at]), int(rows.producer_id[at])), rows.coordinator_epoch[at]
        before = latest.get(key)
        if before is None or epoch >= rows.coordinator_epoch[before]:
            latest[key] = at
        elif epoch >= 0:
            found[at] = before
    return found


def _marker(logs: StoredLogs, rows: StoredRows, at: int) -> str:
    partition, offset, kind = logs.partitions[rows.partition[at]], rows.offset[at], WORDS[int(rows.kind[at])]
    return f"{partition}@{offset} is {kind} for producer id {rows.producer_id[at]} in epoch {rows.producer_epoch[at]}"


def _alike(rows: StoredRows, at: int) -> bool:
    """True if all markers of one kind around this one, of one producer id and epoch in a partition, come from the same epochs of
    coordinator and leader: neither had to begin anew.
    """
    names = ("partition", "producer_id", "producer_epoch", "kind")
    differs = np.flatnonzero(sum((np.diff(getattr(rows, name)) != 0 for name in names), np.zeros(len(rows) - 1, dtype=np.bool_)))
    first = int(differs[differs < at].max(initial=-1)) + 1
    last = int(differs[differs >= at].min(initial=len(rows) - 1)) + 1
    return all(len(np.unique(getattr(rows, name)[first:last])) == 1 for name in ("coordinator_epoch", "leader_epoch"))


def _place(coordinators: CoordinatorLog, transaction: int, partition: int) -> StoredRows:
    """A row that stands for a marker that is not there, at the time of its decision."""
    row = coordinators.states.rows.take(slice(0, 1))
    producer, epoch = coordinators.transactions.producer_id[transaction], coordinators.transactions.epoch[transaction]
    decided = coordinators.states.updated[coordinators.transactions.state[transaction]]
    place = {"partition": partition, "offset": NONE, "timestamp": decided}
    place |= {"producer_id": producer, "producer_epoch": epoch, "v": NONE}
    columns: dict[str, Any] = {name: np.array([value], dtype=np.int64) for name, value in place.items()}
    return replace(row, **columns)


@run_check(
    "wrong-marker",
    promise=ATOMIC,
    consequences=("mixed-markers",),
    rules=(
        UNLESS_DECIDED,
        *UNSURE_DECISIONS,
        Rule(
            FORBIDDEN, "a coordinator writes what it has decided to each partition of the transaction, and nothing else (KIP-98)"
        ),
    ),
    evidence=EVIDENCE,
    occasions=DECIDING,
    damages=(TURN, LOSE_MARKER),
    explain=explained_by(wrong_markers),
    across=True,
    needs=NO_MARKERS,
)
def wrong_marker(run: RunView) -> CheckResult:
    """The marker of a transaction in a partition is not what its coordinator had decided.

    1. It is of the other kind than the decision that the coordinator logged (`PrepareCommit`, `PrepareAbort`).
    2. No coordinator logged a decision for it.
    3. A partition has none, although the coordinator logged that all were written (`CompleteCommit`, `CompleteAbort`).
    4. It is there once more in a run without faults, in which no broker or proxy ended by itself either, by the same epochs of
       coordinator and leader. Otherwise a coordinator that fails over, or gets no answer, lawfully writes it again.
    5. A marker of its producer id with a higher coordinator epoch lies before it in the partition: leaders refuse a coordinator
       that was replaced. Not compared where leaders forget producers (`producer_expiry`).

    A marker and its decision have the same producer id and epoch; of several with the first protocol (KIP-98) they follow each
    other in both logs. Judged where the coordinator's log is whole. What compaction or retention may have taken is not missing.

    compared: decisions, once for each partition that has a log. One cause: the producer id.
    """
    return found_by(wrong_markers)(run)


# --------------------------------------------------------------------------------------------------
# record-after-marker
# --------------------------------------------------------------------------------------------------
def late_records(run: RunView) -> Found:
    """The first records behind a marker that belong to no transaction which its coordinator had begun there anew."""
    logs, coordinators = _logs(run)
    rows = logs.of_longest
    known = np.unique(coordinators.states.producer_id)
    own = rows.transactional & ((rows.kind == DATA) | np.isin(rows.kind, (COMMIT, ABORT))) & np.isin(rows.producer_id, known)
    rows = rows.take(own)
    rows = rows.take(np.lexsort((rows.offset, rows.producer_id, rows.partition)))
    groups = data_groups(rows)
    late = np.zeros(len(rows), dtype=np.bool_)
    late[_more_than_begun(coordinators, rows, groups)] = True
    late[_split(run, rows)] = True
    found = rows.take(late)
    sentences = [
        f"{logs.partitions[found.partition[at]]}@{found.offset[at]} was written by producer id {found.producer_id[at]} in epoch "
        f"{found.producer_epoch[at]} behind the marker of its transaction, and its coordinator had not begun another one there"
        for at in range(len(found))
    ]
    return Found(len(groups), found, sentences, lacking=coordinators.lacking or NO_MARKERS)


def _more_than_begun(coordinators: CoordinatorLog, rows: StoredRows, groups: Ints) -> Ints:
    """The last groups of records of a partition, producer id and epoch that has more of them than transactions were begun."""
    transactions = coordinators.transactions
    owner, partition = coordinators.pairs
    begun = np.stack([partition, transactions.producer_id[owner], transactions.begun_epoch[owner]], axis=1)
    written = np.stack([rows.partition[groups], rows.producer_id[groups], rows.producer_epoch[groups]], axis=1)
    keys, of = np.unique(np.concatenate([written, begun]), axis=0, return_inverse=True)
    of = of.reshape(-1)
    allowed = np.bincount(of[len(groups) :], minlength=len(keys))
    own = of[: len(groups)]
    order = np.argsort(own, kind="stable")
    rank = np.empty(len(own), dtype=np.int64)
    rank[order] = np.arange(len(own)) - np.searchsorted(own[order], own[order])
    return groups[rank >= allowed[own]]


def _split(run: RunView, rows: StoredRows) -> Ints:
    """Records of an operation behind a marker of their producer id that lies behind another record of the operation, in the same
    epoch: an application that runs a transaction again sends its records in a later one. rows: in the order of (partition,
    producer id, offset).
    """
    data = np.flatnonzero((rows.kind == DATA) & (rows.v >= 0) & sent_rows(run, rows))
    op = operations_of(run, rows.v[data])
    passed = np.cumsum(np.isin(rows.kind, (COMMIT, ABORT)))[data]
    key = np.stack([rows.partition[data], rows.producer_id[data], rows.producer_epoch[data], op])
    order = np.lexsort((rows.offset[data], *key[::-1]))
    same = (np.diff(key[:, order], axis=1) == 0).all(axis=0) & (op[order][1:] != NONE)
    behind = same & (np.diff(passed[order]) > 0)
    found: Ints = data[order[1:][behind]]
    return found


@run_check(
    "record-after-marker",
    promise=ATOMIC,
    consequences=("mixed-markers",),
    rules=(
        UNLESS_DECIDED,
        *UNSURE_DECISIONS,
        Rule(
            FORBIDDEN, "a leader takes records of a transaction only while it is under way for its coordinator (KIP-98, KIP-890)"
        ),
    ),
    evidence=EVIDENCE,
    occasions=DECIDING,
    damages=(SPLIT,),
    explain=explained_by(late_records),
    gather=sent_here,
    across=True,
    needs=NO_MARKERS,
)
def record_after_marker(run: RunView) -> CheckResult:
    """A record of a transaction lies behind the marker that ended it in the partition, and no other transaction was begun there.

    1. The records of a producer id and epoch lie in more stretches, divided by its markers, than transactions with that
       partition were begun by what the coordinator logged.
    2. A marker lies between two records that one transaction of a client sent to the partition in one epoch.

    With the second protocol (KIP-890) a marker raises the epoch, and such a record is an `epoch-regression` too.

    compared: stretches of transactional records between markers of their producer id. One cause: the producer id.
    """
    return found_by(late_records)(run)


# --------------------------------------------------------------------------------------------------
# late-marker
# --------------------------------------------------------------------------------------------------
def late_markers(run: RunView) -> Found:
    """Markers of transactions that were older than an instance that had initialised, behind records that were sent after that."""
    logs, _ = _logs(run)
    rows = logs.of_longest
    ready = _next_ready(run, rows)
    latest = _latest_begin(run, rows)
    comparable = (ready != FOREVER) & np.isin(rows.kind, (COMMIT, ABORT))
    found = rows.take(comparable & (latest > ready))
    sentences = [
        f"{_marker(logs, found, at)}, and lies behind a record that was sent after a later instance of its transactional id had "
        "initialised"
        for at in range(len(found))
    ]
    return Found(int(comparable.sum()), found, sentences, lacking=NO_LATER if len(run.shared(instances)) else NO_INSTANCES)


def _next_ready(run: RunView, rows: StoredRows) -> Ints:
    """When the first later instance of its transactional id had initialised, for each marker (ns; FOREVER: none had, or nobody
    knows whose transaction it ends).

    A marker ends the transaction of the records of its producer id, in its epoch or an earlier one, that no marker before it
    ended. The epochs of an instance say nothing of when it initialised: a client raises its epoch without that.
    """
    ready = np.full(len(rows), FOREVER, dtype=np.int64)
    own = np.flatnonzero((rows.producer_id >= 0) & np.isin(rows.kind, (DATA, COMMIT, ABORT)))
    keys = np.stack([rows.partition[own], rows.producer_id[own]])
    own = own[np.lexsort((rows.offset[own], rows.producer_epoch[own], *keys[::-1]))]
    if not len(own):
        return ready
    marker = rows.kind[own] != DATA
    begins = np.ones(len(own), dtype=np.bool_)
    begins[1:] = marker[:-1] | (np.diff(rows.partition[own]) != 0) | (np.diff(rows.producer_id[own]) != 0)
    starts = np.flatnonzero(begins)
    whose = _instances_of(run, rows)[own]
    first = np.minimum.reduceat(np.where(marker, FOREVER, whose), starts)
    last = np.maximum.reduceat(np.where(marker, NONE, whose), starts)
    ends = np.append(starts[1:], len(own)) - 1
    known = marker[ends] & (first == last) & (last != NONE)
    ready[own[ends[known]]] = _following(run)[last[known]]
    return ready


def _instances_of(run: RunView, rows: StoredRows) -> Ints:
    """The instance (position in `instances`) that sent each record; NONE: not known, or a marker."""
    overview = run.overview
    found = np.full(len(rows), NONE, dtype=np.int64)
    data = np.flatnonzero((rows.kind == DATA) & (rows.v >= 0) & (rows.producer_id >= 0) & sent_rows(run, rows))
    op = operations_of(run, rows.v[data])
    data, op = data[op != NONE], op[op != NONE]
    if len(op):
        found[data] = run.shared(instances).at(overview.process[overview.at(op)], op)
    return found


def _following(run: RunView) -> Ints:
    """When the first instance that began to initialise after each one had done so was ready (ns; FOREVER: none, or not known)."""
    known = run.shared(instances)
    following = np.full(len(known), FOREVER, dtype=np.int64)
    for ident in np.unique(known.ident):
        same = np.flatnonzero((known.ident == ident) & (known.ready != NONE))
        same = same[np.argsort(known.began[same], kind="stable")]
        soonest = np.append(np.minimum.accumulate(known.ready[same][::-1])[::-1], FOREVER)
        later = np.searchsorted(known.began[same], known.ready[same])
        following[same] = soonest[np.maximum(later, 1 + np.arange(len(same)))]  # not itself, where that took no time
    return following


def _latest_begin(run: RunView, rows: StoredRows) -> Ints:
    """The latest beginning of an operation of which a record lies before each row in its log (ns; NONE: of none)."""
    overview = run.overview
    op = operations_of(run, rows.v)
    began = np.full(len(rows), NONE, dtype=np.int64)
    known = (op != NONE) & (rows.kind == DATA)
    began[known] = overview.time[overview.at(op[known])]
    latest = np.empty(len(rows), dtype=np.int64)
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(rows.partition) != 0) + 1, [len(rows)]])
    for start, stop in pairwise(bounds.tolist()):
        latest[start:stop] = np.maximum.accumulate(began[start:stop])
    return latest


@run_check(
    "late-marker",
    promise=FENCED,
    rules=(
        UNLESS_TRANSACTIONAL,
        MARKERS_DELETED,
        ABORTED_IN_PART,
        *MARKERS_CUT_OFF,
        *COORDINATOR_CUT_OFF,
        Rule(
            FORBIDDEN,
            "an instance has initialised only when the transaction of the one before has ended in all partitions (KIP-98)",
        ),
    ),
    evidence=Needs(
        {LOGS, SENDS, OUTCOMES}, "who is missing may have initialised, or sent what lies before the marker", {SENDS, OUTCOMES}
    ),
    damages=(OVERTAKEN,),
    occasions=(Occasion.PRODUCER_FENCED,),
    explain=explained_by(late_markers),
    gather=sent_here,
    across=True,
    needs=NO_INSTANCES,
)
def late_marker(run: RunView) -> CheckResult:
    """A marker of an older transaction of a transactional id was written after a later instance of the id had initialised.

    The transaction is that of the records before the marker that no other marker had ended, and the later instance one that
    began to initialise when the transaction's own had done so. That the marker was written after the later `initialise` had
    returned is shown by the log alone: it lies behind a record of an operation that began after that, whoever's it is.

    compared: markers of transactions of which the history knows a later instance. One cause: the producer id.
    """
    return found_by(late_markers)(run)


# --------------------------------------------------------------------------------------------------
# delayed-marker
# --------------------------------------------------------------------------------------------------
DELAY_MS, OCCASION_MS = 10_000, 1_000
NO_DELAY = "no transaction had to wait for a partition: all markers of each were written within a second"


def delayed_markers(run: RunView) -> Found:
    """Markers that came long after their decision to a partition that had taken a marker of a later decision meanwhile."""
    logs, coordinators = _logs(run)
    some, aligned = run.shared(markers_of), run.shared(aligned_markers)
    if aligned.other or aligned.surplus or aligned.missing or aligned.repeated:
        some = _without_repeated(some, aligned)
    if len(some.rows) != len(some.transaction):
        return Found(
            0, some.rows.take(slice(0, 0)), lacking="markers and decisions are not as many, so none is known to be delayed"
        )
    rows, states = some.rows, coordinators.states
    decided = states.updated[coordinators.transactions.state[some.transaction]]
    home, place = (
        getattr(states.rows, name)[coordinators.transactions.state[some.transaction]] for name in ("partition", "offset")
    )
    waited = _occasions(some.transaction, rows.timestamp, decided)
    slack = DELAY_MS + int(1000 * (run.clock_error_s or 0.0))
    late = waited & (_overtaken_ms(rows, home, place) > slack) & (run.clock_error_s is not None)
    found = rows.take(late)
    sentences = [
        f"{_marker(logs, found, at)}, written {DELAY_MS / 1000:.0f} s or more after the leader had taken a marker that the same "
        "coordinator decided on later, while another partition of the transaction was waited for"
        for at in range(len(found))
    ]
    return Found(int(waited.sum()), found, sentences, lacking=coordinators.lacking or NO_DELAY)


def _without_repeated(some: Markers, aligned: Aligned) -> Markers:
    stays = np.ones(len(some.rows), dtype=np.bool_)
    stays[aligned.repeated] = False
    return replace(some, rows=some.rows.take(stays))


def _occasions(transaction: Ints, written: Ints, decided: Ints) -> Bools:
    """True for each marker of a transaction with another marker that was written over a second after the decision."""
    order = np.argsort(transaction, kind="stable")
    late = (written - decided > OCCASION_MS)[order]
    starts = np.flatnonzero(np.diff(transaction[order], prepend=-1) != 0)
    sizes = np.diff(np.append(starts, len(order)))
    occasions = np.zeros(len(order), dtype=np.bool_)
    if len(order):
        counts = np.repeat(np.add.reduceat(late.astype(np.int64), starts), sizes)
        occasions[order] = counts > late
    return occasions


def _overtaken_ms(rows: StoredRows, home: Ints, place: Ints) -> Ints:
    """How long before each marker its leader had written one that the same coordinator decided on later, in the same epochs
    (ms; 0: it had not). rows: the markers of a partition in any order. place: where each decision lies in the coordinator's log,
    which no clock turns.
    """
    key = np.stack([rows.partition, rows.leader_epoch, home, rows.coordinator_epoch])
    order = np.lexsort((rows.offset, *key[::-1]))
    overtaken = np.zeros(len(rows), dtype=np.int64)
    bounds = np.flatnonzero((np.diff(key[:, order], axis=1) != 0).any(axis=0)) + 1
    for group in np.split(order, bounds):
        latest = np.maximum.accumulate(place[group])
        for at in np.flatnonzero(latest > place[group]).tolist():
            before = np.flatnonzero(place[group[:at]] > place[group[at]])
            overtaken[group[at]] = rows.timestamp[group[at]] - rows.timestamp[group[before[0]]]
    return overtaken


@run_check(
    "delayed-marker",
    promise=LIVE,
    rules=(
        UNLESS_DECIDED,
        *UNSURE_DECISIONS,
        Rule(FORBIDDEN, "a partition that cannot be reached delays its own readers only: the others get their markers (KIP-98)"),
    ),
    evidence=EVIDENCE,
    occasions=DECIDING,
    damages=(DELAY,),
    explain=explained_by(delayed_markers),
    across=True,
    needs=NO_DELAY,
)
def delayed_marker(run: RunView) -> CheckResult:
    """A partition got a transaction's marker late although it could be reached: only another partition of the transaction could
    not.

    In its log, 10 s or more before the marker, lies one of another transaction that the same coordinator decided on later,
    written in the same leader epoch and coordinator epoch. The last stable offset, and with it the readers at read_committed,
    had to wait. Times are the leader's; what faults did to clocks is added to the bound, and where nobody knows what they did
    nothing is found.

    compared: markers of transactions of which another marker was written over a second after the decision. One cause: the
    producer id.
    """
    return found_by(delayed_markers)(run)
