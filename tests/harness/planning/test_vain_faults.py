"""Faults that cannot strike, or for which there is no time, are said before anything starts."""

from __future__ import annotations

import pytest
from support.fencepost_command import fencepost

from fencepost.harness.api import CampaignError
from fencepost.harness.cli.arguments import from_options
from fencepost.harness.planning.plan import hopeless, make_plan, unscheduled, vain

NO_PROXY = "clients reach the brokers directly; put a proxy before each: proxy = true in [test.cluster]"
ELSEWHERE = {"cluster": "external", "cluster_set": ["bootstrap=127.0.0.1:9"]}


def test_a_run_whose_only_fault_cannot_strike_is_refused(tmp_path):
    test = from_options(nemesis=["protocol,lose=EndTxn"])
    assert vain(test) == [f"the fault protocol will have no effect: {NO_PROXY}"]
    code, _, err = fencepost(tmp_path, "run", "-n", "protocol,lose=EndTxn")
    assert (code, NO_PROXY in err, list(tmp_path.iterdir())) == (254, True, [])


def test_one_that_can_suffer_some_of_its_faults_is_performed():
    test = from_options(nemesis=["protocol,lose=EndTxn", "kill"])
    assert (len(hopeless(test)), vain(test)) == (1, [])


@pytest.mark.parametrize("faults", [["kill,target=leader", "kill,target=client"], ["kill,target=client", "kill,target=leader"]])
def test_of_two_faults_of_a_kind_each_is_looked_at(faults):
    """Somebody else's brokers cannot be killed, the clients can."""
    test = from_options(**ELSEWHERE, nemesis=faults)
    assert [text.partition(":")[0] for text in hopeless(test)] == ["the fault kill will have no effect"]
    assert vain(test) == []


def test_without_faults_nothing_is_in_vain():
    test = from_options(nemesis=["none"], time=1.0)
    assert (vain(test), unscheduled(test, make_plan(test, run="r", seed=1, command=""))) == ([], [])


def test_faults_that_do_not_fall_into_the_time_are_said_and_one_is_demanded():
    test = from_options(nemesis=["kill,every_s=30"], time=20.0)
    plan = make_plan(test, run="r", seed=1, command="")
    assert (plan["schedule"], plan["at_least"]["faults"]) == ([], 1)
    assert unscheduled(test, plan) == [
        "no fault falls into 20 s: give it a longer time (time_s, -t), or the faults shorter pauses (every_s)"
    ]


def test_a_part_of_an_option_is_answered_with_the_table_that_is_meant():
    with pytest.raises(CampaignError) as refused:
        from_options(nemesis=["protocol,lose=EndTxn,where.committed=true"])
    [mistake] = refused.value.mistakes
    assert mistake.endswith('where.committed: unknown option "where.committed"; did you mean where = {"committed" = ...}?')
    assert from_options(nemesis=["protocol,lose=EndTxn,where={committed=true}"]).nemesis
