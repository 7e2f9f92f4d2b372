"""Refusals of the kit before it starts anything, its rows, and its exit codes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import Exit
from fencepost.harness.api.plans import Choice
from fencepost.harness.cli import main
from fencepost.harness.cli.option_texts import faults_of
from fencepost.harness.conformance.deadline import call_within
from fencepost.harness.conformance.kit import PLAYED, ConformanceCheck, missing_stories
from fencepost.harness.conformance.results import STORIES, StoryResult, counted, exit_code, markdown
from fencepost.harness.conformance.stories import Kit
from fencepost.harness.history.run_directory import read_plan
from fencepost.nemesis.graceful_stop import GracefulStop
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.pause import Pause
from fencepost.nemesis.testing import FakeCluster

LENIENT = """
from dataclasses import dataclass
from typing import ClassVar
from fencepost.harness.api import Pausable, Receipt


@dataclass(frozen=True, kw_only=True)
class Lenient:
    needs: ClassVar[tuple[type, ...]] = (Pausable,)
    target: str = "random"
    count: int = 1

    def inject(self, cluster, rng):
        return Receipt()

    def heal(self, cluster, receipt):
        return receipt
"""


def no_event(event):
    raise AssertionError(f"nothing may start: {event}")


def check(*faults, cluster="attic"):
    return ConformanceCheck(faults_of(faults), Choice(kind=cluster), 1, no_event)


@pytest.mark.usefixtures("stranger")
def test_all_mistakes_are_reported_at_once_and_nothing_starts():
    with pytest.raises(CampaignError) as caught:
        check("feather", "hammer,cuont=2", "kill,target=leeder", "no_such:Thing", cluster="atic")
    feather, *rest = caught.value.mistakes
    assert feather == "nemesis feather: Feather must be a frozen dataclass: its fields are the options"
    assert any('nemesis hammer.cuont: unknown option "cuont"; did you mean "count"?' in text for text in rest)
    assert any('nemesis kill: unknown target "leeder"; did you mean "leader"?' in text for text in rest)
    assert any('"no_such:Thing" cannot be loaded' in text for text in rest)
    assert any('unknown cluster "atic"; did you mean "attic"?' in text for text in rest)


def test_a_fault_that_accepts_any_option_fails_the_options_story(stranger):
    (stranger / "my_faults.py").write_text(LENIENT)
    (checked,) = ConformanceCheck(faults_of(["my_faults:Lenient"]), Choice(kind="attic"), 1, no_event).at_rest()
    interface, options = checked.stories
    assert interface.ok
    assert options.ok is False
    assert options.seen == "target = 'nobody-of-this-name', count = 0 was taken"
    assert "raise ValueError in __post_init__" in options.change


@pytest.mark.parametrize(
    ("answers", "code"),
    [([True, True], Exit.VALID), ([True, None], Exit.UNKNOWN), ([True, None, False], Exit.INVALID), ([], Exit.UNKNOWN)],
)
def test_the_exit_code_is_that_of_the_worst_story(answers, code):
    assert exit_code([StoryResult("heal", ok, "") for ok in answers]) is code


def test_all_stories_of_a_fault_that_was_never_reached_are_reported_as_not_played():
    results = [StoryResult("interface", True, ""), StoryResult("options", True, "")]
    assert [result.story for result in [*results, *missing_stories(results, None)]] == list(STORIES)
    assert {result.ok for result in missing_stories(results, None)} == {None}
    everything = [*results, *(StoryResult(story, True, "") for story in PLAYED[:-1])]
    died = StoryResult("harness died", True, "nothing left")
    assert missing_stories(everything, died) == [died]


@pytest.mark.usefixtures("stranger")
def test_stories_can_be_chosen_and_an_unknown_one_lists_the_names(capsys):
    with pytest.raises(SystemExit) as left:
        main.main(["nemesis", "check", "pause", "--story", "effect", "--story", "efect"])
    assert left.value.code == 254
    errors = capsys.readouterr().err
    assert 'unknown story "efect"; did you mean "effect"? There are: interface, options, inject, receipt, effect, heal' in errors
    with pytest.raises(SystemExit) as left:
        main.main(["nemesis", "check", "pause", "kill", "--cluster", "attic", "--story", "options"])
    assert left.value.code == 0
    assert capsys.readouterr().out.count("1 passed\n") == 2


def test_only_the_stories_that_are_wanted_are_played_and_reported():
    cluster = FakeCluster()
    results = list(Kit(cluster, Pause(), 7, stories=("heal", "dead node")).play())
    assert [(result.story, result.ok) for result in results] == [("heal", True), ("dead node", True)]
    assert [verb for verb, _ in cluster.calls if verb in ("pause", "kill")] == ["pause", "kill"]
    assert list(Kit(FakeCluster(), Pause(), 7, stories=("harness died",)).play()) == []


@pytest.mark.parametrize("fault", [Kill(target="all"), Pause(target="all"), GracefulStop(count=3, gone_within_s=0)])
def test_a_receipt_of_a_fault_that_hurt_only_some_of_its_targets_is_true(fault, monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.kill.GONE_WITHIN_S", 0)
    monkeypatch.setattr("fencepost.nemesis.pause.SEEN_WITHIN_S", 0)
    cluster = FakeCluster()
    cluster.stubborn.add("n2")
    results = {result.story: result for result in Kit(cluster, fault, 7, stories=("inject", "receipt", "effect")).play()}
    assert {name: result.ok for name, result in results.items()} == {"inject": True, "receipt": True, "effect": True}, results


def test_what_is_not_observable_is_counted_apart_and_is_no_success():
    results = [
        StoryResult("inject", True, "n1"),
        StoryResult("effect", None, "not observable: haunt n1", observable=False),
        StoryResult("frozen node", None, "unavailable here"),
    ]
    assert counted(results) == "1 passed, 1 not observable, 1 not played"
    assert exit_code(results[:2]) is Exit.UNKNOWN
    assert markdown("haunt", "local", "", results) == "| haunt | local | - | inject ✓ | effect ○ | frozen node – |"  # noqa: RUF001


def test_a_row_of_the_compatibility_table():
    results = [
        StoryResult("inject", True, "n1"),
        StoryResult("effect", False, "none"),
        StoryResult("frozen node", None, "unavailable here"),
    ]
    assert markdown("kill", "local", "4.3.0", results) == "| kill | local | Kafka 4.3.0 | inject ✓ | effect ✗ | frozen node – |"  # noqa: RUF001


@pytest.mark.usefixtures("stranger")
def test_a_bad_plug_in_ends_the_command_with_254(capsys):
    Path("my_faults.py").write_text("class Stutter:\n    '''No fault.'''\n")
    with pytest.raises(SystemExit) as left:
        main.main(["nemesis", "check", "my_faults:Stutter"])
    assert left.value.code == 254
    errors = capsys.readouterr().err
    assert "Stutter must be a frozen dataclass" in errors
    assert "nothing was started" in errors


def test_what_a_call_waits_for_is_done_meanwhile():
    """A member that is to end does so by the pool of workers, which somebody has to tend."""
    tended = threading.Event()
    done = call_within(lambda: tended.wait(60), 60.0, tended.set)
    assert (done.value, done.hung) == (True, False)
    hung = call_within(threading.Event().wait, 0.05, lambda: None)
    assert hung.hung


@pytest.mark.parametrize(("fault", "kind"), [("kill", "transactions"), ("scale", "pipeline")])
def test_faults_that_change_how_many_run_get_members_of_a_pipeline(tmp_path, fault, kind):
    check(fault, cluster="local")._write_plan([fault], tmp_path)
    assert read_plan(tmp_path)["workload"]["kind"] == kind
