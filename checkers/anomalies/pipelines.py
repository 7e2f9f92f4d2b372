"""Exactly once from an input topic to an output topic (KIP-98, KIP-447): one chain per input record.

The docstring is the definition of the anomaly. What is forbidden under which settings: `checkers.verdict.rules`. A record is
*visible* when a read_committed reader got it; a transaction is committed when its commit returned ok or an output of it is
visible.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from checkers.anomalies.applications import explain_too_few, explain_too_many, too_few, too_many
from checkers.api import CheckResult, join_rows, run_check
from checkers.arrays import Bools, Ints
from checkers.partition.log import ABORTED, COMMITTED, INFO, NONE
from checkers.pipeline.applications import Application, has_application
from checkers.pipeline.chains import Pipeline, has_chains, places_of_records, rows_of
from checkers.run_view import RunView
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText

NO_PIPELINE = "no operation processed input records"
NO_OFFSETS = "nobody looked at the group's offsets at the end (no `group-offsets` operation)"
NOT_READ_BACK = "not every partition was read back by a complete final read"


# --------------------------------------------------------------------------------------------------
# Input records and their outputs
# --------------------------------------------------------------------------------------------------
def _explain_reprocessed(finding: Finding, text: FindingText) -> str:
    if has_application(text.run):
        return explain_too_many(finding, text)
    inputs, outputs = finding.records("read"), finding.records("sent")
    writers = list(dict.fromkeys(row.op for row in sorted(outputs, key=lambda row: row.time)))
    what = "Input record" if len(inputs) == 1 else f"{len(inputs)} input records,"
    who = " and ".join(text.name(op, capital=False) for op in writers)
    verb = "was" if len(inputs) == 1 else "were"
    return f"{what} {text.places(inputs)} {verb} processed by {who}: the outputs of each are visible, {text.places(outputs)}."


@run_check(
    "reprocessed",
    across=True,
    gather=places_of_records,
    brief=has_chains,
    explain=_explain_reprocessed,
    needs=f"{NO_PIPELINE}, or no output of one is visible",
)
def reprocessed(run: RunView) -> CheckResult:
    """An input record has visible outputs from two transactions; of a program of somebody's own: more outputs than it declares.

    A group's offset is committed with the outputs, and a member reads on from it: whoever processes a record again has not seen
    that commit, or was fenced (KIP-447). What one transaction makes of a record twice is the pipeline's own affair. A program is
    judged from outside: by the outputs that name the record in complete read_committed final reads.

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
        return too_many(run.shared(Application))
    pipeline = run.shared(Pipeline)
    shown = pipeline.records[pipeline.records["visible"]]
    makers = shown.groupby("v")["op"].agg(["nunique", "max"])
    twice = makers.index[makers["nunique"] > 1]
    if not len(twice):
        return CheckResult(len(makers))
    outputs = shown[shown["v"].isin(twice)]
    outputs = outputs.assign(cause=makers["max"].reindex(outputs["v"]).to_numpy())
    outputs = outputs.assign(time=run.overview.time[run.overview.at(outputs["op"].to_numpy())])
    inputs = outputs.assign(op=outputs["cause"]).drop_duplicates("v")
    return CheckResult(len(makers), join_rows(rows_of(inputs, "read"), rows_of(pipeline.placed(outputs), "sent")))


def _explain_unprocessed(finding: Finding, text: FindingText) -> str:
    if has_application(text.run):
        return explain_too_few(finding, text)
    inputs, tried = finding.records("missing"), finding.records("read")
    what, verb = (("Input record", "lies"), ("Input records", "lie"))[len(inputs) > 1]
    where = f"{what} {text.places(inputs)} {verb} below the offset that the group committed"
    if not tried:
        return f"{where}, but no transaction processed {'it' if len(inputs) == 1 else 'them'}."
    attempts = " and ".join(f"{text.name(op, capital=False)} {text.outcome(op)}" for op in dict.fromkeys(row.op for row in tried))
    return f"{where}, but what was to be made of {'it' if len(inputs) == 1 else 'them'} is not visible: {attempts}."


