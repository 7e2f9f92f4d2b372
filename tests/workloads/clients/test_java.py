"""The family of the Java client: versions, what is missing, building, the command line; by night the client itself."""

from __future__ import annotations

import pytest
from support import external_kafka

from fencepost.harness.api import CallError, ClientSettings, ClusterError, Outgoing
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.harness.fetching import maven, tools
from fencepost.workloads.clients import java as family
from fencepost.workloads.clients.java import Java

JARS = ("kafka-clients-4.3.0.jar", "gson-2.10.1.jar", "slf4j-simple-1.7.36.jar", "ecj-3.38.0.jar")


class Machine:
    """A library, an empty directory to build in, and tools that only record how they are run. failing: part of what fails."""

    def __init__(self, place):
        self.library, self.built = place / "library", place / "built"
        self.calls, self.failing = [], ""
        for directory in (self.library, self.built):
            directory.mkdir()
        for name in JARS:
            (self.library / name).touch()

    def run(self, argv, what):
        self.calls.append(list(argv))
        if self.failing and self.failing in what:
            raise tools.ToolError(f"{what}: broken", "")
        if "-d" in argv:
            (self.built / "classes" / "fencepost").mkdir(parents=True)
            (self.built / "classes" / "fencepost" / "Driver.class").write_bytes(b"class")
        for option in argv:
            if option.startswith(("-XX:SharedArchiveFile=", "-XX:DumpLoadedClassList=")):
                (self.built / option.rpartition("/")[2]).write_text("classes")
        return ""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path)
    monkeypatch.setattr(tools, "run", made.run)
    monkeypatch.setattr(family, "java", lambda: (str(tmp_path / "jre" / "bin" / "java"), "17.0.1"))
    return made


@pytest.mark.parametrize("version", ["2.5.0", "2.8.2", "3.9.1", "4.3.0", "4.4.0-rc1", Java.default])
def test_releases_from_2_5_on_can_be_driven(version):
    assert Java().refusal(version) == ""


@pytest.mark.parametrize("version", ["", "4", "4.3", "latest", "../../4.3.0", "v4.3.0"])
def test_what_is_no_version_is_refused(version):
    assert "is no version of kafka-clients" in Java().refusal(version)


@pytest.mark.parametrize("version", ["2.4.1", "0.11.0"])
def test_releases_without_group_metadata_are_refused_with_the_reason(version):
    assert "KIP-447" in Java().refusal(version)


def test_a_missing_java_is_named_with_its_remedy(monkeypatch):
    def absent():
        raise ClusterError("no Java 17 or newer found: install a Java runtime")

    monkeypatch.setattr(family, "java", absent)
    assert "install a Java runtime" in Java().missing()


def test_the_compiler_and_all_jars_are_fetched_with_the_library(monkeypatch, tmp_path):
    fetched = []
    monkeypatch.setattr(maven, "fetch", lambda title, wanted, directory, **_: fetched.append((title, wanted, directory)))
    Java().download("3.9.1", tmp_path, lambda _: None)
    ((title, wanted, directory),) = fetched
    assert (title, directory) == ("kafka-clients 3.9.1", tmp_path)
    assert wanted[0] == ("org.apache.kafka", "kafka-clients", "3.9.1")
    assert {artifact for _, artifact, _ in wanted} == {"kafka-clients", "slf4j-simple", "gson", "ecj"}


def test_the_sources_are_those_of_the_package():
    (sources,) = Java().sources()
    assert (sources / "Driver.java").is_file()


def test_a_built_driver_is_a_jar_and_an_archive_and_nothing_else(machine):
    Java().build("4.3.0", machine.library, machine.built)
    assert sorted(path.name for path in machine.built.iterdir()) == ["classes.jsa", "driver.jar"]


def test_the_class_path_begins_with_that_of_the_archive_and_leaves_out_the_compiler(machine):
    """Or the JVM would not use the archive."""
    Java().build("4.3.0", machine.library, machine.built)
    command = Java().command("4.3.0", machine.library, machine.built)
    path = command[command.index("-cp") + 1]
    assert path == f"{machine.calls[-1][-1]}:{machine.built}/driver.jar"
    assert "ecj" not in path
    assert f"-XX:SharedArchiveFile={machine.built}/classes.jsa" in command


def test_a_jvm_that_makes_no_archive_starts_without_one(machine):
    machine.failing = "archiving"
    Java().build("4.3.0", machine.library, machine.built)
    assert [path.name for path in machine.built.iterdir()] == ["driver.jar"]
    command = Java().command("4.3.0", machine.library, machine.built)
    assert not [option for option in command if "SharedArchiveFile" in option]


def test_a_driver_that_does_not_compile_is_an_error(machine):
    machine.failing = "compiling"
    with pytest.raises(ClusterError, match=r"compiling the driver for kafka-clients 2\.5\.0"):
        Java().build("2.5.0", machine.library, machine.built)


def test_a_java_outside_the_system_s_directories_is_named_for_containers(machine, tmp_path, monkeypatch):
    assert Java().reads() == [tmp_path / "jre"]
    monkeypatch.setattr(family, "java", lambda: ("/usr/bin/no-such-java", "17"))
    assert Java().reads() == []


