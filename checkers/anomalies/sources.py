"""A source connector: each position of its source is in the topic once, and its stored offset moves with the records (KIP-618).

Positions of a source partition rise by one (`position_by` of the workload `connect`), or are of another kind: the contract's
`positions`, and what they cannot be is unknown (`pipeline/source_mapping.py`). A position may give several records, an
ordered list (`place_by`, `count_by`): then each of these is compared, in the order of all (`pipeline/source_positions.py`).
Where a stored offset was altered or reset on request (KIP-875), positions begin anew: what came before and what came after are
judged as two sources (`part`).

The docstring is the definition of the anomaly. In the examples `record a:3@5` is position 3 of source a at offset 5,
`stored a:3@5` its stored offset 3 in an offsets topic, `/7` the producer's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import STRUCK
from fencepost.checkers.contract.common_rules import (
    COMPACTED,
    OFFSETS_DELETED,
    RECORDS_DELETED,
    RETAINED,
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
from fencepost.checkers.pipeline.source_log import (
    ABORTED,
    COMMITTED,
    OUTSIDE,
    PLAIN,
    Known,
    SourceLog,
    has_connector,
    unread_logs,
)
from fencepost.checkers.pipeline.source_mapping import ORDERED, SPARSE, UNSTATED, SourceMapping
from fencepost.checkers.selfcheck.source_damages import DROP_POSITION, LOWER_OFFSET, REPEAT_POSITION, TEAR_OFFSET
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import CONNECTOR
from fencepost.harness.api.words import and_more

NO_CONNECTOR = "no records of a connector were read back"
NOT_READ_BACK = "not every partition of the topic was read back by a complete read_committed final read"
NOT_STORED = "no stored offset that tells a position was read from the leaders' logs"
ONLY_ORDERED = "positions are in order, and several records may have one: {}; `sequence_by` would tell"
NONE_ABORTED = (
    "positions are sparse: one that is missing is known only where a task wrote it in a transaction that was aborted, and between"
    " committed ones none was; `sequence_by` would tell"
)
MAY_HAVE_ALTERED = "a request that is missing may have altered the stored offset"
ALTERED = "the connector's offsets were altered or reset on request, and it is not known which records came before"


# --------------------------------------------------------------------------------------------------
# Positions
# --------------------------------------------------------------------------------------------------
def _explain_duplicate(finding: Finding, text: FindingText) -> str:
    log, rows = text.run.shared(SourceLog), finding.records("read")
    name, first, last = _span(log, rows)
    what = _records(log, name, first, last)
    return (
        f"{what} of source {name or 'partition'} {'is' if first == last else 'are'} there more than once: "
        f"the {'complete ' if log.read_back else ''}read_committed final read has {_listed(log, rows)}."
    )


@run_check(
    "source-duplicate",
    occasions=STRUCK,
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("with the stored offsets, so that tasks read on from older ones"),
        *UNFENCED_SOURCES,
        OFFSETS_DELETED,
        Rule(
            FORBIDDEN,
            "records and stored offsets are one transaction, and tasks read on from these (KIP-618)",
            {"application": "none"},
            essential=True,
        ),
        Rule(FORBIDDEN, "records and stored offsets are one transaction, and tasks read on from these (KIP-618)"),
    ),
    evidence=Needs({FINAL_COMMITTED}, "what is missing of the final read may hold it again", {REQUESTS}, MAY_HAVE_ALTERED),
    damages=(REPEAT_POSITION,),
    across=True,
    explain=_explain_duplicate,
    needs=NO_CONNECTOR,
)
def source_duplicate(run: RunView) -> CheckResult:
    """A position of a source is in the target topic more than once.

    Where records tell their number in a sequence (`sequence_by`), that is meant. Positions that are only ordered are not
    compared; nor, unless somebody has said what they are, positions that records of one transaction share.

    Where a topic with stored offsets was deleted, tasks may begin again: a position may be there once for each incarnation of it.

    compared: records that the complete read_committed final read has. One cause: a stretch of positions of a source.

    Example::

        ms   process  operation   t-0                       t-1           outcome
        0-1  3        final read  record a:0@0, a:1@1       record a:1@4

    Found: read t-0@1 and read t-1@4.

    Slow twin: `source_duplicates` in tests/support/source_reference.py.
    """
    return _if_read_back(run, _duplicates(run))


def _duplicates(run: RunView) -> CheckResult:
    """The answer of `source_duplicate`, whether the topic was read back or not."""
    log, answer = _judged(run)
    if log is None:
        return answer
    deletions = run.shared(TopicDeletions)
    if unclear := deletions.unclear(OFFSETS):
        return CheckResult(0, unknown=unclear)
    mapping = run.shared(SourceMapping)
    if mapping.kind == ORDERED and not mapping.sequenced:
        return CheckResult(0, lacking=ONLY_ORDERED.format("whether one is there twice cannot be told"))
    if mapping.kind == UNSTATED and not mapping.sequenced and mapping.repeating:
        return CheckResult(0, unknown=mapping.repeating)
    compared = len(_in_parts(log, log.visible))
    repeated = _in_parts(log, deletions.repeated).sort_values(["part", "sequence", "partition", "offset"])
    if repeated.empty:
        return CheckResult(compared)
    repeated = repeated.assign(cause=_runs(repeated), v=NONE, time=repeated["end"])
    return CheckResult(compared, rows_of(repeated, "read"))


def _explain_loss(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(SourceLog)
    known = sorted((log.at(row) for row in finding.rows), key=lambda entry: entry.sequence)
    below, above = known[0], known[-1]
    if aborted := finding.records("sent"):
        return (
            f"Record {below.words} of source {above.name} is not there: a task wrote it at {text.places(aborted)}, in a "
            f"transaction that was aborted, and the complete read_committed final read has {above.words} at {above.place}, and "
            f"not {below.words}."
        )
    first, last = below.sequence + (below.kind == "record"), above.sequence - (above.kind == "record")
    what = _records(log, above.name, first, last)
    read, stored = (
        [f"{_identity(log, entry)} at {entry.place}" for entry in (below, above) if entry.kind == kind]
        for kind in ("record", "offset")
    )
    seen = [f"the complete read_committed final read has {' and '.join(read)}"] * bool(read)
    seen += [f"the stored offset{'s' * (len(stored) > 1)} {' and '.join(stored)}"] * bool(stored)
    return f"{what} of source {above.name} {'is' if first == last else 'are'} not there: {', and '.join(seen)}."


@run_check(
    "source-loss",
    occasions=STRUCK,
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        COMPACTED,
        RETAINED,
        *cut_off("records may be gone, and the offset that was committed with them not"),
        RECORDS_DELETED,
        Rule(FORBIDDEN, "an offset is stored after its records, or with them (KIP-618)"),
    ),
    evidence=Needs(
        {FINAL_COMMITTED},
        "what is missing of the final read may be of a later position",
        {FINAL_COMMITTED, REQUESTS},
        f"a line that is missing may have it; {MAY_HAVE_ALTERED}",
    ),
    damages=(DROP_POSITION,),
    across=True,
    explain=_explain_loss,
    needs=NO_CONNECTOR,
)
def source_loss(run: RunView) -> CheckResult:
    """A position of a source is not in the target topic, though a later one is, or is stored as the connector's offset.

    Positions below the first one that was read are not judged. Where the target topic was deleted during the run, the first
    stored offset of a source is known, too: what lay in the deleted topic is found, and permitted.

    Where records tell their number in a sequence (`sequence_by`), the numbers of records alone are compared. A sparse position is
    missing where the leaders' logs have a record of it in a transaction that was aborted, and none that is committed, though a
    later one is. Of positions that are only ordered none is known to be missing.

    compared: positions from the first one read to the last one known, of each source. One cause: a stretch of positions.

    Example::

        ms   process  operation   t-0                       outcome
        0-1  3        final read  record a:0@0, a:2@1

    Found: read t-0@0 and read t-0@1, for position 1 is missing.

    Slow twin: `source_losses` in tests/support/source_reference.py.
    """
    log, answer = _judged(run)
    if log is None or not log.read_back:
        return answer if log is None else CheckResult(0, lacking=NOT_READ_BACK)
    deletions = run.shared(TopicDeletions)
    if log.strange or (unclear := deletions.unclear(RECORDS)):
        return CheckResult(0, lacking=log.strange, unknown="" if log.strange else unclear)
    mapping, columns = run.shared(SourceMapping), ["part", "name", "number", "partition", "offset", "op", "end"]
    if mapping.sequenced:
        counted = _in_parts(log, log.visible).assign(number=lambda rows: rows["sequence"])
        unknown = "topics were deleted: which numbers of the sequence lay there is not known" if deletions.there_are else ""
        return CheckResult(0, unknown=unknown) if unknown else _missing(counted[columns], counted[columns].iloc[:0], deletions)
    if not mapping.dense:
        return _not_counted(log, mapping)
    records, stored = (_in_parts(log, table)[columns] for table in (log.visible, log.offsets))
    return _missing(records, stored, deletions)


def _missing(records: pd.DataFrame, stored: pd.DataFrame, deletions: TopicDeletions) -> CheckResult:
    """Numbers that are missing between those of records, and up to stored ones."""
    last = stored.sort_values("number").drop_duplicates("part", keep="last")
    beyond = last[last["number"] > last["part"].map(records.groupby("part")["number"].max())]
    marks = deletions.marks[records.columns] if deletions.floors else beyond.iloc[:0]
    known = pd.concat([records.assign(stored=False), marks.assign(stored=True), beyond.assign(stored=True)])
    known = known.drop_duplicates(["part", "number"]).sort_values(["part", "number"], ignore_index=True)
    step = known.groupby("part")["number"].diff().fillna(1).to_numpy(dtype=np.int64)
    missing = ((step > 1) | known["stored"].to_numpy()) & known.duplicated("part").to_numpy()
    deleted = missing & (known["number"] <= known["name"].map(deletions.floors).fillna(NONE)).to_numpy()
    compared, above = int(step[~deleted].sum()), np.flatnonzero(missing)
    if not len(above):
        return CheckResult(compared)
    pairs = known.iloc[np.column_stack([above - 1, above]).ravel()]
    pairs = pairs.assign(cause=-2 - np.repeat(np.arange(len(above)), 2), v=NONE, time=pairs["end"])
    return CheckResult(compared, rows_of(pairs, "read"))


def _not_counted(log: SourceLog, mapping: SourceMapping) -> CheckResult:
    """The answer where positions do not rise by one."""
    if mapping.kind == ORDERED:
        return CheckResult(0, lacking=ONLY_ORDERED.format("whether one is missing cannot be told"))
    if mapping.kind != SPARSE:
        return CheckResult(0, unknown=mapping.no_count or mapping.repeating)
    if unknown := mapping.doubt or unread_logs(log.run):
        return CheckResult(0, unknown=unknown)
    written = log.records[log.records["ended"] == ABORTED].drop_duplicates(["part", "number"])
    there = log.visible.groupby("part")["number"].agg(["min", "max"])
    between = written["number"].between(written["part"].map(there["min"]), written["part"].map(there["max"]))
    written, keys = written[between], ["part", "number"]
    gone = written[~pd.MultiIndex.from_frame(written[keys]).isin(pd.MultiIndex.from_frame(log.visible[keys]))]
    if gone.empty:
        return CheckResult(len(written), lacking="" if len(written) else NONE_ABORTED)
    causes = -2 - np.arange(len(gone))
    above = pd.concat([_next_committed(log, part, number) for part, number in gone[keys].itertuples(index=False)])
    rows = [
        rows_of(table.assign(cause=causes, v=NONE, time=table["end"]), role) for table, role in ((gone, "sent"), (above, "read"))
    ]
    return CheckResult(len(written), join_rows(*rows))


def _next_committed(log: SourceLog, part: str, number: int) -> pd.DataFrame:
    """The visible record of a source with the lowest position above one, as a row."""
    later = log.visible[(log.visible["part"] == part) & (log.visible["number"] > number)]
    return later.sort_values("number").iloc[:1]


# --------------------------------------------------------------------------------------------------
# Stored offsets
# --------------------------------------------------------------------------------------------------
def _explain_torn(finding: Finding, text: FindingText) -> str:
    log = text.run.shared(SourceLog)
    stored, rows = finding.records("sent"), finding.records("read")
    name, first, last = _span(log, rows)
    what = _records(log, name, first, last)
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
    return _if_read_back(run, _torn_offsets(run))


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
        f"and {low.words} after it, at {low.place}."
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
    return _if_read_back(run, _regressions(run))


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


# --------------------------------------------------------------------------------------------------
# Shared
# --------------------------------------------------------------------------------------------------
def _judged(run: RunView) -> tuple[SourceLog | None, CheckResult]:
    """The log of what a connector wrote; None where nothing can be compared, and the answer then."""
    if not has_connector(run):
        return None, CheckResult(0)
    log = run.shared(SourceLog)
    lacking = ALTERED if log.unordered else log.strange if log.visible.empty else ""
    return (None if lacking else log), CheckResult(0, lacking=lacking)


def _if_read_back(run: RunView, result: CheckResult) -> CheckResult:
    """A result where the topic was read back; else its findings alone: what was read is there, and absence says nothing."""
    if not has_connector(run) or run.shared(SourceLog).read_back or len(result.rows) or run.shared(SourceLog).unordered:
        return result
    return CheckResult(0, lacking=NOT_READ_BACK, unknown=result.unknown)


def _stored(run: RunView) -> tuple[SourceLog | None, CheckResult]:
    """The same for what needs all that the leaders have."""
    log, answer = _judged(run)
    if log is None:
        return None, answer
    unknown = unread_logs(run) or run.shared(SourceMapping).doubt
    opaque = NO_CONNECTOR if log.opaque and log.foreign else log.opaque
    lacking = opaque or ("" if (log.offsets["number"] >= 0).any() else NOT_STORED)
    return (None if unknown or lacking else log), CheckResult(0, lacking="" if unknown else lacking, unknown=unknown)


def _in_parts(log: SourceLog, rows: pd.DataFrame) -> pd.DataFrame:
    """Drop the sources that have records of which it is not known whether they came before an alteration."""
    return rows[~rows["name"].isin(log.partial)] if log.partial else rows


def _runs(rows: pd.DataFrame) -> Ints:
    """A cause for each row, the same for neighbouring positions of one source that a deletion explains, or does not; rows are in
    their order."""
    new = (rows["part"] != rows["part"].shift()) | ~rows["sequence"].diff().isin((0, 1))
    new |= rows["certain"] != rows["certain"].shift()
    return np.asarray(-2 - new.cumsum(), dtype=np.int64)


def _span(log: SourceLog, rows: Iterable[FindingRecord]) -> tuple[str, int, int]:
    """The source of some records, and their first and last position."""
    known = [log.at(row) for row in rows]
    numbers = [entry.sequence for entry in known]
    return known[0].name, min(numbers), max(numbers)


def _records(log: SourceLog, name: str, first: int, last: int) -> str:
    """`Record 3`, or `Records 3 to 5`."""
    begin, end = (str(at) if log.entries.parted.sequenced else log.words(name, at) for at in (first, last))
    return f"Record {begin}" if first == last else f"Records {begin} to {end}"


def _identity(log: SourceLog, entry: Known) -> str:
    """What tells a record from all others of its source, in words: its number in a sequence, or its position."""
    return str(entry.sequence) if log.entries.parted.sequenced and entry.kind == "record" else entry.words


def _listed(log: SourceLog, rows: Iterable[FindingRecord]) -> str:
    """`3 at t-0@5 and 3 at t-1@9`, at most six of them."""
    known = sorted((log.at(row) for row in rows), key=lambda entry: (entry.sequence, entry.place))
    words = [f"{_identity(log, entry)} at {entry.place}" for entry in known[:6]]
    return (" and ".join(words) if len(words) < 3 else ", ".join(words)) + and_more(len(known) - len(words), ", and ")
