"""The installed checks by name, and what they declare."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.checkers.contract.rules import Rule, rule_for, rule_on_evidence
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.selfcheck.selfcheck import damages_of

INSTALLED = {check.name: check for check in installed_checks()[0]}
DAMAGES = damages_of(INSTALLED.values())
UNDAMAGED = {name for name, check in INSTALLED.items() if not check.damages}


def rule_of(anomaly: str, contract: Mapping[str, str]) -> Rule:
    """The rule that decides about an anomaly under a full contract; that of a check without rules where none has the name."""
    return rule_for(INSTALLED[anomaly].rules if anomaly in INSTALLED else (), contract)


def rule_of_evidence(anomaly: str, contract: Mapping[str, str]) -> Rule:
    """The rule that decides about findings that evidence shows."""
    return rule_on_evidence(INSTALLED[anomaly].rules, contract)