@run_check(
    "unprocessed",
    across=True,
    gather=places_of_records,
    brief=has_chains,
    explain=_explain_unprocessed,
    needs=f"{NO_PIPELINE}, nobody looked at the group's offsets at the end, or a partition was not read back",
)
def unprocessed(run: RunView) -> CheckResult:
    """An input record below the group's committed offset that no committed transaction has processed.

    Processed: some transaction has all of its outputs visible, or was to make none of it and is committed. A transaction of
    unknown outcome that was to make nothing of it may have done so: then nobody knows. Of a program of somebody's own: a record
    of which fewer outputs are there than it declares, below its group's offset, or, where its group is not known, once it had
    caught up.

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
        return too_few(run.shared(Application))
    pipeline = run.shared(Pipeline)
    inputs = _inputs(pipeline)
    lacking = "" if pipeline.chains.committed else NO_OFFSETS
    if inputs.empty or not pipeline.all_read_back:
        return CheckResult(0, lacking=lacking or (NO_PIPELINE if pipeline.records.empty else NOT_READ_BACK))
    done, unknown = _processed(pipeline)
    inputs = inputs[~inputs["v"].isin(unknown)]
    gone = inputs[~inputs["v"].isin(done)]
    if gone.empty:
        return CheckResult(len(inputs))
    tried = pipeline.records[pipeline.records["v"].isin(gone["v"])].drop_duplicates(["op", "v"])
    last = tried.groupby("v")["op"].max().reindex(gone["v"])
    cause = np.where(last.isna(), -2 - _stretches(gone, inputs), last.fillna(0)).astype(np.int64)
    looked, when = pipeline.chains.committed_at
    missing = gone.assign(cause=cause, op=looked)
    causes = pd.Series(cause, index=gone["v"].to_numpy())
    tried = tried.assign(cause=causes.reindex(tried["v"]).to_numpy())
    tried = tried.assign(time=run.overview.time[run.overview.at(tried["op"].to_numpy())])
    return CheckResult(len(inputs), join_rows(rows_of(missing, "missing", when), rows_of(tried, "read")))


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


# --------------------------------------------------------------------------------------------------
# Outputs and offsets
# --------------------------------------------------------------------------------------------------
def _explain_torn(finding: Finding, text: FindingText) -> str:
    row, behind = (finding.records("sent") or finding.rows)[0], finding.records("missing")
    who = f"{text.name(row.op)} {text.outcome(row.op)}"
    if behind:
        return f"{who}, but the group's offsets at the end lie below those that it committed, {text.places(behind)}."
    if told := finding.records("read"):
        return f"{who}, but {text.process(told[0].op)} was told the group's offset {row.place}, which only it was to commit."
    return f"{who}, but the group's offset at the end, {row.place}, is one that only it was to commit."


@run_check(
    "torn-offset",
    across=True,
    gather=places_of_records,
    brief=has_chains,
    explain=_explain_torn,
    needs=f"{NO_PIPELINE}, or nobody looked at the group's offsets at the end",
)
def torn_offset(run: RunView) -> CheckResult:
    """A transaction's outputs are committed and the offsets in it are not, or the other way round.

    Not: the group's offset at the end lies below one of a committed transaction. The other way round: it, or an offset that a
    member was told by the group, is one that only transactions which did not commit were to commit.

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
    committed = pipeline.chains.committed
    offsets = pipeline.offsets[pipeline.offsets["partition"].isin(list(committed))] if committed else pipeline.offsets.iloc[:0]
    at_end = offsets["partition"].map(committed)
    behind = offsets[(offsets["fate"] == COMMITTED) & (offsets["offset"] > at_end)]
    lawful = offsets[(offsets["fate"] != ABORTED) & (offsets["offset"] == at_end)]["partition"]
    alone = offsets[(offsets["fate"] == ABORTED) & (offsets["offset"] == at_end) & ~offsets["partition"].isin(lawful)]
    lacking = "" if committed or pipeline.records.empty else NO_OFFSETS
    seen, by = _offsets_of_aborted(pipeline)
    aborted = pd.concat([alone, by]).drop_duplicates(["op", "partition"])
    parts = [
        rows_of(_as_rows(some).assign(cause=cause), role)
        for some, role, cause in (
            (behind, "missing", behind["op"]),
            (aborted, "sent", aborted["op"]),
            (seen, "read", seen["cause"]),
        )
        if len(some)
    ]
    return CheckResult(len(offsets) + len(pipeline.looks), join_rows(*parts) if parts else {}, lacking)


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


