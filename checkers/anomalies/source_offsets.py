"""The stored offsets of a source connector move with its records, and never back (KIP-618).

What positions and the parts of a source are: `sources.py`. The docstring is the definition of the anomaly. In the examples
`record a:3@5/7` is position 3 of source a at offset 5, written by the producer id 7, and `stored a:3@5/7` its stored offset 3 in
an offsets topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import STRUCK
from fencepost.checkers.contract.common_rules import (
    RECORDS_DELETED,
    UNFENCED_SOURCES,
    UNLESS_CONNECTOR,
    cut_off,
)
from fencepost.checkers.contract.needs import FINAL_COMMITTED, REQUESTS, SETTLING, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.chains import rows_of
from fencepost.checkers.pipeline.deletions import OFFSETS, RECORDS, TopicDeletions
from fencepost.checkers.pipeline.source_answers import (
    MAY_HAVE_ALTERED,
    NO_CONNECTOR,
    if_read_back,
    judged,
    records_text,
    span,
)
from fencepost.checkers.pipeline.source_log import (
    COMMITTED,
    OUTSIDE,
    PLAIN,
    SourceLog,
    unread_logs,
)
from fencepost.checkers.pipeline.source_mapping import SourceMapping
from fencepost.checkers.selfcheck.source_damages import LOWER_OFFSET, TEAR_OFFSET
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import CONNECTOR

NOT_STORED = "no stored offset that tells a position was read from the leaders' logs"


def _explain_torn(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(SourceLog)
    stored, rows = finding.records("sent"), finding.records("read")
    name, first, last = span(log, rows)
    what = records_text(log, name, first, last)
    who = f"{what} of source {name}, {text.places(rows)}, {'is' if first == last else 'are'} committed"
    if not stored:
        without = "it was committed without its" if first == last else "they were committed without their"
        return f"{who}, and no committed offset of the source reaches so far: {without} offset."
    offset = log.at(stored[0])
    own, its = log.transaction(rows[0]), log.transaction(stored[0])
    the_offset = f"the offset {offset.words} of the source, {offset.place}"
    if own == its != OUTSIDE and not _has_later(log, rows[0], stored[0]):
        both = "both" if len(rows) == 1 else "all"
        return f"{who} in an earlier transaction than that of {the_offset}: {both} were written {own}."
    if own == its != OUTSIDE:
        return f"{who} in one transaction with later records, which {the_offset}, does not reach: both were written {own}."
    return f"{who}, but not in the transaction that commits {the_offset}: written {own}, the offset {its}."


def _has_later(log: SourceLog, record: FindingRecord, offset: FindingRecord) -> bool:
    """True if the transaction of a record has another one of its source behind a stored offset."""
    entries = log.stored.set_index(["partition", "offset"])
    mine, stored = entries.loc[(record.partition, record.offset)], entries.loc[(offset.partition, offset.offset)]
    together = log.records[(log.records["txn"] == mine["txn"]) & (log.records["name"] == mine["name"])]
    return bool((together["number"] > stored["number"]).any())


@run_check(
    "source-offset-torn",
    occasions=(Occasion.TRANSACTION_ABORTED, Occasion.CLIENT_STRUCK, Occasion.SERVER_STRUCK),
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("with the stored offsets, and not with the records, or the other way round"),
        *UNFENCED_SOURCES,
        RECORDS_DELETED,
        Rule(FORBIDDEN, "the records of a task and their offsets are one transaction (KIP-618)"),
    ),
    evidence=Needs(
        {FINAL_COMMITTED, SETTLING},
        "not all that the leaders have is known",
        {FINAL_COMMITTED, SETTLING, REQUESTS},
        f"a line that is missing may hold the offset; {MAY_HAVE_ALTERED}",
    ),
    damages=(TEAR_OFFSET,),
    across=True,
    explain=_explain_torn,
    needs=f"{NO_CONNECTOR}, or {NOT_STORED}",
)
def source_offset_torn(run: RunView) -> CheckResult:
    """A committed record of a source that is not in the transaction of its stored offset.

    The stored offset of a record is the lowest one of its source that is not below the record's position. The record is torn if

    1. no committed offset of the source reaches so far;
    2. it is in no transaction, or in one with another producer id or epoch than its stored offset has; where that offset is
       stored several times, as after an abort, than each of them has;
    3. its transaction also has records that belong to a later stored offset of the source;
    4. its offset is stored by fewer transactions than have records of it in the partition, of its producer id and epoch, and is
       not the position of a record of its transaction; the first ones of these are torn. Nowhere does the offset go back.

    Not torn is a record of a position of which another one is not, if the offsets that its own producer and epoch stored do not
    show it to be, or name the last position of its transaction: a task that read on from an older offset commits it once more,
    with a later one.

    Where positions are only ordered, it is torn if no stored offset of its own producer and epoch reaches so far.

    Where the stored offset goes back (`source-offset-regression`), a record is torn only if it is torn by the offsets before that
    step and by those after it. Where the topic with the offsets was deleted, only records are judged whose transaction surely
    began when it was there again.

    compared: committed records. One cause: a stretch between two stored offsets.

    Example::

        ms   process  operation  t-0                                                    t-1                         outcome
        0-1  harness  read log   record a:0@0/7, COMMIT@1/7, record a:1@2/7, COMMIT@3/7  stored a:0@0/7, COMMIT@1/7

    Found: read t-0@2, for its offset is not committed. Here t-1 is of an offsets topic.

    Slow twin: `source_offsets_torn` in tests/support/source_reference.py.
    """
    return if_read_back(run, _torn_offsets(run))


def _torn_offsets(run: RunView) -> CheckResult:
    """The answer of `source_offset_torn`, whether the topic was read back or not: the leaders' logs tell."""
    log, answer = _stored(run)
    if log is None:
        return answer
    deletions = run.shared(TopicDeletions)
    if unclear := deletions.unclear(RECORDS) or deletions.unclear(OFFSETS):
        return CheckResult(0, unknown=unclear)
    stored = log.offsets[log.offsets["number"] >= 0]
    records = log.records[log.records["ended"].isin((PLAIN, COMMITTED)) & deletions.judged_offsets]
    torn, compared = [], 0
    apart = _beyond if run.shared(SourceMapping).shared_positions else _torn
    for (name, part), some in records.groupby(["name", "part"], sort=True):
        compared += len(some)
        unknown = log.altered and not part  # it has no stored offset of its own
        torn += list(apart(some, stored[stored["name"] == name] if unknown else stored[stored["part"] == part]))
    return CheckResult(compared, join_rows(*_numbered(torn)) if torn else {})