def test_where_a_distribution_keeps_the_configuration_is_named_for_containers(machine, tmp_path, monkeypatch):
    """Debian's runtime has links into /etc, without which no driver starts."""
    home, linked = tmp_path / "jre", tmp_path / "etc" / "java" / "security"
    for directory in (home / "bin", home / "conf" / "security", linked):
        directory.mkdir(parents=True, exist_ok=True)
    (linked / "java.security").touch()
    (home / "conf" / "security" / "java.security").symlink_to(linked / "java.security")
    (home / "conf" / "gone").symlink_to(tmp_path / "gone")
    monkeypatch.setattr(family, "java", lambda: (str(home / "bin" / "java"), "17"))
    assert Java().reads() == [home, linked]


PRODUCER = {"acks": "all", "transaction.timeout.ms": 15_000, "delivery.timeout.ms": 10_000, "linger.ms": 0}
CONSUMER = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.max.wait.ms": 100}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A broker with TLS and SASL on one listener, and without on another."""
    with external_kafka.started(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["2.5.0", "2.8.2", "3.9.1", "4.3.0"])
def released(request, tmp_path_factory):
    """A version with its command line, fetched and built."""
    library, built = tmp_path_factory.mktemp("library"), tmp_path_factory.mktemp("built")
    Java().download(request.param, library, lambda _: None)
    Java().build(request.param, library, built)
    return request.param, Java().command(request.param, library, built)


@pytest.fixture
def started(released):
    """Function that starts a driver of that version; all end with the test."""
    made = []

    def start():
        made.append(DriverProcess(released[1]))
        assert made[-1].start().version == released[0]
        return made[-1]

    yield start
    for process in made:
        process.end()


def connection(version, cluster):
    """Bootstrap address and settings: releases before 2.7 read no PEM files and use the listener without TLS."""
    if version < "2.7":
        return cluster.inside["bootstrap.servers"], {}
    return cluster.bootstrap, cluster.options(**{"sasl.password": external_kafka.PASSWORD})["settings"]


def opened(process, version, cluster):
    bootstrap, secure = connection(version, cluster)
    identity = {"name": "fencepost-java", "transactional_id": "fencepost-java"}
    settings = {"producer": {**PRODUCER, **secure}, "consumer": {**CONSUMER, **secure}}
    client = DriverClient(process, ClientSettings(bootstrap=bootstrap, **identity, **settings))
    client.open(30)
    return client


def transaction(client, topic, value, end):
    """One record and the decision; where the record lies."""
    delivered = []
    client.begin()
    client.send(Outgoing(topic=topic, partition=0, key=b"k", value=value, headers=[("h", b"x")]), delivered.append)
    client.flush(10)
    end(10)
    return delivered[0].offset


@pytest.mark.nightly
@pytest.mark.cluster
def test_the_driver_commits_aborts_reads_and_is_fenced(released, started, secured):
    """Offsets of a group in a transaction and the end behind the markers included."""
    version, _ = released
    topic = f"fencepost-java-{version}"
    client = opened(started(), version, secured)
    ends = (client.commit, client.abort, client.commit)
    assert [transaction(client, topic, b"%d" % number, end) for number, end in enumerate(ends)] == [0, 2, 4]
    client.assign({f"{topic}-0": "start"})
    records = []
    while client.ends() != {f"{topic}-0": 6}:
        records += client.poll(1.0)
    assert [(record.value, record.headers) for record in records] == [(b"0", (("h", b"x"),)), (b"2", (("h", b"x"),))]
    assert client.position([f"{topic}-0"]) == {f"{topic}-0": 6}
    client.begin()
    client.send_offsets({f"{topic}-0": 5}, client.group(), 10)
    client.commit(10)
    assert client.committed([f"{topic}-0"], 10) == {f"{topic}-0": 5}
    opened(started(), version, secured)
    with pytest.raises(CallError) as fenced:
        transaction(client, topic, b"3", client.commit)
    assert fenced.value.fatal
    client.initialise(30)
    assert transaction(client, topic, b"4", client.commit) > 4


@pytest.mark.nightly
@pytest.mark.cluster
def test_settings_are_judged_by_the_client_itself(released, started, secured):
    """Settings that workloads give are accepted, whatever the release's request timeout; mistakes are named by their key."""
    _, secure = connection(released[0], secured)
    check = started().call
    assert check("check", producer={**PRODUCER, **secure}, consumer={**CONSUMER, **secure})["refused"] == []
    refused = check("check", producer={"acks": "many"}, consumer={"isolation.level": "read_it"})["refused"]
    assert [(side, key) for side, key, _ in refused] == [("producer", "acks"), ("consumer", "isolation.level")]
    refused = check("check", producer={"linger": 5}, consumer={"group.id": "mine"})["refused"]
    assert [(side, key) for side, key, _ in refused] == [("producer", "linger"), ("consumer", "group.id")]
    given = {**PRODUCER, "request.timeout.ms": 30_000}  # a request timeout that was given is not lowered
    assert [key for _, key, _ in check("check", producer=given, consumer=None)["refused"]] == ["delivery.timeout.ms"]