def _as_rows(offsets: pd.DataFrame) -> pd.DataFrame:
    """Offsets of operations as rows of a result."""
    return offsets.assign(cause=offsets["op"], v=NONE, time=offsets["ended"].where(offsets["ended"] != NONE, offsets["began"]))


def _explain_regression(finding: Finding, text: FindingText) -> str:
    later, earlier = finding.records("sent")[0], finding.records("read")[0]
    return (
        f"{text.name(later.op)} committed the group's offset {later.place}, after {text.name(earlier.op, capital=False)} had "
        f"committed {earlier.place}: the offset went back."
    )


@run_check("offset-regression", explain=_explain_regression, needs=f"{NO_PIPELINE}, or none after another in one partition")
def offset_regression(run: RunView) -> CheckResult:
    """A group's committed offset goes back: a transaction that began after another one had committed commits a lower one.

    A member reads on from the group's offset, so its commits rise, and one that has lost the partition is fenced (KIP-447).

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
    offsets = _known_commits(run.shared(Pipeline))
    return _below(offsets, offsets, "sent")


def _explain_stale(finding: Finding, text: FindingText) -> str:
    told, earlier = finding.records("missing")[0], finding.records("read")[0]
    what = f"{told.place}" if told.offset != NONE else f"of {told.partition}: none"
    return (
        f"{text.process(told.op).capitalize()} asked for the group's offset after {text.name(earlier.op, capital=False)} had "
        f"committed {earlier.place}, and was told {what}."
    )


@run_check("stale-offset", explain=_explain_stale, needs=f"{NO_PIPELINE}, or nobody asked for an offset after a commit")
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
    return _below(pipeline.looks, _known_commits(pipeline), "missing")


def _known_commits(pipeline: Pipeline) -> pd.DataFrame:
    """Offsets of transactions that surely committed, and of which it is known when they ended."""
    return pipeline.offsets[(pipeline.offsets["fate"] == COMMITTED) & (pipeline.offsets["ended"] != NONE)]


def _below(later: pd.DataFrame, offsets: pd.DataFrame, role: str) -> CheckResult:
    """Offsets that are lower than one which had been committed before their operation began."""
    compared, found = 0, []
    for partition, some in later.groupby("partition", sort=True):
        before = offsets[offsets["partition"] == partition]
        highest, position = _highest_before(before, some["began"].to_numpy())
        compared += int((position >= 0).sum())
        back = (position >= 0) & (highest > some["offset"].to_numpy())
        cause = {"cause": some["op"].to_numpy()[back]}
        found += [rows_of(_as_rows(some[back]).assign(**cause), role)]
        found += [rows_of(_as_rows(before.iloc[position[back]]).assign(**cause), "read")]
    found = [rows for rows in found if len(rows["op"])]
    return CheckResult(compared, join_rows(*found) if found else {})


def _highest_before(offsets: pd.DataFrame, times: Ints) -> tuple[Ints, Ints]:
    """For each time: the highest offset that an operation which had ended by then committed, and the position of that operation
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


# --------------------------------------------------------------------------------------------------
# Who owns a partition
# --------------------------------------------------------------------------------------------------
def _explain_ownership(finding: Finding, text: FindingText) -> str:
    between, (before, after) = finding.records("read")[0], sorted(finding.records("sent"), key=lambda row: row.time)
    return (
        f"{text.name(before.op)} and {text.name(after.op, capital=False)} committed offsets of {before.partition} "
        f"({before.offset}, {after.offset}), without a rebalance between them that assigned it anew; yet "
        f"{text.name(between.op, capital=False)} committed {between.offset} between them: two members owned the partition."
    )


