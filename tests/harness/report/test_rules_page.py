"""The rules of all anomalies as one table: on the page of the documentation, and in the terminal."""

from __future__ import annotations

from pathlib import Path

from support.installed import INSTALLED

from fencepost.checkers.contract.rules import ALLOWED
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.plugins import services
from fencepost.harness.report.rules_page import head, own_rules, page

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == f"{head()}\n{page(own_rules())}\n", (
        "make it again: python -m fencepost.harness.report.rules_page > docs/rules.md"
    )


def test_the_page_says_what_each_kind_of_evidence_is():
    assert [each.value for each in Evidence if f"| `{each.value}` | " not in head()] == []


def test_every_anomaly_has_a_row_that_ends_with_what_decides_in_every_other_case():
    rows = {row.anomaly: row for row in services.judge().rules()}
    assert set(rows) == set(INSTALLED)
    for row in rows.values():
        assert [when for _, when, _ in row.rules].index("") == len(row.rules) - 1, row.anomaly
        assert row.absence, row.anomaly


def test_a_condition_is_in_words_with_the_evidence_that_stands_against_it():
    [row] = [row for row in services.judge().rules() if row.anomaly == "lost-write"]
    assert ("allowed", "acks=0 (unless reads show it)") in [(judged, when) for judged, when, _ in row.rules]
    assert row.absence == ("sends", "outcomes", "final-committed", "final-uncommitted", "levels")
    assert "lose" in row.damages


def test_the_guide_names_whatever_a_setting_that_permits_losses_allows():
    """The table of docs/anomalies.md says that an anomaly which it does not name stays forbidden."""
    guide = (PAGE.parent / "anomalies.md").read_text()
    rows = guide.partition("## Settings that permit losses\n")[2].partition("\n## ")[0]
    lossy = {"unclean_leader_election", "power_failures", "unclean_coordinator", "operator_aborts", "acks"}
    allowed = {
        name for name, check in INSTALLED.items() for rule in check.rules if rule.judged == ALLOWED and lossy & rule.when.keys()
    }
    cycles = {name for name in allowed if name.startswith("G1c-wr")}
    assert [name for name in sorted(allowed - cycles) if f"`{name}`" not in rows] == []
    assert "`G1c-wr` classes" in rows
