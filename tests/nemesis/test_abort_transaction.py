"""Abort transaction: only what hangs, unless the test has said that it breaks promises."""

from random import Random

import pytest

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.campaign import campaign
from fencepost.nemesis import abort_transaction
from fencepost.nemesis.abort_transaction import AbortTransaction
from fencepost.nemesis.testing import FakeCluster


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(abort_transaction, "CONFIRMED_S", 0.0)


def inject(cluster, **options):
    fault = AbortTransaction(**options)
    return fault, fault.inject(cluster, Random(1))


def open_on(cluster, partition):
    return [producer.producer_id for producer in cluster.producers([partition])[partition] if producer.first_offset is not None]


def test_a_hanging_transaction_is_aborted_and_one_that_its_coordinator_knows_is_left_alone():
    cluster = FakeCluster()
    known = cluster.coordinated.begin("tx-0", "t-0", "t-1")
    cluster.coordinated.hang("t-0", producer_id=7)
    fault, receipt = inject(cluster)
    assert receipt.effective
    assert receipt.evidence["aborted"]["producer_id"] == 7
    assert [call["partition"] for call in receipt.evidence["aborts"]] == list(receipt.evidence["during"])
    assert (open_on(cluster, "t-0"), open_on(cluster, "t-1")) == ([known.producer_id], [known.producer_id])
    assert receipt.targets == (cluster.leader("t", 0),)
    healed = fault.heal(cluster, receipt)
    assert [producer["producer_id"] for producer in healed.healing["after"]["t-0"]] == [known.producer_id]


def test_where_nothing_hangs_nothing_is_aborted():
    cluster = FakeCluster()
    cluster.coordinated.begin("tx-0", "t-0")
    _, receipt = inject(cluster)
    assert (receipt.effective, receipt.note, cluster.calls) == (False, "no target: no transaction is hanging", [])


def test_what_hangs_at_the_first_look_only_is_left_alone():
    """Its markers were on their way."""
    cluster = FakeCluster()
    cluster.coordinated.hang("t-0")
    look = cluster.transaction_listing

    def once(partitions):
        listing = look(partitions)
        cluster.coordinated.open.clear()
        return listing

    cluster.transaction_listing = once
    _, receipt = inject(cluster)
    assert (receipt.effective, cluster.calls) == (False, [])


def test_while_a_coordinator_is_silent_nothing_is_known_to_hang():
    cluster = FakeCluster()
    cluster.coordinated.hang("t-0")
    cluster.coordinated.silent.append("n2")
    _, receipt = inject(cluster)
    assert "no answer from n2" in receipt.note
    assert cluster.calls == []


def test_an_open_transaction_is_aborted_on_one_partition_only():
    cluster = FakeCluster()
    producer = cluster.coordinated.begin("tx-0", "t-0", "t-1")
    _, receipt = inject(cluster, target="partition:t-1", of="open")
    assert receipt.effective
    assert (open_on(cluster, "t-0"), open_on(cluster, "t-1")) == ([producer.producer_id], [])


def test_a_marker_that_is_refused_is_no_evidence():
    cluster = FakeCluster()
    cluster.coordinated.hang("t-0")

    def refuse(partition, producer):
        raise ClusterError("error 47")

    cluster.abort_on_partition = refuse
    _, receipt = inject(cluster)
    assert (receipt.effective, receipt.note) == (False, "error 47")


CAMPAIGN = '[[test]]\nname = "a"\n[[test.nemesis]]\nkind = "abort-transaction"\nof = "%s"\n'
PERMIT = '[test.contract]\noperator_aborts = "open"\n'


def mistakes(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    try:
        campaign.read(tmp_path / "c.toml")
    except CampaignError as error:
        return error.mistakes
    return ()


def test_who_aborts_what_is_under_way_has_to_say_so_in_the_contract(tmp_path):
    (mistake,) = mistakes(tmp_path, CAMPAIGN % "open")
    assert 'operator_aborts = "open"' in mistake
    assert mistakes(tmp_path, CAMPAIGN % "open" + PERMIT) == ()
    assert mistakes(tmp_path, CAMPAIGN % "hanging") == ()
