"""The clients of Node.js on a broker with TLS, a password and rights for a prefix only: fetched by npm, by night."""

from __future__ import annotations

import time

import pytest
from support import external_kafka

from fencepost.harness.api import CallError, ClientSettings, Delivered, Outgoing
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.workloads.clients.kafkajs import Kafkajs
from fencepost.workloads.clients.platformatic import Platformatic

pytestmark = [pytest.mark.nightly, pytest.mark.cluster]

PRODUCER = {"acks": "all", "linger.ms": 0, "transaction.timeout.ms": 15000, "delivery.timeout.ms": 10000}
CONSUMER = {"auto.offset.reset": "earliest", "fetch.max.wait.ms": 100}
READ_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with external_kafka.started(tmp_path_factory.mktemp("kafka")) as made:
        yield made


@pytest.fixture(scope="module", params=[Kafkajs, Platformatic], ids=["kafkajs", "platformatic"])
def command(request, tmp_path_factory):
    """The command line of the family's newest version, fetched and built."""
    family = request.param()
    library, built = tmp_path_factory.mktemp("library"), tmp_path_factory.mktemp("built")
    family.download(family.default, library, lambda _: None)
    family.build(family.default, library, built)
    return family.command(family.default, library, built)


@pytest.fixture
def opened(command, cluster):
    """Function that opens a client, in a process of its own unless one is given; all end with the test."""
    made = []

    def make(name, transactional_id=None, isolation="read_committed", process=None, secured=None):
        """secured: over TLS, with few rights. By default, unless that is not enough for the library's transactions."""
        made.append(process or DriverProcess(command))
        if secured is None:
            secured = "kafkajs.js" in command[-2] or transactional_id is None
        secure = cluster.options(**{"sasl.password": external_kafka.PASSWORD})["settings"] if secured else {}
        settings = {"producer": {**PRODUCER, **secure}, "consumer": {**CONSUMER, **secure, "isolation.level": isolation}}
        identity = {"name": name, "transactional_id": transactional_id}
        bootstrap = cluster.bootstrap if secured else cluster.inside["bootstrap.servers"]
        client = DriverClient(made[-1], ClientSettings(bootstrap=bootstrap, **identity, **settings))
        client.open(30)
        return client

    yield make
    for process in made:
        process.end()


@pytest.fixture
def topic(cluster, request):
    name = f"fencepost-node-{abs(hash(request.node.nodeid))}"
    (made,) = cluster.owner.create_topics([external_kafka.NewTopic(name, 2, 1)]).values()
    made.result(30)
    return name


def transaction(client, topic, values, end):
    """These values in turn over both partitions, and the decision; where they lie."""
    fates = []
    client.begin()
    for number, value in enumerate(values):
        client.send(Outgoing(topic=topic, partition=number % 2, key=b"k", value=value, headers=[("h", b"x")]), fates.append)
    client.flush(20)
    end(20)
    return [(fate.partition, fate.offset) for fate in fates if isinstance(fate, Delivered)]


def polled(client, count):
    """At least so many records."""
    records, deadline = [], time.monotonic() + READ_S
    while len(records) < count and time.monotonic() < deadline:
        records += client.poll(0.5)
    return records


def read(client, ends):
    """Every record until the ends are these."""
    records, deadline = [], time.monotonic() + READ_S
    while client.ends() != ends:
        assert time.monotonic() < deadline, (client.ends(), records)
        records += client.poll(0.5)
    return records


def test_transactions_are_read_at_both_isolation_levels_to_the_end_behind_the_markers(opened, topic):
    client = opened("fencepost-a", topic)
    first, second = f"{topic}-0", f"{topic}-1"
    assert transaction(client, topic, [b"0", b"1", b"2"], client.commit) == [(first, 0), (second, 0), (first, 1)]
    assert transaction(client, topic, [b"3"], client.abort) == [(first, 3)]
    ends = {first: 5, second: 2}
    client.assign({first: "start", second: 0})
    records = read(client, ends)
    assert sorted((record.value, record.key, record.headers) for record in records) == [
        (value, b"k", (("h", b"x"),)) for value in (b"0", b"1", b"2")
    ]
    assert client.position([first, second]) == ends
    client.seek({first: 1})
    assert [record.value for record in polled(client, 1)] == [b"2"]
    other = opened("fencepost-b", isolation="read_uncommitted")
    other.assign({first: "start"})
    assert [record.value for record in read(other, {first: 5})] == [b"0", b"2", b"3"]


def test_another_producer_of_the_same_id_fences(opened, topic):
    client = opened("fencepost-a", topic)
    transaction(client, topic, [b"0"], client.commit)
    opened("fencepost-b", topic)
    with pytest.raises(CallError) as fenced:
        transaction(client, topic, [b"1"], client.commit)
    assert fenced.value.fatal
    client.initialise(30)
    transaction(client, topic, [b"2"], client.commit)


def test_offsets_are_committed_with_the_transaction(opened, topic):
    client = opened(f"{topic}-member", topic)
    seen = []
    transaction(client, topic, [b"0", b"1"], client.commit)
    client.subscribe([topic], seen.append)
    assert {record.value for record in polled(client, 2)} == {b"0", b"1"}
    assert {(event.kind, tuple(sorted(event.partitions))) for event in seen} == {("assigned", (f"{topic}-0", f"{topic}-1"))}
    client.begin()
    client.send_offsets({f"{topic}-0": 1}, client.group(), 20)
    client.commit(20)
    deadline = time.monotonic() + READ_S
    while (offsets := client.committed([f"{topic}-0", f"{topic}-1"], 20)) != {f"{topic}-0": 1, f"{topic}-1": None}:
        assert time.monotonic() < deadline, offsets


def test_a_closed_client_leaves_its_transaction_open_and_its_process_opens_another(opened, topic):
    client = opened("fencepost-a", topic)
    client.begin()
    client.send(Outgoing(topic=topic, partition=0, value=b"0"), lambda _: None)
    client.flush(20)
    client.close()
    again = opened("fencepost-a", topic, process=client._process)
    assert transaction(again, topic, [b"1"], again.commit) == [(f"{topic}-0", 2)]  # behind the marker of the abort


def test_records_without_transactions(opened, topic):
    client = opened("fencepost-a")
    fates = []
    client.send(Outgoing(topic=topic, value=b"x" * 1_000_000), fates.append)
    client.send(Outgoing(topic=topic, partition=0, value=b"x" * 2_000_000), fates.append)
    client.flush(20)
    assert isinstance(fates[0], Delivered)
    assert fates[1].name == "MESSAGE_TOO_LARGE"


def test_platformatic_begins_transactions_as_only_brokers_may(opened, topic, command):
    """It sends AddPartitionsToTxn in a version that is the brokers' own (KIP-890), and takes the right ClusterAction."""
    client = opened("fencepost-a", topic, secured=True)
    if "kafkajs.js" in command[-2]:
        assert transaction(client, topic, [b"0"], client.commit) == [(f"{topic}-0", 0)]
        return
    with pytest.raises(CallError, match="AddPartitionsToTxn") as refused:
        transaction(client, topic, [b"0"], client.commit)
    assert refused.value.name == "CLUSTER_AUTHORIZATION_FAILED"
