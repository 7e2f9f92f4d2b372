"""Decision: from findings to a verdict (docs/run-directory.md has the document's shape)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.needs import UNDECLARED, Needs
from fencepost.checkers.contract.rules import ALLOWED, INAPPLICABLE, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.promises import LIVE, PROCESSED_ONCE, PROGRAM, RECOVERING
from fencepost.harness.api.values import Property, Verdict
from fencepost.harness.api.words import and_more, form, plural

NAMED = 4  # properties that a reason names
RARE, SURE = 1 / 1000, 0.95  # the error whose chance to show is told, and the chance above which nothing is told
UNSEEN = "returned to nobody, and without a final read nobody knows what is lost and what is late"


@dataclass(frozen=True)
class JudgedProperty:
    """One anomaly's verdict under its rule."""

    name: str
    rule: Rule
    verdict: Property
    compared: int = 0
    reason: str = ""
    findings: Sequence[Finding] = field(default_factory=list)
    definition: str = ""  # what the check looks for, in its author's words
    table: Sequence[Mapping[str, Any]] = ()  # with what it was compared, row by row
    needs: Needs = UNDECLARED  # evidence of the history
    promise: str = ""  # that the anomaly breaks
    consequences: Sequence[str] = ()  # anomalies that follow from it
    attribution: Attribution = Attribution.RECORDS
    occasions: Mapping[str, int | None] = field(default_factory=dict)  # of those of which it needs one; None: not known
    bound: str = ""  # what was not compared because of a bound of the check's own
    gaps: Sequence[Gap] = ()  # what of the history is missing, where the answer is unknown for it

    @property
    def allowed(self) -> bool:
        return self.rule.judged == ALLOWED

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "verdict": self.verdict.value,
            "count": len(self.findings),
            "compared": self.compared,
        }
        document |= {"reason": self.reason, "contract": self.rule.reason, "definition": self.definition, "promise": self.promise}
        document |= {"occasions": dict(self.occasions)} if self.occasions else {}
        return {**document, "table": list(self.table)} if self.table else document


def judge_property(
    name: str,
    rule: Rule,
    compared: int,
    findings: Sequence[Finding],
    *,
    error: str = "",
    lacking: str = "",
    **described: Any,
) -> JudgedProperty:
    """violated, held, not exercised or unknown. Findings stand even when the check broke elsewhere: they are evidence.

    described: fields of the property that its check declares, its table, and its bound.
    """
    if rule.judged == INAPPLICABLE:
        return JudgedProperty(name, rule, Property.NOT_EXERCISED, 0, rule.reason, **described)
    if findings:
        return JudgedProperty(name, rule, Property.VIOLATED, compared, error, findings, **described)
    if error:
        verdict, reason = Property.UNKNOWN, error
    else:
        held = (
            Property.HELD,
            described.get("bound")
            or rows_compared(described.get("table", ()))
            or sensitivity(str(described.get("promise", "")), compared),
        )
        verdict, reason = held if compared else (Property.NOT_EXERCISED, described.get("bound") or lacking)
    return JudgedProperty(name, rule, verdict, compared, reason, **described)


def rows_compared(table: Sequence[Mapping[str, Any]]) -> str:
    """How many rows of a check's table were compared, in words; empty where it has no table."""
    compared = sum(1 for row in table if row["met"] or row["violated"])
    return f"{compared} of {len(table)} rows of its table were compared" if table else ""


def sensitivity(promise: str, compared: int) -> str:
    """The chance that a rare error of a program or a pipeline would have been seen, in words; empty where it is large.

    Model: each thing that was compared is wrong with probability `RARE`, independent of the others, so that none of n shows an
    error with probability (1 - RARE)^n. Errors that only a fault brings about need faults, whatever was compared.
    """
    seen = 1 - (1 - RARE) ** compared
    if promise not in (PROCESSED_ONCE, PROGRAM) or seen >= SURE:
        return ""
    odds = f"an error of 1 in {1 / RARE:,.0f} would have been seen with {seen:.0%} probability"
    return f"{odds} (were each of the {compared:,} that were compared wrong with that chance, independent of the others)"


