"""Ownership of a partition of a pipeline's input (KIP-447): one member of the group at a time.

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fencepost.checkers.anomalies.committed_offsets import as_rows, known_commits
from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import UNLESS_MEMBER, UNLESS_PRODUCER, cut_off
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, OUTCOMES, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.history.positions import REBALANCING
from fencepost.checkers.model.arrays import Ints, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.pipeline.chains import NO_PIPELINE, Pipeline, rows_of, unless_of_several_groups
from fencepost.checkers.selfcheck.pipeline_damages import SHARE
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import PROCESSED_ONCE


def _explain_ownership(finding: Finding, text: FindingText) -> str:
    between, (before, after) = finding.records("read")[0], sorted(finding.records("sent"), key=lambda row: row.time)
    return (
        f"{text.name(before.op)} and {text.name(after.op, capital=False)} committed offsets of {before.partition} "
        f"({before.offset}, {after.offset}), without a rebalance between them that assigned it anew; yet "
        f"{text.name(between.op, capital=False)} committed {between.offset} between them: two members owned the partition."
    )


@run_check(
    "double-ownership",
    occasions=(Occasion.GROUP_REBALANCED,),
    promise=PROCESSED_ONCE,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_MEMBER,
        *cut_off("with the group's own log, so that its coordinator forgets generations"),
        Rule(FORBIDDEN, "the generation in a transaction's group metadata fences whoever has lost the partition (KIP-447)"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, *ALL_READS},
        ANYBODY,
        {POLLS},
        "a line that is missing may have had the rebalance between the two commits",
    ),
    damages=(SHARE,),
    explain=_explain_ownership,
    needs=f"{NO_PIPELINE}, or no member committed twice in one partition",
)
def double_ownership(run: RunView) -> CheckResult:
    """Two members commit work of one partition in overlapping generations of the group.

    1. One member commits offsets of the partition twice, and no rebalance in between assigned it the partition.
    2. Another member commits an offset of it between the two: began after the first had ended, ended before the second began.

    The generation in a transaction's group metadata fences whoever has lost the partition (KIP-447).

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
    pipeline = run.shared(Pipeline)
    if pipeline.is_empty or pipeline.chains.offsets.empty:
        return CheckResult(0)
    offsets = known_commits(pipeline)
    assigned = _assignments(run) if len(offsets) else {}
    compared, parts = 0, []
    for partition, some in offsets.groupby("partition", sort=True):
        pairs = _pairs(some, assigned.get(str(partition), {}))
        compared += len(pairs)
        parts += list(_between(some, pairs))
    return unless_of_several_groups(CheckResult(compared, join_rows(*parts) if parts else {}), pipeline.chains)


def _pairs(some: pd.DataFrame, assigned: dict[int, Ints]) -> pd.DataFrame:
    """Commits of one process that follow each other with no assignment between: positions `first`, `second` in `some`."""
    table = some.reset_index(drop=True).reset_index(names="second").sort_values(["process", "began"])
    table["first"] = table.groupby("process")["second"].shift(fill_value=-1)
    table = table[table["first"] >= 0]
    op, before = table["op"].to_numpy(), some["op"].to_numpy()[table["first"].to_numpy()]
    anew = [
        bool(np.searchsorted(assigned[process], later, "right") > np.searchsorted(assigned[process], earlier, "right"))
        for process, later, earlier in zip(table["process"], op, before, strict=True)
        if process in assigned
    ]
    known = table["process"].isin(list(assigned)).to_numpy()
    unbroken = np.ones(len(table), dtype=np.bool_)
    unbroken[known] = ~np.array(anew, dtype=np.bool_)
    return table.loc[unbroken, ["first", "second"]]


def _between(some: pd.DataFrame, pairs: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows for the pairs between which another process committed: those two, and the first of the others."""
    began, ended, process, op = (some[name].to_numpy() for name in ("began", "ended", "process", "op"))
    first, second = (pairs[name].to_numpy() for name in ("first", "second"))
    order = np.argsort(began, kind="stable")
    starts, stops = np.searchsorted(began[order], ended[first], "right"), np.searchsorted(began[order], began[second])
    found, others = list[int](), list[int]()
    for place in true_positions(starts < stops).tolist():  # most have none between them, of whichever process
        between = order[starts[place] : stops[place]]
        inside = (ended[between] < began[second[place]]) & (process[between] != process[first[place]])
        if inside.any():
            found.append(place)
            others.append(int(between[inside.argmax()]))
    if found:
        sent = np.column_stack([first[found], second[found]]).ravel()
        cause = op[second[found]]
        yield rows_of(as_rows(some.iloc[sent]).assign(cause=np.repeat(cause, 2)), "sent")
        yield rows_of(as_rows(some.iloc[others]).assign(cause=cause), "read")


def _assignments(run: RunView) -> dict[str, dict[int, Ints]]:
    """partition -> process -> the operations (history indices) in which a rebalance assigned it the partition."""
    condition = ds.field("detail").is_valid() & pc.is_in(ds.field("f"), pa.array(REBALANCING))
    assigned: dict[str, dict[int, list[int]]] = {}
    rows = run.history.select(("index", "process", "f", "detail"), condition).sort_by("index").to_pylist()
    for row in rows:
        for kind, partitions in json.loads(row["detail"]).get("rebalances", ()):
            for partition in partitions if kind == "assigned" else ():
                assigned.setdefault(partition, {}).setdefault(row["process"], []).append(row["index"])
    return {name: {who: np.array(ops) for who, ops in processes.items()} for name, processes in assigned.items()}
