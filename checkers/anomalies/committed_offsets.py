"""Offsets that a group commits in transactions (KIP-98, KIP-447): with the outputs or not at all, forwards, told when committed,
and never one that nobody was to commit.

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import WORK
from fencepost.checkers.contract.common_rules import (
    COORDINATOR_CUT_OFF,
    HIDDEN_IN_PART,
    OFFSET_IN_PART,
    UNLESS_GROUP,
    UNLESS_MEMBER,
    UNLESS_PRODUCER,
    cut_off,
)
from fencepost.checkers.contract.needs import (
    ALL_READS,
    ANYBODY,
    DECISIONS,
    FINAL_COMMITTED,
    OUTCOMES,
    POLLS,
    SENDS,
    SETTLING,
    Needs,
)
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import ABORTED, COMMITTED, FOREVER, NONE
from fencepost.checkers.pipeline.chains import (
    NO_OFFSETS,
    NO_PIPELINE,
    Pipeline,
    has_chains,
    places_of_records,
    rows_of,
    unless_of_several_groups,
)
from fencepost.checkers.pipeline.offset_expiry import remembered_ns, unless_forgotten
from fencepost.checkers.pipeline.operator_aborts import regression_beyond, torn_offset_beyond
from fencepost.checkers.selfcheck.pipeline_damages import LOSE_OFFSET, MOVE_BACK, TELL_EARLY, TELL_NOBODYS, TELL_OLD
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import PROCESSED_ONCE

NOBODYS = "is the group's offset, and the history has no operation that was to commit it; who commits is not wholly recorded"
UNRECORDED = "may have been committed by somebody else: who commits is not wholly recorded"


def _explain_torn(finding: Finding, text: FindingText) -> str:
    row, behind = (finding.records("sent") or finding.rows)[0], finding.records("missing")
    who = f"{text.name(row.op)} {text.outcome(row.op)}"
    if behind:
        committed = text.run.shared(Pipeline).chains.committed
        none = [record for record in behind if record.partition not in committed]
        below = [record for record in behind if record.partition in committed]
        how = [f"the group has no offset at the end where it committed one, {text.places(none)}"] * bool(none)
        how += [f"the group's offsets at the end lie below those that it committed, {text.places(below)}"] * bool(below)
        return f"{who}, but {', and '.join(how)}."
    if answers := finding.records("read"):
        return f"{who}, but {text.process(answers[0].op)} was told the group's offset {row.place}, which only it was to commit."
    return f"{who}, but the group's offset at the end, {row.place}, is one that only it was to commit."


@run_check(
    "torn-offset",
    occasions=(Occasion.INSTANCE_DIED, Occasion.WORK_ABORTED, Occasion.WORK_UNANSWERED),
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_MEMBER,
        *cut_off("with the group's committed offsets, and not with the outputs, or the other way round"),
        HIDDEN_IN_PART,
        Rule(FORBIDDEN, "offsets in a transaction are committed with its records or not at all (KIP-98: atomicity)"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, *ALL_READS, SETTLING},
        "which records were processed, or which offsets the group had at the end, is not wholly known",
        {SENDS, OUTCOMES, FINAL_COMMITTED},
        "what is missing may have processed the record, or shown that it was",
    ),
    damages=(LOSE_OFFSET,),
    across=True,
    gather=places_of_records,
    brief=has_chains,
    beyond_aborts=torn_offset_beyond,
    explain=_explain_torn,
    needs=f"{NO_PIPELINE}, or nobody looked at the group's offsets at the end",
)
def torn_offset(run: RunView) -> CheckResult:
    """A transaction's outputs are committed and the offsets in it are not, or the other way round.

    1. The transaction is committed, and at the end the group has no offset, or a lower one than the transaction's; no transaction
       that began after it has committed the lower one (`offset-regression`).
    2. Only transactions that did not commit were to commit an offset, and it is the group's at the end, or the group's offset
       that a member was told.

    Where somebody commits of whom the history does not tell (contract `offset_commits`), that may be his. Where brokers forget
    offsets (contract `offset_expiry`), one that was committed longer before the end may have been forgotten: the group has none
    then, and a lower one only if somebody may have committed it since.

    compared: offsets of transactions in partitions whose group offset at the end is known, and offsets that members were told.
    One cause: the transaction.

    Example::

        ms   process  operation      in-0                   out-0          outcome
        0-1  1        txn            send a@5, b@6          -              committed
        2-3  2        txn            process a@5, offset 6  send x@0 of a  committed
        4-5  2        txn            process b@6, offset 7  send y@2 of b  aborted
        6-7  3        final read     read a@5, b@6          read x@0
        8-9  harness  group offsets  7                      -

    Found: sent in-0@7 by the aborted transaction. b will never be read again.

    Slow twin: `torn_offsets` in tests/support/pipeline_reference.py.
    """
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty:
        return CheckResult(0)
    committed = {**dict.fromkeys(pipeline.chains.uncommitted, NONE), **pipeline.chains.committed}
    looked = committed or pipeline.chains.disputed or pipeline.chains.records.empty
    if pipeline.chains.offsets.empty:
        return CheckResult(len(pipeline.looks), lacking="" if looked else NO_OFFSETS)
    offsets = pipeline.offsets[pipeline.offsets["partition"].isin(list(committed))] if committed else pipeline.offsets.iloc[:0]
    at_end = offsets["partition"].map(committed)
    behind = offsets[(offsets["fate"] == COMMITTED) & (offsets["offset"] > at_end) & ~_lowered_later(offsets, at_end)]
    kept = pipeline.chains.committed_at[1] - behind["began"] < remembered_ns(run)
    kept |= (at_end[behind.index] != NONE) & ~_perhaps_lowered(offsets, at_end, behind)
    forgotten, behind = behind[~kept], behind[kept]
    lawful = offsets[(offsets["fate"] != ABORTED) & (offsets["offset"] == at_end)]["partition"]
    alone = offsets[(offsets["fate"] == ABORTED) & (offsets["offset"] == at_end) & ~offsets["partition"].isin(lawful)]
    lacking = "" if looked else NO_OFFSETS
    seen, by = _offsets_of_aborted(pipeline)
    aborted = pd.concat([alone, by]).drop_duplicates(["op", "partition"])
    parts = [
        rows_of(as_rows(some).assign(cause=cause), role)
        for some, role, cause in (
            (behind, "missing", behind["op"]),
            (aborted, "sent", aborted["op"]),
            (seen, "read", seen["cause"]),
        )
        if len(some)
    ]
    result = CheckResult(len(offsets) + len(pipeline.looks), join_rows(*parts) if parts else {}, lacking)
    if pipeline.chains.dispute and not result.count:
        return CheckResult(result.compared, unknown=pipeline.chains.dispute)
    if len(forgotten) and not result.count:
        return unless_forgotten(replace(result, rows=rows_of(as_rows(forgotten).assign(cause=forgotten["op"]), "missing")))
    return _unless_unrecorded(run, result)


def _unless_unrecorded(run: RunView, result: CheckResult) -> CheckResult:
    """A result; unknown, where somebody of whom the history does not tell may have committed the offsets that it is about."""
    if not result.count or run.contract["offset_commits"] != "unrecorded":
        return result
    where, offset = result.rows["partition"][0], result.rows["offset"][0]
    return CheckResult(result.compared, unknown=f"{where}@{offset} {UNRECORDED}")


def _lowered_later(offsets: pd.DataFrame, at_end: pd.Series) -> pd.Series:
    """True for each offset where a transaction that began after its own had ended has committed the group's offset at the end."""
    known = (offsets["fate"] == COMMITTED) & (offsets["ended"] != NONE)
    last = offsets[known & (offsets["offset"] == at_end)].groupby("partition")["began"].max()
    return known & (offsets["ended"] < offsets["partition"].map(last).fillna(NONE))