_PRODUCER = ["producer_id", "producer_epoch"]
_WRITTEN = ["number", *_PRODUCER]


def _torn(records: pd.DataFrame, stored: pd.DataFrame) -> Iterable[tuple[pd.DataFrame, pd.DataFrame]]:
    """Records of one source that are not in the transaction of their stored offset, with that."""
    if stored.empty:
        yield records, stored
        return
    bad, place = _apart(records, stored)
    stretches = _stretches_of(stored)
    for _, some in stretches if bad.any() else ():
        bad &= _apart(records, some)[0]
    ends = _ends(stored)
    if not len(stretches):
        bad |= _in_an_earlier_transaction(records, stored, ends["number"].to_numpy()[np.minimum(place, len(ends) - 1)], bad)
    bad &= ~_read_again(records, stored, bad)
    for at in np.unique(place[bad]):
        yield records[bad & (place == at)], ends.iloc[at : at + 1]


def _read_again(records: pd.DataFrame, stored: pd.DataFrame, bad: Bools) -> Bools:
    """True for each record of a position of which another one is not torn, if it is in the transaction of an offset that its own
    producer and epoch stored, or they stored the last position of its transaction: a task that read on from an older offset
    commits later ones with all of its records.
    """
    fine = np.zeros(len(records), dtype=np.bool_)
    again = bad & records["number"].isin(records["number"][~bad]).to_numpy()
    for producer in records.loc[again, _PRODUCER].drop_duplicates().itertuples(index=False, name=None):
        own, offsets = ((rows[_PRODUCER] == producer).all(axis=1).to_numpy() for rows in (records, stored))
        if not offsets.any():
            continue
        written, its = records[own], stored[offsets]
        apart, place = _apart(written, its)
        ends = _ends(its)["number"].to_numpy()
        apart |= _in_an_earlier_transaction(written, its, ends[np.minimum(place, len(ends) - 1)], apart)
        last = written.groupby(["partition", "txn"])["number"].transform("max").isin(its["number"]).to_numpy()
        fine[own] = ~apart | (last & (written["ended"] == COMMITTED).to_numpy())
    return np.asarray(again & fine)


