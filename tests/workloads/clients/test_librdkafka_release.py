"""Releases of librdkafka as drivers: what is refused, what is fetched, and the protocol without a broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencepost.harness.api import CallError, CampaignError, ClientSettings, Outgoing
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.workloads.clients import librdkafka_release
from fencepost.workloads.clients.librdkafka import Librdkafka
from fencepost.workloads.clients.librdkafka_release import LibrdkafkaReleases

FAMILY = LibrdkafkaReleases()
NOWHERE = "127.0.0.1:9"
PRODUCER = {"acks": "all", "log_level": 0, "transaction.timeout.ms": 9000, "delivery.timeout.ms": 6000}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The installed library, as it is fetched."""
    directory = tmp_path_factory.mktemp("library")
    FAMILY.download(FAMILY.default, directory, print)
    return directory


@pytest.fixture
def process(library):
    made = DriverProcess(FAMILY.command(FAMILY.default, library, library))
    yield made
    made.end()


@pytest.mark.parametrize(
    ("version", "text"), [("latest", "is no version"), ("1.3.0", "transactions from 1.4.0 on"), ("1.4.0", ""), ("2.16.1", "")]
)
def test_what_can_be_no_release_is_refused_by_its_number(version, text):
    assert text in FAMILY.refusal(version)
    assert bool(text) == bool(FAMILY.refusal(version))


def test_the_installed_release_is_taken_without_the_network(library, monkeypatch):
    assert [path.name for path in library.iterdir() if path.name.startswith("librdkafka")]


def test_another_release_is_fetched_for_each_python_in_turn(tmp_path, monkeypatch):
    """pip is replaced by a program that knows wheels for Python 3.8 only."""
    calls = []

    def run(argv, what, **_):
        calls.append(argv[argv.index("--python-version") + 1])
        if calls[-1] != "38":
            raise librdkafka_release.pip.tools.ToolError("pip failed", "(from versions: 2.0.2)")
        make_wheel(tmp_path)
        return ""

    monkeypatch.setattr(librdkafka_release.pip.tools, "run", run)
    FAMILY.download("1.4.2", tmp_path, print)
    assert calls == ["311", "38"]
    assert [path.name for path in tmp_path.iterdir()] == ["librdkafka-1.so.1"]


def make_wheel(directory):
    code = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('confluent_kafka.libs/librdkafka-1.so.1', 'x')"
    subprocess.run([sys.executable, "-c", code, str(directory / "confluent_kafka.whl")], check=True)


def test_a_release_that_pypi_lacks_is_bad_input(tmp_path, monkeypatch):
    def run(argv, what, **_):
        raise librdkafka_release.pip.tools.ToolError("pip failed", "(from versions: 1.4.2, 2.0.2)")

    monkeypatch.setattr(librdkafka_release.pip.tools, "run", run)
    with pytest.raises(CampaignError, match=r"no such release for this machine; it has 1.4.2, 2.0.2"):
        FAMILY.download("1.4.9", tmp_path, print)


def test_the_driver_says_both_versions_and_can_do_what_the_client_of_this_process_can(process):
    hello = process.start()
    assert hello.version == f"{Librdkafka.version} (confluent-kafka {FAMILY.default})"
    here = Librdkafka.capabilities - {"memberless-offsets", "threads"}  # the drivers' protocol has no call for either
    assert (hello.client, hello.transactions, hello.capabilities) == ("librdkafka", 1, here)


def test_settings_are_judged_by_librdkafka_under_kafkas_names(process):
    process.start()
    consumer = {"isolation.level": "read_committed", "fetch.max.wait.ms": "soon", "no.such": 1}
    refused = process.call("check", producer=PRODUCER, consumer=consumer)["refused"]
    assert [(side, key) for side, key, _ in refused] == [("consumer", "fetch.max.wait.ms"), ("consumer", "no.such")]
    refused = process.call("check", producer={**PRODUCER, "delivery.timeout.ms": 10000}, consumer=None)["refused"]
    assert refused == [["producer", "", "`message.timeout.ms` must be set <= `transaction.timeout.ms`"]]


def test_the_same_calls_fail_with_the_same_errors_as_in_this_process(process):
    """No broker answers; each call's name, number, text and flags."""
    settings = ClientSettings(name="c", bootstrap=NOWHERE, transactional_id="t", producer=PRODUCER, consumer=None)
    failures = [[failure(step, client) for step in STEPS] for client in (DriverClient(process, settings), Librdkafka(settings))]
    assert failures[0] == failures[1]
    assert failures[0][0][:3] == ("open", "_TIMED_OUT", -185)


STEPS = [
    lambda client: client.open(0.1),
    lambda client: client.begin(),
    lambda client: client.send(Outgoing(topic="t", partition=0, value=b"x"), print),
    lambda client: client.commit(0.1),
    lambda client: client.poll(0.05),
    lambda client: client.close(),
    lambda client: client.abort(0.1),
]


def failure(step, client):
    try:
        step(client)
    except CallError as error:
        return error.call, error.name, error.code, error.text, error.fatal, error.retriable, error.abortable
    return None


def test_an_idempotent_record_that_no_broker_takes_is_given_up_after_the_delivery_timeout(process):
    client, fates = sending(process, 600_000)
    with pytest.raises(CallError, match="1 records still in flight"):
        client.flush(0.1)
    assert fates == []
    client.close()
    client, fates = sending(process, 200)
    client.flush(60)
    assert [fate.name for fate in fates] == ["_MSG_TIMED_OUT"]
    client.close()


def sending(process, delivery_timeout_ms):
    """A client that has sent a record, and the list that its fate comes into."""
    producer = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": delivery_timeout_ms, "linger.ms": 0}
    client = DriverClient(process, ClientSettings(name="c", bootstrap=NOWHERE, producer={**producer, "log_level": 0}))
    client.open(60)
    fates = []
    client.send(Outgoing(topic="t", partition=0, value=b"x", headers=[("h", b"\0")]), fates.append)
    return client, fates


def test_the_driver_ends_with_its_standard_input(library):
    argv = FAMILY.command(FAMILY.default, library, library)
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode == 0
