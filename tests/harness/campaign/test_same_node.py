"""`target = "same"` in a campaign and on the command line: read, refused, and shown by a dry run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign
from fencepost.harness.cli import main
from fencepost.harness.planning import schedule

GROUP = """[[test]]
name = "a"
[[test.nemesis]]
kind = "{first}"
together = "gale"
{of_first}
[[test.nemesis]]
kind = "{second}"
{where}
target = "same"
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(first="kill", second="latency", of_first="", where='together = "gale"'):
    Path("a.toml").write_text(GROUP.format(first=first, second=second, of_first=of_first, where=where))
    return campaign.read(Path("a.toml"))


def mistakes(**given):
    with pytest.raises(CampaignError) as caught:
        read(**given)
    return [mistake.partition(": ")[2] for mistake in caught.value.mistakes]


def test_it_stays_in_the_plan_as_it_is_written():
    (test,) = read().tests
    drawn = schedule.draw(test.nemesis, 60, 7)
    assert {(fault.kind, fault.options.get("target")) for fault in drawn} == {("kill", None), ("latency", "same")}
    assert schedule.in_words(schedule.units(test.nemesis)[0]) == "kill + latency (same node)"


@pytest.mark.parametrize(
    "given",
    [
        {"of_first": 'target = "client"'},
        {"of_first": 'target = "leader"', "second": "packet-loss"},
        {"first": "isolate", "second": "pause"},
        {"first": "latency", "second": "kill"},
        {"first": "move-coordinator", "second": "power-off"},
    ],
)
def test_it_goes_with_brokers_and_with_clients(given):
    read(**given)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"of_first": "count = 2"}, '"same" is one node, and the first fault of the group strikes 2'),
        ({"of_first": 'target = "all"'}, '"same" is one node, and the first fault of the group strikes all'),
        ({"second": "move-leaders"}, '"same" is a broker here: unknown target "broker:n1". Allowed: random, all, partition'),
        ({"of_first": 'target = "client"', "second": "slow-disk"}, '"same" is a client here: unknown target'),
        ({"of_first": 'lane = "other"'}, '"same" is the node that the first fault of a group strikes, and this one has no group'),
        ({"where": ""}, '"same" is the node that the first fault of a group strikes, and this one has no group'),
    ],
)
def test_what_can_never_be_meant_is_refused(given, wrong):
    (mistake,) = mistakes(**given)
    assert mistake.startswith(f"test[0].nemesis[1].target: {wrong}"), mistake


def test_the_other_options_are_judged_all_the_same():
    first, second = mistakes(where="delay_msec = 1")
    assert '"same" is the node' in first
    assert 'did you mean "delay_ms"' in second


def test_a_kind_that_there_is_not_is_named_once():
    (mistake,) = mistakes(second="latnecy")
    assert 'did you mean "latency"' in mistake


def test_on_the_command_line(capsys):
    def fencepost(*words):
        with pytest.raises(SystemExit) as left:
            main.main(["run", "--dry-run", *words])
        shown = capsys.readouterr()
        return left.value.code, shown.out, " ".join(shown.err.split())

    both = ("--nemesis", "kill,together=x", "--nemesis", "latency,together=x,target=same")
    assert "kill + latency (same node)" in fencepost(*both)[1]
    assert "target=same" in json.loads(fencepost("--json", *both)[1])[0]["command"]
    code, _, err = fencepost("--nemesis", "latency,target=same")
    assert (code, '--nemesis #1 target: "same" is the node' in err) == (254, True), err
