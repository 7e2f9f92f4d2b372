"""Transactions that do not end, and answers about transactions that cannot be true (KIP-98, KIP-664, KIP-890).

Each docstring is the definition of its anomaly. When an answer
counts: `checkers.pipeline.listed_transactions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import LEFT_OPEN
from fencepost.checkers.contract.common_rules import ABORTED_IN_PART, COORDINATOR_CUT_OFF, UNLESS_TRANSACTIONAL, cut_off
from fencepost.checkers.contract.needs import ALL_READS, OUTCOMES, SENDS, SETTLING, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.listed_transactions import (
    NEVER_QUIET,
    NO_ANSWER,
    NO_LISTING,
    NO_RECEIPTS,
    NONE_OPEN,
    SECOND,
    Listing,
    Sighting,
    State,
    confirmed,
    has_questions,
    listings,
    longest,
    sightings,
)
from fencepost.checkers.selfcheck.listing_damages import HANG, MISREPORT, OVERDUE, REOPEN
from fencepost.checkers.views.gathering import PartitionMessages, together
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import AskAlone
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.versions import placed_reads
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api import CoordinatedTransaction, OpenTransaction
from fencepost.harness.api.promises import LIVE

ABORT_S = 10.0  # beyond a transaction's timeout, for its coordinator to notice (every second here, every ten by default)
MARKERS_S = 10.0  # for the markers of a decided transaction to be written, while every broker answers
PASSED = "reads of or above open transactions"
Facts = dict[str, list[tuple[int, int]]]  # partition -> (offset, before when)


def _result(run: RunView, compared: int, rows: dict[str, Any]) -> CheckResult:
    """The result of a check, with what was missing where nothing was compared."""
    if rows and run.clocks is None:
        return CheckResult(compared, unknown=NO_RECEIPTS.format(count=len(rows["op"])))
    listed, answers = run.shared(has_questions), run.shared(listings)
    silent = listed and not answers
    if answers and not compared and not _ever_quiet(answers):
        return CheckResult(0, lacking=NEVER_QUIET)
    return CheckResult(compared, rows, "" if listed else NO_LISTING, unknown=NO_ANSWER if silent else "")


def _ever_quiet(answers: Sequence[Listing]) -> bool:
    """True if some answer came when no fault had been active for a while: others find nothing that hangs."""
    return any(answer.quiet for answer in answers)


def _rows(entries: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows of a result, given as (partition, cause, op, v, offset, time, role)."""
    if not entries:
        return {}
    partition, cause, op, v, offset, time, role = zip(*entries, strict=True)
    numbers = {"cause": cause, "op": op, "v": v, "offset": offset, "time": time}
    texts = {name: np.array(values, dtype=object) for name, values in (("partition", partition), ("role", role))}
    return {name: np.array(values, dtype=np.int64) for name, values in numbers.items()} | texts


# --------------------------------------------------------------------------------------------------
# hanging-transaction
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Hanging:
    """A transaction that hangs.

    where: partitions, each with the offset of its first record there (NONE: not known).
    """

    producer_id: int
    sighting: Sighting
    where: tuple[tuple[str, int], ...]
    why: str

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        last = self.sighting.last
        for partition, offset in self.where:
            yield partition, self.producer_id, last.op, NONE, offset, last.begin, "missing"


def hanging_transactions(run: RunView) -> list[Hanging]:
    """All of a run, by their coordinators' answers and by those of partitions' leaders."""
    answers = run.shared(listings)
    return [*_unended(answers), *_unknown_to_coordinators(answers)]


def _unended(answers: Sequence[Listing]) -> Iterator[Hanging]:
    """Transactions that their own coordinator keeps for longer than it may."""
    shown = [(_state(row), row, listing) for listing in answers for row in listing.coordinated if row.under_way]
    latest = {state: row for state, row, _ in shown}
    for state, some in sightings((state, listing) for state, _, listing in shown).items():
        transaction, sighting = latest[state], longest(some)
        if sighting.lasted_ns > _bound_s(transaction) * SECOND:
            yield Hanging(transaction.producer_id, sighting, _places(transaction, sighting.last), _reason(transaction))


