"""Decisions of the local cluster before it starts anything: nodes, configuration, storage identities, options."""

import pytest

from fencepost.clusters.kafka import broker_config, node_directory, node_plan, storage
from fencepost.clusters.local import Local
from fencepost.clusters.local.options import LocalOptions
from fencepost.harness.api import CampaignError, TopicSpec, Wipeable
from fencepost.harness.plugins.registry import attempt


def test_without_separate_controllers_every_broker_is_a_voter():
    """Three nodes, three listeners each, and every node knows all voters."""
    nodes = node_plan.nodes(3, 0, node_plan.private)
    values = broker_config.properties(nodes[1], nodes, {"x": "y"}, "/data/n2")
    assert [n.name for n in nodes] == ["n1", "n2", "n3"]
    assert values["process.roles"] == "broker,controller"
    assert values["listeners"] == "CLIENT://10.73.1.2:9092,BROKER://10.73.1.2:9093,CONTROLLER://10.73.1.2:9094"
    assert values["advertised.listeners"] == "CLIENT://10.73.1.2:9092,BROKER://10.73.1.2:9093"
    assert values["controller.quorum.voters"] == "1@10.73.1.1:9094,2@10.73.1.2:9094,3@10.73.1.3:9094"
    assert values["x"] == "y"


def test_separate_controllers_have_own_names_and_ids_and_one_listener():
    """k1... vote and serve no clients; brokers then do not vote."""
    nodes = node_plan.nodes(2, 1, node_plan.private)
    controller = nodes[2]
    assert [(n.name, n.id, n.roles) for n in nodes] == [
        ("n1", 1, ("broker",)),
        ("n2", 2, ("broker",)),
        ("k1", 101, ("controller",)),
    ]
    assert controller.address == ("10.73.2.1", 9094)
    assert "advertised.listeners" not in broker_config.properties(controller, [controller], {}, "/data/k1")
    assert "CONTROLLER://" not in broker_config.properties(nodes[0], [controller], {}, "/data/n1")["listeners"]


def test_on_loopback_every_listener_has_a_port_of_its_own():
    """Three nodes share one address."""
    addresses = [a for n in node_plan.nodes(3, 0, node_plan.loopback) for a in n.listeners.values()]
    assert {host for host, _ in addresses} == {"127.0.0.1"}
    assert len(set(addresses)) == 9


def test_settings_cannot_override_node_ids_and_listeners():
    """A campaign that sets `listeners` would cut the harness off."""
    (node,) = node_plan.nodes(1, 0, node_plan.private)
    assert broker_config.properties(node, [node], {"listeners": "X://:1"}, "/d")["listeners"].startswith("CLIENT://10.73.1.1")


def test_a_second_cluster_has_names_ids_and_voters_of_its_own():
    nodes = node_plan.nodes(2, 0, node_plan.private, second_brokers=2)
    second = [node for node in nodes if node.cluster]
    assert [(node.name, node.id, node.cluster) for node in second] == [("s1", 201, "second"), ("s2", 202, "second")]
    assert len({node.address for node in nodes} | {(node_plan.client_address(i), 9092) for i in range(1, 1001)}) == 1004
    assert LocalOptions(brokers=2, second_brokers=2).nodes() == [node.name for node in nodes]


def test_settings_of_the_second_cluster_fit_its_size():
    options = LocalOptions(second_brokers=1, settings={"num.io.threads": 3})
    assert options.second_settings()["transaction.state.log.replication.factor"] == "1"
    assert (options.second_settings()["num.io.threads"], options.describe_second()["second"]["brokers"]) == ("3", ["s1"])
    with pytest.raises(CampaignError, match="acls = true rules over one Kafka cluster"):
        LocalOptions(second_brokers=1, acls=True)


def test_many_clients_get_different_addresses():
    """More than one byte of them, none a broker's."""
    addresses = [node_plan.client_address(i) for i in range(1, 1001)]
    assert len(set(addresses)) == 1000
    assert addresses[0] == "10.73.3.1"


