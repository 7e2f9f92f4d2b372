"""Campaigns that come with fencepost, by name, from any working directory; a file that is there comes first."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest
from support.build_tools import path_with_build_tools

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign
from fencepost.harness.campaign.bundled import campaign_file, completed
from fencepost.harness.planning.clients import needed
from fencepost.harness.plugins import registry
from fencepost.harness.system.package_files import CAMPAIGNS, campaigns, example_programs

CLIENTS = Path(__file__).parents[3] / "docs" / "clients.md"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("PATH", path_with_build_tools(tmp_path_factory.mktemp("tools"), os.environ["PATH"]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cache
def planned_tests(name):
    """The tests of a campaign that comes along, read once from the directory of some test."""
    return campaign.read(Path(name)).tests


@pytest.mark.parametrize("given", ["first", "first.toml", "campaigns/first.toml", "campaigns/first"])
def test_a_campaign_that_comes_along_is_found_by_its_name(given):
    assert campaign_file(Path(given)) == CAMPAIGNS / "first.toml"


@pytest.mark.parametrize("given", ["first", "first.toml", "campaigns/first.toml"])
def test_a_file_of_the_working_directory_comes_first(given, elsewhere):
    own = elsewhere / (given if "/" in given else "first.toml")
    own.parent.mkdir(exist_ok=True)
    own.touch()
    assert campaign_file(Path(given)).resolve() == own


def test_a_file_without_an_ending_comes_before_one_with_it(elsewhere):
    (elsewhere / "first").touch()
    (elsewhere / "first.toml").touch()
    assert campaign_file(Path("first")) == Path("first")


def test_a_directory_of_that_name_is_no_campaign(elsewhere):
    """`results/first/` is where its runs lie; somebody may stand in `results`."""
    (elsewhere / "first").mkdir()
    assert campaign_file(Path("first")) == CAMPAIGNS / "first.toml"


@pytest.mark.parametrize("given", ["frist", "frist.toml", "campaigns/frist.toml"])
def test_an_unknown_name_is_a_mistake_with_the_nearest_and_all_there_are(given):
    with pytest.raises(CampaignError, match='unknown campaign "frist"; did you mean "first"') as caught:
        campaign.read(Path(given))
    assert caught.value.mistakes[0].startswith(f"{given}: cannot be read: No such file")
    assert caught.value.mistakes[0].endswith(", ".join(campaigns()))


@pytest.mark.parametrize("given", ["elsewhere/first.toml", "/nowhere/first.toml", "../first.toml", "x" * 300, "a\0b"])
def test_any_other_path_is_only_itself(given):
    with pytest.raises(CampaignError, match=re.escape(given)):
        campaign.read(Path(given))


def test_the_command_that_repeats_a_run_names_the_campaign_as_it_was_named():
    (run, *_) = campaign.planned(campaign.read(Path("smoke"), 5))
    assert run.command == "fencepost campaign smoke --only calm --seed 5"


@pytest.mark.parametrize("name", campaigns())
def test_every_campaign_that_comes_along_is_read_from_elsewhere(name):
    assert planned_tests(name)


def test_commands_of_these_campaigns_name_programs_that_come_along():
    """A relative path would be one of the reader's working directory."""
    options = [test.workload.options for name in campaigns() for test in planned_tests(name)]
    commands = [chosen["command"] for chosen in options if "command" in chosen]
    named = [re.search(r"\{python\} \{examples\}/(?:applications|sinks)/(\w+)\.py", command) for command in commands]
    assert len(named) > 10
    assert {match and match[1] for match in named} <= set(example_programs())


def test_modules_beside_them_are_found_from_elsewhere_also_for_a_copy_of_the_campaign():
    """And when a run of such a campaign is judged again, from any directory."""
    assert registry.load("workload", "museum_workloads:MarkerKeys").__name__ == "MarkerKeys"
    assert registry.load("workload", "work_arounds:NewProducerAfterTimeout").__name__ == "NewProducerAfterTimeout"


def test_names_are_completed_and_files_of_the_working_directory_too(elsewhere):
    (elsewhere / "mine.toml").touch()
    (elsewhere / "mine.txt").touch()
    assert completed("m") == ["mine.toml", "matrix", "matrix-crossed", "museum", "museum-brokers", "museum-steps"]
    assert set(campaigns()) < set(completed(""))


def lacked(kind):
    """The capabilities that a client lacks in all its versions, as docs/clients.md has them."""
    table = CLIENTS.read_text().partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    lacking = {row[0].strip("|` ").partition("@")[0]: row[4] for row in rows}
    named = re.split(r"[,;]", lacking.get(kind.partition("@")[0], ""))
    return {text.strip(" `") for text in named if " before " not in text}


@pytest.mark.parametrize("name", campaigns())
def test_clients_of_these_campaigns_can_do_what_their_tests_need(name):
    """One that cannot is a mistake once its driver has been fetched, and nothing of the campaign is started."""
    assert {"offsets-in-transactions", "groups"} <= lacked("sarama@1.61.1")
    for test in planned_tests(name):
        roles = registry.build(registry.load("workload", test.workload.kind), test.workload.options, name).roles()
        wanted = {need for role in roles for need in needed(role, test.producer)}
        assert not wanted & lacked(test.client), (test.name, test.client)
