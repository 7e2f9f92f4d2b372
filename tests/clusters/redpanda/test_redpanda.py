"""The Redpanda provider without its image: options, command lines, files, roles, and that it is missing."""

import pytest

from fencepost.clusters.docker import engine
from fencepost.clusters.kafka import node_plan, protocol
from fencepost.clusters.kafka.other_broker import AnsweredRoles
from fencepost.clusters.redpanda.cluster import _accepted
from fencepost.clusters.redpanda.provider import Redpanda
from fencepost.clusters.redpanda.settings import bootstrap_file, command, properties
from fencepost.harness.api import CampaignError, ClusterError, TopicSpec
from fencepost.harness.plugins.registry import attempt

NODES = node_plan.nodes(3, 0, node_plan.private)


def test_all_mistakes_in_options_are_reported_at_once():
    with pytest.raises(CampaignError) as caught:
        Redpanda(brokers=0, memory_mb=100)
    assert caught.value.mistakes == ["brokers = 0: must be between 1 and 50", "memory_mb = 100: must be between 768 and 131072"]


def test_options_of_kafka_are_unknown_to_redpanda():
    """There is no KRaft and no heap."""
    _, mistakes = attempt(Redpanda, {"heap_mb": 256, "controllers": 3})
    assert [key for key, _ in mistakes] == ["heap_mb", "controllers"]


def test_the_command_line_of_a_broker_follows_the_documentation():
    """Development mode; every broker is a seed of every other; Kafka's API and the brokers' own at the node's address."""
    line = command(NODES[1], NODES, Redpanda().own_mb)
    assert line[:4] == ["rpk", "redpanda", "start", "--mode=dev-container"]
    assert {"--node-id=2", "--kafka-addr=10.73.1.2:9092", "--advertise-rpc-addr=10.73.1.2:9093", "--memory=1280M"} <= set(line)
    assert "--seeds=10.73.1.1:9093,10.73.1.2:9093,10.73.1.3:9093" in line


def test_cluster_properties_fit_the_number_of_brokers():
    """Acknowledged from the disk; Raft groups are odd; the campaign's own settings win."""
    assert properties(3, {})["write_caching_default"] == "false"
    assert [properties(brokers, {})["internal_topic_replication_factor"] for brokers in (1, 2, 3, 4)] == [1, 1, 3, 3]
    assert properties(3, {"group_topic_partitions": 16})["group_topic_partitions"] == 16
    assert 'write_caching_default: "false"\n' in bootstrap_file(properties(3, {}))
    assert "auto_create_topics_enabled: false\n" in bootstrap_file(properties(3, {}))


def test_topics_get_only_settings_that_redpanda_has():
    wanted = TopicSpec(partitions=4, replication=3, settings={"min.insync.replicas": "2", "segment.bytes": "1048576"})
    assert _accepted(wanted, 3) == TopicSpec(partitions=4, replication=3, settings={"segment.bytes": "1048576"})
    assert _accepted(wanted, 2).replication == 1


@pytest.fixture
def roles(monkeypatch):
    """Three brokers, of which n3 is behind: it names another controller and another coordinator."""
    addresses = {"n1": ("a", 1), "n2": ("a", 2), "n3": ("a", 3)}
    monkeypatch.setattr(protocol, "metadata", lambda address, _: protocol.Metadata((1, 2, 3), (), 3 if address[1] == 3 else 2))
    monkeypatch.setattr(protocol, "find_coordinator", lambda address, kind, key, _: 2 if address[1] == 3 else 1 + 2 * kind)
    return AnsweredRoles({1: "n1", 2: "n2", 3: "n3"}, addresses, {})


def test_roles_are_those_that_most_brokers_name(roles):
    assert (roles.controller(), roles.group_coordinator("g"), roles.transaction_coordinator("tx")) == ("n2", "n1", "n3")


def test_a_role_that_no_broker_names_is_an_error(roles, monkeypatch):
    monkeypatch.setattr(protocol, "metadata", lambda address, _: protocol.Metadata((), ()))
    with pytest.raises(ClusterError, match="nobody names a controller: 3 of 3 brokers answered"):
        roles.controller()


@pytest.mark.cluster
def test_a_missing_image_is_an_error_with_a_remedy(docker_daemon):
    """Before anything is started; the tag is one that no registry has."""
    assert engine.trouble() == ""
    with pytest.raises(CampaignError, match=r"the image of Redpanda, fencepost\.invalid/redpanda:none, is not here.*docker pull"):
        Redpanda(image="fencepost.invalid/redpanda:{version}", redpanda="none").sandbox(["true"])
