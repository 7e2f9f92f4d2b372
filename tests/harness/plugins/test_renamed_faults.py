"""A fault's former name: the error names the new one, and recorded runs keep the old one."""

from __future__ import annotations

import json

import pytest
from support import report_example as example

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign.test import read_test
from fencepost.harness.cli import main
from fencepost.harness.cli.arguments import from_options
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.plugins import registry
from fencepost.harness.report import render

RENAMED = 'the fault "slow" is called "latency" now'


def test_every_former_name_leads_to_a_fault_that_exists():
    names = registry.names("nemesis")
    assert set(registry.RENAMED_FAULTS.values()) <= set(names)
    assert not set(registry.RENAMED_FAULTS) & set(names)


def test_loading_a_fault_by_its_former_name_names_the_new_one():
    with pytest.raises(CampaignError) as caught:
        registry.load("nemesis", "slow")
    assert caught.value.mistakes == [RENAMED]


def test_a_former_name_of_a_fault_is_an_unknown_name_of_a_workload():
    with pytest.raises(CampaignError, match='unknown workload "slow"'):
        registry.load("workload", "slow")


def test_a_campaign_with_a_former_name_is_refused_with_the_key_and_the_new_name():
    with pytest.raises(CampaignError) as caught:
        read_test({"name": "a", "nemesis": [{"kind": "kill"}, {"kind": "slow"}]}, lambda keys: ".".join(map(str, keys)))
    assert caught.value.mistakes == [f"nemesis.1.kind: {RENAMED}"]


def test_run_with_a_former_name_is_refused_with_the_option_and_the_new_name():
    with pytest.raises(CampaignError) as caught:
        from_options(nemesis=["slow,delay_ms=50"])
    assert caught.value.mistakes == [f"--nemesis #1 kind: {RENAMED}"]


@pytest.mark.parametrize("command", [["plugins", "slow"], ["nemesis", "check", "slow"]])
def test_a_command_with_a_former_name_ends_with_254_and_the_new_name(command, capsys):
    with pytest.raises(SystemExit) as left:
        main.main(command)
    assert (left.value.code, RENAMED in capsys.readouterr().err) == (254, True)


def test_a_recorded_run_is_reported_with_the_name_that_its_fault_had(tmp_path):
    run = example.valid(tmp_path)
    plan = json.loads((run / "plan.json").read_text("utf-8"))
    plan["schedule"] = [{"id": 0, "kind": "strand", "at_ns": 1, "heal_ns": 2, "options": {"alone_s": 4.0}}]
    receipts = [example.fault(0, "strand", 4, 3)]
    run = example.write(
        run, plan, json.loads((run / "verdict.json").read_text("utf-8")), example.ordered(example.steady(5, 2, seed=1)), receipts
    )
    page = render(open_run(run)).read_text("utf-8")
    assert "strand n2" in page
    assert "alone_s" in page