def _state(transaction: CoordinatedTransaction) -> tuple[Any, ...]:
    """The key that stays the same as long as a transaction is in one state."""
    return transaction.transactional_id, transaction.producer_id, transaction.state, transaction.started_ms


def _bound_s(transaction: CoordinatedTransaction) -> float:
    return transaction.timeout_ms / 1000 + ABORT_S if transaction.state == "Ongoing" else MARKERS_S


def _reason(transaction: CoordinatedTransaction) -> str:
    timeout, markers = f"its timeout is {transaction.timeout_ms / 1000:g} s", "its markers should be written at once"
    limit = timeout if transaction.state == "Ongoing" else markers
    return f"of {transaction.transactional_id} is {transaction.state} at its coordinator, and {limit}"


def _places(transaction: CoordinatedTransaction, listing: Listing) -> tuple[tuple[str, int], ...]:
    """The partitions of a transaction, with its first offset in those where it has records."""
    opened = {other.partition: other.offset for other in listing.opened if other.producer_id == transaction.producer_id}
    return tuple((name, opened.get(name, NONE)) for name in sorted({*transaction.partitions, *opened})) or (("", NONE),)


def _unknown_to_coordinators(answers: Sequence[Listing]) -> Iterator[Hanging]:
    """Transactions that are open on a partition, and not for their coordinator: nobody will write their marker."""
    opened: set[OpenTransaction] = set()
    shown: list[tuple[OpenTransaction, Listing]] = []
    for listing in answers:  # open before the coordinators were asked, and still so after that
        shown += [(row, listing) for row in listing.opened if row in opened and not listing.coordinator_knows(row)]
        opened = {*opened, *listing.opened}
    for transaction, some in sightings(shown).items():
        if (sighting := longest(some)).lasted_ns > MARKERS_S * SECOND:
            where = f"of producer id {transaction.producer_id} is open on {transaction.partition}"
            why = f"{where}, and its coordinator knows of none there"
            yield Hanging(transaction.producer_id, sighting, ((transaction.partition, transaction.offset),), why)


def _explain_hanging(finding: Finding, text: FindingText) -> str:
    mine = [hanging for hanging in text.run.shared(hanging_transactions) if hanging.producer_id == finding.cause]
    seconds = max(hanging.sighting.lasted_ns for hanging in mine) / SECOND
    reasons = "; ".join(dict.fromkeys(hanging.why for hanging in mine))
    return f"The transaction {reasons}: so it was for {seconds:.0f} s in which no fault was active, by all answers from then on."


