"""What transaction coordinators logged (`__transaction_state`): the states of each transactional id, and what clients were told.

Each docstring is the definition of its anomaly (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import DECIDING
from fencepost.checkers.contract.common_rules import (
    COORDINATOR_CUT_OFF,
    DECISIONS_CUT_OFF,
    UNLESS_DECIDED,
    UNLESS_TRANSACTIONAL,
    cut_off,
)
from fencepost.checkers.contract.needs import LOGS, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import ABORTED, COMMITTED, NONE
from fencepost.checkers.pipeline.coordinator_log import CoordinatorLog, States, coordinator_log
from fencepost.checkers.pipeline.sent_here import sent_here, sent_rows
from fencepost.checkers.pipeline.stored_findings import Found, explained_by, found_by
from fencepost.checkers.pipeline.stored_logs import (
    ABORT,
    COMMIT,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DATA,
    DEAD,
    EMPTY,
    FENCE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    REMOVED,
    STATES,
    StoredLogs,
    StoredRows,
    joined,
    operations_of,
    stored_logs,
)
from fencepost.checkers.selfcheck.log_damages import FORGET, SKIP_STATE, UNLOG
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.promises import ACKNOWLEDGED, ATOMIC

AGAIN = (EMPTY, ONGOING, PREPARE_ABORT, REMOVED, DEAD)  # what follows where no transaction is open; the abort by KIP-890 only
LAWFUL: Mapping[int, tuple[int, ...]] = {
    EMPTY: AGAIN,
    ONGOING: (ONGOING, PREPARE_COMMIT, PREPARE_ABORT, FENCE),
    PREPARE_COMMIT: (PREPARE_COMMIT, COMPLETE_COMMIT),
    PREPARE_ABORT: (PREPARE_ABORT, COMPLETE_ABORT),
    COMPLETE_COMMIT: (COMPLETE_COMMIT, *AGAIN),
    COMPLETE_ABORT: (COMPLETE_ABORT, *AGAIN),
    DEAD: (DEAD, REMOVED),
    FENCE: (FENCE, PREPARE_ABORT),
    REMOVED: (REMOVED, EMPTY),
}
LAST_EPOCH = (1 << 15) - 2  # of a producer id, at which a coordinator gives another one; a fence raises it by one more
FOLLOWS = "must not follow {state}"
LACKS = "lacks partitions of the transaction"
NO_STEPS = "no transactional id has two records in the coordinators' logs"
NO_ANSWERS = "no transaction that was acknowledged as committed or aborted has a record in the logs"
EVIDENCE = Needs({LOGS}, "what is missing of the logs may have shown it")
CUT_OFF = cut_off("the coordinator may forget what it had logged")


@cache
def _lawful() -> Bools:
    table = np.zeros((len(STATES), len(STATES)), dtype=np.bool_)
    for before, after in LAWFUL.items():
        table[before, list(after)] = True
    return table


# --------------------------------------------------------------------------------------------------
# unlawful-state
# --------------------------------------------------------------------------------------------------
def unlawful_states(run: RunView) -> Found:
    """Records that must not follow the one before of their transactional id, each with the first reason."""
    coordinators = run.shared(coordinator_log)
    states = coordinators.states
    reasons = _reasons(states)
    for reason in (LACKS, FOLLOWS):
        reasons[reason] = _with_consequence(run, states, reasons[reason])
    wrong = np.zeros(len(states), dtype=np.bool_)
    for which in reasons.values():
        wrong |= which
    rows = replace(states.rows, producer_id=states.producer_id)
    sentences = [
        _sentence(coordinators, at, next(text for text, which in reasons.items() if which[at]))
        for at in np.flatnonzero(wrong).tolist()
    ]
    return Found(int((~states.first).sum()), rows.take(wrong), sentences, lacking=coordinators.lacking or NO_STEPS)


def _reasons(states: States) -> dict[str, Bools]:
    """What is wrong with records, in words with the record before -> which ones."""
    follows = ~states.first
    before = np.maximum(np.arange(len(states)) - 1, 0)
    now, then = states.state, states.state[before]
    lawful = _lawful()[then, now] if len(states) else follows
    same_id = states.producer_id == states.producer_id[before]
    open_now = np.isin(now, (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)) & np.isin(then, (ONGOING, PREPARE_COMMIT, PREPARE_ABORT))
    given = np.isin(now, (COMPLETE_COMMIT, COMPLETE_ABORT)) & (states.producer_id == states.next_producer_id[before])
    changed = follows & ~same_id & ~np.isin(now, (EMPTY, REMOVED)) & (then != REMOVED) & ~given
    last = _last_known(states)
    other = (now == EMPTY) & follows & (then != REMOVED) & ~same_id
    anew = (states.producer_id >= 0) & (states.first | (states.producer_id != states.producer_id[last]))
    lost, added = _partitions_lost(states), np.diff(states.bounds) > np.diff(states.bounds)[before]
    deciding = follows & (then == ONGOING) & np.isin(now, (PREPARE_COMMIT, PREPARE_ABORT))
    return {
        "is the first record of its transactional id": states.first & ~np.isin(now, (EMPTY, REMOVED)),
        "the id was forgotten while a transaction was open": follows & (now == REMOVED) & ~lawful,
        FOLLOWS: follows & ~lawful,
        "has a lower epoch than {epoch}, which it had before": ~states.first
        & (states.producer_id == states.producer_id[last])
        & (states.producer_id >= 0)
        & (states.producer_epoch < states.producer_epoch[last]),
        "changes the producer id {producer} in the middle of a transaction": changed,
        "returns to a producer id that the id had before {producer}": _returned(states),
        "changes the producer id {producer}, whose epochs were not exhausted": other & ~_exhausted(states),
        "begins a producer id with an epoch that is not 0": anew & (states.producer_epoch != 0),
        "changes the epoch {epoch} of a transaction that is under way": follows
        & same_id
        & open_now
        & (now == ONGOING)
        & (states.producer_epoch != states.producer_epoch[before]),
        LACKS: lost & lawful,
        "has partitions that were not in the transaction": deciding & added & lawful,
    }


def _last_known(states: States) -> Ints:
    """For each record the position of the last one before it of its id that is no removal; itself where there is none."""
    own = np.arange(len(states))
    last = np.where(states.state == REMOVED, 0, own + 1)
    last[1:], last[:1] = np.maximum.accumulate(last)[:-1], 0
    begin = np.maximum.accumulate(np.where(states.first, own, 0))
    return np.where(last > begin, last - 1, own)


def _exhausted(states: States) -> Bools:
    """True for each record before which its id had an epoch after which another producer id has to be given."""
    ident = np.cumsum(states.first)
    passed = np.maximum.accumulate(np.where(states.producer_epoch >= LAST_EPOCH, ident, 0))
    exhausted = np.zeros(len(states), dtype=np.bool_)
    exhausted[1:] = passed[:-1] == ident[1:]
    return exhausted


def _returned(states: States) -> Bools:
    """True for each record with a producer id that its id had before and had left."""
    new = states.first | (np.diff(states.producer_id, prepend=NONE) != 0)
    starts = np.flatnonzero(new & (states.producer_id >= 0))
    order = starts[np.lexsort((starts, states.producer_id[starts], states.ident[starts]))]
    again = np.zeros(len(states), dtype=np.bool_)
    same = (np.diff(states.producer_id[order]) == 0) & (np.diff(states.ident[order]) == 0)
    again[order[1:][same]] = True
    left: Bools = np.roll(states.state, 1) != REMOVED
    return again & left


def _partitions_lost(states: States) -> Bools:
    """True for each record of an open transaction without a partition of the record before."""
    sizes = np.diff(states.bounds)
    owner = np.repeat(np.arange(len(states)), sizes)
    width = int(states.listed.max(initial=0)) + 1
    there = owner * width + states.listed
    within = (states.state == ONGOING)[owner] & (owner + 1 < len(states))
    following = owner[within] + 1
    continues = ~states.first[following] & np.isin(states.state[following], (ONGOING, PREPARE_COMMIT, PREPARE_ABORT))
    wanted = following[continues] * width + states.listed[within][continues]
    lost = np.zeros(len(states), dtype=np.bool_)
    lost[wanted[~np.isin(wanted, there)] // width] = True
    return lost


def _with_consequence(run: RunView, states: States, wrong: Bools) -> Bools:
    """Those of some records that are no steps of a coordinator which had taken the record before them back.

    A coordinator that could not replicate a record in time has logged it all the same: it answers with an error, and goes on with
    what it had. Of an addition taken back no record lies in its partitions, of a decision taken back there is no marker: a
    producer sends nothing without an answer, and markers follow an answer. By the times of producers, leaders and coordinators;
    where nobody knows how wrong clocks were, all are taken for such steps.
    """
    kept: Bools = np.array(wrong)
    for at in np.flatnonzero(wrong).tolist():
        then, now = int(states.state[at - 1]), int(states.state[at])
        if then == ONGOING and now in (ONGOING, EMPTY, PREPARE_COMMIT, PREPARE_ABORT):
            begin = at - 1
            while not states.first[begin] and states.state[begin] == ONGOING:
                begin -= 1
            since = NONE if states.state[begin] == ONGOING else int(states.updated[begin])
            gone = np.setdiff1d(_listed(states, at - 1), _listed(states, at))
            kept[at] = _written(run, states, at, (DATA,), gone, since)
        elif {then, now} == {PREPARE_COMMIT, PREPARE_ABORT}:
            kind = COMMIT if then == PREPARE_COMMIT else ABORT
            kept[at] = _written(run, states, at, (kind,), _listed(states, at - 1), int(states.updated[at - 1]))
    return kept


def _written(run: RunView, states: States, at: int, kinds: tuple[int, ...], partitions: Ints, since: int) -> bool:
    """True if a row of one of these kinds, of a record's producer, lies in some partitions, surely of that time."""
    if run.clock_error_s is None:
        return False
    logs, slack = run.shared(stored_logs), int(1000 * run.clock_error_s)
    assert isinstance(logs, StoredLogs)
    rows = logs.of_longest
    own = np.isin(rows.kind, kinds) & (rows.producer_id == states.producer_id[at]) & np.isin(rows.partition, partitions)
    return bool((own & (rows.timestamp >= since + slack) & (rows.timestamp <= states.updated[at] - slack)).any())


