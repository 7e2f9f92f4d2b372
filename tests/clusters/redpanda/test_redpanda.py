"""The Redpanda provider without its image: options, command lines, files, roles, and that it is missing."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fencepost.clusters.docker import engine
from fencepost.clusters.kafka import node_plan, protocol
from fencepost.clusters.kafka.other_broker import AnsweredRoles
from fencepost.clusters.kafka.placement_admin import PlacementAdmin
from fencepost.clusters.redpanda.admin import RedpandaAdmin
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


def test_the_command_line_of_a_broker_is_one_that_rpk_reads():
    """Every broker is a seed of every other; Kafka's API, the brokers' own and the Admin API at the node's address.

    Nothing is left unsynced: `--mode dev-container` would bring --unsafe-bypass-fsync. `--set` and its value are two words.
    """
    line = command(NODES[1], NODES, Redpanda().own_mb)
    assert line[:3] == ["rpk", "redpanda", "start"]
    assert {"--node-id=2", "--kafka-addr=10.73.1.2:9092", "--advertise-rpc-addr=10.73.1.2:9093", "--memory=1280M"} <= set(line)
    assert "--seeds=10.73.1.1:9093,10.73.1.2:9093,10.73.1.3:9093" in line
    assert "--unsafe-bypass-fsync=false" in line
    assert not [word for word in line if word.startswith(("--mode", "--set="))]
    settings = dict(line[i + 1].split("=", 1) for i, word in enumerate(line) if word == "--set")
    assert json.loads(settings["redpanda.admin"]) == [{"address": "10.73.1.2", "port": 9644}]


def test_every_property_is_one_that_redpanda_has():
    """Names, kinds and bounds as its source has them (src/v/config/configuration.cc at 1c6cff3)."""
    published = {
        "write_caching_default": ("true", "false", "disabled"),
        "auto_create_topics_enabled": bool,
        "default_topic_replications": range(1, 1000, 2),
        "internal_topic_replication_factor": int,
        "transaction_coordinator_partitions": int,
        "group_topic_partitions": int,
        "group_initial_rebalance_delay": int,
        "storage_min_free_bytes": range(10 << 20, 1 << 62),
        "log_segment_size_min": int,
    }
    for brokers in (1, 2, 3, 5):
        for name, value in properties(brokers, {}).items():
            known = published[name]
            assert isinstance(value, known) if isinstance(known, type) else value in known, name


def test_what_fencepost_asks_is_known_to_redpanda_or_never_asked_of_it():
    """Versions of requests by its handlers (src/v/kafka/server/handlers at 1c6cff3), and the versions that fencepost sends."""
    known = {1: (4, 11), 2: (0, 4), 3: (0, 8), 10: (0, 3), 18: (0, 3), 19: (0, 6), 22: (0, 3), 26: (0, 3), 32: (0, 4)}
    known |= {44: (0, 1), 45: (0, 0), 61: (0, 0), 65: (0, 0), 66: (0, 0)}
    sent = {1: 4, 2: 2, 3: 7, 10: 1, 18: 0, 22: 1, 26: 1, 32: 1, 44: 0, 45: 0, 61: 0, 65: 0, 66: 0}
    assert all(known[key][0] <= version <= known[key][1] for key, version in sent.items())
    never = {
        "unregister": ("n1",),
        "features": (),
        "set_feature": ("x", 1),
        "topic_ids": ("t",),
        "abort_on_partition": ("t-0", None),
    }
    admin = RedpandaAdmin("127.0.0.1:1", AnsweredRoles({}, {}, {}), {})
    for call, arguments in never.items():
        with pytest.raises(ClusterError, match="Redpanda"):
            getattr(admin, call)(*arguments)


@pytest.fixture
def admin_api():
    """A double of the Admin API: it heard these requests, and refuses partition 1."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(self.path)
            self.send_response(503 if "/1/transfer" in self.path else 200)
            self.end_headers()
            self.wfile.write(b"not now" if "/1/transfer" in self.path else b"")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()


@pytest.fixture
def admin(admin_api, monkeypatch):
    """Its partitions lie on n3, n1 and n2. Only n1 has an Admin API."""
    roles = AnsweredRoles({1: "n1", 2: "n2", 3: "n3"}, {}, {})
    leaders = {"t-0": 1, "t-1": 1, "t-2": 3, "t-3": 2}
    known = {name: protocol.Partition("t", int(name[-1]), leader, 0, (3, 1, 2), (3, 1, 2), 0) for name, leader in leaders.items()}
    monkeypatch.setattr(AnsweredRoles, "partitions", lambda _: known)
    return RedpandaAdmin("127.0.0.1:1", roles, {"n1": admin_api[0], "n2": "http://127.0.0.1:1"})


def test_leaders_are_transferred_by_the_admin_api_of_the_present_leader(admin, admin_api):
    """ElectLeaders is no request of Redpanda. Who leads already is left alone; a refusal, and a silent broker, are quoted."""
    admin.elect(["t-0", "t-2"])
    assert admin_api[1] == ["/v1/partitions/kafka/t/0/transfer_leadership?target=3"]
    with pytest.raises(ClusterError, match=r"t-1: n1 answers 503 not now; t-3: the Admin API of n2 does not answer"):
        admin.elect(["t-1", "t-3"])


def test_the_order_of_replicas_is_kept_here(admin, admin_api, monkeypatch):
    """Redpanda prefers no replica: a mere order is not asked of it, another node is."""
    asked = []
    monkeypatch.setattr(PlacementAdmin, "reassign", lambda _, replicas: asked.append(dict(replicas)))
    admin.reassign({"t-0": ("n2", "n1", "n3")})
    assert (asked, admin.placements(["t-0"])["t-0"].replicas) == ([], ("n2", "n1", "n3"))
    admin.elect(["t-0"])
    assert admin_api[1] == ["/v1/partitions/kafka/t/0/transfer_leadership?target=2"]
    admin.reassign({"t-1": ("n4", "n1", "n3")})
    assert asked == [{"t-1": ("n4", "n1", "n3")}]
    assert admin.placements(["t-1"])["t-1"].replicas == ("n3", "n1", "n2")


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
