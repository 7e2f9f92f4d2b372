"""The Redpanda provider as a whole, before a double of its image (`support/redpanda_double`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.fencepost_command import answers, fencepost, verdict
from support.redpanda_double import VERSION

from fencepost.clusters.docker import leftovers
from fencepost.clusters.redpanda.provider import Redpanda
from fencepost.harness.api import ClusterError, TopicSpec
from fencepost.nemesis.support.waiting import poll_until

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]
CAMPAIGN = Path("campaigns/redpanda.toml")


def leader(cluster, partition):
    return cluster.admin().placements([partition])[partition].leader


def test_a_cluster_comes_up_moves_its_leaders_by_the_admin_api_and_loses_a_broker(redpanda_image, tmp_path):
    provider = Redpanda(image=redpanda_image, redpanda=VERSION)
    with provider.up(tmp_path, {"t": TopicSpec(partitions=3, replication=3)}) as cluster:
        assert [*cluster.brokers] == ["n1", "n2", "n3"]
        roles = cluster.roles()
        for node in (roles.controller(), roles.transaction_coordinator("tx"), roles.group_coordinator("g")):
            assert node in cluster.brokers
        replicas = cluster.admin().placements(["t-0"])["t-0"].replicas
        former = leader(cluster, "t-0")
        preferred = next(node for node in replicas if node != former)
        cluster.admin().reassign({"t-0": (preferred, *(node for node in replicas if node != preferred))})
        cluster.admin().elect(["t-0"])
        poll_until(lambda: leader(cluster, "t-0"), lambda leads: leads == preferred, 20.0)
        assert "transfer_leadership?target=" in (tmp_path / "logs" / former / "server.log").read_text()
        with pytest.raises(ClusterError, match="no request"):
            cluster.admin().features()
        cluster.kill(preferred)
        poll_until(lambda: leader(cluster, "t-0"), lambda leads: leads not in (preferred, None), 30.0)
        cluster.start(preferred)
        cluster.heal()
    assert [str(left) for left in leftovers.find() if left.run == tmp_path.name] == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "test",
    [
        "a fence outlives its leader",
        "a leader moves between add and prepare",
        "prepared on all partitions or on none",
        "the next coordinator finishes by tx_seq",
        "offsets are prepared with the records",
    ],
)
def test_a_test_of_its_campaign_strikes_and_is_judged(redpanda_image, tmp_path, test):
    options = ("--cluster-set", f"image={redpanda_image}", "--cluster-set", f"redpanda={VERSION}")
    short = tmp_path / "redpanda.toml"
    short.write_text(CAMPAIGN.read_text().replace("time_s = 60", "time_s = 25"))
    code, out, err = fencepost(tmp_path, "campaign", str(short), "--only", test, *options)
    assert code == 0, out + err
    (plan,) = tmp_path.rglob("plan.json")
    document = verdict(plan.parent)
    assert document["verdict"] == "valid"
    assert answers(document)["torn-transaction" if "offsets" not in test else "torn-offset"] == "held"
    assert json.loads(plan.read_text())["cluster"]["kind"] == "redpanda"
