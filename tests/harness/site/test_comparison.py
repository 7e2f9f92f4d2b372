"""Two runs side by side in words."""

from __future__ import annotations

from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.page_text import NOTHING
from fencepost.harness.site.comparison import compared


def run(**fields):
    return RunRow(
        **{
            "place": "c/r",
            "run": "r",
            "verdict": "valid",
            "met": True,
            "outcome": "valid, as expected",
            "rate": 100.0,
            "kafka": "4.3.0",
            **fields,
        }
    )


def differing(a, b, settings_a=(), settings_b=()):
    return {(line.part, line.name): (line.a, line.b) for line in compared(a, b, settings_a, settings_b) if line.differs}


def test_two_runs_that_are_alike_differ_in_nothing():
    assert differing(run(), run(), [("acks", "all")], [("acks", "all")]) == {}


def test_what_differs_is_named_part_by_part():
    lost = FindingRow(id=1, anomaly="lost-write", fingerprint="ab12", sentence="Lost.", count=3)
    red = run(
        verdict="invalid",
        met=False,
        outcome="invalid, against expectation",
        kafka="4.4.0",
        rate=50.0,
        anomalies=("lost-write",),
        findings=(lost,),
    )
    assert differing(run(), red, [("acks", "all"), ("linger", "5")], [("acks", "1")]) == {
        ("outcome", "verdict"): ("valid, as expected", "invalid, against expectation"),
        ("outcome", "anomalies"): (NOTHING, "lost-write"),
        ("outcome", "cause"): (NOTHING, "Lost."),
        ("versions", "Kafka"): ("4.3.0", "4.4.0"),
        ("findings", "lost-write (ab12)"): ("not found", "found"),
        ("rates", "operations per second"): ("100", "50.0"),
        ("settings", "acks"): ("all", "1"),
        ("settings", "linger"): ("5", "not set"),
    }


def test_a_plan_that_cannot_be_read_has_no_settings():
    assert differing(run(), run(), None, [("acks", "1")]) == {("settings", "acks"): ("not set", "1")}
