"""From findings to a verdict (docs/run-directory.md has the document's shape)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.verdict.findings import Finding
from checkers.verdict.rules import ALLOWED, INAPPLICABLE, Rule
from harness.api import Property, Verdict

_READ_CYCLES = ("G1c-wr", "G1c-wr-process", "G1c-wr-realtime")  # a record read too early can close a cycle of reads
IMPLIES: dict[str, tuple[str, ...]] = {
    "torn-transaction": ("lost-write", "aborted-read", "dirty-read", "stale-read", *_READ_CYCLES),
    "aborted-read": _READ_CYCLES,
    "lost-write": ("inconsistent-offset", "stale-read"),  # a truncated record's offset is given away again
    # what was read too early and then aborted is never returned to others
    "dirty-read": ("poll-skip", "int-poll-skip", "stale-read", *_READ_CYCLES),
}
LIVENESS = ("lso-stall",)  # that nothing hangs says nothing of any record
UNSEEN = "were returned to nobody, and without a final read nobody knows whether they are lost or late"


@dataclass(frozen=True)
class JudgedProperty:
    """One anomaly's verdict under its rule."""

    name: str
    rule: Rule
    verdict: Property
    compared: int = 0
    reason: str = ""
    findings: Sequence[Finding] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        return self.rule.judged == ALLOWED

    def document(self) -> dict[str, Any]:
        document = {"name": self.name, "verdict": self.verdict.value, "count": len(self.findings), "compared": self.compared}
        return {**document, "reason": self.reason, "contract": self.rule.reason}


def judge_property(
    name: str, rule: Rule, compared: int, findings: Sequence[Finding], *, error: str = "", lacking: str = ""
) -> JudgedProperty:
    """violated, held, not exercised or unknown. Findings stand even when the check broke elsewhere: they are evidence."""
    if rule.judged == INAPPLICABLE:
        return JudgedProperty(name, rule, Property.NOT_EXERCISED, 0, rule.reason)
    if findings:
        return JudgedProperty(name, rule, Property.VIOLATED, compared, error, findings)
    if error:
        return JudgedProperty(name, rule, Property.UNKNOWN, compared, error)
    if not compared:
        return JudgedProperty(name, rule, Property.NOT_EXERCISED, 0, lacking)
    return JudgedProperty(name, rule, Property.HELD, compared)


def decide(judged: Iterable[JudgedProperty], unread: Sequence[str] = (), unseen: int = 0) -> tuple[Verdict, str]:
    """The run's verdict and its reason. Invalid beats unknown beats valid; what the contract allows decides nothing.

    unread: partitions that should have been read to their end and were not; then nothing is known of what was lost there.
    unseen: promised records that nobody got by the end of a history without a final phase; they may be lost or late.
    """
    forbidden = [one for one in judged if not one.allowed]
    violated = [one for one in forbidden if one.verdict is Property.VIOLATED]
    if violated:
        return Verdict.INVALID, "; ".join(_counted(one) for one in violated)
    unknown = [one for one in forbidden if one.verdict is Property.UNKNOWN]
    if unknown:
        return Verdict.UNKNOWN, "; ".join(f"{one.name} could not be judged: {one.reason}" for one in unknown)
    if not any(one.compared for one in forbidden if one.name not in LIVENESS):
        return Verdict.UNKNOWN, "nothing was compared: the history shows nothing that could be right or wrong"
    idle = [one for one in forbidden if one.rule.essential and one.verdict is Property.NOT_EXERCISED]
    if idle:
        return Verdict.UNKNOWN, "; ".join(f"{one.name} was not exercised: {one.reason}" for one in idle)
    if unread:
        return Verdict.UNKNOWN, f"nothing is known of losses in {', '.join(unread)}: no complete read_committed final read"
    if unseen:
        return Verdict.UNKNOWN, f"{unseen} promised records {UNSEEN}"
    held = sum(one.verdict is Property.HELD for one in forbidden)
    return Verdict.VALID, f"{held} properties held, none was violated"


def _counted(one: JudgedProperty) -> str:
    return f"{one.name} ({len(one.findings)} finding{'s' if len(one.findings) != 1 else ''})"


def expectation_met(
    expect: Sequence[str], verdict: Verdict, judged: Sequence[JudgedProperty], tolerate: Sequence[str] = ()
) -> bool:
    """Whether the run showed what its test expects: a valid verdict, or every expected anomaly and nothing else forbidden.

    tolerate: forbidden anomalies that the test says may come along.
    An anomaly that an expected one may bring along (IMPLIES: the lost half of a torn transaction is a lost write) is a
    consequence, not something else, when each of its findings shares an operation with a finding of the expected one.
    """
    if list(expect) == [Verdict.VALID.value] or not expect:
        return verdict is Verdict.VALID
    violated = {one.name: one for one in judged if one.verdict is Property.VIOLATED}
    if not set(expect) <= set(violated):
        return False
    others = [one for name, one in violated.items() if name not in (*expect, *tolerate) and not one.allowed]
    return all(any(_follows(one, violated[cause]) for cause in expect) for one in others)


def _follows(effect: JudgedProperty, cause: JudgedProperty) -> bool:
    if effect.name not in IMPLIES.get(cause.name, ()):
        return False
    touched = {op for finding in cause.findings for op in finding.operations}
    return all(touched & set(finding.operations) for finding in effect.findings)


def weaknesses(receipts: Sequence[Mapping[str, Any]], cut_off: int, unread: Sequence[str], unseen: int = 0) -> list[str]:
    """What makes the verdict say less than it seems to."""
    idle = sum(receipt["effective"] is False for receipt in receipts)
    doubtful = sum(receipt["effective"] is None for receipt in receipts)
    reasons = [
        (idle, f"{idle} of {len(receipts)} faults had no effect"),
        (doubtful, f"of {doubtful} of {len(receipts)} faults nobody knows whether they had an effect"),
        (cut_off, f"{cut_off} operations have no completion in the history"),
        (len(unread), f"no complete read_committed final read of {', '.join(unread)}"),
        (unseen, f"{unseen} promised records {UNSEEN}"),
    ]
    return [text for count, text in reasons if count]
