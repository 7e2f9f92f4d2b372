"""The page of occasions is made from the vocabulary, the checks and the workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness.api.optional import ChoosesNemesis
from fencepost.harness.cli.arguments import DEFAULT_NEMESIS, from_options
from fencepost.harness.cli.option_texts import faults_of
from fencepost.harness.plugins.registry import load, names
from fencepost.harness.report.occasions_page import page
from fencepost.harness.report.rules_page import own_rules

PAGE = Path(__file__).parents[3] / "docs" / "occasions.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(own_rules()), (
        "make it again: python -m fencepost.harness.report.occasions_page > docs/occasions.md"
    )


def test_the_page_names_the_faults_of_workloads_without_any_of_their_own():
    assert f"`{'`, `'.join(DEFAULT_NEMESIS)}`" in page(own_rules())


@pytest.mark.parametrize("name", [name for name in names("workload") if isinstance(load("workload", name), ChoosesNemesis)])
def test_the_faults_of_a_workload_are_those_of_a_run_that_names_none(name):
    settings = {"application": ["command=my-program"], "stages": ['commands=["first", "second"]']}
    test = from_options(workload=name, set=settings.get(name, []))
    assert [choice.kind for choice in test.nemesis] == [
        choice.kind for choice in faults_of(load("workload", name).default_nemesis)
    ]
    assert [f"{lane},order={settings.order}" for lane, settings in test.lanes.items()] == [
        *getattr(load("workload", name), "default_lanes", ())
    ]


def test_a_program_is_struck_itself_and_so_are_the_coordinators_of_its_transactions():
    faults = load("workload", "application").default_nemesis
    targets = {text.split("target=")[1].partition(",")[0] for text in faults if "target=" in text}
    assert targets == {"instance:in-transaction", "instance", "coordinator"}


def test_coordinators_move_when_the_frozen_instance_has_woken():
    """A group whose coordinator moves waits for sessions anew: the frozen instance would wake as a member, not as a zombie."""
    options = [choice.options for choice in faults_of(load("workload", "application").default_nemesis)]
    crash = next(fault for fault in options if fault.get("together") == "crash" and fault["lasts_s"][0] > 6)
    moves = [fault for fault in options if fault.get("target") == "coordinator"]
    assert moves
    assert all(fault["every_s"][0] >= crash["every_s"][1] + crash["lasts_s"][1] for fault in moves)
