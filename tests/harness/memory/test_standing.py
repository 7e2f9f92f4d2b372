"""The standing of fingerprints over rounds."""

from __future__ import annotations

import pytest

from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.memory.standing import Standing, histories, history


def run(
    night: int, *fingerprints: str, test: str = "steady", verdict: str = "invalid", number: int = 0, campaign: str = "c"
) -> RunRow:
    findings = tuple(FindingRow(id=1, anomaly="lost-write", fingerprint=mark, sentence="") for mark in fingerprints)
    created = f"2026-11-{night:02}T01:00:{number:02}Z"
    place = f"{campaign}/{created}-{test}-{number}"
    return RunRow(
        place=place, run=place, campaign=campaign, test=test, round=f"202611{night:02}T010000Z", created=created,
        verdict=verdict, findings=findings,
    )  # fmt: skip


def test_five_nights():
    """A bug that was always there, a new one, one that is gone, one that comes and goes."""
    nights = [("old",), ("old", "gone"), ("old", "at-times"), ("old",), ("old", "new", "at-times")]
    of = histories(run(number, *marks) for number, marks in enumerate(nights, 1))
    assert {mark: (seen.standing, seen.seen, seen.rounds, seen.since) for mark, seen in of.items()} == {
        "old": (Standing.KNOWN, 5, 5, "2026-11-01"),
        "gone": (Standing.GONE, 1, 5, "2026-11-02"),
        "at-times": (Standing.KNOWN, 2, 5, "2026-11-03"),
        "new": (Standing.NEW, 1, 5, "2026-11-05"),
    }
    assert str(of["old"]) == "known (on 5 of 5 rounds, since 2026-11-01)"
    assert str(of["gone"]) == "gone (on 1 of 5 rounds, since 2026-11-02; last seen 2026-11-02)"
    assert str(of["new"]) == "new"


def test_two_runs_of_a_round_count_once():
    rows = [run(1, "a"), run(1, "a", number=1), run(2, number=0), run(2, "a", number=1)]
    seen = history("a", rows)
    assert seen is not None
    assert (seen.standing, seen.seen, seen.rounds) == (Standing.KNOWN, 2, 2)


def test_in_the_first_round_of_all_everything_is_new_and_says_why():
    seen = history("a", [run(1, "a")])
    assert seen is not None
    assert str(seen) == "new: there is no earlier round"


def test_a_round_without_the_test_says_nothing_about_it():
    rows = [run(1, "a"), run(2, "a"), run(3, "b", test="other"), run(4, verdict="")]
    seen = history("a", rows)
    assert seen is not None
    assert (seen.standing, seen.rounds) == (Standing.KNOWN, 2)


def test_the_same_test_of_another_campaign_is_another():
    seen = history("a", [run(1, "a"), run(2, campaign="d")])
    assert seen is not None
    assert (seen.standing, seen.rounds) == (Standing.NEW, 1)


def test_a_fingerprint_of_two_tests_is_looked_for_in_both():
    rows = [run(1, "a"), run(2, "a", test="other"), run(3), run(3, test="other", number=1)]
    seen = history("a", rows)
    assert seen is not None
    assert (seen.standing, seen.seen, seen.rounds) == (Standing.GONE, 2, 3)


def test_rounds_are_ordered_by_time_whatever_they_are_called():
    """A run outside a campaign has a day for its round, in another form."""
    early = run(1, "a")
    rows = [early, run(2, "a"), RunRow(**{**_fields(run(3)), "round": "2026-11-03"})]
    seen = history("a", rows)
    assert seen is not None
    assert seen.standing is Standing.GONE


def _fields(row: RunRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@pytest.mark.parametrize("rows", [[], [run(1)]])
def test_what_nobody_has_seen_has_no_history(rows):
    assert history("a", rows) is None