@run_check("double-ownership", explain=_explain_ownership, needs=f"{NO_PIPELINE}, or no member committed twice in one partition")
def double_ownership(run: RunView) -> CheckResult:
    """Two members commit work of one partition in overlapping generations of the group.

    One member commits offsets of a partition twice without a rebalance that assigned it the partition in between, and another
    member commits one between the two: began after the first had ended, ended before the second began. The generation in a
    transaction's group metadata fences whoever has lost the partition (KIP-447).

    compared: pairs of commits of a member in a partition that follow each other without an assignment in between. One cause:
    the pair.

    Example::

        ms    process  operation  in-0                   out-0          outcome
        0-1   1        txn        send a@5, b@6, c@7     -              committed
        2-3   2        txn        process a@5, offset 6  send x@0 of a  committed
        4-5   3        txn        process b@6, offset 7  send y@2 of b  committed
        6-7   2        txn        process c@7, offset 8  send z@4 of c  committed
        8-9   4        final read  read a@5, b@6, c@7    read x@0, y@2, z@4

    Found: sent in-0@6 and sent in-0@8, and read in-0@7 between them.

    Slow twin: `double_ownerships` in tests/support/pipeline_reference.py.
    """
    offsets = _known_commits(run.shared(Pipeline))
    assigned = _assignments(run) if len(offsets) else {}
    compared, found = 0, []
    for partition, some in offsets.groupby("partition", sort=True):
        pairs = _pairs(some, assigned.get(str(partition), {}))
        compared += len(pairs)
        found += list(_between(some, pairs))
    return CheckResult(compared, join_rows(*found) if found else {})


def _pairs(some: pd.DataFrame, assigned: dict[int, Ints]) -> pd.DataFrame:
    """Commits of one process that follow each other with no assignment between: positions `first`, `second` in `some`."""
    table = some.reset_index(drop=True).reset_index(names="second").sort_values(["process", "began"])
    table["first"] = table.groupby("process")["second"].shift(fill_value=-1)
    table = table[table["first"] >= 0]
    op, before = table["op"].to_numpy(), some["op"].to_numpy()[table["first"].to_numpy()]
    anew = [
        bool(np.searchsorted(assigned[process], one, "right") > np.searchsorted(assigned[process], other, "right"))
        for process, one, other in zip(table["process"], op, before, strict=True)
        if process in assigned
    ]
    known = table["process"].isin(list(assigned)).to_numpy()
    kept = np.ones(len(table), dtype=np.bool_)
    kept[known] = ~np.array(anew, dtype=np.bool_)
    return table.loc[kept, ["first", "second"]]


def _between(some: pd.DataFrame, pairs: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows for the pairs between which another process committed: those two, and the first of the others."""
    some = some.reset_index(drop=True)
    by_start = some.sort_values("began")
    began, ended, process = (by_start[name].to_numpy() for name in ("began", "ended", "process"))
    for first, second in pairs.itertuples(index=False):
        one, two = some.iloc[first], some.iloc[second]
        reach = slice(int(np.searchsorted(began, one["ended"], "right")), int(np.searchsorted(began, two["began"])))
        inside: Bools = (ended[reach] < two["began"]) & (process[reach] != one["process"])
        if inside.any():
            other = by_start.iloc[[reach.start + int(inside.argmax())]]
            sent = some.iloc[[first, second]]
            yield rows_of(_as_rows(sent).assign(cause=two["op"]), "sent")
            yield rows_of(_as_rows(other).assign(cause=two["op"]), "read")


def _assignments(run: RunView) -> dict[str, dict[int, Ints]]:
    """partition -> process -> the operations (history indices) in which a rebalance assigned it the partition."""
    condition = ds.field("detail").is_valid() & pc.is_in(ds.field("f"), pa.array(["poll", "txn", "seek"]))
    found: dict[str, dict[int, list[int]]] = {}
    rows = run.history.select(("index", "process", "f", "detail"), condition).sort_by("index").to_pylist()
    for row in rows:
        for kind, partitions in json.loads(row["detail"]).get("rebalances", ()):
            for partition in partitions if kind == "assigned" else ():
                found.setdefault(partition, {}).setdefault(row["process"], []).append(row["index"])
    return {name: {who: np.array(ops) for who, ops in processes.items()} for name, processes in found.items()}