@run_check(
    "hanging-transaction",
    occasions=LEFT_OPEN,
    promise=LIVE,
    attribution=Attribution.PARTITION,
    rules=(
        Rule(INAPPLICABLE, "the workload uses no transactions", {"transactional": "!true", "connect": "!enabled"}),
        *cut_off("with the marker of a transaction, which nobody writes again"),
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "every transaction ends, at the latest by its timeout (KIP-98, KIP-890)"),
    ),
    evidence=Needs({SETTLING}, "nobody knows which transactions coordinators and leaders had open"),
    across=True,
    explain=_explain_hanging,
    needs=NONE_OPEN,
    damages=(HANG, OVERDUE),
)
def hanging_transaction(run: RunView) -> CheckResult:
    """A transaction that stays open for longer than its timeout, or the writing of its markers, allows.

    Open is

    1. a transaction that its coordinator has `Ongoing`: 10 s beyond its timeout at most;
    2. a transaction that its coordinator has in another state before its end: 10 s at most, in which its markers are written;
    3. a transaction that a partition has open while its coordinator knows of none there (KAFKA-14402): 10 s at most.

    Judged by the answers to ListTransactions, DescribeTransactions and DescribeProducers (KIP-664), as `kafka-transactions.sh
    find-hanging` does. Two answers of all brokers name the same transaction. Of the time in between only that counts in which no
    fault was active: from 3 s after the last fault. A fault that set a broker's clock ahead is over when true time has reached
    what the clock showed: coordinators stamp transactions by it.

    compared: transactions under way, and those open on partitions, that answers name; where no answer was at rest, only those
    that the last one does not name any more. One cause: the producer id.

    Example::

        ms           process  operation  t-0       outcome
        0-1          1        txn        send a@5  aborted
        2-           1        txn        send b@7  unknown
        5000-5001    harness  list       id Ongoing 6000 since 1, open 7
        23000-23001  harness  list       id Ongoing 6000 since 1, open 7

    Found: missing t-0@7. Its timeout was 6 s, and 18 s later it is still open.

    Slow twin: `hanging_transactions` in tests/support/hanging_reference.py.
    """
    answers = run.shared(listings)
    coordinated = {_state(transaction) for listing in answers for transaction in listing.coordinated if transaction.under_way}
    opened = {transaction for listing in answers for transaction in listing.opened}
    if answers and not _ever_quiet(answers):  # then only those are compared that have ended
        coordinated -= {_state(transaction) for transaction in answers[-1].coordinated}
        opened -= set(answers[-1].opened)
    rows = sorted({row for hanging in run.shared(hanging_transactions) for row in hanging.rows})
    return _result(run, len(coordinated) + len(opened), _rows(rows))


# --------------------------------------------------------------------------------------------------
# misreported-transaction
# --------------------------------------------------------------------------------------------------
def _confirmed(shown: Iterable[tuple[State, Listing]]) -> dict[State, Sighting]:
    """States that two answers show which were given at rest, with no fault between them."""
    by_state = {state: confirmed(some) for state, some in sightings(shown).items()}
    return {state: seen for state, seen in by_state.items() if seen is not None}


def reported_ongoing(run: RunView) -> list[tuple[CoordinatedTransaction, Sighting]]:
    """Transactions that coordinators have `Ongoing`."""
    answers = run.shared(listings)
    shown = [
        (_state(transaction), transaction, listing)
        for listing in answers
        for transaction in listing.coordinated
        if transaction.state == "Ongoing"
    ]
    latest = {state: transaction for state, transaction, _ in shown}
    return [(latest[state], seen) for state, seen in _confirmed((state, listing) for state, _, listing in shown).items()]


def reported_open(run: RunView) -> dict[OpenTransaction, Sighting]:
    """Transactions that leaders have open."""
    return _confirmed((transaction, listing) for listing in run.shared(listings) for transaction in listing.opened)


@dataclass(frozen=True)
class Transactions:
    """The transactions of one transactional id, as columns.

    op: history index.
    begin: ns.
    end: ns; NONE: no completion.
    committed: commit returned ok.
    """

    op: Any
    process: Any
    begin: Any
    end: Any
    committed: Any

    def open_since(self, until: int, after: int) -> bool:
        """True if a transaction that began up to a time may still be open at a later one.

        It may not if its commit returned ok before, or that of one that began after it had ended; if it never ended, that of
        another process which began later and had fenced it.
        """
        done = self.committed & (self.end < after)
        closing = self.begin[done].max(initial=NONE)
        over = done | ((self.end != NONE) & (self.end <= closing))
        left = np.flatnonzero(~over & (self.begin <= until))
        later = (done & (self.process != self.process[at]) & (self.begin > self.begin[at]) for at in left)
        return any(self.end[at] != NONE or not some.any() for at, some in zip(left, later, strict=True))

    def last_committed(self, before: int) -> int:
        """The last one whose commit had returned ok (history index; NONE: none)."""
        done = self.committed & (self.end < before)
        return int(self.op[done][-1]) if done.any() else NONE


