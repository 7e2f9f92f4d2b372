"""A broker by its command line: templates, mistakes, and a program that speaks just enough of the protocol to be ready."""

import json
import re
import sys
from pathlib import Path

import pytest
from support.longer import given_longer

from fencepost.clusters.command import template
from fencepost.clusters.command.provider import Command
from fencepost.clusters.kafka import node_plan, protocol
from fencepost.harness.api import (
    CampaignError,
    ClusterError,
    Corruptible,
    Fillable,
    Interceptable,
    Killable,
    ListingTransactions,
    Partitionable,
    Powered,
    Storing,
    Upgradable,
    Wipeable,
)
from fencepost.harness.plugins.validation import breaches
from fencepost.nemesis.support.waiting import poll_until

NODES = node_plan.nodes(3, 0, node_plan.private)
PROGRAM = Path(__file__).parents[2] / "support" / "broker_program.py"
DOUBLE = f"{sys.executable} {PROGRAM} {{host}} {{port}} {{id}}0 {{peers}}"  # it numbers itself 10, 20, ...
OPTIONS = {"loopback": True, "peer": "{id}0@{host}:{port}", "ready_s": 120.0, "title": "double 1.0"}


def values(node=NODES[0], **changed):
    options = {"settings": {"a.b": "1"}, "peer": "{id}@{host}:{controller_port}", "separator": ",", "cluster_id": "c"}
    return template.values(node, NODES, data=Path("/d/n1"), config=Path("/c"), **{**options, **changed})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--id={id} --listen={host}:{port}", "--id=1 --listen=10.73.1.1:9092"),
        ("{peers}", "1@10.73.1.1:9094,2@10.73.1.2:9094,3@10.73.1.3:9094"),
        ("{others}", "2@10.73.1.2:9094,3@10.73.1.3:9094"),
        ("{bootstrap}", "10.73.1.1:9092,10.73.1.2:9092,10.73.1.3:9092"),
        ("{data} {config} {settings} {brokers} {replication}", "/d/n1 /c a.b=1 3 3"),
        ('{"json": {"id": {id}}}', '{"json": {"id": 1}}'),
        ("${host} {{host}} {}", "${host} {host} {}"),
    ],
)
def test_placeholders_have_a_nodes_own_values(text, filled):
    assert template.filled(text, values()) == filled


def test_every_placeholder_that_is_documented_has_a_value():
    assert set(values()) == set(template.PLACEHOLDERS)
    assert set(template.peer_values(NODES[1])) == set(template.OF_A_PEER)


def test_a_separator_stands_between_peers():
    assert template.filled("[{peers}]", values(peer='"{host}"', separator=", ")) == '["10.73.1.1", "10.73.1.2", "10.73.1.3"]'


def test_all_mistakes_in_options_are_reported_at_once():
    with pytest.raises(CampaignError) as caught:
        Command(command="no-such-program {prot}", config="x={hots}", config_name="a/b", peer="{data}", brokers=0, disk_mb=3)
    text = "\n".join(caught.value.mistakes)
    for part in (
        "brokers = 0: must be between",
        "disk_mb = 3: a broker needs",
        "command: there is no placeholder {prot}; did you mean {port}?",
        "config: there is no placeholder {hots}; did you mean {host}?",
        "peer: there is no placeholder {data}",
        'config_name = "a/b"',
        "config: no command line names {config}",
        'command: "no-such-program" is no program',
    ):
        assert part in text


@pytest.mark.parametrize(("command", "why"), [("", "it is empty"), ("sh 'x", "No closing quotation"), ("a b {id}", "no program")])
def test_a_command_line_that_cannot_be_meant_is_refused(command, why):
    with pytest.raises(CampaignError, match=why):
        Command(command=command)


def test_what_needs_knowledge_of_the_broker_is_unavailable_with_the_reason():
    missing = Command(command=DOUBLE, loopback=True).missing()
    assert {Upgradable, Wipeable, Powered, Corruptible, Fillable, Partitionable} <= set(missing)
    assert "is_kafka = true" in missing[Powered]
    assert Killable not in missing
    assert not {Powered, Corruptible} & set(Command(command=DOUBLE, is_kafka=True, loopback=True).missing())


def test_a_proxy_needs_a_broker_that_listens_behind_it():
    with pytest.raises(CampaignError, match=r"proxy: the broker has to listen behind .* write \{listen_port\} in the place of"):
        Command(command=DOUBLE, proxy=True)
    behind = DOUBLE.replace("{port}", "{listen_port}")
    assert Interceptable not in Command(command=behind, proxy=True, loopback=True).missing()
    assert "proxy = true" in Command(command=behind, loopback=True).missing()[Interceptable]
    (node, *_) = node_plan.behind_proxies(NODES, node_plan.private, ["CLIENT"])
    both = values(node)
    assert (both["port"], both["listen_port"], both["internal_port"]) == ("9092", "19092", "9093")
    assert values()["listen_port"] == "9092"


def test_the_provider_is_one():
    assert breaches("cluster", Command) == []


# ---- with a program


