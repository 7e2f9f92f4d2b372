"""Exactly once from an input topic to an output topic (KIP-98, KIP-447): one chain per input record.

The docstring is the definition of the anomaly. A record is
*visible* when a read_committed reader got it, and its transaction did not surely abort (else that is an `aborted-read`); a
transaction is committed when its commit returned ok or an output of it is visible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.anomalies.applications import explain_too_few, explain_too_many, of_all_stages, too_few, too_many
from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import WORK
from fencepost.checkers.contract.common_rules import (
    COMPACTED,
    HIDDEN_IN_PART,
    OFFSET_IN_PART,
    RETAINED,
    UNLESS_GROUP,
    UNLESS_PRODUCER,
    cut_off,
)
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, FINAL_COMMITTED, OUTCOMES, SENDS, SETTLING, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import COMMITTED, INFO, NONE
from fencepost.checkers.pipeline.applications import has_application
from fencepost.checkers.pipeline.chains import (
    NO_OFFSETS,
    NO_PIPELINE,
    Pipeline,
    chains_of,
    has_chains,
    places_of_records,
    rows_of,
    unless_of_several_groups,
)
from fencepost.checkers.pipeline.offset_expiry import MADE_AGAIN, again_soon
from fencepost.checkers.pipeline.operator_aborts import reprocessed_beyond, unprocessed_beyond
from fencepost.checkers.selfcheck.application_damages import DROP_OUTPUT, REPEAT_OUTPUT
from fencepost.checkers.selfcheck.pipeline_damages import LEAVE_OUT, PROCESS_TWICE
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import PROCESSED_ONCE
from fencepost.harness.api.words import enumeration, form

_REREAD = "outputs and offsets are committed together; after an abort a member reads the same again (KIP-98)"

NOT_READ_BACK = "not every partition was read back by a complete final read"
NONE_BELOW = "no input record that a read_committed reader got lies below the group's offsets at the end"
OTHERS = (
    "lies below a group's offset that no operation of the history was to commit: it may be another group's, or somebody's of "
    "whom the history does not tell"
)
UNDECIDED = "what lies below the group's offsets was to be dropped by transactions of which nobody knows whether they committed"


def _explain_reprocessed(finding: Finding, text: FindingText) -> str:
    if has_application(text.run):
        return explain_too_many(finding, text)
    inputs, outputs = finding.records("read"), finding.records("sent")
    writers = list(dict.fromkeys(row.op for row in sorted(outputs, key=lambda row: row.time)))
    what = "Input record" if len(inputs) == 1 else f"{len(inputs)} input records,"
    who = enumeration([text.name(op, capital=False) for op in writers])
    verb = form(len(inputs), "was", "were")
    return f"{what} {text.places(inputs)} {verb} processed by {who}: the outputs of each are visible, {text.places(outputs)}."


@run_check(
    "reprocessed",
    occasions=WORK,
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_GROUP,
        *cut_off("with the group's committed offsets, so that members read on from older ones"),
        OFFSET_IN_PART,
        Rule(ALLOWED, "the program promises its outputs at least once", {"application": "at-least-once"}),
        Rule(
            FORBIDDEN,
            "what a program makes of a record is there once: outputs and offsets are committed together (KIP-98, KIP-447)",
            {"application": "exactly-once"},
            essential=True,
        ),
        Rule(FORBIDDEN, "outputs and offsets are committed together, and who has lost the partition is fenced (KIP-98, KIP-447)"),
    ),
    evidence=Needs({SENDS, OUTCOMES, *ALL_READS}, ANYBODY),
    damages=(
        PROCESS_TWICE,
        REPEAT_OUTPUT,
    ),
    across=True,
    gather=places_of_records,
    brief=has_chains,
    beyond_aborts=reprocessed_beyond,
    explain=_explain_reprocessed,
    needs=f"{NO_PIPELINE}, or no output of one is visible",
)
def reprocessed(run: RunView) -> CheckResult:
    """An input record has visible outputs from two transactions; of a program of somebody's own: more outputs than it declares.

    A group's offset is committed with the outputs, and a member reads on from it: whoever processes a record again has not seen
    that commit, or was fenced (KIP-447). What one transaction makes of a record twice is the pipeline's own affair.

    A program is judged from outside: by the outputs that name the record in read_committed final reads. What these got is there,
    complete or not; compared is what complete ones got.

    Where brokers forget offsets (contract `offset_expiry`), and the transactions are further apart than that, nobody knows.

    compared: input records with a visible output. One cause: the later transaction; of a program: the stretch of neighbours.

    Example::

        ms   process  operation   in-0                       out-0           outcome
        0-1  1        txn         send a@5, b@6              -               committed
        2-3  2        txn         process a@5, offset 6      send x@0 of a   committed
        4-5  3        txn         process a@5, b@6, offset 7  send y@2 of a, z@3 of b  committed
        6-7  4        final read  read a@5, b@6              read x@0, y@2, z@3

    Found: read a@5, sent x@0 and sent y@2.

    Slow twin: `reprocessed` in tests/support/pipeline_reference.py.
    """
    if has_application(run):
        return of_all_stages(run, too_many)
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty or pipeline.chains.records.empty:
        return CheckResult(0)
    shown = pipeline.records[pipeline.records["visible"]]
    makers = shown.groupby("v")["op"].agg(["nunique", "max"])
    twice = makers.index[makers["nunique"] > 1]
    if not len(twice):
        return CheckResult(len(makers))
    if not len(soon := again_soon(run, shown[shown["v"].isin(twice)])):
        return CheckResult(len(makers), unknown=MADE_AGAIN)
    outputs = shown[shown["v"].isin(soon)]
    outputs = outputs.assign(cause=makers["max"].reindex(outputs["v"]).to_numpy())
    outputs = outputs.assign(time=run.overview.time[run.overview.at(outputs["op"].to_numpy())])
    inputs = outputs.assign(op=outputs["cause"]).drop_duplicates("v")
    result = CheckResult(len(makers), join_rows(rows_of(inputs, "read"), rows_of(pipeline.placed(outputs), "sent")))
    return unless_of_several_groups(result, pipeline.chains)


def _explain_unprocessed(finding: Finding, text: FindingText) -> str:
    if has_application(text.run):
        return explain_too_few(finding, text)
    inputs, tried = finding.records("missing"), finding.records("read")
    what, verb = form(len(inputs), "Input record"), form(len(inputs), "lies", "lie")
    where = f"{what} {text.places(inputs)} {verb} below the offset that the group committed"
    if not tried:
        return f"{where}, but no transaction processed {form(len(inputs), 'it', 'them')}."
    attempts = enumeration(
        [f"{text.name(op, capital=False)} {text.outcome(op)}" for op in dict.fromkeys(row.op for row in tried)]
    )
    return f"{where}, but what was to be made of {form(len(inputs), 'it', 'them')} is not visible: {attempts}."


@run_check(
    "unprocessed",
    occasions=WORK,
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_GROUP,
        COMPACTED,
        RETAINED,
        *cut_off("outputs may be gone, and the offset that was committed with them not"),
        HIDDEN_IN_PART,
        Rule(
            FORBIDDEN,
            "at least once: a program processes every record below the offset that its group commits (KIP-98)",
            {"application": "at-least-once"},
            essential=True,
        ),
        Rule(
            FORBIDDEN,
            "a program processes every record below the offset that its group commits (KIP-98)",
            {"application": "!none"},
        ),
        Rule(FORBIDDEN, _REREAD, {"final_read": "false"}),
        Rule(FORBIDDEN, _REREAD, essential=True),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, *ALL_READS, SETTLING},
        "which records were processed, or which offsets the group had at the end, is not wholly known",
        {SENDS, OUTCOMES, FINAL_COMMITTED},
        "what is missing may have processed the record, or shown that it was",
    ),
    damages=(
        LEAVE_OUT,
        DROP_OUTPUT,
    ),
    across=True,
    gather=places_of_records,
    brief=has_chains,
    beyond_aborts=unprocessed_beyond,
    explain=_explain_unprocessed,
    needs=f"{NO_PIPELINE}, nobody looked at the group's offsets at the end, or a partition was not read back",
)
def unprocessed(run: RunView) -> CheckResult:
    """An input record below the group's committed offset that no committed transaction has processed.

    A record is processed if some transaction

    1. has all of its outputs of the record visible;
    2. or was to make nothing of it, and is committed. If the outcome of that transaction is unknown, the record is not judged.

    Of a program of somebody's own: a record of which fewer outputs are there than it declares, below its group's offset, or,
    where its group is not known, once it had caught up. Of a program behind another one: as many times as many as that one makes
    of an input at least.

    compared: visible input records below the group's offsets at the end, as far as somebody knows. One cause: the transactions
    that tried; without any, the stretch of neighbours in the partition.

    Example::

        ms   process  operation      in-0                   out-0          outcome
        0-1  1        txn            send a@5, b@6          -              committed
        2-3  2        txn            process a@5, offset 6  send x@0 of a  aborted
        4-5  2        txn            process b@6, offset 7  send y@2 of b  committed
        6-7  3        final read     read a@5, b@6          read y@2
        8-9  harness  group offsets  7                      -

    Found: missing a@5, and read a@5 by the transaction that was aborted. It was to read a again.

    Slow twin: `unprocessed` in tests/support/pipeline_reference.py.
    """
    if has_application(run):
        return of_all_stages(run, too_few)
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty:
        return CheckResult(0, lacking=NO_PIPELINE)
    looked = pipeline.chains.committed or pipeline.chains.uncommitted
    dispute = pipeline.chains.dispute
    if not ((looked or dispute) and pipeline.all_read_back):
        why = NOT_READ_BACK if looked or dispute else NO_OFFSETS
        return CheckResult(0, lacking=NO_PIPELINE if pipeline.records.empty else why)
    inputs = _inputs(pipeline)
    if inputs.empty:
        return CheckResult(0, lacking="" if dispute else NONE_BELOW, unknown=dispute)
    done, unknown = _processed(pipeline)
    inputs = inputs[~inputs["v"].isin(unknown)]
    gone = inputs[~inputs["v"].isin(done)]
    others = _of_others(run, gone)
    if not gone.empty and others.all():
        first = gone.iloc[0]
        return CheckResult(len(inputs), unknown=f"{first['partition']}@{first['offset']} {OTHERS}")
    gone = gone[~others]
    if gone.empty:
        return CheckResult(len(inputs), lacking="" if dispute else UNDECIDED, unknown=dispute)
    tried = pipeline.records[pipeline.records["v"].isin(gone["v"])].drop_duplicates(["op", "v"])
    last = tried.groupby("v")["op"].max().reindex(gone["v"])
    cause = np.where(last.isna(), -2 - _stretches(gone, inputs), last.fillna(0)).astype(np.int64)
    look, when = pipeline.chains.committed_at
    missing = gone.assign(cause=cause, op=look)
    causes = pd.Series(cause, index=gone["v"].to_numpy())
    tried = tried.assign(cause=causes.reindex(tried["v"]).to_numpy())
    tried = tried.assign(time=run.overview.time[run.overview.at(tried["op"].to_numpy())])
    return CheckResult(len(inputs), join_rows(rows_of(missing, "missing", when), rows_of(tried, "read")))


def _of_others(run: RunView, gone: pd.DataFrame) -> pd.Series:
    """True for each input where the group's offset may be another group's: it is none that an operation of the history was to
    commit, and neither the members' group nor everybody who commits was recorded."""
    chains = chains_of(run)
    if run.contract["consumption"] == "recorded" or run.contract["offset_commits"] != "unrecorded":
        return pd.Series(data=False, index=gone.index, dtype=np.bool_)
    own = set(zip(chains.offsets["partition"], chains.offsets["offset"], strict=True))
    return gone["partition"].map({name: (name, offset) not in own for name, offset in chains.committed.items()}).astype(np.bool_)


