"""Evidence that a check needs of a history (`Check.evidence`), with the reason; what several checks need alike.

Where evidence is missing that may hold the anomaly, nobody can say that it did not happen: `held` becomes `unknown`. Where
evidence is missing without which a finding may be an effect of the gap, the finding proves nothing
(`checkers.verdict.weakening`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from fencepost.checkers.model.findings import Finding
from fencepost.harness.api.evidence import Evidence, Gap

REQUESTS, LOGS, WIRE = Evidence.REQUESTS, Evidence.LOGS, Evidence.WIRE
SENDS, OUTCOMES, POLLS, POSITIONS = Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS
FINAL_COMMITTED, FINAL_UNCOMMITTED = Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED
DECISIONS, SETTLING, LEVELS = Evidence.DECISIONS, Evidence.SETTLING, Evidence.LEVELS
FINAL = frozenset({FINAL_COMMITTED, FINAL_UNCOMMITTED})
ALL_READS = frozenset({POLLS, *FINAL})

Explains = Callable[[Gap, Finding, Mapping[str, str]], bool]


def _always(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    return True


def of_process(role: str) -> Explains:
    """A gap in the file of one worker explains findings of that worker's processes only.

    role: of the records whose operations count; where a finding has none, any gap may explain it.
    """

    def explains(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
        processes = finding.processes.get(role, frozenset())
        if gap.slot is None or not gap.slots or not processes:
            return True
        return any(process % gap.slots == gap.slot for process in processes)

    return explains


@dataclass(frozen=True)
class Needs:
    """Evidence that a check needs, each kind with the reason.

    absence: without it nobody can say that the anomaly did not happen.
    hidden: why, in words.
    presence: without it a finding may be an effect of what is missing.
    doubtful: why, in words.
    explains: whether a gap of such evidence may explain a finding, under a full contract.
    """

    absence: Collection[Evidence]
    hidden: str = "what is missing may have shown it"
    presence: Collection[Evidence] = ()
    doubtful: str = "what is missing may explain it"
    explains: Explains = _always


_EVERYTHING = frozenset(Evidence) - {Evidence.RECEIPTS}
UNDECLARED = Needs(
    _EVERYTHING,
    "its check does not declare which evidence it needs",
    _EVERYTHING,
    "its check does not declare which evidence it needs, and what is missing may explain what it found",
)


def unless_shown(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    """A gap explains no finding that reads show, unless a retry may have stored a record twice, the first time below."""
    return not finding.shown or contract["idempotence"] == "false"


UNCOMMITTED_READER = "a reader whose isolation level is not known may be read_uncommitted"
LOST_PLACE = "whether an acknowledged record was lost, so that its offset was given away again, only the final read says"
ANYBODY = "whoever is missing may have got or sent such a record"
ANYBODY_OR_WHEN = f"{ANYBODY}, or when transactions were decided is not known"
ORDER = Needs(
    {SENDS, OUTCOMES, *FINAL},
    "sends whose place is not known are not compared",
    {FINAL_COMMITTED},
    f"{LOST_PLACE}: it has no place",
    unless_shown,
)
ACROSS = Needs(
    {SENDS, *ALL_READS},
    "the consumer that is missing may have done so, and records of nobody are not compared",
    {POSITIONS},
    "a line that is missing may have moved the consumer",
    of_process("read"),
)
INSIDE = replace(ACROSS, presence=(), doubtful="")
