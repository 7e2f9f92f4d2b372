"""The jars of Kafka Connect with a fake resolver: which versions there may be, and what is in the cache."""

import subprocess
from dataclasses import replace

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.api.connect import ConnectWorker
from fencepost.harness.connect import jars


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    return tmp_path


def ivy(recipe, destination, cache):
    """Writes a jar for each artifact that is wanted."""
    for name in ("connect-runtime", "connect-file"):
        assert f'name="{name}" rev="4.3.0"' in recipe.read_text()
        (destination / f"{name}-4.3.0.jar").write_text(name)
    return subprocess.CompletedProcess([], 0, "", "")


def test_a_version_is_fetched_once_and_found_again(cache):
    assert jars.installed("4.3.0") is None
    assert jars.planned("4.3.0") == {}
    fetched = jars.fetch("4.3.0", ivy=ivy)
    assert fetched == jars.installed("4.3.0") == jars.fetch("4.3.0", ivy=None)
    planned = jars.planned("4.3.0")
    assert planned["directory"] == f"{cache}/connect/4.3.0"
    assert [*planned["jars"]] == ["connect-file-4.3.0.jar", "connect-runtime-4.3.0.jar"]
    assert [entry.version for entry in jars.all_installed()] == ["4.3.0"]


def test_a_damaged_jar_is_not_used(cache):
    fetched = jars.fetch("4.3.0", ivy=ivy)
    (fetched.directory / "connect-file-4.3.0.jar").write_text("")
    assert jars.installed("4.3.0") is None


def test_a_release_that_is_published_without_kafkas_own_connectors_is_fetched_without_them(cache):
    """4.4.0: the workers run, FileStreamSource and MirrorSource are not there."""
    said = []

    def resolve(recipe, destination, cache):
        (destination / "connect-json-4.4.0.jar").write_text("of which attempt?")
        for name in ("connect-file", "connect-mirror"):
            if name in recipe.read_text():
                (destination / "left-over.jar").write_text("")
                return subprocess.CompletedProcess([], 1, f"module not found: org.apache.kafka#{name};4.4.0", "")
        (destination / "connect-runtime-4.4.0.jar").write_text("")
        return subprocess.CompletedProcess([], 0, "", "")

    fetched = jars.fetch("4.4.0", said.append, ivy=resolve)
    assert sorted(fetched.jars) == ["connect-json-4.4.0.jar", "connect-runtime-4.4.0.jar"]
    assert "published without connect-file and connect-mirror" in said[-1]
    mirror = ConnectWorker(version="4.4.0", classes=("org.apache.kafka.connect.mirror.MirrorSourceConnector",))
    others = replace(mirror, classes=("org.else.Source",)), replace(mirror, ours=False, plugins=("own.jar",))
    (text,) = jars.lost_connectors([mirror, mirror, *others])
    assert text.startswith("workload.version: Kafka Connect 4.4.0 is published without connect-mirror, which has org.apache")
    upgraded = replace(mirror, version="4.3.0", upgrades=("4.4.0",))
    (text,) = jars.lost_connectors([upgraded])
    assert text.startswith("workload.upgrades: Kafka Connect 4.4.0 is published without connect-mirror")


def test_a_release_that_there_is_not_is_refused_all_the_same(cache):
    absent = subprocess.CompletedProcess([], 1, "module not found: org.apache.kafka#connect-runtime;9.9.9", "")
    with pytest.raises(CampaignError, match="there is no such version"):
        jars.fetch("9.9.9", ivy=lambda *_: absent)


@pytest.mark.parametrize(
    ("version", "text"),
    [("3.2.0", "no exactly-once sources"), ("newest", "no version of Kafka Connect"), ("4.3", "no version of Kafka Connect")],
)
def test_a_version_that_cannot_be_run_is_refused(version, text):
    with pytest.raises(CampaignError, match=text):
        jars.fetch_all([ConnectWorker(version=version)], print)


@pytest.mark.parametrize(("version", "text"), [("2.8.2", "too old"), ("newest", "no version of Kafka Connect")])
def test_a_version_that_no_worker_can_change_to_is_refused(cache, version, text):
    jars.fetch("4.3.0", ivy=ivy)
    with pytest.raises(CampaignError, match=text):
        jars.fetch_all([ConnectWorker(version="4.3.0", upgrades=(version,))], print)