def _perhaps_lowered(offsets: pd.DataFrame, at_end: pd.Series, behind: pd.DataFrame) -> pd.Series:
    """True for each of some offsets where a transaction that may have ended after it began was to commit the one at the end."""
    ended = offsets["ended"].where(offsets["ended"] != NONE, FOREVER)[offsets["offset"] == at_end]
    last = ended.groupby(offsets["partition"]).max()
    return behind["partition"].map(last).fillna(NONE) > behind["began"]


def _offsets_of_aborted(pipeline: Pipeline) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Offsets that a member was told although only aborted transactions were to commit them; and these transactions' offsets.

    One that began after the member had been told has nothing to do with it.
    """
    pairs = pipeline.looks.merge(pipeline.offsets, on=["partition", "offset"], suffixes=("", "_by"))
    pairs = pairs[pairs["began_by"] <= pairs["ended"]]
    lawful = pairs.groupby(["op", "partition"])["fate"].transform(lambda fates: (fates != ABORTED).any())
    wrong = pairs[~lawful.astype(np.bool_)] if len(pairs) else pairs
    first = wrong.sort_values("began_by").drop_duplicates(["op", "partition"])
    aborted = first[["op_by", "partition"]].rename(columns={"op_by": "op"}).drop_duplicates()
    by = pipeline.offsets.merge(aborted, on=["op", "partition"])
    return first.assign(cause=first["op_by"]), by


def as_rows(offsets: pd.DataFrame) -> pd.DataFrame:
    """Offsets of operations as rows of a result."""
    return offsets.assign(cause=offsets["op"], v=NONE, time=offsets["ended"].where(offsets["ended"] != NONE, offsets["began"]))


def _explain_regression(finding: Finding, text: FindingText) -> str:
    later, earlier = finding.records("sent")[0], finding.records("read")[0]
    return (
        f"{text.name(later.op)} committed the group's offset {later.place}, after {text.name(earlier.op, capital=False)} had "
        f"committed {earlier.place}: the offset went back."
    )


@run_check(
    "offset-regression",
    occasions=WORK,
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_MEMBER,
        *cut_off("with the group's committed offsets, so that members read on from older ones"),
        OFFSET_IN_PART,
        Rule(FORBIDDEN, "members read on from the group's offset, and who has lost the partition is fenced (KIP-447)"),
    ),
    evidence=Needs({SENDS, OUTCOMES, *ALL_READS}, ANYBODY),
    damages=(MOVE_BACK,),
    beyond_aborts=regression_beyond,
    explain=_explain_regression,
    needs=f"{NO_PIPELINE}, or none after another in one partition",
)
def offset_regression(run: RunView) -> CheckResult:
    """A group's committed offset goes back: a transaction that began after another one had committed commits a lower one.

    A member reads on from the group's offset, so its commits rise, and one that has lost the partition is fenced (KIP-447).

    Where somebody commits of whom the history does not tell (contract `offset_commits`), and a member was told a lower offset in
    between, whoever put it there is not known. Nor is it known what the group had where brokers forget offsets (contract
    `offset_expiry`), and the two commits are further apart than that.

    compared: committed transactions that began after another one had committed an offset of the same partition. One cause: the
    later transaction.

    Example::

        ms   process  operation  in-0                        out-0                    outcome
        0-1  1        txn        send a@5, b@6               -                        committed
        2-3  2        txn        process a@5, b@6, offset 7  send x@0 of a, y@1 of b  committed
        4-5  3        txn        process a@5, offset 6       send z@3 of a            committed
        6-7  4        final read  read a@5, b@6              read x@0, y@1, z@3

    Found: sent in-0@6, read in-0@7 by the one before.

    Slow twin: `offset_regressions` in tests/support/pipeline_reference.py.
    """
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty or pipeline.chains.offsets.empty:
        return CheckResult(0)
    offsets = known_commits(pipeline)
    ever = _below(offsets, offsets, "sent")
    result = unless_of_several_groups(_below(offsets, offsets, "sent", within=remembered_ns(run)), pipeline.chains)
    if result.unknown:
        return result
    if ever.count and not result.count:
        return unless_forgotten(ever)
    if not result.count or run.contract["offset_commits"] != "unrecorded":
        return result
    by_members = _below(offsets, offsets, "sent", pipeline.looks, remembered_ns(run))
    by_members = unless_of_several_groups(by_members, pipeline.chains)
    return by_members if by_members.count else _unless_unrecorded(run, result)


def _explain_stale(finding: Finding, text: FindingText) -> str:
    answer, earlier = finding.records("missing")[0], finding.records("read")[0]
    what = f"{answer.place}" if answer.offset != NONE else f"of {answer.partition}: none"
    return (
        f"{text.process(answer.op).capitalize()} asked for the group's offset after {text.name(earlier.op, capital=False)} had "
        f"committed {earlier.place}, and was told {what}."
    )


@run_check(
    "stale-offset",
    occasions=WORK,
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_GROUP,
        Rule(
            ALLOWED,
            "a coordinator that was frozen answers from what it knew; the member's generation fences what follows (KIP-447)",
        ),
    ),
    evidence=Needs({SENDS, OUTCOMES, *ALL_READS}, ANYBODY),
    damages=(TELL_OLD,),
    explain=_explain_stale,
    needs=f"{NO_PIPELINE}, or nobody asked for an offset after a commit",
)
def stale_offset(run: RunView) -> CheckResult:
    """A member asks for the group's offset after a transaction has committed one, and is told a lower one, or none.

    Permitted: a coordinator that was frozen, and has a successor, answers from what it knew. What the member then does is
    fenced by its generation (KIP-447).

    compared: offsets that members were told after a transaction had committed one of the same partition. One cause: the question.

    Example::

        ms   process  operation  in-0                        out-0                    outcome
        0-1  1        txn        send a@5, b@6               -                        committed
        2-3  2        txn        process a@5, b@6, offset 7  send x@0 of a, y@1 of b  committed
        4-5  3        committed  6
        6-7  4        final read  read a@5, b@6              read x@0, y@1

    Found: missing in-0@6, read in-0@7 by the transaction before.

    Slow twin: `stale_offsets` in tests/support/pipeline_reference.py.
    """
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty or pipeline.looks.empty or pipeline.chains.offsets.empty:
        return CheckResult(0)
    below = _below(pipeline.looks, known_commits(pipeline), "missing", within=remembered_ns(run))
    return unless_of_several_groups(below, pipeline.chains)


def known_commits(pipeline: Pipeline) -> pd.DataFrame:
    """Offsets of transactions that surely committed, and of which it is known when they ended."""
    return pipeline.offsets[(pipeline.offsets["fate"] == COMMITTED) & (pipeline.offsets["ended"] != NONE)]


def _below(
    later: pd.DataFrame, offsets: pd.DataFrame, role: str, looks: pd.DataFrame | None = None, within: int = FOREVER
) -> CheckResult:
    """Offsets that are lower than one which had been committed before their operation began.

    within: how long before at most (ns).
    looks: left out is what lies behind one of these in between that was lower too, so that somebody else may have put it there.
    """
    compared, parts = 0, []
    for partition, some in later.groupby("partition", sort=True):
        before = offsets[offsets["partition"] == partition]
        highest, position = _highest_before(before, some["began"].to_numpy())
        compared += int((position >= 0).sum())
        back = (position >= 0) & (highest > some["offset"].to_numpy())
        since = before["ended"].to_numpy()[np.maximum(position, 0)] if len(before) else some["began"].to_numpy()
        back &= some["began"].to_numpy() - since < within
        if looks is not None:
            told = looks[looks["partition"] == partition]
            back &= ~_told_between(told, since, some["began"].to_numpy(), highest)
        cause = {"cause": some["op"].to_numpy()[back]}
        parts += [rows_of(as_rows(some[back]).assign(**cause), role)]
        parts += [rows_of(as_rows(before.iloc[position[back]]).assign(**cause), "read")]
    parts = [rows for rows in parts if len(rows["op"])]
    return CheckResult(compared, join_rows(*parts) if parts else {})


def _told_between(told: pd.DataFrame, since: Ints, until: Ints, highest: Ints) -> Bools:
    """True where somebody was told a lower offset, or none, between two times."""
    began, ended, offset = (told[name].to_numpy()[:, None] for name in ("began", "ended", "offset"))
    return np.asarray(((began >= since) & (ended <= until) & (offset < highest)).any(axis=0))


def _highest_before(offsets: pd.DataFrame, times: Ints) -> tuple[Ints, Ints]:
    """The highest offset, for each time, that an operation which had ended by then committed, and the position of that operation
    (NONE: none had ended).
    """
    if offsets.empty:
        return np.full(len(times), NONE), np.full(len(times), NONE)
    order = np.argsort(offsets["ended"].to_numpy(), kind="stable")
    highest = np.maximum.accumulate(offsets["offset"].to_numpy()[order])
    first = np.searchsorted(highest, highest)  # where the running maximum was reached: it never falls
    count = np.searchsorted(offsets["ended"].to_numpy()[order], times)
    at = np.maximum(count - 1, 0)
    return np.where(count > 0, highest[at], NONE), np.where(count > 0, order[first[at]], NONE)


def _explain_dirty(finding: Finding, text: FindingText) -> str:
    answers, sent = finding.records("read"), finding.records("sent")[0]
    where = f"{answers[0].place}{text.first_of(answers, 'answers')}"
    return (
        f"{text.process(answers[0].op).capitalize()} was told the group's offset {where}, before "
        f"{text.name(sent.op, capital=False)}, which was to commit it, had asked to commit."
    )


@run_check(
    "dirty-offset",
    occasions=WORK,
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_MEMBER,
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "an offset in a transaction is told to nobody before the transaction is decided (KIP-98, KIP-447)"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, POLLS, DECISIONS},
        "whoever is missing may have been told such an offset, or when transactions were decided is not known",
        {SENDS, OUTCOMES, DECISIONS},
        "a line that is missing may have committed the offset before",
    ),
    damages=(TELL_EARLY,),
    across=True,
    explain=_explain_dirty,
    needs=f"{NO_PIPELINE}, or nobody was told an offset that one was to commit",
)
def dirty_offset(run: RunView) -> CheckResult:
    """Somebody is told a group's offset that a transaction is to commit, before its commit was called.

    A transaction that surely failed commits nothing (`torn-offset`), and one that began after the answer has nothing to do with
    it. Where any other one may have committed the same offset by then, it is that one's: also one whose end nobody knows, or
    of whom the history does not tell (contract `offset_commits`).

    compared: offsets that members were told and that such a transaction was to commit. One cause: the transaction.

    Example::

        ms   process  operation  in-0                        out-0                    outcome
        0-1  1        txn        send a@5, b@6               -                        committed
        2-9  2        txn        process a@5, b@6, offset 7  send x@0 of a, y@1 of b  committed
        4-5  3        committed  7
        10-11  4      final read  read a@5, b@6              read x@0, y@1

    Found: read in-0@7, sent in-0@7 by the transaction that calls commit at 9 ms.

    Slow twin: `dirty_offsets` in tests/support/pipeline_reference.py.
    """
    pipeline, overview = run.shared(Pipeline), run.overview
    if pipeline.is_empty or pipeline.looks.empty or pipeline.chains.offsets.empty:
        return CheckResult(0)
    at = overview.at(pipeline.offsets["op"].to_numpy())
    unknown = (overview.end[at] == NONE) & ~overview.aborting[at]
    never = np.where(unknown, NONE, np.iinfo(np.int64).max)
    called = np.where(unknown | (overview.decided[at] == NONE), never, overview.decided[at])
    commits = pipeline.offsets.assign(called=called)[overview.status[at] != ABORTED]
    pairs = pipeline.looks.merge(commits, on=["partition", "offset"], suffixes=("", "_by"))
    pairs = pairs[pairs["began_by"] <= pairs["ended"]]
    first = pairs.sort_values("called").drop_duplicates(["op", "partition"])
    result = CheckResult(len(first), _dirty_rows(first[first["called"] > first["ended"]]))
    return _unless_unrecorded(run, unless_of_several_groups(result, pipeline.chains))


def _dirty_rows(early: pd.DataFrame) -> dict[str, np.ndarray]:
    """Rows of answers that came too early, each with the transaction that was the first to call commit."""
    if early.empty:
        return {}
    answers = early.assign(cause=early["op_by"], v=NONE, time=early["ended"])
    sent = answers.assign(op=answers["op_by"]).drop_duplicates(["op", "partition"])
    return join_rows(rows_of(answers, "read"), rows_of(sent, "sent"))


def _explain_phantom(finding: Finding, text: FindingText) -> str:
    row, why = finding.rows[0], "which no operation was to commit"
    if _of_program(text.run):
        why = f"beyond the end of the log, {text.run.overview.final_reads[row.partition].reach}"
    if row.op == text.run.shared(Pipeline).chains.committed_at[0]:
        return f"The group's offset at the end is {row.place}, {why}."
    what = f"was told the group's offset {row.place}{text.first_of(finding.rows, 'answers')}, {why}"
    return f"{text.process(row.op).capitalize()} {what}."


@run_check(
    "phantom-offset",
    occasions=WORK,
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_GROUP,
        *cut_off("with the records below the group's offset", application="!none"),
        Rule(FORBIDDEN, "a group's offset is one that somebody committed (KIP-98, KIP-447)"),
    ),
    evidence=Needs(
        {SENDS, POLLS, SETTLING},
        "whoever is missing may have been told such an offset",
        {SENDS, OUTCOMES},
        "a line that is missing may have committed the offset",
    ),
    damages=(TELL_NOBODYS,),
    explain=_explain_phantom,
    needs=f"{NO_PIPELINE}, or nobody was told an offset of the group",
)
def phantom_offset(run: RunView) -> CheckResult:
    """The group's offset at the end, or one that somebody was told, is an offset that nobody was to commit.

    1. Any operation that had begun by then may have committed its offset, whatever became of it: of one that surely failed it is
       `torn-offset`, before its commit was called it is `dirty-offset`.
    2. No offset at all is none of these.
    3. The operations of all committers must be in the history, of whatever group. Where somebody commits of whom it does not tell
       (automatically, or in a history from elsewhere: contract `offset_commits`), such an offset is unknown.

    4. A program's own commits are not in the history. An offset of its group beyond the end of a partition, as the final read
       knows it, is nobody's.

    compared: offsets of the group that were told, and those at the end. One cause: the offset.

    Example::

        ms   process  operation  in-0                        out-0                    outcome
        0-1  1        txn        send a@5, b@6               -                        committed
        2-3  2        txn        process a@5, b@6, offset 7  send x@0 of a, y@1 of b  committed
        4-5  3        committed  9
        6-7  4        final read  read a@5, b@6              read x@0, y@1

    Found: read in-0@9.

    Slow twin: `phantom_offsets` in tests/support/pipeline_reference.py.
    """
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty:
        return CheckResult(0)
    answers = _answers(pipeline)
    if _of_program(run):
        return _beyond_the_end(run, answers)
    if pipeline.chains.offsets.empty:
        return CheckResult(0)
    began = pipeline.offsets.groupby(["partition", "offset"])["began"].min().reset_index(name="first")
    told = answers.merge(began, on=["partition", "offset"], how="left")
    nobodys = told[~(told["first"] <= told["ended"])]
    if pipeline.chains.dispute and nobodys.empty:
        return CheckResult(len(told), unknown=pipeline.chains.dispute)
    if len(nobodys) and run.contract["offset_commits"] == "unrecorded":
        row = nobodys.iloc[0]
        return CheckResult(len(told), unknown=f"{row['partition']}@{row['offset']} {NOBODYS}")
    return CheckResult(len(told), _phantom_rows(nobodys))


def _of_program(run: RunView) -> bool:
    """True if a program of somebody's own commits the group's offsets."""
    return run.contract["application"] != "none"


def _beyond_the_end(run: RunView, answers: pd.DataFrame) -> CheckResult:
    """Offsets above all that a partition holds, where a complete final read says how much that is."""
    finals = run.overview.final_reads.items()
    ends = {name: final.reach for name, final in finals if final.committed and not (final.stalled or final.unsettled)}
    known = answers[answers["partition"].isin(list(ends))]
    return CheckResult(len(known), _phantom_rows(known[known["offset"] > known["partition"].map(ends)]))


def _phantom_rows(answers: pd.DataFrame) -> dict[str, np.ndarray]:
    return rows_of(as_rows(answers).assign(cause=answers["offset"]), "read") if len(answers) else {}


def _answers(pipeline: Pipeline) -> pd.DataFrame:
    """The group's offsets that were told, and those at the end: `op`, `partition`, `offset`, and when the answer came."""
    op, ended = pipeline.chains.committed_at
    at_end = [(op, name, offset, ended, ended) for name, offset in pipeline.chains.committed.items()]
    told = pipeline.looks[pipeline.looks["offset"] != NONE]
    return pd.concat([told, pd.DataFrame(at_end, columns=told.columns)]) if at_end else told
