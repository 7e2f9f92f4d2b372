"""From exchanges on the wire to a check's result: whose operation one belongs to, and what is said where there is no record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.wire_log import WireLog, wire_log
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText

COLUMNS = ("index", "f", "process", "transactional_id", "time", "end")


@dataclass(frozen=True)
class WireFinding:
    """Something that is wrong on the wire.

    transactional_id: whose it is; empty: nobody's.
    time: when it went wrong (ns).
    sentence: what is wrong.
    cause: findings with one cause are one.
    op: the history index of its operation; NONE: the nearest one in time.
    """

    transactional_id: str
    time: int
    sentence: str
    cause: int
    op: int = NONE


@dataclass(frozen=True)
class WireResult:
    """What a check found on the wire.

    lacking: when nothing was compared, what was missing. unknown: why no answer can be given although nothing was found.
    bound: what was not compared because of a bound, in words.
    """

    compared: int
    findings: Sequence[WireFinding] = ()
    lacking: str = ""
    unknown: str = ""
    bound: str = ""


Find = Callable[[RunView], WireResult]


class Operations:
    """The operations of each transactional id, in the order of time."""

    def __init__(self, run: RunView) -> None:
        table = run.history.of_kind(COLUMNS, "txn", "send", "initialise").select(list(COLUMNS)).to_pandas()
        self._all = table.sort_values("time", kind="stable")
        self._last = int(run.overview.index[-1])

    @cached_property
    def _of_ids(self) -> dict[str, pd.DataFrame]:
        return {str(name): part for name, part in self._all.groupby("transactional_id")}

    def nearest(self, finding: WireFinding) -> int:
        """The last operation of the id that had begun; where the id is not known in the history, of anybody."""
        if finding.op != NONE:
            return finding.op
        own = self._of_ids.get(finding.transactional_id, self._all)
        if own.empty:
            return self._last
        at = int(np.searchsorted(own["time"].to_numpy(), finding.time, side="right")) - 1
        return int(own["index"].iloc[max(at, 0)])


def found_on_wire(find: Find) -> Callable[[RunView], CheckResult]:
    """A check's function of what finds its anomaly in a run that has a record."""

    def judge(run: RunView) -> CheckResult:
        try:
            log = run.shared(wire_log)
        except (OSError, pa.ArrowException) as error:
            return CheckResult(0, unknown=f"{run.wire.name if run.wire else ''} could not be read ({error})")
        if isinstance(log, str):
            return CheckResult(0, lacking=log)
        result = run.shared(find)
        return CheckResult(
            result.compared, _rows(run, result.findings), result.lacking, unknown=result.unknown, bound=result.bound
        )

    return judge


def whole(run: RunView) -> WireLog:
    """The record of a run that has one."""
    log = run.shared(wire_log)
    assert isinstance(log, WireLog)
    return log


def _rows(run: RunView, findings: Sequence[WireFinding]) -> dict[str, Any]:
    if not findings:
        return {}
    op = np.array([run.shared(Operations).nearest(finding) for finding in findings], dtype=np.int64)
    sends = run.sends_of(np.unique(op)).drop_duplicates("op").set_index("op")
    at = sends.reindex(op)
    return {
        "cause": np.array([finding.cause for finding in findings], dtype=np.int64),
        "op": op,
        "v": at["v"].fillna(NONE).astype(np.int64).to_numpy(),
        "offset": at["offset"].fillna(NONE).astype(np.int64).to_numpy(),
        "time": np.array([finding.time for finding in findings], dtype=np.int64),
        "role": np.full(len(findings), "sent", dtype=object),
        "partition": at["partition"].astype(object).where(at["partition"].notna(), "").to_numpy(),
    }


def explained_by_wire(find: Find) -> Callable[[Finding, FindingText], str]:
    """The sentence of a finding's first exchange, and how many more there are."""

    def explain(finding: Finding, text: FindingText) -> str:
        first = finding.rows[0]
        operations = text.run.shared(Operations)
        for known in text.run.shared(find).findings:
            if (known.cause, known.time) == (finding.cause, first.time) and operations.nearest(known) == first.op:
                return f"{known.sentence}{text.first_of(finding.rows, 'exchanges')}."
        return "An exchange on the wire is wrong."

    return explain
