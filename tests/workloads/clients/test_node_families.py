"""The families of Node.js libraries: versions, what is missing, npm's errors, the command line. Nothing is fetched here."""

from __future__ import annotations

import json
import os

import pytest

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.workloads.clients import node
from fencepost.workloads.clients.kafkajs import Kafkajs
from fencepost.workloads.clients.platformatic import Platformatic

FAMILIES = [Kafkajs(), Platformatic()]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """An empty PATH, and what puts a shell script into it."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    node.node_version.cache_clear()

    def put(name, script):
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        os.chmod(place / name, 0o755)
        return place / name

    yield put
    node.node_version.cache_clear()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_a_version_has_three_numbers(family):
    assert family.refusal(family.default) == ""
    assert family.refusal("2.0.0-alpha.1") == ""
    for text in ("", "2", "latest", "../x", "2.0.0 || 1.0.0"):
        assert family.package in family.refusal(text)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_what_is_missing_is_named_with_its_remedy(family, programs):
    assert "Node.js is missing" in family.missing(built=True)
    programs("node", "echo v16.20.2")
    assert "16.20.2" in family.missing()
    assert "install" in family.missing()


def test_npm_is_needed_beside_node(programs):
    programs("node", "echo v20.1.0")
    assert "npm is missing" in Kafkajs().missing()
    assert Kafkajs().missing(built=True) == ""
    programs("npm", "exit 1")
    assert Kafkajs().missing() == ""


def test_a_version_that_npm_does_not_have_is_a_mistake_of_the_campaign(programs, tmp_path):
    programs("npm", 'echo "npm error code ETARGET"; exit 1')
    with pytest.raises(CampaignError, match=r"npm has no kafkajs@9\.9\.9"):
        Kafkajs().download("9.9.9", tmp_path, lambda _: None)


def test_an_error_of_npm_is_shown(programs, tmp_path):
    programs("npm", 'echo "npm error network ECONNREFUSED"; exit 1')
    with pytest.raises(ClusterError, match=r"kafkajs@2\.2\.4.*ECONNREFUSED"):
        Kafkajs().download("2.2.4", tmp_path, lambda _: None)


def package(directory, engines):
    place = directory / "node_modules" / "@platformatic" / "kafka"
    place.mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"engines": {"node": engines}} if engines else {}))
    return place


@pytest.mark.parametrize(
    ("engines", "oldest"),
    [(">= 22.22.0 || >= 24.6.0", (22, 22, 0)), (">=14.0.0", (14, 0, 0)), ("*", (0, 0, 0)), ("", (0, 0, 0))],
)
def test_the_oldest_node_of_a_library_is_the_lowest_that_it_names(tmp_path, engines, oldest):
    assert node.wanted_node(package(tmp_path, engines)) == oldest


@pytest.mark.parametrize(("machine", "fetched"), [("v20.20.2", 2), ("v22.22.1", 1)])
def test_a_newer_node_is_fetched_only_where_the_machine_s_is_too_old(programs, tmp_path, machine, fetched):
    programs("node", f"echo {machine}")
    programs("npm", f'echo "$@" >> {tmp_path}/calls')
    package(tmp_path, ">= 22.22.0 || >= 24.6.0")
    messages = []
    Platformatic().download("2.12.1", tmp_path, messages.append)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == fetched
    assert "@platformatic/kafka@2.12.1" in calls[0]
    assert all("--ignore-scripts" in call and f"--prefix {tmp_path}" in call for call in calls)
    assert len(messages) == fetched - 1


def test_the_command_runs_the_copied_program_with_the_fetched_node(tmp_path, programs):
    programs("node", "echo v20.0.0")
    library, built = tmp_path / "library", tmp_path / "built"
    built.mkdir()
    family = Platformatic()
    family.build("2.12.1", library, built)
    assert sorted(path.name for path in built.iterdir()) == ["driver.js", "platformatic.js"]
    assert family.command("2.12.1", library, built)[0] == str(tmp_path / "bin" / "node")
    own = library / "node_modules" / node._runtime_package() / "bin" / "node"
    own.parent.mkdir(parents=True)
    own.touch()
    assert family.command("2.12.1", library, built)[0] == str(own)
    assert family.command("2.12.1", library, built)[-2:] == [str(built / "platformatic.js"), str(library)]


def test_a_node_outside_the_system_s_directories_is_named_for_containers(programs, tmp_path):
    programs("node", "")
    assert Kafkajs().reads() == [tmp_path]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"7", b"[]", b'{"engines": 7}', b'{"engines": {"node": 18}}', b"\xff", b"[" * 100_000]
)
def test_a_package_of_another_form_says_nothing_about_node(tmp_path, content):
    (tmp_path / "package.json").write_bytes(content)
    assert node.wanted_node(tmp_path) == (0, 0, 0)
