"""The families of Go: versions, what is missing, Go's errors, the command line; by night both drivers on a broker."""

from __future__ import annotations

import os
import time

import pytest
from support import external_kafka

from fencepost.harness.api import CallError, CampaignError, ClientSettings, ClusterError, Outgoing
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.workloads.clients.franz_go import FranzGo
from fencepost.workloads.clients.sarama import Sarama

FAMILIES = [FranzGo(), Sarama()]
DONE = 'if [ "$1 $2" = "mod vendor" ]; then mkdir vendor; fi'


@pytest.fixture
def go(tmp_path, monkeypatch):
    """Function that puts a `go` into an otherwise empty PATH: a shell script that notes how it was called."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(place / name) if (place / name).exists() else None)

    def put(script):
        (place / "go").write_text(f'#!/bin/sh\necho "$GOFLAGS|$GOPROXY|$@" >> {tmp_path}/calls\n{script}\n')
        os.chmod(place / "go", 0o755)
        return lambda: (tmp_path / "calls").read_text().splitlines()

    return put


def directory(tmp_path, name):
    (tmp_path / name).mkdir()
    return tmp_path / name


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_version_has_three_numbers(family):
    assert family.refusal(family.default) == ""
    assert family.refusal("99.0.0-rc.1") == ""
    for text in ("", "1", "latest", "v1.22.2", "../1.22.2", "1.22.2@x"):
        assert f"is no version of {family.name}" in family.refusal(text)


def test_versions_that_lack_what_the_driver_calls_are_refused_with_the_reason():
    assert "older than 1.16.0" in FranzGo().refusal("1.15.4")
    assert "another name" in Sarama().refusal("1.38.1")


def test_a_missing_go_is_named_with_its_remedy(go):
    assert "apt install golang-go" in FranzGo().missing()
    assert FranzGo().missing(built=True) == ""  # the program is static
    go("")
    assert FranzGo().missing() == ""


def test_dependencies_are_vendored_and_the_module_cache_is_removed(go, tmp_path):
    calls, library = go(f"mkdir -p .modules; {DONE}"), directory(tmp_path, "library")
    FranzGo().download("1.22.2", library, lambda _: None)
    assert sorted(path.name for path in library.iterdir()) == ["go.mod", "vendor"]
    assert "-mod=mod -modcacherw||get github.com/twmb/franz-go/pkg/kgo@v1.22.2" in calls()[0]


@pytest.mark.parametrize(
    ("output", "error", "text"),
    [
        ("go: invalid version: unknown revision v1.99.0", CampaignError, "there is no franz-go 1.99.0"),
        ("go: requires go >= 1.99 (running go 1.26.8)", ClusterError, "Install the Go that it needs"),
        ("go: dial tcp: connection refused", ClusterError, "connection refused"),
    ],
)
def test_what_go_says_becomes_an_error_with_a_remedy(go, tmp_path, output, error, text):
    go(f'echo "{output}"; exit 1')
    with pytest.raises(error, match=text):
        FranzGo().download("1.99.0", directory(tmp_path, "library"), lambda _: None)


def vendored(tmp_path, config):
    library = directory(tmp_path, "library")
    place = library / "vendor" / "github.com" / "twmb" / "franz-go" / "pkg" / "kgo"
    place.mkdir(parents=True)
    (place / "config.go").write_text(config)
    for name in ("go.mod", "go.sum"):
        (library / name).touch()
    return library


@pytest.mark.parametrize(("config", "tags"), [("func AllowIdempotentProduceCancellation() {", "cancellation"), ("", "")])
def test_a_driver_is_built_offline_with_the_tags_of_what_its_version_has(go, tmp_path, config, tags):
    calls = go('ls; while [ "$1" != -o ]; do shift; done; touch "$2"')
    library, built = vendored(tmp_path, config), directory(tmp_path, "built")
    FranzGo().build("1.22.2", library, built)
    assert [path.name for path in built.iterdir()] == ["driver"]
    assert FranzGo().command("1.22.2", library, built) == [str(built / "driver")]
    assert calls()[0].startswith("-mod=vendor -buildvcs=false|off|build -trimpath")
    assert f"-tags {tags} -o" in calls()[0]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_sources_are_the_shared_ones_and_the_family_s_own(family):
    names = [path.name for path in family.sources()]
    assert {"frames.go", "settings.go", "main.go", "producer.go", "consumer.go"} <= set(names)
    assert len(names) == len(set(names))  # they are compiled in one directory


PRODUCER = {"acks": "all", "transaction.timeout.ms": 15_000, "delivery.timeout.ms": 10_000, "linger.ms": 0}
CONSUMER = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.max.wait.ms": 100}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with external_kafka.started(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster.inside["bootstrap.servers"]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def program(request, tmp_path_factory):
    """A driver, fetched and built."""
    library, built = tmp_path_factory.mktemp("library"), tmp_path_factory.mktemp("built")
    request.param.download(request.param.default, library, lambda _: None)
    request.param.build(request.param.default, library, built)
    return request.param.command(request.param.default, library, built)


@pytest.fixture
def client(broker, program):
    """A client of that driver, opened, and closed with the test."""
    settings = ClientSettings(name="one", bootstrap=broker, transactional_id="one", producer=PRODUCER, consumer=CONSUMER)
    process = DriverProcess(program)
    made = DriverClient(process, settings)
    made.open(15)
    yield made
    process.end()


@pytest.fixture
def topic(broker):
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"t{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": broker})  # a name of its own: what is made would end with it
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    return name


def read_to(client, partition, end):
    """Records that are read until the consumer stands at `end`."""
    records, deadline = [], time.monotonic() + 20
    while client.ends().get(partition, -1) < end:
        assert time.monotonic() < deadline, dict(client.ends())
        records += client.poll(0.2)
    return records


@pytest.mark.nightly
@pytest.mark.cluster
def test_committed_records_come_back_and_ends_lie_behind_markers_and_aborted_records(client, topic):
    partition, fates = f"{topic}-0", []
    client.assign({partition: "start"})
    assert read_to(client, partition, 0) == []
    client.begin()
    client.send(Outgoing(topic=topic, partition=0, key=b"k", value=b"committed", headers=[("h", b"\xff")]), fates.append)
    client.commit(10)
    client.begin()
    client.send(Outgoing(topic=topic, partition=0, value=b"aborted"), fates.append)
    client.flush(10)
    client.abort(10)
    assert [fate.offset for fate in fates] == [0, 2]
    (record,) = read_to(client, partition, 4)
    assert (record.offset, record.key, record.value, record.headers) == (0, b"k", b"committed", (("h", b"\xff"),))
    assert client.position([partition]) == {partition: 4}


@pytest.mark.nightly
@pytest.mark.cluster
def test_a_transaction_of_which_a_record_was_given_up_cannot_be_committed(client, topic):
    fates = []
    client.begin()
    client.send(Outgoing(topic=topic, partition=77, value=b"nowhere"), fates.append)
    with pytest.raises(CallError) as raised:
        client.commit(10)
    assert raised.value.abortable
    assert isinstance(fates[0], CallError)
    client.abort(10)


@pytest.mark.nightly
@pytest.mark.cluster
def test_a_fenced_producer_is_of_no_use_any_more(client, broker, program, topic):
    process = DriverProcess(program)
    other = DriverClient(process, ClientSettings(name="two", bootstrap=broker, transactional_id="one", producer=PRODUCER))
    try:
        other.open(15)
        client.begin()
        client.send(Outgoing(topic=topic, partition=0, value=b"late"), lambda _: None)
        with pytest.raises(CallError) as raised:
            client.commit(10)
        assert raised.value.fatal
        client.close()
        client.open(15)  # in the same process
    finally:
        process.end()


@pytest.mark.nightly
@pytest.mark.cluster
def test_settings_that_the_library_cannot_keep_are_refused(client):
    answer = client._process.call("check", producer={"acks": "1", "nonsense": 3}, consumer={"isolation.level": "serializable"})
    assert {(side, key) for side, key, _ in answer["refused"]} == {
        ("producer", "acks"),
        ("producer", "nonsense"),
        ("consumer", "isolation.level"),
    }