def transactions_by_id(run: RunView) -> dict[str, Transactions]:
    """The transactions of every transactional id of the history."""
    columns = ("index", "process", "f", "type", "intent", "transactional_id", "time", "end")
    mine = (ds.field("f") == "txn") & ds.field("transactional_id").is_valid()
    table = run.history.select(columns, mine).sort_by("index").to_pandas()
    committed = (table["type"] == "ok") & (table["intent"] == "commit")
    table = table.assign(end=table["end"].fillna(NONE).astype(np.int64), committed=committed)
    return {
        str(name): Transactions(*(some[column].to_numpy() for column in ("index", "process", "time", "end", "committed")))
        for name, some in table.groupby("transactional_id")
    }


def _decided(run: RunView) -> Iterator[tuple[CoordinatedTransaction, Sighting, int]]:
    """Transactions that are `Ongoing` by two answers although all of their id were over; and the last committed one of these."""
    known = run.shared(transactions_by_id)
    for transaction, seen in run.shared(reported_ongoing):
        mine = known.get(transaction.transactional_id)
        if mine is not None and not mine.open_since(seen.first.end, seen.last.begin):
            yield transaction, seen, mine.last_committed(seen.last.begin)


def _without_records(transaction: CoordinatedTransaction, seen: Sighting, last: int) -> Iterator[tuple[Any, ...]]:
    """Rows for an `Ongoing` transaction whose id's last committed one (NONE: there is none) sent nothing."""
    op, role = (seen.last.op, "missing") if last == NONE else (last, "sent")
    for partition, offset in _places(transaction, seen.last):
        yield partition, transaction.producer_id, op, NONE, offset, seen.last.begin, role


def open_facts(run: RunView) -> Facts:
    """Offsets, by partition, from which transactions are open by two answers, and before when nobody may have read beyond."""
    facts: Facts = {}
    for transaction, seen in run.shared(reported_open).items():
        facts.setdefault(transaction.partition, []).append((transaction.offset, seen.last.begin))
    return facts


@together
def reads_above(log: PartitionLog, brief: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> PartitionMessages:
    """The first read at read_committed of or above the first record of each open transaction of a partition, if that was before
    it was named.
    """
    if log.parts is not None and brief:
        raise AskAlone
    facts = (brief or {}).get(log.partition, ())
    reads = log.reads
    which = np.flatnonzero(reads.judged & log.shared(placed_reads) & (reads.ended != NONE)) if facts else np.empty(0, np.int64)
    first_reads = []
    for offset, before in facts:
        above = which[np.searchsorted(reads.offset[which], offset, side="left") :]
        if len(above) and reads.ended[first := above[reads.ended[above].argmin()]] < before:
            op, when = int(reads.op[first]), int(reads.ended[first])
            first_reads.append((log.partition, offset, op, int(reads.identities([first])[0]), int(reads.offset[first]), when))
    if not first_reads:
        return PartitionMessages()
    columns = zip(("partition", "open", "op", "v", "offset", "ended"), zip(*first_reads, strict=True), strict=True)
    return PartitionMessages(to_driver=[(PASSED, to_message(pa.table({name: list(values) for name, values in columns})))])


def _passed(run: RunView) -> dict[tuple[str, int], dict[str, Any]]:
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)  # nobody knows what was read
    tables = [from_message(message).to_pylist() for name, message in run.gathered.to_driver if name == PASSED]
    return {(row["partition"], row["open"]): row for rows in tables for row in rows}


def _explain_misreported(finding: Finding, text: FindingText) -> str:
    if sent := finding.records("sent"):
        name, op = text.name(sent[0].op), sent[0].op
        transaction, seen = next((row, sighting) for row, sighting, last in _decided(text.run) if last == op)
        answered = f"coordinators answered afterwards, twice, that {transaction.transactional_id} is `Ongoing`"
        return f"{name} {text.outcome(op)}, and yet {answered}{_when_it_began(transaction, seen, text.ended(op))}."
    if above := finding.records("read"):
        got, where = above[0], finding.records("missing")[0].place
        return f"{text.name(got.op)} read {got.place}; leaders answered afterwards, twice, that a transaction is open at {where}."
    return "Coordinators answered, twice, that a transaction is `Ongoing` that nobody had begun."