def test_brokers_are_found_by_their_addresses_whatever_their_ids(tmp_path):
    """Settings and variables come from their templates; a frozen and a killed node are seen; what is not Kafka's is not there."""
    options = {
        **OPTIONS,
        "command": ("sh", "-c", 'echo "$GREETING"; cat {config}; exec ' + DOUBLE),
        "config": "id={id}\n{settings}\n",
        "settings": {"min.insync.replicas": 2},
        "environment": {"GREETING": "this is {node}"},
        "prepare": "touch prepared-{node}",
    }
    with Command(**options).up(tmp_path, {}) as cluster:
        assert (cluster.brokers, cluster.kafka_version) == (("n1", "n2", "n3"), "double 1.0")
        assert dict(cluster.roles().names) == {10: "n1", 20: "n2", 30: "n3"}
        assert (cluster.roles().controller(), cluster.roles().transaction_coordinator("tx")) == ("n1", "n3")
        log = (tmp_path / "logs/n2/server.log").read_text()
        assert log.startswith("this is n2\nid=2\nmin.insync.replicas=2\n")
        assert (tmp_path / "data/n2/prepared-n2").exists()
        cluster.kill("n2")
        assert (cluster.pid("n2"), cluster.answers("n2")) == (None, False)
        assert poll_until(lambda: cluster.answers("n1"), bool, 120.0)
        cluster.pause("n1")
        assert poll_until(lambda: cluster.process_state("n1"), lambda state: state == "T", 120.0) == "T"
        cluster.heal()
        assert all(any(cluster.answers(node) for _ in range(5)) for node in cluster.brokers)
        assert not isinstance(cluster, Storing)
        assert not isinstance(cluster, ListingTransactions)
    assert not (tmp_path / "data").exists()


def test_a_proxy_stands_before_each_node_where_clients_are_sent(tmp_path):
    """What a client asks of the address that it was told passes the proxy; the broker itself listens elsewhere."""
    options = {**OPTIONS, "command": DOUBLE.replace("{port}", "{listen_port}"), "peer": "{id}0@{host}:{port}"}
    with Command(**options, proxy=True).up(tmp_path, {}) as cluster:
        assert cluster.proxied() == {"n1": True, "n2": True, "n3": True}
        told = protocol.metadata(_address_of(cluster.bootstrap().split(",")[1]), 120.0)
        assert sorted(told.addresses) == [10, 20, 30]
        assert cluster.request_address("n2") not in told.addresses.values()
        number = cluster.intercept({"api": "FindCoordinator", "act": "record"}, ["n2"])  # nobody else asks for it
        protocol.find_coordinator(told.addresses[20], 1, "through", 120.0)
        protocol.find_coordinator(cluster.request_address("n2"), 1, "past", 120.0)  # as the harness asks
        assert [(catch.api, catch.transactional_id) for catch in cluster.withdraw(number)] == [("FindCoordinator", "through")]
    assert (tmp_path / "logs/n2/proxy.log").exists()


def _address_of(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def test_a_build_of_kafka_shows_its_files_and_transactions(tmp_path):
    with Command(**OPTIONS, command=DOUBLE, is_kafka=True).up(tmp_path, {}) as cluster:
        assert isinstance(cluster, Storing)
        assert isinstance(cluster, ListingTransactions)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"command": "sh -c 'echo no disk >&2; exit 3'"}, r"n1 ended with status 3 while waiting for .*: no disk"),
        ({"command": "sh -c 'echo hello; sleep 600'"}, r"waited \d+ s .* n1 does not answer at .*log: hello\."),
        ({"command": "sleep 600"}, r"n1 does not answer .*it has written nothing"),
        ({"command": f"{DOUBLE} alone"}, r"n1 does not know n2, n3; the last lines of its log: serving at"),
        ({"command": f"{DOUBLE} elsewhere"}, r"sends clients to localhost:1.*let it advertise \{host\}:\{port\}"),
        ({"command": f"{DOUBLE} few", "ready_s": 120.0}, r"double 1\.0 does not answer CreateTopics: no workload can run on it"),
        (
            {"command": DOUBLE, "prepare": "sh -c 'echo cannot format; exit 4'"},
            r"prepare of n1 ended with status 4: cannot format",
        ),
    ],
)
def test_a_program_that_does_not_become_a_broker_is_quoted(tmp_path, changed, words):
    def error(ready_s):
        (place := tmp_path / str(ready_s)).mkdir()
        with pytest.raises(ClusterError) as caught, Command(**{**OPTIONS, "ready_s": ready_s, **changed}).up(place, {}):
            pass
        return str(caught.value)

    text = given_longer(error, lambda text: bool(re.search(words, text)), 1.0)
    assert re.search(words, text), text


def test_the_plan_has_the_command_line_and_the_settings():
    description = Command(command=DOUBLE, settings={"a": True}, title="x 1", loopback=True).describe()
    assert json.loads(json.dumps(description)) == {
        "kafka": "x 1",
        "command": DOUBLE,
        "broker_settings": {"a": "true"},
        "controllers": "combined",
        "network": "loopback",
    }
