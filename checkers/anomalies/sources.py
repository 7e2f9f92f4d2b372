"""A source connector: each position of its source is in the topic once (KIP-618). Its stored offsets: `source_offsets.py`.

Positions of a source partition rise by one (`position_by` of the workload `connect`), or are of another kind: the contract's
`positions`, and what they cannot be is unknown (`pipeline/source_mapping.py`). A position may give several records, an
ordered list (`place_by`, `count_by`): then each of these is compared, in the order of all (`pipeline/source_positions.py`).
Where a stored offset was altered or reset on request (KIP-875), positions begin anew: what came before and what came after are
judged as two sources (`part`).

The docstring is the definition of the anomaly. In the examples `record a:3@5` is position 3 of source a at offset 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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
from fencepost.checkers.contract.needs import FINAL_COMMITTED, REQUESTS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.chains import rows_of
from fencepost.checkers.pipeline.deletions import OFFSETS, RECORDS, TopicDeletions
from fencepost.checkers.pipeline.source_answers import (
    MAY_HAVE_ALTERED,
    NO_CONNECTOR,
    NOT_READ_BACK,
    identity,
    if_read_back,
    judged,
    records_text,
    span,
)
from fencepost.checkers.pipeline.source_log import ABORTED, SourceLog, unread_logs
from fencepost.checkers.pipeline.source_mapping import ORDERED, SPARSE, UNSTATED, SourceMapping
from fencepost.checkers.selfcheck.source_damages import DROP_POSITION, REPEAT_POSITION
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import CONNECTOR
from fencepost.harness.api.words import and_more

ONLY_ORDERED = "positions are in order, and several records may have one: {}; `sequence_by` would tell"
NONE_ABORTED = (
    "positions are sparse: one that is missing is known only where a task wrote it in a transaction that was aborted, and behind"
    " it is a committed one or the stored offset; `sequence_by` would tell"
)


def _explain_duplicate(finding: Finding, text: FindingText) -> str:
    log, rows = text.run.shared(SourceLog), finding.records("read")
    name, first, last = span(log, rows)
    what = records_text(log, name, first, last)
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
    return if_read_back(run, _duplicates(run))


def _duplicates(run: RunView) -> CheckResult:
    """The answer of `source_duplicate`, whether the topic was read back or not."""
    log, answer = judged(run)
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
    if aborted := finding.records("sent"):
        gone, later = log.at(aborted[0]), log.at(finding.records("read")[0])
        has = f"has {later.words} at {later.place}, and not {gone.words}"
        if later.kind == "offset":
            has = f"does not have it, though the source's offset is {later.words}, at {later.place}"
        return (
            f"Record {gone.words} of source {later.name} is not there: a task wrote it at {text.places(aborted)}, in a "
            f"transaction that was aborted, and the complete read_committed final read {has}."
        )
    known = sorted((log.at(row) for row in finding.rows), key=lambda entry: entry.sequence)
    below, above = known[0], known[-1]
    first, last = below.sequence + (below.kind == "record"), above.sequence - (above.kind == "record")
    if len(known) == 1:
        first = log.entries.positions.begin(above.name, above.number)
    what = records_text(log, above.name, first, last)
    read, stored = (
        [f"{identity(log, entry)} at {entry.place}" for entry in (below, above) if entry.kind == kind]
        for kind in ("record", "offset")
    )
    read = read[-len(known) :]
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

    Positions below the first one that was read are not judged; of one that gives several records all are. Where the target topic
    was deleted during the run, the first stored offset of a source is known, too: what lay in the deleted topic is found, and
    permitted.

    Where records tell their number in a sequence (`sequence_by`), the numbers of records alone are compared. A sparse position is
    missing where the leaders' logs have a record of it in a transaction that was aborted, and none that is committed, though a
    later one is, or the stored offset has reached it. Of positions that are only ordered none is known to be missing.

    compared: positions from the first one read to the last one known, of each source. One cause: a stretch of positions.

    Example::

        ms   process  operation   t-0                       outcome
        0-1  3        final read  record a:0@0, a:2@1

    Found: read t-0@0 and read t-0@1, for position 1 is missing.

    Slow twin: `source_losses` in tests/support/source_reference.py.
    """
    log, answer = judged(run)
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
    counted = _missing(records, stored, deletions)
    return counted if deletions.there_are else _with_beginnings(log, records, counted)


def _with_beginnings(log: SourceLog, records: pd.DataFrame, counted: CheckResult) -> CheckResult:
    """The same with the records that are missing of the first position of each source, where that gives several."""
    heads = records.sort_values("number").drop_duplicates("part")
    named = heads[["name", "number"]].itertuples(index=False)
    begins = np.array([log.entries.positions.begin(name, int(number)) for name, number in named], dtype=np.int64)
    short = heads["number"].to_numpy() - begins
    cut, compared = heads[short > 0], counted.compared + int(short.sum())
    if cut.empty:
        return replace(counted, compared=compared)
    causes = -2 - len(records) - len(log.offsets) - np.arange(len(cut))  # others have a cause for each step between two
    rows = rows_of(cut.assign(cause=causes, v=NONE, time=cut["end"]), "read")
    return CheckResult(compared, join_rows(rows, counted.rows) if len(counted.rows) else rows)


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
    last = log.offsets.sort_values(["partition", "offset"]).drop_duplicates("part", keep="last").set_index("part")["number"]
    reached = pd.concat([there["max"], last]).groupby(level=0).max()
    between = written["number"].between(written["part"].map(there["min"]), written["part"].map(reached))
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
    """The visible record of a source with the lowest position above one, as a row; without any its last stored offset."""
    later = log.visible[(log.visible["part"] == part) & (log.visible["number"] > number)].sort_values("number")
    stored = log.offsets[log.offsets["part"] == part].sort_values(["partition", "offset"])
    columns = ["partition", "op", "offset", "end"]
    return (later.iloc[:1] if len(later) else stored.iloc[-1:])[columns]


def _in_parts(log: SourceLog, rows: pd.DataFrame) -> pd.DataFrame:
    """Drop the sources that have records of which it is not known whether they came before an alteration."""
    return rows[~rows["name"].isin(log.partial)] if log.partial else rows


def _runs(rows: pd.DataFrame) -> Ints:
    """A cause for each row, the same for neighbouring positions of one source that a deletion explains, or does not; rows are in
    their order."""
    new = (rows["part"] != rows["part"].shift()) | ~rows["sequence"].diff().isin((0, 1))
    new |= rows["certain"] != rows["certain"].shift()
    return np.asarray(-2 - new.cumsum(), dtype=np.int64)


def _listed(log: SourceLog, rows: Iterable[FindingRecord]) -> str:
    """`3 at t-0@5 and 3 at t-1@9`, at most six of them."""
    known = sorted((log.at(row) for row in rows), key=lambda entry: (entry.sequence, entry.place))
    words = [f"{identity(log, entry)} at {entry.place}" for entry in known[:6]]
    return (" and ".join(words) if len(words) < 3 else ", ".join(words)) + and_more(len(known) - len(words), ", and ")
