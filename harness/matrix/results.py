"""What runs say of the cells of the matrix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.harness.api.run import Problem, Run
from fencepost.harness.matrix.cells import Cell, all_cells, of_text
from fencepost.harness.matrix.crossing import crossing_of
from fencepost.harness.matrix.evidence import Evidence, evidence_of
from fencepost.harness.matrix.observed import Observed

IMPOSSIBLE, ABSENT, UNEXERCISED, HELD, VIOLATED = "not possible", "not performed", "not exercised", "held", "violated"
STATES: Mapping[str, str] = {
    VIOLATED: "a forbidden finding stands beside a fault of the cell",
    HELD: "a fault of the cell struck, and no forbidden finding stands beside any",
    UNEXERCISED: "it was planned, and no fault of the cell struck",
    ABSENT: "no run has planned it",
    IMPOSSIBLE: "it cannot be",
}


@dataclass(frozen=True, kw_only=True)
class Strike:
    """A fault of a cell in a run.

    run: the run's id.
    fault: its number there.
    struck: True if it had an effect, and so had the fault that it fired.
    findings: forbidden anomalies beside it.
    note: of its receipt.
    judged: False: the run has no verdict, or an unknown one.
    crossing: the name of what was planned, with more than a cell; empty: a cell alone.
    met: the values of factors that it met (`observed`).
    """

    run: str
    fault: int
    struck: bool
    findings: tuple[str, ...] = ()
    note: str = ""
    judged: bool = True
    crossing: str = ""
    met: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """A cell with all its faults."""

    cell: Cell
    strikes: Sequence[Strike] = ()

    @property
    def struck(self) -> list[Strike]:
        """The faults that struck, in runs with a verdict."""
        return [strike for strike in self.strikes if strike.struck and strike.judged]

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.cell.impossible:
            return IMPOSSIBLE
        if any(strike.findings and strike.judged for strike in self.strikes):
            return VIOLATED
        if self.struck:
            return HELD
        return UNEXERCISED if self.strikes else ABSENT

    @property
    def words(self) -> str:
        """The result in a sentence."""
        if reason := self.cell.impossible:
            return f"{IMPOSSIBLE}: {reason}"
        found = sorted({finding for strike in self.strikes for finding in strike.findings if strike.judged})
        notes = sorted({strike.note for strike in self.strikes if strike.note and not strike.struck})
        more = f": {', '.join(found)}" if found else f": {notes[0]}" if self.state == UNEXERCISED and notes else ""
        return f"{self.state}, {len(self.struck)} of {len(self.strikes)} faults struck{more}" if self.strikes else self.state


def results(runs: Iterable[Run]) -> list[CellResult]:
    """All cells, in their order, with the faults of these runs."""
    return of_strikes(pair for run in runs for pair in strikes_of(run))


def of_strikes(found: Iterable[tuple[Cell, Strike]]) -> list[CellResult]:
    """All cells, in their order, with these faults."""
    strikes: dict[Cell, list[Strike]] = defaultdict(list)
    for cell, strike in found:
        strikes[cell].append(strike)
    return [CellResult(cell=cell, strikes=strikes[cell]) for cell in all_cells()]


def strikes_of(run: Run) -> list[tuple[Cell, Strike]]:
    """The faults of a run whose option `cell` names one."""
    schedule = run.plan.get("schedule") or ()
    named = {fault["id"]: str((fault.get("options") or {}).get("cell", "")) for fault in schedule}
    fires = {fault["id"]: str((fault.get("options") or {}).get("fire", "")) for fault in schedule}
    planned = {number: cell for number, name in named.items() if (cell := of_text(name))}
    if not planned:
        return []
    receipts = {} if isinstance(run.receipts, Problem) else {receipt["id"]: receipt for receipt in run.receipts}
    judged = run.verdict.get("verdict") in ("valid", "invalid")
    found = _findings(run, {number: receipts[number].get("injected_ns") or 0 for number in planned if number in receipts})
    observed = Observed(run)
    made = []
    for number, cell in planned.items():
        receipt = receipts.get(number, {})
        strike = _strike(run.id, number, receipt, found.get(number, ()), judged, fires.get(number, ""))
        met = observed.values(cell, receipt) if strike.struck else {}
        made.append((cell, replace(strike, crossing=named[number] if crossing_of(named[number]) else "", met=met)))
    return made


def _strike(run: str, number: int, receipt: Mapping[str, Any], findings: Sequence[str], judged: bool, fires: str = "") -> Strike:
    """A fault of a cell. fires: the kind of the fault that it was to fire."""
    evidence = evidence_of(receipt)
    fired = evidence.fired
    strikes = not fires if fired is None else fired.effective is True
    struck = evidence.readable and receipt.get("effective") is True and strikes
    note = _note(receipt, evidence) if fired or struck or not fires or not receipt.get("effective") else f"{fires} was not fired"
    return Strike(run=run, fault=number, struck=struck, findings=tuple(findings), note=note, judged=judged)


def _note(receipt: Mapping[str, Any], evidence: Evidence) -> str:
    if not receipt:
        return "its time did not come"
    if not evidence.readable:
        return "its evidence is not of the form that a run leaves"
    if evidence.fired is not None and not evidence.fired.effective:
        return f"{evidence.fired.kind} had no effect"
    return str(receipt.get("note") or "")


def _findings(run: Run, injected: Mapping[int, int]) -> dict[int, list[str]]:
    """Forbidden anomalies by the fault of a cell that stands beside the finding: of several the last one that began before it.

    injected: when the faults of cells began (ns).
    """
    beside: dict[int, list[str]] = defaultdict(list)
    for finding in run.verdict.get("findings") or ():
        near = sorted((injected[number], number) for number in finding.get("faults") or () if number in injected)
        if near and finding.get("forbidden"):
            earlier = [number for began, number in near if began <= (finding.get("time") or 0)]
            chosen, anomaly = (earlier or [near[0][1]])[-1], str(finding.get("anomaly"))
            if anomaly not in beside[chosen]:
                beside[chosen].append(anomaly)
    return beside
