"""Offsets of open transactions that a group tells somebody (KIP-98, KIP-447).

The docstring is the definition of the anomaly. What is forbidden under which settings: `checkers.verdict.rules`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from checkers.anomalies.pipelines import NO_PIPELINE
from checkers.api import CheckResult, join_rows, run_check
from checkers.partition.log import ABORTED, NONE
from checkers.pipeline.chains import Pipeline, rows_of
from checkers.run_view import RunView
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText


def _explain(finding: Finding, text: FindingText) -> str:
    told, sent = finding.records("read"), finding.records("sent")[0]
    return (
        f"{text.process(told[0].op).capitalize()} was told the group's offset {told[0].place}{text.and_more(told)}, before "
        f"{text.name(sent.op, capital=False)}, which was to commit it, had asked to commit."
    )


@run_check(
    "dirty-offset", across=True, explain=_explain, needs=f"{NO_PIPELINE}, or nobody was told an offset that one was to commit"
)
def dirty_offset(run: RunView) -> CheckResult:
    """Somebody is told a group's offset that a transaction is to commit, before its commit was called.

    A transaction that surely failed commits nothing (`torn-offset`), and one that began after the answer has nothing to do with
    it. Where any other one may have committed the same offset by then, it is that one's: also one whose end nobody knows.

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
    at = overview.at(pipeline.offsets["op"].to_numpy())
    asked = np.where(
        overview.end[at] == NONE, NONE, np.where(overview.decided[at] == NONE, np.iinfo(np.int64).max, overview.decided[at])
    )
    commits = pipeline.offsets.assign(asked=asked)[overview.status[at] != ABORTED]
    pairs = pipeline.looks.merge(commits, on=["partition", "offset"], suffixes=("", "_by"))
    pairs = pairs[pairs["began_by"] <= pairs["ended"]]
    first = pairs.sort_values("asked").drop_duplicates(["op", "partition"])
    return CheckResult(len(first), _rows(first[first["asked"] > first["ended"]]))


def _rows(early: pd.DataFrame) -> dict[str, np.ndarray]:
    """Rows of questions that were answered too early, each with the transaction that was the first to ask."""
    if early.empty:
        return {}
    told = early.assign(cause=early["op_by"], v=NONE, time=early["ended"])
    sent = told.assign(op=told["op_by"]).drop_duplicates(["op", "partition"])
    return join_rows(rows_of(told, "read"), rows_of(sent, "sent"))
