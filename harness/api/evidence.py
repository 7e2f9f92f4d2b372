"""Evidence that a history holds, and gaps in it: the one type for a run's own damage and for an adopted history's.

Merging and adopting find gaps, `damage.json` keeps them (docs/run-directory.md), and the judge weakens the checks that needed
what is missing (`checkers.verdict.weakening`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

from msgspec import Meta

from fencepost.harness.api.clocks_ahead import ClockJump
from fencepost.harness.api.files import Checksum

_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"


class Evidence(str, Enum):
    """A kind of evidence that a history holds.

    sends: the records that were sent.
    outcomes: the outcomes of their operations, and the offsets at which they were acknowledged.
    polls: the records that readers of the main phase got.
    positions: changes of a consumer's position (assignments, rebalances).
    final-committed: the final reads at read_committed.
    final-uncommitted: the final reads at read_uncommitted.
    decisions: the times of the first calls of commit.
    settling: the last stable offsets after healing.
    receipts: the receipts of the faults.
    levels: the isolation levels of readers.
    requests: requests to the workers of Kafka Connect.
    logs: the contents of the brokers' log segments (`stored.parquet`).
    wire: the requests on the wire (`wire.parquet`).
    """

    SENDS = "sends"
    OUTCOMES = "outcomes"
    POLLS = "polls"
    POSITIONS = "positions"
    FINAL_COMMITTED = "final-committed"
    FINAL_UNCOMMITTED = "final-uncommitted"
    DECISIONS = "decisions"
    SETTLING = "settling"
    RECEIPTS = "receipts"
    LEVELS = "levels"
    REQUESTS = "requests"
    LOGS = "logs"
    WIRE = "wire"


class GapKind(str, Enum):
    """A kind of damage to a file, or to a line in it.

    missing: it is not there.
    emptied: it holds nothing.
    shortened: its end is missing.
    surplus: it does not belong to the run, or is there twice; it is not read.
    unreadable: it cannot be read.
    unattested: nothing is known to be missing, but no manifest says that nothing is.
    unreliable: the manifest itself was lost, so anything may have been changed.
    """

    MISSING = "missing"
    EMPTIED = "emptied"
    SHORTENED = "shortened"
    SURPLUS = "surplus"
    UNREADABLE = "unreadable"
    UNATTESTED = "unattested"
    UNRELIABLE = "unreliable"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Something that a run's history lacks, or must not be believed.

    file: the name of the file.
    why: the reason, in words.
    kind: the kind of damage.
    line: the line, from 1; 0: not a single line.
    role: `writer`, `reader`, `final`, `harness` or `faults`; empty: not known.
    slot: the slot of the worker whose file it is; None: not known.
    slots: number of slots; 0: not known.
    lines: number of missing lines; None: not known.
    evidence: the kinds of evidence that the missing lines may have held.
    """

    file: str
    why: str
    kind: GapKind = GapKind.UNREADABLE
    line: int = 0
    role: str = ""
    slot: int | None = None
    slots: int = 0
    lines: int | None = None
    evidence: tuple[Evidence, ...] = ()

    def __str__(self) -> str:
        if self.line:
            return f"{self.file} line {self.line}: {self.why}"
        whose = f" ({self.role}{'' if self.slot is None or self.slot < 0 else f' {self.slot}'})" if self.role else ""
        return f"{self.file}{whose}: {self.why}"

    def document(self) -> dict[str, Any]:
        """The gap as in `damage.json` and `verdict.json`."""
        return {**vars(self), "kind": self.kind.value, "evidence": [kind.value for kind in self.evidence]}


@dataclass(frozen=True)
class HistoryFile:
    """A file of the history, and the process that wrote it; None where a value is not known.

    name: its name.
    slot: the slot of the worker.
    node: the node that the worker ran on.
    role: the worker's role.
    isolation: the isolation level of the worker's consumer.
    run: the run that its header names.
    lines: number of its lines at the end of the run.
    bytes: number of its bytes at the end of the run.
    least: number of its bytes when it was last looked at, while the run was performed.
    blocks: a checksum of each of its blocks (`harness.history.manifest`).
    """

    name: str
    slot: int | None = None
    node: str | None = None
    role: str | None = None
    isolation: str | None = None
    run: str | None = None
    lines: Annotated[int, Meta(ge=0)] | None = None
    bytes: Annotated[int, Meta(ge=0)] | None = None
    least: Annotated[int, Meta(ge=0)] = 0
    blocks: Annotated[str, Meta(pattern=_BASE64)] = ""


@dataclass(frozen=True)
class Manifest:
    """`manifest.json`: the files that belong to a run's history.

    run: the id of the run.
    slots: number of slots of workers.
    complete: the run came to its end, and each file is counted; before that, it lists the files that were begun.
    files: the files.
    plan: a checksum of the content of `plan.json` (`history.run_directory.plan_checksum`); empty in older manifests.
    tables: checksums of the tables that the run itself wrote (`stored.parquet`), by file.
    workload_s: seconds that the workload ran; None: not known.
    stopped: the reason why it ended before its time, in words; empty: it did not.
    ended: brokers, and proxies before them, that were seen to have ended though no fault had ended them, in words.
    clock_jumps: jumps of the machine's wall clock that were seen.
    schema: version of the document.
    """

    run: str
    slots: int
    complete: bool
    files: tuple[HistoryFile, ...]
    plan: str = ""
    tables: Mapping[str, Checksum] = field(default_factory=dict)
    workload_s: Annotated[float, Meta(ge=0)] | None = None
    stopped: str = ""
    ended: tuple[str, ...] = ()
    clock_jumps: tuple[ClockJump, ...] = ()
    schema: int = 1


_BY_ROLE = {
    "member": (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS),
    "writer": (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS),  # transactions poll, too
    "reader": (Evidence.POLLS,),
    "instance": (),  # what a program does is seen from outside
    "conductor": (Evidence.REQUESTS,),
    "final": (Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED),
    "harness": (Evidence.SETTLING,),
    "faults": (Evidence.RECEIPTS,),
}
_ELSEWHERE = (Evidence.RECEIPTS, Evidence.LOGS, Evidence.WIRE, Evidence.LEVELS)  # the manifest has the levels, too
_UNKNOWN_ROLE = tuple(kind for kind in Evidence if kind not in (Evidence.POSITIONS, *_ELSEWHERE))
IN_LINES = tuple(kind for kind in Evidence if kind not in _ELSEWHERE)
"""The kinds of evidence that the lines of a history's operations hold."""


def evidence_of(role: str | None, isolation: str | None = None) -> tuple[Evidence, ...]:
    """Kinds of evidence that a file of a process in some role holds; all that a worker may write when the role is not known.

    isolation: isolation level of a final reader, if it is known.
    """
    if role == "final" and isolation:
        return (Evidence.FINAL_UNCOMMITTED if isolation == "read_uncommitted" else Evidence.FINAL_COMMITTED,)
    return _BY_ROLE.get(role or "", _UNKNOWN_ROLE)


def between_lines(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The evidence that lines hold which are missing before others of the same process: where its consumer stood, besides."""
    held = tuple(evidence)
    reads = {Evidence.POLLS, Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED} & set(held)
    return (*held, Evidence.POSITIONS) if reads and Evidence.POSITIONS not in held else held


def missing_evidence(gaps: Iterable[Gap]) -> frozenset[Evidence]:
    """All kinds of evidence of which something is, or may be, missing."""
    return frozenset(kind for gap in gaps for kind in gap.evidence)