def _listed(states: States, at: int) -> Ints:
    """The partitions of a record."""
    return states.listed[states.bounds[at] : states.bounds[at + 1]]


def _sentence(coordinators: CoordinatorLog, at: int, reason: str) -> str:
    states, before = coordinators.states, max(at - 1, 0)
    place = f"{coordinators.partitions[states.rows.partition[at]]}@{states.rows.offset[at]}"
    producer = f"producer id {states.producer_id[at]} in epoch {states.producer_epoch[at]}"
    of = f"({STATES[states.state[at]]} of {states.names[states.ident[at]]}, {producer})"
    words = {
        "state": STATES[states.state[before]],
        "epoch": states.producer_epoch[_last_known(states)[at]],
        "producer": states.producer_id[before],
    }
    return f"{place} {of}: {'it ' if not reason.startswith('the id') else ''}{reason.format(**words)}"


@run_check(
    "unlawful-state",
    promise=ATOMIC,
    rules=(
        UNLESS_DECIDED,
        *CUT_OFF,
        *DECISIONS_CUT_OFF,
        Rule(
            FORBIDDEN,
            "a coordinator logs each state of a transaction after the one before, and none twice over (KIP-98, KIP-890)",
        ),
    ),
    evidence=EVIDENCE,
    occasions=DECIDING,
    damages=(SKIP_STATE, FORGET),
    explain=explained_by(unlawful_states),
    across=True,
    needs=NO_STEPS,
)
def unlawful_state(run: RunView) -> CheckResult:
    """In the log of a transaction coordinator, a record must not follow the one before of the same transactional id.

    1. The states: `Empty`; `Ongoing` as often as partitions are added; `PrepareCommit` or `PrepareAbort`; `CompleteCommit` or
       `CompleteAbort`; then again. With the second protocol (KIP-890) `PrepareAbort` may also come where no transaction is
       open. A record that could not be replicated at once is lawfully there twice.
    2. An id is forgotten (a record without a value) while a transaction is open.
    3. The epoch of a producer id goes back, or does not begin with 0; or an id returns to a producer id that it had left.
    4. The producer id changes before its epochs were exhausted or the id was forgotten; or otherwise than by `Empty`, or by the
       one that was announced.
    5. A transaction loses partitions that hold records of it, or is decided for others than it had.

    What not enough replicas had in time is logged, and lawfully taken back: an addition of which no record followed, a decision
    of which no marker did.

    Judged are logs that are whole, from offset 0 and without gaps.

    compared: records that follow another one of their transactional id. One cause: the producer id.
    """
    return found_by(unlawful_states)(run)


