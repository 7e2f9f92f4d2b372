"""kafka-python and aiokafka as drivers: what is refused, how they are installed, and what their drivers make of settings."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.fencepost_command import fencepost, only_run, verdict

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.errors import UnusableLibrary
from fencepost.harness.fetching import tools
from fencepost.workloads.clients.python_packages import DRIVERS, PYTHON, Aiokafka, KafkaPython

FAMILIES = [KafkaPython, Aiokafka]
KNOWN = {
    "acks": 1,
    "enable_idempotence": True,
    "linger_ms": 0,
    "delivery_timeout_ms": 9,
    "request_timeout_ms": 9,
    "ssl_cafile": None,
}
KNOWN.update(retries=float("inf"), isolation_level="read_uncommitted", partitioner=print, max_request_size=1)


@pytest.fixture(scope="module")
def settings():
    """The drivers' module of settings, which imports nothing of ours."""
    sys.path.insert(0, str(DRIVERS))
    import python_settings

    yield python_settings
    sys.path.remove(str(DRIVERS))


@pytest.mark.parametrize(
    ("family", "version", "text"),
    [
        (KafkaPython, "2.2.14", "no commit of a written record ends"),
        (KafkaPython, "2.0.2", "transactions since 2.2.0"),
        (KafkaPython, "newest", "is no version of kafka-python"),
        (KafkaPython, "2.2.15", ""),
        (Aiokafka, "0.8.1", "is gone"),
        (Aiokafka, "0.14.0", ""),
    ],
)
def test_what_can_be_no_driver_is_refused_by_its_number(family, version, text):
    assert text in family().refusal(version)
    assert bool(text) == bool(family().refusal(version))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_package_is_installed_for_the_named_interpreter_and_run_by_it(family, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(tools, "run", lambda argv, what, **_: calls.append(argv) or "")
    monkeypatch.setenv(PYTHON, "/bin/sh")
    family().download(family.default, tmp_path, print)
    argv = calls[0]
    assert argv[argv.index("--python") + 1] == "/bin/sh"
    assert argv[argv.index("--target") + 1] == str(tmp_path / "packages")
    assert {"--no-compile", "--only-binary=:all:", f"{family.project}[lz4,snappy,zstd]=={family.default}"} <= set(argv)
    command = family().command(family.default, tmp_path, tmp_path)
    assert (command[0], command[-2:]) == ("/bin/sh", [str(DRIVERS / family.driver), str(tmp_path / "packages")])
    assert "-B" in command


ABI = "cpython-311-x86_64-linux-gnu"


@pytest.fixture
def pythons(tmp_path, monkeypatch):
    """Function that makes an interpreter: a shell script that says what it is. The one that runs is named by the environment."""

    def put(name, abi):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho {path}\necho {abi}\n")
        path.chmod(0o755)
        return str(path)

    monkeypatch.setenv(PYTHON, put("now", ABI))
    return put


def library(tmp_path, python, abi):
    (tmp_path / "python").write_text(python)
    if abi:
        (tmp_path / "abi").write_text(abi)
    return tmp_path


def chosen(directory):
    return KafkaPython().command("3.0.12", directory, directory)[0]


def test_packages_are_run_by_this_python_where_it_has_their_abi(tmp_path, pythons):
    former = pythons("former", ABI)
    assert chosen(library(tmp_path, former, ABI)) == str(tmp_path / "now")
    (tmp_path / "former").unlink()  # a virtual environment that is gone
    assert chosen(library(tmp_path, former, ABI)) == str(tmp_path / "now")


def test_packages_of_another_abi_are_run_by_the_python_they_were_installed_for(tmp_path, pythons):
    former = pythons("former", "cpython-39")
    assert chosen(library(tmp_path, former, "cpython-39")) == former
    pythons("former", "cpython-313")  # another version in the same place
    with pytest.raises(UnusableLibrary, match=rf"installed for {former} \(cpython-39\), which is no more, and .*now is {ABI}"):
        chosen(library(tmp_path, former, "cpython-39"))


def test_packages_without_a_noted_abi_need_the_python_they_were_installed_for(tmp_path, pythons):
    former = pythons("former", "cpython-39")
    assert chosen(library(tmp_path, former, "")) == former
    (tmp_path / "former").unlink()
    with pytest.raises(UnusableLibrary, match=r"unknown.*fencepost client fetch kafka-python@3\.0\.12"):
        chosen(library(tmp_path, former, ""))


def test_what_is_noted_of_this_python_is_no_virtual_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(PYTHON, raising=False)
    monkeypatch.setattr(tools, "run", lambda *_, **__: "")
    KafkaPython().download("3.0.12", tmp_path, print)
    assert (tmp_path / "python").read_text() == sys._base_executable
    assert chosen(tmp_path) == sys._base_executable


def test_an_interpreter_that_is_not_there_is_missing(monkeypatch):
    monkeypatch.setenv(PYTHON, "python0.1")
    assert "python0.1, which cannot be run" in KafkaPython().missing()


@pytest.mark.parametrize(
    ("output", "error", "text"),
    [
        ("ERROR: (from versions: 2.3.2, 2.3.3)", CampaignError, "no such release for this machine; it has 2.3.2, 2.3.3"),
        ("Retrying; ERROR: (from versions: none)", ClusterError, "is PyPI reachable from here"),
        ("No space left on device", ClusterError, "failed"),
    ],
)
def test_what_pip_says_becomes_one_sentence(output, error, text, tmp_path, monkeypatch):
    def run(argv, what, **_):
        raise tools.ToolError("pip failed", output)

    monkeypatch.setattr(tools, "run", run)
    with pytest.raises(error, match=text):
        KafkaPython().download("2.9.9", tmp_path, print)


def test_settings_become_arguments_of_the_types_of_the_library(settings):
    given = {"acks": "all", "enable.idempotence": "true", "linger.ms": 0, "ssl.ca.location": "ca.pem", "retries": "3"}
    made = settings.arguments({**given, "reconnect.backoff.ms": 10}, KNOWN)  # a back-off that this library lacks
    assert made == {"acks": "all", "enable_idempotence": True, "linger_ms": 0, "ssl_cafile": "ca.pem", "retries": 3}


def test_a_request_lasts_no_longer_than_its_record_unless_the_test_says_so(settings):
    assert settings.arguments({"delivery.timeout.ms": 10000}, KNOWN)["request_timeout_ms"] == 10000
    assert settings.arguments({"delivery.timeout.ms": 60000}, KNOWN)["request_timeout_ms"] == 30000
    assert settings.arguments({"delivery.timeout.ms": 60000, "request.timeout.ms": 5}, KNOWN)["request_timeout_ms"] == 5


@pytest.mark.parametrize(
    ("given", "key", "text"),
    [
        ({"acks": "most"}, "acks", "most is none of all, -1, 0, 1"),
        ({"enable.idempotence": "perhaps"}, "enable.idempotence", "no truth value"),
        ({"max.request.size": "big"}, "max.request.size", "no number"),
        ({"partitioner": "mine"}, "partitioner", "no text can name"),
        ({"no.such": 1}, "no.such", "no such setting"),
        ({"isolation.level": "none"}, "isolation.level", "none is none of"),
        ({"delivery.timeout.ms": 9, "request.timeout.ms": 10}, "", "must be at least"),
    ],
)
def test_what_a_library_cannot_be_given_is_refused(settings, given, key, text):
    ((side, name, why),) = settings.refused("producer", given, KNOWN)
    assert (side, name) == ("producer", key)
    assert text in why


def test_nothing_is_refused_that_makes_no_difference(settings):
    assert settings.refused("producer", {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 5, "linger.ms": "0"}, KNOWN) == []


def test_the_drivers_import_nothing_of_ours():
    code = f"import sys; sys.path[:0] = [{str(DRIVERS)!r}]; import driver, python_client, python_settings, librdkafka_library"
    code += "; print([name for name in sys.modules if name in ('fencepost', 'msgspec', 'confluent_kafka')])"
    assert subprocess.run([sys.executable, "-SEc", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.parametrize("client", ["kafka-python@3.0.12", "kafka-python@2.3.3", "aiokafka@0.14.0", "librdkafka@1.9.2"])
def test_a_run_without_faults_is_valid(client, tmp_path):
    code, out, err = fencepost(tmp_path, "run", "--client", client, "--time", "15", "-n", "none", "--kafka", "3.9.1")
    assert code == 0, out + err
    assert verdict(only_run(tmp_path))["verdict"] == "valid"
