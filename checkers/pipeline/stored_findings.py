"""From rows of the brokers' logs to a check's result: whose operation a row belongs to, and what is said where there are no
logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.stored_logs import StoredLogs, StoredRows, operations_of, stored_logs
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText

Judge = Callable[[RunView, StoredLogs], CheckResult]


def judged_by_logs(run: RunView, judge: Judge) -> CheckResult:
    """The result of a check that compares the brokers' logs; where there are none, or damaged ones, why not."""
    try:
        logs = run.shared(stored_logs)
    except (OSError, pa.ArrowException) as error:
        return CheckResult(0, unknown=f"{run.stored.name if run.stored else ''} could not be read ({error})")
    return CheckResult(0, lacking=logs) if isinstance(logs, str) else judge(run, logs)


def finding_rows(run: RunView, logs: StoredLogs, rows: StoredRows, cause: Ints, role: str = "sent") -> dict[str, Any]:
    """Rows of a result for rows of the logs, with their operations (`nearest_operations`)."""
    if not len(rows):
        return {}
    op = nearest_operations(run, logs, rows)
    names = np.array(logs.partitions, dtype=object)
    return {
        "cause": np.asarray(cause, dtype=np.int64),
        "op": op,
        "v": rows.v,
        "offset": rows.offset,
        "time": run.overview.time[run.overview.at(op)],
        "role": np.full(len(rows), role, dtype=object),
        "partition": names[rows.partition],
    }


def nearest_operations(run: RunView, logs: StoredLogs, rows: StoredRows) -> Ints:
    """The operation of each row. That of a marker, or of a record that does not name its own, is the last one known to have
    written with its producer id before it in its log, by time where a row stands for one that is missing; else any of that id;
    else the run's last, for logs are read after it.
    """
    op = operations_of(run, rows.v)
    op[op == NONE] = [_nearest(run, logs, rows.take(slice(at, at + 1))) for at in np.flatnonzero(op == NONE)]
    return op


def _nearest(run: RunView, logs: StoredLogs, row: StoredRows) -> int:
    own = np.flatnonzero((logs.rows.producer_id == row.producer_id[0]) & (logs.rows.v >= 0) & (row.producer_id[0] >= 0))
    order = "timestamp" if row.offset[0] == NONE else "offset"
    not_later = getattr(logs.rows, order)[own] <= getattr(row, order)[0]
    before = own[(logs.rows.partition[own] == row.partition[0]) & not_later]
    for some in (before[::-1], own):
        known = operations_of(run, logs.rows.v[some[:100]])
        if (known != NONE).any():
            return int(known[known != NONE][0])
    return int(run.overview.index[-1])


@dataclass(frozen=True)
class Found:
    """What a check found in the logs.

    compared: how many things were compared.
    rows: the rows in question.
    sentences: a sentence for each.
    role: of the rows in their findings.
    lacking: when nothing was compared, what was missing.
    """

    compared: int
    rows: StoredRows
    sentences: Sequence[str] = ()
    role: str = "sent"
    lacking: str = ""

    def result(self, run: RunView, logs: StoredLogs) -> CheckResult:
        """The result; one cause is one producer id."""
        rows = finding_rows(run, logs, self.rows, self.rows.producer_id, self.role)
        return CheckResult(self.compared, rows, self.lacking)


Find = Callable[[RunView], Found]


def found_by(find: Find) -> Callable[[RunView], CheckResult]:
    """A check's function of what finds its anomaly in a run that has logs."""

    def judge(run: RunView, logs: StoredLogs) -> CheckResult:
        return run.shared(find).result(run, logs)

    return lambda run: judged_by_logs(run, judge)


def explained_by(find: Find, cause: str = "producer_id") -> Callable[[Finding, FindingText], str]:
    """The sentence of a finding's first row, and how many more rows there are. cause: the column with the causes of rows."""

    def places(run: RunView) -> list[tuple[str, int, int, int]]:
        """Partition, offset, operation and cause of each row: several that are missing in a partition have no offset."""
        logs, found = run.shared(stored_logs), run.shared(find)
        assert isinstance(logs, StoredLogs)
        names = [logs.partitions[number] for number in found.rows.partition.tolist()]
        operations, causes = nearest_operations(run, logs, found.rows).tolist(), getattr(found.rows, cause).tolist()
        return list(zip(names, found.rows.offset.tolist(), operations, causes, strict=True))

    def explain(finding: Finding, text: FindingText) -> str:
        first = finding.rows[0]
        place = (first.partition, first.offset, first.op, finding.cause)
        sentence = text.run.shared(find).sentences[text.run.shared(places).index(place)]
        return f"{sentence}{text.first_of(finding.rows, 'places')}."

    return explain
