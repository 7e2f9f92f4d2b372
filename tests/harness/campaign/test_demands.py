"""Promises that faults break by themselves: a test has to name them in its contract, wherever it would make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.campaign import campaign

OLD = 'kafka = "3.9.1"'
UNREPLICATED = 'settings = { "transaction.state.log.replication.factor" = 1, "transaction.state.log.min.isr" = 1 }'
ALL, ONE = 'power_failures = "all replicas"', 'power_failures = "one replica"'
UNSYNCED, SYNCED = 'corruption = "unsynced"', 'corruption = "synced"'


def mistakes(fault, cluster="", contract="", workload="transactions", topic="", expect="valid"):
    text = f'''[[test]]
name = "a"
expect = "{expect}"
topic = {{ {topic} }}
[test.workload]
kind = "{workload}"
[test.cluster]
{cluster}
[test.contract]
{contract}
[[test.nemesis]]
{fault}
'''
    Path("a.toml").write_text(text)
    try:
        campaign.read(Path("a.toml"))
    except CampaignError as error:
        return [mistake.partition(": ")[2] for mistake in error.mistakes]
    return []


def demand(contract, where="test[0].nemesis[0]"):
    return [
        f"{where}: breaks a promise by itself, so the test has to say in [test.contract], or by --contract: {contract} "
        '(it is permitted then), or "none" (it is found then)'
    ]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("fault", "cluster", "contract"),
    [
        ('kind = "power-off"\ntarget = "all"', "", ALL),
        ('kind = "power-off"\ncount = 2', "", ALL),
        ('kind = "power-off"\ntarget = "leader"', "", ""),
        ('kind = "power-off"\ntarget = "leader"', OLD, ONE),
        ('kind = "power-off"\ntarget = "leader"', UNREPLICATED, ONE),
        ('kind = "power-off"', "brokers = 1", ONE),
        ('kind = "corrupt"', "", ""),
        ('kind = "corrupt"\npart = "cut"', OLD, UNSYNCED),
        ('kind = "corrupt"\npart = "records"', UNREPLICATED, UNSYNCED),
        ('kind = "corrupt"\npart = "index"', OLD, ""),
        ('kind = "corrupt"\nolder = true', "", SYNCED),
    ],
)
def test_what_a_fault_loses_by_itself_is_demanded_where_the_settings_promise_that_it_is_kept(fault, cluster, contract):
    assert mistakes(fault, cluster) == (demand(contract) if contract else [])
    assert mistakes(fault, cluster, contract) == []


@pytest.mark.parametrize(
    ("fault", "cluster", "contract", "wrong"),
    [
        ('kind = "power-off"\ntarget = "all"', "", ONE, ALL),
        ('kind = "power-off"', OLD, ALL, ""),
        ('kind = "power-off"\ntarget = "all"', "", 'power_failures = "ALL replicas"', ""),
        ('kind = "power-off"\ntarget = "all"', "", 'power_failures = "none"', ""),
        ('kind = "corrupt"', OLD, SYNCED, ""),
        ('kind = "corrupt"\nolder = true', OLD, UNSYNCED, SYNCED),
        ('kind = "corrupt"\nolder = true', OLD, 'corruption = "none"', ""),
    ],
)
def test_a_weaker_promise_does_and_so_does_the_full_one_if_it_is_written(fault, cluster, contract, wrong):
    """A control has the loss found: its contract says that there is none."""
    assert mistakes(fault, cluster, contract) == (demand(wrong) if wrong else [])


def test_topics_with_one_replica_in_sync_lose_what_it_loses():
    assert mistakes('kind = "power-off"', topic='"min.insync.replicas" = 1', workload="idempotent") == demand(ONE)


def test_a_fault_that_another_one_fires_demands_the_same():
    fault = 'kind = "protocol"\nhold = "EndTxn"\nfire = "power-off"\nfire_target = "all"'
    assert mistakes(fault, "proxy = true") == demand(ALL, "test[0].nemesis[0].fire")


@pytest.mark.parametrize(("cluster", "found"), [("", True), (OLD, False)])
def test_what_is_expected_can_be_found_under_the_contract_that_the_plan_will_have(cluster, found):
    """What the last replica in sync loses is permitted, but where the eligible leaders of newer storage keep it."""
    wrong = mistakes('kind = "power-off"', cluster, ONE, expect="lost-write")
    assert ['"lost-write" cannot be found' in text for text in wrong] == [True] * (not found)