def _beyond(records: pd.DataFrame, stored: pd.DataFrame) -> Iterable[tuple[pd.DataFrame, pd.DataFrame]]:
    """The same where several records may have one position, which the offset of a later transaction may reach, too.

    Records are torn that lie beyond every stored offset of their own producer and epoch.
    """
    reached = stored.groupby(_PRODUCER)["number"].max().rename("reached")
    own = records[_PRODUCER].join(reached, on=_PRODUCER)["reached"].fillna(NONE).to_numpy()
    bad = (own < records["number"].to_numpy()) | (records["ended"] != COMMITTED).to_numpy()
    ends = _ends(stored)
    place = np.searchsorted(ends["number"].to_numpy(), records["number"].to_numpy())
    for at in np.unique(place[bad]):
        yield records[bad & (place == at)], ends.iloc[at : at + 1]


def _ends(stored: pd.DataFrame) -> pd.DataFrame:
    return stored.drop_duplicates("number").sort_values("number")


def _apart(records: pd.DataFrame, stored: pd.DataFrame) -> tuple[Bools, Ints]:
    """True for each record that is not in the transaction of the lowest of some stored offsets that reaches so far; and the place
    of that among `_ends`.
    """
    numbers = _ends(stored)["number"].to_numpy()
    place = np.searchsorted(numbers, records["number"].to_numpy())
    own = numbers[np.minimum(place, len(numbers) - 1)]
    mine = records[["producer_id", "producer_epoch"]].assign(number=own)[_WRITTEN]
    same = pd.MultiIndex.from_frame(mine).isin(pd.MultiIndex.from_frame(stored[_WRITTEN]))
    same &= (place < len(numbers)) & (records["ended"] == COMMITTED).to_numpy()
    highest = records.assign(place=place).groupby(["partition", "txn"])["place"].transform("max").to_numpy()
    return ~same | (highest != place), place


def _in_an_earlier_transaction(records: pd.DataFrame, stored: pd.DataFrame, own: Ints, bad: Bools) -> Bools:
    """True for each record whose transaction comes too early to be one of those that store its offset: with the first protocol
    (KIP-98) all of an instance have one epoch. own: the offset of each record. bad: records that are torn for another reason.
    """
    parts = ["partition", *_WRITTEN]
    rows = records.assign(place=records["number"], number=own)[~bad & (records["ended"] == COMMITTED).to_numpy()]
    of_txn = rows.groupby([*parts, "txn"])["place"].max().reset_index()
    storing = stored.groupby(_WRITTEN).agg(storing=("txn", "nunique"))
    of_txn = of_txn.join(storing, on=_WRITTEN)
    surplus = of_txn.groupby(parts)["txn"].transform("size") - of_txn["storing"]
    without = of_txn[of_txn["place"] != of_txn["number"]].sort_values("txn")
    early = without[without.groupby(parts).cumcount() < surplus.loc[without.index]]
    return np.asarray(~bad & records["txn"].isin(early["txn"]).to_numpy())


