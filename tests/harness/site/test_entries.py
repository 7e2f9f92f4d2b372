"""Runs among others: their tone, their outcome in words, and the sentence that tells most."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from fencepost.harness.memory.known import Acknowledgement, Known
from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.site.entries import entry_of, gravest_first, round_label
from fencepost.harness.site.round_memory import RoundMemory


def row(**fields):
    return RunRow(**{"place": "c/r", "run": "r", **fields})


def found(anomaly, sentence, number=1):
    return FindingRow(id=number, anomaly=anomaly, fingerprint=anomaly, sentence=sentence)


@pytest.mark.parametrize(
    ("verdict", "met", "tone"),
    [
        ("valid", True, "good"),
        ("invalid", True, "shown"),
        ("invalid", False, "bad"),
        ("valid", False, "bad"),
        ("valid", None, "unsure"),
        ("unknown", None, "unsure"),
        ("", None, "none"),
    ],
)
def test_verdict_and_expectation_make_a_tone(verdict, met, tone):
    entry = entry_of(row(verdict=verdict, met=met, outcome="in words"))
    assert (entry.tone, entry.outcome) == (tone, "in words")
    assert entry.red == (tone in ("bad", "unsure", "none"))


def test_the_finding_that_nobody_expects_is_named_first():
    """A control finds what it should a hundred times; the one other finding is why the run is red."""
    both = (found("lost-write", "As expected."), found("duplicate", "Not expected.", 7))
    entry = entry_of(row(verdict="invalid", met=False, expect=("lost-write anywhere",), findings=both))
    assert (entry.cause, entry.finding and entry.finding.id) == ("Not expected.", 7)
    named = row(verdict="invalid", met=False, anomalies=("lost-write", "duplicate"), unexpected=("duplicate",))
    assert entry_of(named).anomalies == ("duplicate", "lost-write")


def test_a_control_that_caught_nothing_says_so():
    entry = entry_of(row(verdict="valid", met=False, expect=("lost-write",), expectation="not found: lost-write"))
    assert (entry.finding, entry.cause) == (None, "not found: lost-write")


def test_a_run_without_verdict_names_what_is_damaged_or_that_it_was_not_judged():
    assert "could not be read" in entry_of(row(problems=("plan.json could not be read (not JSON)",))).cause
    assert "fencepost check" in entry_of(row()).cause


def test_a_run_that_is_performed_is_not_red():
    entry = entry_of(row(), phase="judging")
    assert (entry.red, entry.outcome) == (False, "judging")


def test_the_gravest_are_first_and_of_them_the_newest():
    made = [
        entry_of(row(place="c/1", verdict="valid", met=True, created="2026-11-03")),
        entry_of(row(place="c/2", verdict="invalid", met=False, created="2026-11-01")),
        entry_of(row(place="c/3", verdict="invalid", met=False, created="2026-11-02")),
        entry_of(row(place="c/4", created="2026-11-01")),
    ]
    assert [entry.row.place for entry in gravest_first(made)] == ["c/3", "c/2", "c/4", "c/1"]


def test_a_round_is_written_as_people_write_it():
    assert round_label("20261125T190000Z") == "2026-11-25 19:00"
    assert round_label("20261125T190000Z-2of5") == "2026-11-25 19:00 2of5"
    assert round_label("2026-11-25") == "2026-11-25"
    assert round_label("</script>") == "</script>"


def known_until(expires):
    entry = Acknowledgement(fingerprint="lost-write", reason="KAFKA-1", expires=date(2026, 11, expires))
    return RoundMemory(known=Known(None, {"lost-write": entry}), today=date(2026, 11, 25))


def red(*findings):
    names = tuple(finding.anomaly for finding in findings)
    return row(verdict="invalid", met=False, met_otherwise=True, unexpected=names, anomalies=names, findings=findings)


def test_a_run_with_acknowledged_findings_alone_is_not_red_and_says_so():
    entry = entry_of(red(found("lost-write", "Lost.")), known_until(30))
    assert (entry.tone, entry.outcome, entry.met, entry.standing) == (
        "shown",
        "invalid, as expected but for known findings",
        True,
        "acknowledged",
    )
    assert entry.standing_words == "acknowledged until 2026-11-30: KAFKA-1"


def test_an_acknowledgement_that_has_expired_leaves_the_run_red():
    entry = entry_of(red(found("lost-write", "Lost.")), known_until(24))
    assert (entry.tone, entry.red, entry.standing) == ("bad", True, "expired")


def test_a_finding_that_nobody_has_acknowledged_is_told_first():
    entry = entry_of(red(found("lost-write", "Lost."), found("duplicate", "Twice.", 2)), known_until(30))
    assert (entry.red, entry.cause) == (True, "Twice.")


def test_what_was_acknowledged_when_it_was_judged_stays_so():
    """Without the file, too, as `fencepost list` has it."""
    judged = replace(red(found("lost-write", "Lost.")), unexpected_known=True, outcome="as it was")
    assert (entry_of(judged).tone, entry_of(judged).outcome) == ("shown", "as it was")