def _when_it_began(transaction: CoordinatedTransaction, seen: Sighting, committed: int) -> str:
    """Words that say, by the coordinator's clock, if that is the transaction whose commit had returned, or another one."""
    began = seen.last.began(transaction)
    if began is None:
        return ""
    seconds = (began - committed) / SECOND
    what = "began" if seconds < 0 else "nobody began: it opened"
    when = f"{abs(seconds):.3f} s {'before' if seconds < 0 else 'after'} the commit had returned"
    return f", in a transaction that {what} {when}, by the coordinator's clock"


@run_check(
    "misreported-transaction",
    occasions=LEFT_OPEN,
    promise=LIVE,
    rules=(
        ABORTED_IN_PART,
        UNLESS_TRANSACTIONAL,
        *cut_off("the coordinator may forget a decision, and a leader begin below what was read"),
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "coordinators answer by what they have decided, leaders by their logs (KIP-664)"),
    ),
    evidence=Needs(
        {OUTCOMES, *ALL_READS, SETTLING},
        "nobody knows all that coordinators and leaders answered, or all that contradicts it",
        {SENDS},
        "a line that is missing may have begun the transaction",
    ),
    across=True,
    gather=reads_above,
    brief=open_facts,
    explain=_explain_misreported,
    damages=(MISREPORT, REOPEN),
    needs="no transaction of the history was open for longer than a second, as two answers without a fault between them say",
)
def misreported_transaction(run: RunView) -> CheckResult:
    """An answer of coordinators or leaders, about a transaction that is open, which contradicts the history.

    1. A transactional id is `Ongoing`, although the commit of its last transaction had returned ok. What is `Ongoing` is that
       transaction, or one that nobody began: with the first transaction protocol, an AddPartitionsToTxn that arrives after the
       end of its transaction opens another one, until its timeout (KIP-890).
    2. A transaction is open from an offset on at which, or beyond which, a read_committed reader had read before: such a reader
       gets nothing from the last stable offset on, which never falls.

    Two answers of all brokers name the same transaction, a second or so apart, 3 s or longer after the last fault: a coordinator
    or leader that was frozen answers once from what it knew. A transaction of unknown outcome, or one that was aborted, may be
    open until the next one of its transactional id has committed.

    compared: transactions that two such answers name `Ongoing` or open. One cause: the producer id.

    Example::

        ms         process  operation  t-0       outcome
        0-1        1        txn        send a@5  committed
        2-3        1        txn        send b@7  committed
        5000-5001  harness  list       id Ongoing 60000 since 1
        6000-6001  harness  list       id Ongoing 60000 since 1

    Found: sent b@7, by the last transaction that the id had committed.

    Slow twin: `misreported_transactions` in tests/support/hanging_reference.py.
    """
    ongoing, opened, passed = run.shared(reported_ongoing), run.shared(reported_open), _passed(run)
    if not ongoing and not opened:
        return _result(run, 0, {})
    known = run.shared(transactions_by_id)
    entries: list[tuple[Any, ...]] = []
    for transaction, seen, last in _decided(run):
        sends = run.sends_of(np.array([last])).itertuples() if last != NONE else ()
        rows = [(row.partition, transaction.producer_id, last, row.v, row.offset, seen.last.begin, "sent") for row in sends]
        entries += rows or list(_without_records(transaction, seen, last))
    for place, seen in opened.items():
        if row := passed.get((place.partition, place.offset)):
            entries.append((place.partition, place.producer_id, seen.last.op, NONE, place.offset, seen.last.begin, "missing"))
            entries.append((place.partition, place.producer_id, row["op"], row["v"], row["offset"], seen.last.begin, "read"))
    compared = sum(reported.transactional_id in known for reported, _ in ongoing) + len(opened)
    return _result(run, compared, _rows(entries))
