"""Controls, budget and retries of a round."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.fake_engine import FakeEngine
from support.rounds import night, performed, rounds_of

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign.campaign import controls, read

CANARY = "seed = 7\ncanary = true\n"
UNTRUSTED = "the harness cannot be trusted in this round: "


def test_a_round_begins_with_a_canary_that_is_caught_and_a_valid_baseline(fencepost):
    code, out, _ = fencepost("campaign", night("valid", ("torn", "torn-letter"), head=CANARY))
    assert (code, performed(fencepost.engines[-1])) == (0, ["canary", "baseline", "valid", "torn"])
    assert "canary  (1 of 4)" in out
    assert UNTRUSTED not in out
    [record] = rounds_of()
    assert {Path(run.last.directory).parent.name for run in record.round.runs} == {""}, "they lie in the campaign's folder"
    assert [run.number for run in record.round.runs] == [-2, -1, 0, 1]


def test_a_canary_that_is_missed_is_said_before_all_else_and_the_rest_is_left_out(fencepost, monkeypatch):
    monkeypatch.setattr(fencepost.engine, "blind", ("canary",))
    code, out, err = fencepost("campaign", night("valid", head=CANARY))
    why = f"{UNTRUSTED}canary: valid, but expected was: aborted-read"
    assert (code, performed(fencepost.engines[-1])) == (255, ["canary", "baseline"])
    assert out.split("\n\n")[1] == why
    assert f"left out: 1 of 3 runs: {why}" in err
    [record] = rounds_of()
    assert (record.directory / "summary.md").read_text().startswith(f"**T{why[1:]}**\n\n## night: fencepost itself broke")
    [canary, _, other] = ElementTree.parse(record.directory / "junit.xml").getroot().iter("testcase")
    assert (canary.get("name"), canary.find("error").get("message")) == ("canary", why)
    assert other.find("skipped").get("message") == why


def test_with_go_on_the_rest_is_performed_and_the_exit_code_stays(fencepost, monkeypatch):
    monkeypatch.setattr(fencepost.engine, "blind", ("canary",))
    code, out, _ = fencepost("campaign", night("valid", head=CANARY), "--go-on")
    assert (code, performed(fencepost.engines[-1])) == (255, ["canary", "baseline", "valid"])
    assert UNTRUSTED in out


def test_a_control_that_could_not_be_performed_has_its_own_exit_code(fencepost):
    class Absent(fencepost.engine):
        def perform(self, run_dir):
            from fencepost.harness.api import ClusterError

            raise ClusterError("no Java 17 or newer found")

    fencepost.engine = Absent
    code, out, _ = fencepost("campaign", night("valid", head=CANARY))
    assert (code, f"{UNTRUSTED}canary: no verdict: no Java" in out) == (254, True)


def test_only_leaves_the_controls_out_and_options_decide(fencepost):
    file = night("valid", head=CANARY)
    for options, tests in (
        (["--only", "valid"], ["valid"]),
        (["--no-canary"], ["valid"]),
        (["--only", "valid", "--canary"], ["canary", "baseline", "valid"]),
    ):
        fencepost("campaign", file, *options)
        assert performed(fencepost.engines[-1]) == tests


def test_controls_live_on_the_campaigns_cluster_and_are_repeated_by_a_command_of_their_own(stranger):
    loaded = read(Path(night("valid", head=CANARY)), cluster={"brokers": 5})
    assert [run.command for run in controls(loaded)] == [
        f"fencepost campaign canary --only {name} --seed 7 --cluster attic --cluster-set brokers=5"
        for name in ("canary", "baseline")
    ]


def test_a_test_may_not_have_the_name_of_a_control(stranger):
    with pytest.raises(CampaignError, match='"canary" is the name of a test that every round performs'):
        read(Path(night("canary", head=CANARY)))
    read(Path(night("canary")))


def test_what_broke_is_performed_again_and_a_violation_never(fencepost):
    code, out, _ = fencepost("campaign", night("broken+valid", "lost", "unknown"), "--retries", "1")
    assert (code, performed(fencepost.engines[-1])) == (1, ["broken+valid", "broken+valid", "lost", "unknown"])
    assert "it is performed again, since something broke" in out
    [record] = rounds_of()
    assert [attempt.error[:2] for attempt in record.round.runs[0].attempts] == ["n2", ""]
    assert "1 attempt broke, and the run was performed again: n2 did not answer" in (record.directory / "summary.md").read_text()


def test_what_stays_broken_is_an_error_after_all_retries(fencepost):
    code, _, _ = fencepost("campaign", night("broken", head="retries = 2\nseed = 7\n"))
    assert (code, performed(fencepost.engines[-1])) == (254, ["broken"] * 3)


def test_without_retries_nothing_is_performed_again(fencepost):
    fencepost("campaign", night("broken"))
    assert performed(fencepost.engines[-1]) == ["broken"]


def test_tests_that_no_longer_fit_into_the_budget_are_left_out_and_named(fencepost):
    file = night(("valid", "valid", "time_s = 4000\n"), ("torn", "torn-letter", "time_s = 10\n"), head="seed = 7\nhours = 1\n")
    code, out, err = fencepost("campaign", file)
    why = "it takes about 67 min, and 60 min of the round's 1 h are left"
    assert (code, performed(fencepost.engines[-1])) == (2, ["torn"])
    assert f"valid is left out: {why}" in out
    assert "note: 60 min of the round's 1 h are left, so that tests will be left out" in err
    assert f"left out: 1 of 2 runs: {why}" in err
    [record] = rounds_of()
    assert f"* valid: {why}" in (record.directory / "summary.md").read_text().replace("\\", "")
    case = next(ElementTree.parse(record.directory / "junit.xml").getroot().iter("testcase"))
    assert (case.get("name"), case.find("skipped").get("message")) == ("valid", why)
    assert fencepost("campaign", file, "--hours", "2")[0] == 0


def test_what_is_left_out_is_counted_and_not_listed_without_end(fencepost, monkeypatch):
    file = night(*((f"valid[{number}]", "valid", f"time_s = {9000 + number}\n") for number in range(9)), head="hours = 1\n")
    _, _, err = fencepost("campaign", file, "--seed", "7")
    assert sum(line.startswith("left out: ") for line in err.splitlines()) <= 6
    monkeypatch.setattr(fencepost.engine, "blind", ("canary",))
    _, out, err = fencepost("campaign", file, "--canary", "--hours", "99")
    assert out.count(UNTRUSTED) == 2, "when it is known, and before the table"
    assert f"left out: 9 of 11 runs: {UNTRUSTED}" in err


def test_a_control_that_was_stopped_says_nothing_about_the_harness(fencepost):
    """Ctrl-C while the canary is performed: what there is is judged, and nobody broke anything."""

    class Stopping(fencepost.engine):
        def perform(self, run_dir):
            os.kill(os.getpid(), signal.SIGINT)
            super().perform(run_dir)

    fencepost.engine = Stopping
    fencepost.engine.blind = ("canary",)
    code, out, err = fencepost("campaign", night("valid", head=CANARY))
    assert UNTRUSTED not in out + err
    assert "stopped: 2 of 3 runs not performed" in err
    assert code == 1, "the canary was not caught in what there is, as a test alone"
    fencepost.engine = FakeEngine
    assert fencepost("campaign", "night.toml", "--resume")[0] == 0
    assert performed(fencepost.engines[-1]) == ["canary", "baseline", "valid"]
