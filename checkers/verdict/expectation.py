"""Comparison of a run with its test's expectation: everything expected was shown, and nothing else that is forbidden.

What is expected is bound to its cause: a consequence counts as expected where it is about the same records, those that the same
transaction sent to the same partition. Everything else that is forbidden is unexpected; what nobody could judge may be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.harness.api import record_ids
from fencepost.harness.api.expectations import ALONE, ANYWHERE, anomaly_and_word
from fencepost.harness.api.values import Property, Verdict
from fencepost.harness.api.words import and_more

NAMED = 5  # findings that a sentence names
_MET: Mapping[Verdict, bool | None] = {Verdict.VALID: True, Verdict.INVALID: False, Verdict.UNKNOWN: None}
Place = tuple[str, int]  # a partition, and the operation that sent records to it (`record_ids.operation_key_of`)
Decide = Callable[[Sequence[JudgedProperty]], tuple[Verdict, str]]


@dataclass(frozen=True)
class Comparison:
    """The findings beside what the test expects.

    met: None where nobody knows: nothing unexpected was found, and not everything could be judged.
    sentence: the comparison in words.
    unexpected: forbidden findings that nothing expected explains, by anomaly.
    otherwise: whether the expectation is met without those, as where somebody has acknowledged them all.
    """

    met: bool | None
    sentence: str
    unexpected: Mapping[str, Sequence[Finding]]
    otherwise: bool | None = None

    def document(self) -> list[dict[str, object]]:
        """`unexpected` as in `verdict.json`."""
        return [
            {"name": name, "count": len(some), "findings": [finding.id for finding in some[:NAMED]]}
            for name, some in self.unexpected.items()
        ]


def compare(expect: Sequence[str], tolerate: Sequence[str], judged: Sequence[JudgedProperty], decide: Decide) -> Comparison:
    """Compare a run with its test's expectation: every expected anomaly is found against the contract, and nothing else is.

    decide: the verdict of some properties. Without what was expected it must be `valid`: where the final read is missing, or a
    check broke, nobody knows what else there is.
    """
    wanted = dict(anomaly_and_word(text) for text in expect) or {Verdict.VALID.value: ""}
    violated = {prop.name: list(prop.findings) for prop in judged if not prop.allowed and prop.verdict is Property.VIOLATED}
    if Verdict.VALID.value in wanted:
        verdict, reason = decide(judged)
        otherwise = _MET[decide([_acknowledged(prop) for prop in judged])[0]]
        return Comparison(_MET[verdict], "" if verdict is Verdict.VALID else reason, violated, otherwise)
    missing = [name for name in wanted if name not in violated]
    unexpected = _unexpected(
        wanted, dict(anomaly_and_word(text) for text in tolerate), violated, {prop.name: prop for prop in judged}
    )
    verdict, reason = decide([_without(prop, wanted, unexpected.get(prop.name, ())) for prop in judged])
    alone = decide([_without(prop, wanted, ()) for prop in judged])[0]
    parts = [f"not found: {', '.join(_missing(name, judged) for name in missing)}"] if missing else []
    parts += [f"not expected: {', '.join(_named(*pair) for pair in unexpected.items())}"] if unexpected else []
    parts += [f"nobody knows what else there is: {reason}"] if verdict is Verdict.UNKNOWN else []
    along = [f"{len(some)} {name}" for name, some in violated.items() if name not in {*wanted, *unexpected}]
    met, otherwise = (False if missing and word is Verdict.VALID else _MET[word] for word in (verdict, alone))
    sentence = "; ".join(parts) or (f"with {', '.join(along)}" if along else "")
    return Comparison(met, sentence, unexpected, otherwise)


def of_short_run(comparison: Comparison, expect: Sequence[str], short: str) -> Comparison:
    """The comparison of a run that tested less than its test asks. short: why, in words; empty: it did not.

    What was found stands. That nothing was found is no answer: neither `valid`, nor that an expected anomaly does not show.
    """
    valid = Verdict.VALID.value in expect
    if short and (valid or not comparison.otherwise):
        comparison = replace(comparison, otherwise=None)
    absent = valid if comparison.met else not comparison.unexpected
    if not short or comparison.met is None or not absent:
        return comparison
    return replace(comparison, met=None, sentence="; ".join(filter(None, (comparison.sentence, short))))


def _missing(name: str, judged: Iterable[JudgedProperty]) -> str:
    permitted = any(prop.name == name and prop.allowed and prop.verdict is Property.VIOLATED for prop in judged)
    return f"{name} (only as the contract allows it)" if permitted else name


def _named(name: str, findings: Sequence[Finding]) -> str:
    numbers = ", ".join(f"#{finding.id}" for finding in findings[:NAMED])
    return f"{name} ({numbers}{and_more(len(findings) - NAMED)})"


def _acknowledged(prop: JudgedProperty) -> JudgedProperty:
    """A property without its findings, where all that is forbidden is acknowledged."""
    if prop.verdict is not Property.VIOLATED or prop.allowed:
        return prop
    return replace(prop, findings=[], verdict=Property.UNKNOWN if prop.reason else Property.HELD)


def _without(prop: JudgedProperty, wanted: Collection[str], unexpected: Sequence[Finding]) -> JudgedProperty:
    """A property without the findings that were expected. What was not exercised takes nothing from what was shown."""
    if prop.verdict is Property.NOT_EXERCISED:
        return replace(prop, verdict=Property.HELD, compared=1)
    if prop.verdict is not Property.VIOLATED or prop.allowed or unexpected:
        return prop
    incomplete = prop.reason and prop.name not in wanted
    return replace(prop, findings=[], verdict=Property.UNKNOWN if incomplete else Property.HELD)


# --------------------------------------------------------------------------------------------------
# Consequences
# --------------------------------------------------------------------------------------------------
def _unexpected(
    wanted: Mapping[str, str],
    tolerated: Mapping[str, str],
    violated: Mapping[str, Sequence[Finding]],
    properties: Mapping[str, JudgedProperty],
) -> dict[str, Sequence[Finding]]:
    """Forbidden findings that are neither expected, nor consequences, nor tolerated; by anomaly."""
    places = {name: _places(violated.get(name, ())) for name in wanted}
    follows = {name: word != ALONE for name, word in wanted.items()}
    rest = {name: list(some) for name, some in violated.items() if name not in wanted and tolerated.get(name) != ANYWHERE}
    consequences = {name: prop.consequences for name, prop in properties.items()}
    explained = True
    while explained:  # what follows from a consequence is a consequence
        explained = False
        for name, findings in rest.items():
            causes = [cause for cause in places if name in tolerated or (follows[cause] and name in consequences.get(cause, ()))]
            bound = [
                finding
                for finding in findings
                if any(_is_about(finding, properties[name].attribution, places[cause]) for cause in causes)
            ]
            if bound:
                explained = True
                rest[name] = [finding for finding in findings if finding not in bound]
                places[name] = places.get(name, set()) | _places(bound)
                follows.setdefault(name, name not in tolerated)
    return {name: findings for name, findings in rest.items() if findings}


def _places(findings: Iterable[Finding]) -> set[Place]:
    """Senders of the records of some findings, and where to."""
    return {_place(row) for finding in findings for row in finding.rows if row.v >= 0}


def _place(row: FindingRecord) -> Place:
    return row.partition, int(record_ids.operation_key_of(row.v))


def _is_about(finding: Finding, attribution: Attribution, places: Collection[Place]) -> bool:
    """True if a finding is about records that were sent to these places, all that is wrong with it (`Attribution`)."""
    if attribution is Attribution.PARTITION:
        return {row.partition for row in finding.rows} <= {partition for partition, _ in places}
    missing = finding.records("missing")
    rows = [row for row in (missing or finding.rows) if row.v >= 0]
    if attribution is Attribution.EACH_OFFSET:
        at = sorted(rows, key=lambda row: (row.partition, row.offset))
        offsets = [list(some) for _, some in groupby(at, key=lambda row: (row.partition, row.offset))]
        return bool(offsets) and all(any(_place(row) in places for row in some) for some in offsets)
    if not missing and attribution is Attribution.PAIR:
        return any(_place(row) in places for row in rows)
    return bool(rows) and all(_place(row) in places for row in rows)
