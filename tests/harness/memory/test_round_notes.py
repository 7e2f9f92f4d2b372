"""The memory of a round in sentences, over five nights."""

from __future__ import annotations

from datetime import date

from fencepost.harness.memory.known import NOTHING_KNOWN, Acknowledgement, Known
from fencepost.harness.memory.round_notes import notes_of, round_notes
from fencepost.harness.memory.rows import FindingRow, RunRow


def run(night: int, *marks: str, test: str = "steady", rate: float = 20.0) -> RunRow:
    findings = tuple(FindingRow(id=1, anomaly="lost-write", fingerprint=mark, sentence=f"{mark}!") for mark in marks)
    place = f"nightly/202611{night:02}T010000Z-{test}"
    created = f"2026-11-{night:02}T01:00:00Z"
    return RunRow(
        place=place, run=place, campaign="nightly", test=test, round=f"202611{night:02}T010000Z", created=created,
        verdict="invalid", findings=findings, rate=rate, lasted_s=60.0, time_s=60.0,
    )  # fmt: skip


NIGHTS = [run(1, "old"), run(2, "old", "gone"), run(3, "old"), run(4, "old", "passing"), run(5, "old", "new")]


def test_a_round_says_what_is_new_and_what_is_gone_since_the_one_before():
    assert notes_of(NIGHTS, "20261105T010000Z", NOTHING_KNOWN) == [
        "gone: steady: lost-write, fingerprint passing: on 1 of 5 rounds, since 2026-11-04",
        "new: steady: lost-write, fingerprint new: new!",
    ]
    assert notes_of(NIGHTS, "20261103T010000Z", NOTHING_KNOWN) == [
        "gone: steady: lost-write, fingerprint gone: on 1 of 3 rounds, since 2026-11-02",
    ]


def test_the_first_round_and_a_round_without_runs_have_nothing_to_say():
    assert notes_of(NIGHTS, "20261101T010000Z", NOTHING_KNOWN) == []
    assert notes_of(NIGHTS, "20261120T010000Z", NOTHING_KNOWN) == []
    assert notes_of([], "", NOTHING_KNOWN) == []


def test_a_bug_of_a_test_that_was_not_performed_is_not_gone():
    assert notes_of([run(1, "old"), run(2, "other", test="other")], "20261102T010000Z", NOTHING_KNOWN) == []


def test_an_entry_that_the_round_does_not_have_is_named():
    entries = {
        mark: Acknowledgement(fingerprint=mark, reason="KIP-98", expires=date(2027, 1, 31), place="known.toml:1")
        for mark in ("old", "x")
    }
    assert [line for line in notes_of(NIGHTS, "20261105T010000Z", Known(None, entries)) if line.startswith("not seen")] == [
        "not seen: x, KIP-98; acknowledged until 2027-01-31 in known.toml:1: remove it if it is gone"
    ]


def test_a_change_of_the_round_is_named():
    nights = [run(night, rate=20.0 + night % 3) for night in range(1, 12)]
    assert notes_of([*nights, run(12, rate=5.0)], "20261112T010000Z", NOTHING_KNOWN) == [
        "changed: steady: rate 5.0/s, 76 % below the median 21.0/s of 11 earlier rounds (20.0 to 22.0/s)"
    ]


def test_it_is_read_from_the_results(tmp_path):
    assert round_notes(tmp_path, "nightly", "20261105T010000Z", NOTHING_KNOWN) == []
