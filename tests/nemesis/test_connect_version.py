"""Connect version: workers are restarted one after another as other releases, and get back what they had."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError, ConnectDuties
from fencepost.nemesis.connect_version import ConnectVersion
from fencepost.nemesis.testing import FakeCluster

WORKERS = ("c0", "c1", "c2")


def inject(settings=("4.3.0", "4.3.0 3.9.1 3.2.3"), **options):
    cluster = FakeCluster(clients=4)
    worker = dict(zip(("version", "versions"), settings, strict=True)) if settings else {}
    cluster.note_instances({**dict.fromkeys(WORKERS, True), "c3": False}, {node: dict(worker) for node in WORKERS})
    fault = ConnectVersion(within_s=0.0, **options)
    return cluster, fault, fault.inject(cluster, Random(1))


def versions(cluster):
    return [cluster.setting(node, "version") for node in WORKERS]


def test_every_worker_goes_through_every_version_and_back():
    cluster, fault, receipt = inject(versions=("3.9.1", "3.2.3"))
    assert (receipt.effective, sorted(receipt.targets), versions(cluster)) == (True, [*WORKERS], ["3.2.3"] * 3)
    assert receipt.role == "all workers, 3.9.1, then 3.2.3"
    rounds = [node for verb, node in cluster.calls if verb == "retire"]
    assert sorted(rounds[:3]) == sorted(rounds[3:]) == [*WORKERS]
    assert receipt.evidence["before"] == dict.fromkeys(WORKERS, "4.3.0")
    assert receipt.evidence["during"]["versions"] == dict.fromkeys(WORKERS, "3.2.3")
    healed = fault.heal(cluster, receipt)
    assert versions(cluster) == ["4.3.0"] * 3
    assert healed.healing["after"] == dict.fromkeys(WORKERS, "4.3.0")


def test_without_versions_every_worker_is_restarted_once_as_what_it_is():
    cluster, fault, receipt = inject()
    before = {node: cluster.pid(node) for node in WORKERS}
    assert (receipt.effective, receipt.role, versions(cluster)) == (True, "all workers", ["4.3.0"] * 3)
    assert sorted(node for verb, node in cluster.calls if verb == "retire") == [*WORKERS]
    fault.heal(cluster, receipt)
    assert {node: cluster.pid(node) for node in WORKERS} == before


def test_a_version_that_the_workload_does_not_name_restarts_nobody():
    cluster, _, receipt = inject(versions=("3.9.1", "4.4.0"))
    assert receipt.effective is False
    assert "c0 cannot run Kafka Connect 4.4.0: here are 4.3.0, 3.9.1, 3.2.3; name it" in receipt.note
    assert 'upgrades = ["4.4.0"]' in receipt.note
    assert cluster.calls == []


def test_without_workers_there_is_nothing_to_restart():
    cluster, _, receipt = inject(settings=None, versions=("3.9.1",))
    assert (receipt.effective, cluster.calls) == (False, [])
    assert "no workers of Kafka Connect" in receipt.note


class Grouped(FakeCluster):
    """Workers are members of their group again when they have been asked for a few times; `never` ones are not."""

    def __init__(self, never):
        super().__init__(clients=3)
        self.never, self.asked = never, 0
        self.note_instances(dict.fromkeys(WORKERS, True), {node: {"version": "4.3.0", "versions": "4.3.0"} for node in WORKERS})

    def connect_duties(self):
        self.asked += 1
        if self.asked % 2:
            raise ClusterError("a rebalance is under way")
        return {node: ConnectDuties(leads=False, connectors=(), tasks=()) for node in WORKERS if node not in self.never}


@pytest.mark.parametrize("never", [(), ("c1",)])
def test_the_next_worker_is_restarted_when_the_one_before_has_joined_its_group(never):
    cluster = Grouped(never)
    receipt = ConnectVersion(within_s=0.3).inject(cluster, Random(1))
    assert receipt.effective is True
    assert receipt.note == "".join(f"{node} had not joined the group of the workers after 0.3 s" for node in never)
    assert cluster.asked >= 6
    assert [verb for verb, _ in cluster.calls if verb in ("retire", "recall")] == ["retire", "recall"] * 3


def test_what_is_no_version_is_refused():
    with pytest.raises(ValueError, match='"newest" is no version'):
        ConnectVersion(versions=("3.9.1", "newest"))


@pytest.mark.parametrize(
    ("names", "demanded"), [((), {}), (("3.3.1", "4.4.0"), {}), (("4.4.0", "3.2.3"), {"connect": "disabled"})]
)
def test_releases_without_exactly_once_sources_demand_a_contract_that_permits_duplicates(names, demanded):
    assert ConnectVersion(versions=names).demanded_contract() == demanded