def decide(judged: Iterable[JudgedProperty], unread: Sequence[str] = (), unseen: int = 0) -> tuple[Verdict, str]:
    """The run's verdict and its reason. Invalid beats unknown beats valid; what the contract allows decides nothing.

    unread: partitions that should have been read to their end and were not; then nothing is known of what was lost there.
    unseen: promised records that nobody got by the end of a history without a final phase; they may be lost or late.
    """
    forbidden = [prop for prop in judged if not prop.allowed]
    violated = [prop for prop in forbidden if prop.verdict is Property.VIOLATED]
    if violated:
        return Verdict.INVALID, "; ".join(_counted(prop) for prop in violated)
    unknown = [prop for prop in forbidden if prop.verdict is Property.UNKNOWN]
    if unknown:
        return Verdict.UNKNOWN, "; ".join(_unjudged(unknown))
    if not any(prop.compared for prop in forbidden if prop.promise not in (LIVE, RECOVERING)):
        return Verdict.UNKNOWN, "nothing was compared: the history shows nothing that could be right or wrong"
    unexercised = [prop for prop in forbidden if prop.rule.essential and prop.verdict is Property.NOT_EXERCISED]
    lacking = [f"{prop.name} was not exercised: {prop.reason}" for prop in unexercised]
    if unread:
        lacking.append(f"nothing is known of losses in {', '.join(unread)}: no complete read_committed final read")
    if lacking:
        return Verdict.UNKNOWN, "; ".join(lacking)
    if unseen:
        return Verdict.UNKNOWN, f"{plural(unseen, 'promised record was', 'promised records were')} {UNSEEN}"
    held, idle = (sum(prop.verdict is word for prop in forbidden) for word in (Property.HELD, Property.WITHOUT_OCCASION))
    without = (
        f", {idle} held without occasion: nothing occurred that could have broken {form(idle, 'it', 'them')}" if idle else ""
    )
    return Verdict.VALID, f"{plural(held, 'property', 'properties')} held, none was violated{without}"


def _unjudged(unknown: Sequence[JudgedProperty]) -> Iterator[str]:
    """Reasons why properties could not be judged; those for which the same is missing together, the essential ones first."""
    by_gaps: dict[tuple[Gap, ...], list[str]] = {}
    for prop in sorted(unknown, key=lambda each: not each.rule.essential):
        by_gaps.setdefault(tuple(prop.gaps), []).append(prop.name)
    yield from (f"{each.name} could not be judged: {each.reason}" for each in unknown if not each.gaps)
    for gaps, names in by_gaps.items():
        if gaps:
            named = f"{', '.join(names[:NAMED])}{and_more(len(names) - NAMED)}"
            yield f"{named} could not be judged for what the history lacks: {gaps[0]}{and_more(len(gaps) - 1, '; and ')}"


def _counted(prop: JudgedProperty) -> str:
    return f"{prop.name} ({plural(len(prop.findings), 'finding')})"


def weaknesses(receipts: Sequence[Mapping[str, Any]], cut_off: int, unread: Sequence[str], unseen: int = 0) -> list[str]:
    """Reasons why the verdict says less than it seems to."""
    idle = sum(receipt["effective"] is False for receipt in receipts)
    doubtful = sum(receipt["effective"] is None for receipt in receipts)
    reasons = [
        (idle, f"{idle} of {len(receipts)} faults had no effect"),
        (doubtful, f"of {doubtful} of {len(receipts)} faults nobody knows whether they had an effect"),
        (cut_off, f"{plural(cut_off, 'operation has', 'operations have')} no completion in the history"),
        (len(unread), f"no complete read_committed final read of {', '.join(unread)}"),
        (unseen, f"{plural(unseen, 'promised record was', 'promised records were')} {UNSEEN}"),
    ]
    return [text for count, text in reasons if count]