def test_a_topic_on_a_small_cluster_gets_fewer_replicas():
    """One broker: one replica, and one in-sync replica is all that can be asked."""
    spec = TopicSpec(partitions=4, settings={"min.insync.replicas": "2"})
    assert node_plan.fitted(spec, 1) == TopicSpec(partitions=4, replication=1, settings={"min.insync.replicas": "1"})
    assert node_plan.fitted(spec, 3) == spec


def test_formatted_storage_is_copied_with_another_nodes_ids():
    """Only node and directory id change; a version without directory ids (before 3.7) gets none."""
    new = node_directory.with_ids("version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=old\n", 2, "new")
    assert new == "version=1\ncluster.id=abc\nnode.id=2\ndirectory.id=new\n"
    assert node_directory.with_ids("version=1\nnode.id=1\ncluster.id=abc\n", 3, "new") == "version=1\nnode.id=3\ncluster.id=abc\n"


def test_a_wiped_directory_has_only_its_ids(tmp_path):
    """Logs and checkpoints go; the node stays who it is, on another disk."""
    for name in ("t-0/0.log", "__cluster_metadata-0/0.log", "recovery-point-offset-checkpoint", "bootstrap.checkpoint"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "meta.properties").write_text("cluster.id=abc\nnode.id=2\ndirectory.id=old\n")
    assert node_directory.stored_bytes(tmp_path) > 0
    node_directory.wipe(tmp_path)
    assert node_directory.stored_bytes(tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bootstrap.checkpoint", "meta.properties"]
    meta = (tmp_path / "meta.properties").read_text()
    assert meta.startswith("cluster.id=abc\nnode.id=2\ndirectory.id=")
    assert "old" not in meta


def test_a_broker_that_is_a_controller_cannot_be_wiped():
    """With controllers of their own, a broker may."""
    assert "controllers = 1" in Local().missing()[Wipeable]
    assert Wipeable not in Local(controllers=1).missing()


def test_collected_storage_has_segments_and_no_indexes(tmp_path):
    """Indexes are sparse ten-megabyte files that DumpLogSegments can do without."""
    partition = tmp_path / "data" / "n1" / "t-0"
    partition.mkdir(parents=True)
    for name in ("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"):
        (partition / name).write_text("x")
    storage.collect(tmp_path / "data", tmp_path / "storage")
    assert [p.name for p in (tmp_path / "storage" / "n1" / "t-0").iterdir()] == ["00000000000000000000.log"]


def test_kafka_uuids_never_begin_with_a_dash():
    """StorageTool would take such a cluster id for an option."""
    made = {node_directory.kafka_uuid() for _ in range(500)}
    assert len(made) == 500
    assert all(len(u) == 22 and not u.startswith("-") for u in made)


def test_the_oldest_version_including_upgrades_decides_the_storage_format():
    """A version that a node changes to later is among all versions; the oldest formats, so that a way back is open."""
    assert Local(upgrades=("3.9.1",)).all_versions() == ["3.9.1", "4.4.0"]
    assert Local(upgrades=("3.9.1",)).version("n1") == "4.4.0"


def test_all_mistakes_in_options_are_reported_at_once():
    """Two mistakes, two lines."""
    with pytest.raises(CampaignError) as bad:
        Local(brokers=0, heap_mb=1)
    assert bad.value.mistakes == ["brokers = 0: must be between 1 and 50", "heap_mb = 1: must be between 128 and 65536"]


@pytest.mark.parametrize(
    ("name", "acls", "refused"),
    [
        ("node.id", False, True),
        ("listeners", False, True),
        ("advertised.listeners", False, True),
        ("log.dirs", False, True),
        ("super.users", False, False),
        ("super.users", True, True),
        ("num.io.threads", True, False),
    ],
)
def test_a_setting_that_every_node_is_given_is_refused_and_not_ignored(name, acls, refused):
    _, mistakes = attempt(LocalOptions, {"settings": {name: "3"}, "acls": acls})
    assert mistakes == ([("", f"settings.{name}: is set by fencepost itself")] if refused else [])
