"""The rules, needs and damages of all installed checks as one table, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.checkers.api import Check
from fencepost.checkers.contract.rules import UNRULED, Rule
from fencepost.checkers.engine.registry import installed_checks
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.promises import place_of
from fencepost.harness.api.services import AnomalyRules


def rules_table(checks: Sequence[Check[Any]] | None = None) -> list[AnomalyRules]:
    """A row per check (of the installed ones: None), by promise; those with promises of their own come last."""
    chosen = installed_checks()[0] if checks is None else checks
    return [_row(check) for check in sorted(chosen, key=lambda check: (place_of(check.promise), check.name))]


def _row(check: Check[Any]) -> AnomalyRules:
    return AnomalyRules(
        anomaly=check.name,
        promise=check.promise,
        definition=check.summary,
        rules=tuple(_rule(rule) for rule in _reachable(check.rules)),
        absence=_kinds(check.evidence.absence),
        presence=_kinds(check.evidence.presence),
        damages=tuple(damage.name for damage in check.damages),
        occasions=tuple(occasion.value for occasion in check.occasions),
    )


def _reachable(rules: Iterable[Rule]) -> list[Rule]:
    """The rules up to the first without a condition; the one that stands for none where there is no such rule."""
    reachable: list[Rule] = []
    for rule in (*rules, UNRULED):
        reachable.append(rule)
        if not rule.when and not rule.unless:
            break
    return reachable


def _rule(rule: Rule) -> tuple[str, str, str]:
    condition = ", ".join(_condition(key, value) for key, value in rule.when.items())
    judged = f"{rule.judged}, to be exercised" if rule.essential else rule.judged
    return judged, condition + (f" (unless {rule.unless} show it)" if rule.unless else ""), rule.reason


def _condition(key: str, value: str) -> str:
    if value.startswith("has:"):
        return f"{key} has {value[4:]}"
    return f"{key}!={value[1:]}" if value.startswith("!") else f"{key}={value}"


def _kinds(evidence: Iterable[Evidence]) -> tuple[str, ...]:
    """Kinds of evidence, in the order in which `Evidence` has them."""
    return tuple(kind.value for kind in Evidence if kind in set(evidence))
