"""What a history is evidence of, and what of it is missing: the one type for a run's own damage and for an adopted history's.

Merging and adopting find gaps, `damage.json` keeps them (docs/run-directory.md), and the judge weakens the checks that needed
what is missing (`checkers.verdict.weakening`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

from msgspec import Meta

from fencepost.harness.api.files import Checksum

_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"


class Evidence(str, Enum):
    """A kind of evidence that a history holds.

    sends: which records were sent. outcomes: how their operations ended, and where they were acknowledged. polls: what readers
    of the main phase got. positions: what moved a consumer (assignments, rebalances). final-committed, final-uncommitted: the
    final reads at each isolation level. decisions: when commits were first called. settling: the last stable offsets after
    healing. receipts: what the faults did.
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


class GapKind(str, Enum):
    """What became of a file, or of a line in it.

    surplus: it does not belong to the run, or is there twice; it is not read. unattested: nothing is known to be missing, but no
    manifest says that nothing is. unreliable: the manifest itself was lost, so anything may have been changed.
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

    file: its name. line: the line, from 1; 0: not one line. why: in words. role: `writer`, `reader`, `final`, `harness` or
    `faults`; empty when it is not known. slot, slots: the place of the worker whose file it is, and how many places there are
    (None, 0: not known). lines: how many lines are missing (None: not known). evidence: what the missing may have held.
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
    """A file of the history, and whose it is; None where that is not known.

    isolation: of a worker's consumer. run: the run that its header names. lines, bytes: how many it had at the end of the run.
    least: bytes that it had when it was last looked at, while the run was performed.
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

    slots: how many places for workers there are. complete: the run came to its end, and each file is counted; before, it lists
    what was begun. plan: a checksum of what `plan.json` says (`history.run_directory.plan_checksum`); empty in older ones.
    tables: the checksums of tables that the run itself wrote (`stored.parquet`), by file.
    workload_s: how long the workload ran (s); None where that is not known. stopped: who ended it before its time, in words.
    """

    run: str
    slots: int
    complete: bool
    files: tuple[HistoryFile, ...]
    plan: str = ""
    tables: Mapping[str, Checksum] = field(default_factory=dict)
    workload_s: Annotated[float, Meta(ge=0)] | None = None
    stopped: str = ""
    schema: int = 1


_BY_ROLE = {
    "member": (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS),
    "writer": (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS),  # transactions poll, too
    "reader": (Evidence.POLLS,),
    "instance": (),  # what a program does is seen from outside
    "final": (Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED),
    "harness": (Evidence.SETTLING,),
    "faults": (Evidence.RECEIPTS,),
}
_UNKNOWN_ROLE = tuple(kind for kind in Evidence if kind not in (Evidence.POSITIONS, Evidence.RECEIPTS))


def evidence_of(role: str | None, isolation: str | None = None) -> tuple[Evidence, ...]:
    """What a file of a process in some role holds; everything that a worker may write when the role is not known.

    isolation: a final reader's, if it is known.
    """
    if role == "final" and isolation:
        return (Evidence.FINAL_UNCOMMITTED if isolation == "read_uncommitted" else Evidence.FINAL_COMMITTED,)
    return _BY_ROLE.get(role or "", _UNKNOWN_ROLE)


def missing_evidence(gaps: Iterable[Gap]) -> frozenset[Evidence]:
    """All kinds of evidence of which something is, or may be, missing."""
    return frozenset(kind for gap in gaps for kind in gap.evidence)
