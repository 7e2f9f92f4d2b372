"""Rules: under which settings an anomaly is forbidden, allowed, or cannot be judged, each with its reason.

The rules of an anomaly are a field of its check (`Check.rules`); no check looks at settings itself. The first rule whose
conditions all hold decides. A condition is `key: value`, `key: "!value"` for anything else, or `key: "has:value"` for a
comma-separated list with that value in it. Keys are those of `harness.api.contract.CONTRACT_KEYS`, whose defaults stand for
absent keys. Rules that several anomalies share are in `checkers.contract.common_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.harness.api.contract_layers import overlaid_contract, planned_contract

FORBIDDEN = "forbidden"
"""Judgement of a rule: each finding violates the contract."""
ALLOWED = "allowed"
"""Judgement of a rule: findings are reported, and decide nothing."""
INAPPLICABLE = "inapplicable"
"""Judgement of a rule: nothing is judged under such a contract."""
READS, FINAL_READS = "reads", "final reads"  # evidence that a setting leaves intact (`Rule.unless`)
COMMITTED_READS = "read_committed reads"  # findings with a missing record that they returned to others
UNCOMMITTED_READS = "read_uncommitted final reads"  # findings with a record that the log does not hold at all
LEADERS_LOGS = "leaders' logs"  # findings with a value that no aborted record of the log explains
MEMBERS_ANSWERS = "answers to members"  # findings of members that were told no lower offset of their group
DELETIONS = "deletions"  # findings that no deletion of a topic explains
SENTENCE = "sentences of its source"  # findings about which these leave no doubt (`Check.undoubted`)


@dataclass(frozen=True)
class Rule:
    """One row: under `when`, the anomaly is forbidden, allowed, or cannot be judged; and why.

    judged: FORBIDDEN, ALLOWED or INAPPLICABLE.
    reason: why, in words, with the KIP.
    when: conditions on the contract; none: always.
    essential: every run under this rule must have exercised it, or the run's verdict is unknown.
    unless: evidence that the setting leaves intact (READS, FINAL_READS, COMMITTED_READS, UNCOMMITTED_READS, LEADERS_LOGS,
        MEMBERS_ANSWERS, DELETIONS, SENTENCE): findings that it shows by itself (`Check.shown_by`, `Check.beyond_aborts`,
        `Check.undoubted`) are not allowed by this row, and the next row without such a condition decides about them.
    """

    judged: str
    reason: str
    when: Mapping[str, str] = field(default_factory=dict)
    essential: bool = False
    unless: str = ""

    def holds(self, contract: Mapping[str, str]) -> bool:
        """True if all conditions hold under a full contract."""
        return all(_is(contract.get(key, ""), value) for key, value in self.when.items())


UNRULED = Rule(FORBIDDEN, "no rule of its check allows it")


def rule_for(rules: Sequence[Rule], contract: Mapping[str, str]) -> Rule:
    """The rule that decides under a full contract, as long as no evidence stands against it (`Rule.unless`)."""
    return next(_applicable(rules, contract))


def rule_on_evidence(rules: Sequence[Rule], contract: Mapping[str, str]) -> Rule:
    """The rule that decides about findings that the evidence shows against `rule_for`."""
    return next(rule for rule in _applicable(rules, contract) if not rule.unless)


def full_contract(planned: Mapping[str, str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """A plan's contract with every key, overlaid by `given`. Raises CampaignError for what cannot be meant."""
    return overlaid_contract(planned_contract(planned), given or {})


def _applicable(rules: Sequence[Rule], contract: Mapping[str, str]) -> Iterator[Rule]:
    return (rule for rule in (*rules, UNRULED) if rule.holds(contract))


def _is(actual: str, wanted: str) -> bool:
    if wanted.startswith("has:"):
        return wanted[4:] in actual.split(",")
    return actual != wanted[1:] if wanted.startswith("!") else actual == wanted