# --------------------------------------------------------------------------------------------------
# unlogged-answer
# --------------------------------------------------------------------------------------------------
def unlogged_answers(run: RunView) -> Found:
    """Records of transactions that were acknowledged as committed or aborted, for which no coordinator logged that decision."""
    logs, coordinators = run.shared(stored_logs), run.shared(coordinator_log)
    assert isinstance(logs, StoredLogs)
    rows, op, kind = _acknowledged(run, logs, coordinators)
    transactions = coordinators.transactions
    owner, partition = coordinators.pairs
    decided = transactions.kind[owner] != NONE
    owner, partition = owner[decided], partition[decided]
    logged = np.stack(
        [partition, transactions.producer_id[owner], transactions.begun_epoch[owner], transactions.kind[owner]], axis=1
    )
    told = np.stack([rows.partition, rows.producer_id, rows.producer_epoch, kind], axis=1)
    keys, of = np.unique(np.concatenate([told, logged]), axis=0, return_inverse=True)
    of = of.reshape(-1)
    allowed, own = np.bincount(of[len(rows) :], minlength=len(keys)), of[: len(rows)]
    order = np.lexsort((rows.offset, own))
    rank = np.empty(len(own), dtype=np.int64)
    rank[order] = np.arange(len(own)) - np.searchsorted(own[order], own[order])
    wrong = rank >= allowed[own]
    words = {COMMIT: "committed", ABORT: "aborted"}
    sentences = [
        f"The transaction that wrote {logs.partitions[number]}@{offset} with producer id {producer} was acknowledged as "
        f"{words[int(how)]}, and its coordinator logged no such decision"
        for number, offset, producer, how in zip(
            rows.partition[wrong], rows.offset[wrong], rows.producer_id[wrong], kind[wrong], strict=True
        )
    ]
    count, unlogged, more = _unlogged_initialisations(run, coordinators)
    found = joined([rows.take(wrong), unlogged])
    return Found(len(np.unique(op)) + count, found, [*sentences, *more], lacking=coordinators.lacking or NO_ANSWERS)


