"""Findings and faults of a run as typed objects, made of its documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api.run import Run
from fencepost.harness.memory.fingerprints import fingerprint


@dataclass(frozen=True, kw_only=True)
class FindingRecord:
    """A record of a finding.

    partition: `topic-number`.
    offset: None: not known.
    v: its identity; None: none of this run.
    operation: history index of the operation that sent or read it; None: not known.
    role: its part in the finding: `sent`, `read`, `missing`, ...
    value: the original value, of a history from elsewhere; else empty.
    """

    partition: str
    offset: int | None = None
    v: int | None = None
    operation: int | None = None
    role: str = ""
    value: str = ""


@dataclass(frozen=True, kw_only=True)
class CycleStep:
    """A step of a cycle: `source` comes before `target` (history indices), by an edge of this kind; why, in words."""

    source: int
    target: int
    kind: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """A cycle of operations (history indices), each of which must have come before the next."""

    operations: tuple[int, ...]
    steps: tuple[CycleStep, ...]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding of the run's verdict.

    id: its number in the verdict.
    anomaly: the name of the anomaly (docs/anomalies.md).
    forbidden: whether the contract forbids it.
    sentence: what happened, in words.
    operations: history indices, up to 200.
    records: up to 200; size: how many there are.
    time: when the first of its operations began: ns of CLOCK_MONOTONIC, as in the history; None: not known.
    faults: ids of the faults that were active around it (`RecordedRun.faults`).
    cycle: of findings of cycles.
    includes: anomalies of which the same records would be findings if this cause were not known.
    fingerprint: twelve hexadecimal digits, alike for findings of one cause in any run.
    more: all other keys of its document: `stored`, and those of a check of somebody's own.
    """

    id: int
    anomaly: str
    forbidden: bool
    sentence: str
    fingerprint: str
    operations: tuple[int, ...] = ()
    records: tuple[FindingRecord, ...] = ()
    size: int = 0
    time: int | None = None
    faults: tuple[int, ...] = ()
    cycle: Cycle | None = None
    includes: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The receipt of a fault. Times are ns of CLOCK_MONOTONIC, as in the history.

    id: its number in the plan's schedule.
    kind: the fault.
    role: the target as asked: `leader:orders-0`.
    targets: the nodes that it turned out to be.
    pairs: `source>destination` of each cut direction.
    injected_ns: when it struck; None: it never did.
    healed_ns: when it was healed; None: not, or not known.
    effective: whether the evidence shows that it took hold; None: not known.
    note: why it had no effect, and the like.
    evidence: what the fault saw before and during. healing: what it saw after.
    """

    id: int
    kind: str
    role: str = ""
    targets: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    injected_ns: int | None = None
    healed_ns: int | None = None
    effective: bool | None = None
    note: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    healing: Mapping[str, Any] = field(default_factory=dict)


_OWN = {*Finding.__dataclass_fields__} - {"more", "fingerprint"}


def findings_of(run: Run) -> tuple[Finding, ...]:
    """The findings of a run's verdict, in its order."""
    return tuple(_finding(document, run) for document in run.verdict.get("findings") or ())


def _finding(document: Mapping[str, Any], run: Run) -> Finding:
    records = tuple(_record(record) for record in document.get("records") or ())
    return Finding(
        id=document.get("id", 0),
        anomaly=document.get("anomaly", "?"),
        forbidden=document.get("forbidden", True),
        sentence=document.get("sentence", ""),
        fingerprint=fingerprint(document, run),
        operations=tuple(document.get("operations") or ()),
        records=records,
        size=max(document.get("size") or 0, len(records)),
        time=document.get("time"),
        faults=tuple(document.get("faults") or ()),
        cycle=_cycle(document.get("cycle")),
        includes=tuple(document.get("includes") or ()),
        more={key: value for key, value in document.items() if key not in _OWN},
    )


def _record(document: Mapping[str, Any]) -> FindingRecord:
    return FindingRecord(
        partition=document.get("partition") or "",
        offset=document.get("offset"),
        v=document.get("v"),
        operation=document.get("operation"),
        role=document.get("role") or "",
        value=document.get("value") or "",
    )


def _cycle(document: Mapping[str, Any] | None) -> Cycle | None:
    if not document:
        return None
    steps = [step for step in document.get("edges") or () if "from" in step and "to" in step]
    return Cycle(
        operations=tuple(document.get("vertices") or ()),
        steps=tuple(
            CycleStep(source=step["from"], target=step["to"], kind=step.get("kind", ""), why=step.get("why", ""))
            for step in steps
        ),
    )


def faults_of(run: Run) -> tuple[Fault, ...]:
    """The faults of a run, in the order of their receipts; none when there is no file. Raises HistoryError: it cannot be read."""
    return tuple(_fault(receipt) for receipt in run.known_receipts())


def _fault(receipt: Mapping[str, Any]) -> Fault:
    return Fault(
        id=receipt["id"],
        kind=receipt.get("kind") or "",
        role=receipt.get("role") or "",
        targets=tuple(receipt.get("targets") or ()),
        pairs=tuple(receipt.get("pairs") or ()),
        injected_ns=receipt.get("injected_ns") or None,
        healed_ns=receipt.get("healed_ns") or None,
        effective=receipt.get("effective"),
        note=receipt.get("note") or "",
        evidence=_mapping(receipt.get("evidence")),
        healing=_mapping(receipt.get("healing")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