def _inputs(pipeline: Pipeline) -> pd.DataFrame:
    """Visible records below the group's offsets: `partition`, `offset`, `v`."""
    places = pipeline.visible.reset_index()
    committed = places["partition"].map(pipeline.chains.committed)
    return places[places["offset"] < committed.fillna(NONE)].sort_values(["partition", "offset"])


def _processed(pipeline: Pipeline) -> tuple[Any, Any]:
    """Input records (identities) that were surely processed, and others of which nobody knows."""
    records = pipeline.records
    committed = (records["status"] == COMMITTED) | records["op"].isin(pipeline.proven)
    nothing = records["output"] == NONE
    good = records.assign(good=np.where(nothing, committed, records["visible"])).groupby(["op", "v"])["good"].all()
    done = good.index.get_level_values("v")[good.to_numpy()].unique()
    return done, records.loc[nothing & ~committed & (records["status"] == INFO), "v"].unique()


def _stretches(gone: pd.DataFrame, inputs: pd.DataFrame) -> Ints:
    """A number for each input record, the same for those between which no other lies."""
    numbers = pd.Series((~inputs["v"].isin(gone["v"])).cumsum().to_numpy(), index=inputs["v"].to_numpy())
    partitions = pd.factorize(gone["partition"])[0]
    return np.asarray(numbers.reindex(gone["v"]).to_numpy() * (1 + partitions.max(initial=0)) + partitions)
