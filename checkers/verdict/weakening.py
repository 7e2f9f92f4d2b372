"""Weakening: what becomes of an answer without the evidence that its check needs (`Check.evidence`).

Where evidence is missing that may hold the anomaly, nobody can say that it did not happen:
`held` becomes `unknown`. Where evidence is missing without which a finding may be an effect of the gap, the finding proves
nothing: it is left out, and what is left without findings is `unknown`. A finding that no gap can explain stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from fencepost.checkers.contract.rules import INAPPLICABLE
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.values import Property
from fencepost.harness.api.words import and_more, plural

NAMED = 3  # gaps or lines that a sentence names


# --------------------------------------------------------------------------------------------------
# Weakening
# --------------------------------------------------------------------------------------------------
def weaken(prop: JudgedProperty, gaps: Sequence[Gap], contract: Mapping[str, str]) -> JudgedProperty:
    """A property's answer, as far as it stands without what the gaps have taken. contract: a full one."""
    if prop.rule.judged == INAPPLICABLE:
        return prop
    needs = prop.needs
    unreliable = [gap for gap in gaps if gap.kind is GapKind.UNRELIABLE]
    doubting = unreliable or [gap for gap in gaps if set(gap.evidence) & set(needs.presence)]
    explained = (bool(unreliable) or any(needs.explains(gap, finding, contract) for gap in doubting) for finding in prop.findings)
    proven = [finding for finding, why in zip(prop.findings, explained, strict=True) if not why]
    doubtful = len(prop.findings) - len(proven)
    if doubtful:
        count = f"{plural(doubtful, 'finding proves', 'findings prove')} nothing"
        doubtful_for = "what is there may have been changed" if unreliable else needs.doubtful
        reason = "; ".join(filter(None, (prop.reason, f"{count}, for {doubtful_for} ({_named(doubting)})")))
        verdict = Property.VIOLATED if proven else Property.UNKNOWN
        return replace(prop, verdict=verdict, findings=proven, reason=reason, gaps=doubting)
    hiding = [gap for gap in gaps if gap.kind is not GapKind.UNATTESTED and set(gap.evidence) & set(needs.absence)]
    if not hiding or prop.findings or prop.verdict is Property.UNKNOWN or _never_exercised(prop, contract):
        return prop
    return replace(prop, verdict=Property.UNKNOWN, reason=f"{needs.hidden} ({_named(hiding)})", gaps=hiding)


def _never_exercised(prop: JudgedProperty, contract: Mapping[str, str]) -> bool:
    """True if an anomaly of final reads had no chance to show in a history that has none by its nature."""
    finals_only = prop.verdict is Property.NOT_EXERCISED and Evidence.FINAL_COMMITTED in prop.needs.presence
    return finals_only and contract["final_read"] == "false"


def _named(gaps: Sequence[object]) -> str:
    return "; ".join(str(gap) for gap in gaps[:NAMED]) + and_more(len(gaps) - NAMED, "; and ")


# --------------------------------------------------------------------------------------------------
# In words
# --------------------------------------------------------------------------------------------------
def gap_sentences(gaps: Iterable[Gap], judged: Sequence[JudgedProperty]) -> list[str]:
    """Sentences about what is missing, one for each file, with the properties that are unknown for it."""
    by_file = groupby(sorted(gaps, key=lambda gap: (gap.file, gap.line)), key=lambda gap: gap.file)
    return [_sentence(list(group), judged) for _, group in by_file]


def _sentence(gaps: Sequence[Gap], judged: Sequence[JudgedProperty]) -> str:
    unknown = [
        prop.name for prop in judged if prop.verdict is Property.UNKNOWN and not prop.allowed and set(gaps) & set(prop.gaps)
    ]
    parts = [_named(gaps)]
    if any(Evidence.RECEIPTS in gap.evidence for gap in gaps):
        parts.append("what the faults did is not wholly known")
    elif unknown:
        parts.append(f"so it is unknown whether there was {', '.join(unknown)}")
    else:
        parts.append("no answer rests on it")
    return "; ".join(parts)
