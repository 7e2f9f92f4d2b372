"""What transaction coordinators logged (`__transaction_state`): the states of each transactional id, and what clients were told.

Each docstring is the definition of its anomaly (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

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
from fencepost.checkers.pipeline.coordinator_steps import CLOSED, LAST_EPOCH, Steps
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
FOLLOWING: Mapping[int, tuple[int, ...]] = {  # states by themselves, for words
    EMPTY: AGAIN,
    ONGOING: (ONGOING, PREPARE_COMMIT, PREPARE_ABORT, FENCE),
    PREPARE_COMMIT: (COMPLETE_COMMIT,),
    PREPARE_ABORT: (COMPLETE_ABORT,),
    COMPLETE_COMMIT: AGAIN,
    COMPLETE_ABORT: AGAIN,
    DEAD: (REMOVED,),
    FENCE: (PREPARE_ABORT,),
    REMOVED: (REMOVED, EMPTY),
}
NOT_0 = "begins a producer id with an epoch that is not 0"
NO_STEPS = "no transactional id has two records in the coordinators' logs"
NO_ANSWERS = "no transaction that was acknowledged as committed or aborted has a record in the logs"
EVIDENCE = Needs({LOGS}, "what is missing of the logs may have shown it")
CUT_OFF = cut_off("the coordinator may forget what it had logged")


# --------------------------------------------------------------------------------------------------
# unlawful-state
# --------------------------------------------------------------------------------------------------
def unlawful_states(run: RunView) -> Found:
    """Records that no coordinator may log behind those before of their transactional id, each with what is wrong with it."""
    coordinators = run.shared(coordinator_log)
    states = coordinators.states
    wrong = _unlawful(run, states, Steps(states))
    rows = replace(states.rows, producer_id=states.producer_id)
    sentences = [_sentence(coordinators, at) for at in wrong]
    return Found(int((~states.first).sum()), rows.take(wrong), sentences, lacking=coordinators.lacking or NO_STEPS)


def _unlawful(run: RunView, states: States, steps: Steps) -> list[int]:
    """Positions of the records that follow neither the one before of their id, nor an earlier one of which all records since may
    have been taken back.

    Where a record does not follow the one before, it and its neighbours are gone through one by one: from a transaction that was
    surely decided, or from the beginning of the id, to the next such transaction.
    """
    own = np.arange(len(states))
    fine = steps.lawful(np.where(states.first, NONE, own - 1), own)
    sure = _surely_ended(states, fine)
    wrong: list[int] = []
    end = 0
    for at in np.flatnonzero(~fine).tolist():
        if at < end:
            continue
        begin = at
        while not states.first[begin] and not sure[begin - 1]:
            begin -= 1
        end = at + 1
        while end < len(states) and not states.first[end] and not sure[end]:
            end += 1
        wrong += _gone_through(run, states, steps, begin, end)
    return wrong


def _surely_ended(states: States, fine: Bools) -> Bools:
    """True for each end of a transaction whose addition, decision and end follow one another: what was before holds no more."""
    sure = np.zeros(len(states), dtype=np.bool_)
    within = ~states.first[1:-1] & ~states.first[2:] & fine[:-2] & fine[1:-1] & fine[2:]
    ended = np.isin(states.state[2:], (COMPLETE_COMMIT, COMPLETE_ABORT)) & (states.state[:-2] == ONGOING)  # decided between
    sure[2:] = within & ended & np.isin(states.state[1:-1], (PREPARE_COMMIT, PREPARE_ABORT))
    return sure


def _gone_through(run: RunView, states: States, steps: Steps, begin: int, end: int) -> list[int]:
    """The unlawful records of a part of one id's records: from its first one, or behind the end of a transaction.

    holding: the records of which one holds. Behind an unlawful record it is that one or the one before.
    """
    holding = [NONE] if states.first[begin] else [begin - 2, begin - 1]
    wrong = []
    for at in range(begin, end):
        may = steps.lawful(np.array(holding), np.full(len(holding), at))
        lawful = [one for one, yes in zip(holding, may.tolist(), strict=True) if yes]
        last = NONE if at == begin and states.first[at] else at - 1
        if last not in lawful:
            lawful = [one for one in lawful if not _any_took_effect(run, states, one, at)]
        if not lawful:
            wrong.append(at)
            lawful = [last]
        holding = [*lawful, at]
    return wrong


def _any_took_effect(run: RunView, states: States, held: int, at: int) -> bool:
    """True if a record between two of an id was surely not taken back: something was written that it alone allows.

    Of an addition taken back no record lies in its partitions, of a decision no marker, of an epoch no record: a producer writes
    nothing without an answer, and markers follow an answer. By the times of producers, leaders and coordinators; where nobody
    knows how wrong clocks were, nothing is sure.
    """
    begin = 0 if held == NONE else held
    while begin > 0 and not states.first[begin] and states.state[begin] == ONGOING:
        begin -= 1
    before = NONE if held == NONE or states.state[begin] == ONGOING else _time(states, begin)
    first = held + 1 if held != NONE else int(np.flatnonzero(states.first[: at + 1])[-1])
    for one in range(first, at):
        state, since = int(states.state[one]), _time(states, one)
        if state == ONGOING:
            more = held != NONE and states.state[held] == ONGOING
            added = np.setdiff1d(_listed(states, one), _listed(states, held)) if more else _listed(states, one)
            effect = _written(run, states, one, at, (DATA,), before, added)
        elif state == EMPTY:
            alike = held != NONE and _producer(states, held) == _producer(states, one)
            effect = not alike and _written(run, states, one, at, (DATA, COMMIT, ABORT), since)
        else:
            kinds = {PREPARE_COMMIT: (COMMIT,), PREPARE_ABORT: (ABORT,)}.get(state, ())
            effect = bool(kinds) and _written(run, states, one, at, kinds, since, _listed(states, one))
        if effect:
            return True
    return False


def _written(
    run: RunView, states: States, one: int, at: int, kinds: tuple[int, ...], since: int, partitions: Ints | None = None
) -> bool:
    """True if a row of one of these kinds, of a record's producer id and epoch, was surely written since a time, and before
    another record was logged. partitions: in one of these; None: anywhere."""
    if run.clock_error_s is None:
        return False
    logs, slack = run.shared(stored_logs), int(1000 * run.clock_error_s)
    assert isinstance(logs, StoredLogs)
    rows = logs.of_longest
    own = np.isin(rows.kind, kinds) & (rows.producer_id == states.producer_id[one])
    own &= rows.producer_epoch == states.producer_epoch[one]
    if partitions is not None:
        own &= np.isin(rows.partition, partitions)
    return bool((own & (rows.timestamp >= since + slack) & (rows.timestamp <= _time(states, at) - slack)).any())


def _listed(states: States, at: int) -> Ints:
    """The partitions of a record."""
    return states.listed[states.bounds[at] : states.bounds[at + 1]]


def _time(states: States, at: int) -> int:
    """When a record was logged, in ms: a removal has no time but that of its row."""
    return int(states.rows.timestamp[at] if states.updated[at] == NONE else states.updated[at])


def _producer(states: States, at: int) -> tuple[int, int]:
    """The producer id and epoch of a record."""
    return int(states.producer_id[at]), int(states.producer_epoch[at])


def _sentence(coordinators: CoordinatorLog, at: int) -> str:
    states = coordinators.states
    place = f"{coordinators.partitions[states.rows.partition[at]]}@{states.rows.offset[at]}"
    producer = f"producer id {states.producer_id[at]} in epoch {states.producer_epoch[at]}"
    of = f"({STATES[states.state[at]]} of {states.names[states.ident[at]]}, {producer})"
    reason = _reason(states, at)
    return f"{place} {of}: {'it ' if not reason.startswith('the id') else ''}{reason}"


def _reason(states: States, at: int) -> str:
    """What is wrong with an unlawful record, beside the one before of its id."""
    now, (producer, epoch) = int(states.state[at]), _producer(states, at)
    if states.first[at]:
        return NOT_0 if now == EMPTY else "is the first record of its transactional id"
    then = int(states.state[at - 1])
    if now == REMOVED:
        return "the id was forgotten while a transaction was open"
    if now not in FOLLOWING[then]:
        return f"must not follow {STATES[then]}"
    last = at - 1
    while states.state[last] == REMOVED and not states.first[last]:
        last -= 1
    former, held = _producer(states, last)
    if producer != former:
        return _reason_of_producer(states, at, then, former)
    if epoch < held:
        return f"has a lower epoch than {held}, which it had before"
    if epoch > held and now == ONGOING == then:
        return f"changes the epoch {held} of a transaction that is under way"
    if now == EMPTY and held >= LAST_EPOCH:
        return f"goes on with the epoch {held}, which is the last one"
    if now == PREPARE_ABORT and then != ONGOING and epoch == held:
        return f"keeps the epoch {held}, although an abort without a transaction raises it"
    most = {EMPTY: 1, PREPARE_COMMIT: 1, PREPARE_ABORT: 1 if then in CLOSED else epoch}.get(now, 0)
    if epoch > held + most:
        return f"raises the epoch {held} to {epoch} at once"
    lost = then == ONGOING and not set(_listed(states, at - 1).tolist()) <= set(_listed(states, at).tolist())
    few = len(_listed(states, at)) < len(_listed(states, at - 1)) or now == ONGOING
    return "lacks partitions of the transaction" if lost and few else "has partitions that were not in the transaction"


def _reason_of_producer(states: States, at: int, then: int, former: int) -> str:
    """What is wrong with a record of another producer id than that of the one before."""
    begin = at
    while not states.first[begin]:
        begin -= 1
    known = states.producer_id[begin:at]
    if states.state[at] != EMPTY:
        return f"changes the producer id {former} in the middle of a transaction"
    if states.producer_id[at] in known:
        return f"returns to a producer id that the id had before {former}"
    if states.producer_epoch[at] != 0:
        return NOT_0
    return f"changes the producer id {former}, whose epochs were not exhausted"


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
    """In the log of a transaction coordinator, a record must not follow those before of the same transactional id.

    1. The states: `Empty`; `Ongoing` as often as partitions are added; `PrepareCommit` or `PrepareAbort`; `CompleteCommit` or
       `CompleteAbort`; then again. With the second protocol (KIP-890) `PrepareAbort` may also come where no transaction is open.
    2. An id is forgotten (a record without a value) while a transaction is open.
    3. The epoch of a producer id goes back, does not begin with 0, or is raised by more than the step may raise it: `Ongoing` and
       the end keep it, `Empty` and a decision raise it by 1 or keep it, an abort where no transaction is open raises it by 1. An
       abort of an open one may raise it by more (fences that could not be logged: KAFKA-9666, KAFKA-19367).
    4. The producer id changes before its epochs were exhausted or the id was forgotten; or otherwise than by `Empty`, or by the
       one that was announced; or it had been left.
    5. A transaction loses partitions that hold records of it, or is decided for others than it had.

    What not enough replicas had in time is logged, and may be taken back: the next record then follows an earlier one. Not where
    something was written that the record alone allows: a record in an added partition, a marker of a decision, anything in a new
    epoch.

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