def _unlogged_initialisations(run: RunView, coordinators: CoordinatorLog) -> tuple[int, StoredRows, list[str]]:
    """How many calls of `initialise` returned ok, and the last record of each transactional id that was given fewer pairs of a
    producer id and an epoch than that, with a sentence.
    """
    states = coordinators.states
    rows = run.history.of_kind(("f", "type", "transactional_id"), "initialise").to_pylist()
    returned = Counter(row["transactional_id"] for row in rows if row["type"] == "ok" and row["transactional_id"] is not None)
    empty = states.state == EMPTY
    given = np.unique(np.stack([states.ident[empty], states.producer_id[empty], states.producer_epoch[empty]]), axis=1)
    counts = np.bincount(given[0], minlength=len(states.names)).tolist()
    known = {name: number for number, name in enumerate(states.names) if returned[name]}
    wrong = [number for name, number in known.items() if counts[number] < returned[name]]
    last = [int(np.flatnonzero(states.ident == number)[-1]) for number in wrong]
    sentences = [
        f"{returned[states.names[number]]} calls of initialise returned for transactional id {states.names[number]}, and its "
        f"coordinator logged {counts[number]} of them"
        for number in wrong
    ]
    found = replace(states.rows, producer_id=states.producer_id).take(np.array(last, dtype=np.int64))
    return sum(returned[name] for name in known), found, sentences


def _acknowledged(run: RunView, logs: StoredLogs, coordinators: CoordinatorLog) -> tuple[StoredRows, Ints, Ints]:
    """The last record of each acknowledged transaction in each partition, its operation, and COMMIT or ABORT.

    The last one: an application that runs a transaction again is answered for the last time that it did.
    """
    rows, overview = logs.of_longest, run.overview
    own = (rows.kind == DATA) & (rows.v >= 0) & rows.transactional & sent_rows(run, rows)
    rows = rows.take(own & coordinators.knows(rows.producer_id))
    op = operations_of(run, rows.v)
    at = overview.at(np.where(op == NONE, overview.index[0], op)) if len(op) else np.empty(0, dtype=np.int64)
    answered = (op != NONE) & overview.txn[at] & overview.ok[at] & np.isin(overview.status[at], (COMMITTED, ABORTED))
    rows, op, at = rows.take(answered), op[answered], at[answered]
    order = np.lexsort((rows.offset, op, rows.partition))
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = (np.diff(rows.partition[order]) != 0) | (np.diff(op[order]) != 0)
    which = order[last]
    return rows.take(which), op[which], np.where(overview.status[at[which]] == COMMITTED, COMMIT, ABORT)


@run_check(
    "unlogged-answer",
    promise=ACKNOWLEDGED,
    rules=(
        UNLESS_TRANSACTIONAL,
        *CUT_OFF,
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "a coordinator answers once its decision is in its log (KIP-98)"),
    ),
    evidence=Needs({LOGS, SENDS, OUTCOMES}, "what is missing may have been acknowledged"),
    occasions=DECIDING,
    damages=(UNLOG,),
    explain=explained_by(unlogged_answers),
    gather=sent_here,
    needs=NO_ANSWERS,
)
def unlogged_answer(run: RunView) -> CheckResult:
    """A client was told that its transaction committed or aborted, or that it had initialised, and its coordinator had not
    logged that.

    1. Of each partition, producer id and epoch, as many transactions with records there were acknowledged as committed
       (aborted) as the coordinator logged decisions to commit (to abort) with that partition, or fewer.
    2. Of each transactional id as many calls of `initialise` returned as it was given pairs of a producer id and an epoch, or
       fewer.

    Judged by coordinators' logs that are whole.

    compared: acknowledged transactions with a record in the logs, and calls of `initialise` that returned. One cause: the
    producer id.
    """
    return found_by(unlogged_answers)(run)