def _stretches_of(stored: pd.DataFrame) -> Sequence[tuple[Any, pd.DataFrame]]:
    """The stored offsets of one source in stretches between two steps back; none where they never go back."""
    ordered = stored.sort_values(["partition", "offset"])
    back = ordered.groupby("partition")["number"].diff() < 0
    return list(ordered.groupby(back.cumsum().to_numpy())) if back.any() else []


def _numbered(torn: list[tuple[pd.DataFrame, pd.DataFrame]]) -> Iterable[dict[str, Any]]:
    for number, (records, stored) in enumerate(torn):
        for rows, role in ((records, "read"), (stored, "sent")):
            yield rows_of(rows.assign(cause=-2 - number, v=NONE, time=records["end"].max()), role)


def _explain_regression(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(SourceLog)
    high, low = sorted((log.at(row) for row in finding.rows), key=lambda entry: -entry.number)
    return (
        f"The stored offset of source {high.name} goes back: {high.words} is committed at {high.place}, "
        f"and {'a tombstone' if low.number < 0 else low.words} after it, at {low.place}."
    )


@run_check(
    "source-offset-regression",
    occasions=STRUCK,
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("with the stored offsets, so that tasks read on from older ones"),
        *UNFENCED_SOURCES,
        Rule(FORBIDDEN, "a task reads on from the stored offset, and older tasks are fenced (KIP-618)"),
    ),
    evidence=Needs({SETTLING}, "not all stored offsets are known", {REQUESTS}, MAY_HAVE_ALTERED),
    damages=(LOWER_OFFSET,),
    across=True,
    explain=_explain_regression,
    needs=f"{NO_CONNECTOR}, or {NOT_STORED}",
)
def source_offset_regression(run: RunView) -> CheckResult:
    """The committed offset of a source goes back, though nobody altered it.

    The stored offsets of one source are in one partition; their order there is meant.

    compared: committed offsets after the first one of their source. One cause: a step back, to an offset below the one before it.

    Example::

        ms   process  operation  t-1                                                     outcome
        0-1  harness  read log   stored a:4@0/7, COMMIT@1/7, stored a:2@2/7, COMMIT@3/7

    Found: read t-1@0 and read t-1@2. Here t-1 is of an offsets topic.

    Slow twin: `source_offset_regressions` in tests/support/source_reference.py.
    """
    return if_read_back(run, _regressions(run))


def _regressions(run: RunView) -> CheckResult:
    """The answer of `source_offset_regression`, likewise."""
    log, answer = _stored(run)
    if log is None:
        return answer
    stored = log.offsets.sort_values(["part", "partition", "offset"], ignore_index=True)
    of_source = stored.groupby(["part", "partition"])["number"]
    highest, at = of_source.cummax(), np.flatnonzero(of_source.diff() < 0)
    compared = len(stored) - stored["part"].nunique()
    if not len(at):
        return CheckResult(compared)
    tops = [_before(stored, int(i), int(highest[i])) for i in at]
    pairs = stored.iloc[np.column_stack([tops, at]).ravel()]
    pairs = pairs.assign(cause=-2 - np.repeat(np.arange(len(at)), 2), v=NONE, time=pairs["end"])
    return CheckResult(compared, rows_of(pairs, "read"))


def _before(stored: pd.DataFrame, at: int, number: int) -> int:
    """The place of the last row before `at` that has a number, of the same source."""
    earlier = stored.iloc[:at]
    return int(np.flatnonzero((earlier["part"] == stored["part"][at]) & (earlier["number"] == number))[-1])


def _stored(run: RunView) -> tuple[SourceLog | None, CheckResult]:
    """The same for what needs all that the leaders have."""
    log, answer = judged(run)
    if log is None:
        return None, answer
    unknown = unread_logs(run) or run.shared(SourceMapping).doubt
    opaque = NO_CONNECTOR if log.opaque and log.foreign else log.opaque
    lacking = opaque or ("" if log.stores_positions else NOT_STORED)
    return (None if unknown or lacking else log), CheckResult(0, lacking="" if unknown else lacking, unknown=unknown)
