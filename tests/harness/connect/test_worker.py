"""A worker of Connect: its settings, how it is started, and where it answers."""

from __future__ import annotations

import stat
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.ports import closed_port

from fencepost.harness.api import ConnectInstance, ConnectWorker
from fencepost.harness.connect.worker import (
    addresses,
    fencing_s,
    jar_directories,
    own_address,
    prepare,
    properties,
    serves,
    transactional_ids,
)
from fencepost.harness.perform.connect_part import worker_directories
from fencepost.harness.perform.plan_roles import launch_of, settings_of

FOUND = {"directory": "/cache/connect/4.3.0", "java": "/opt/java/bin/java", "jars": {"b.jar": "", "a.jar": ""}}
PLAN = {"prefix": "fp-ab12-", "bootstrap": "127.0.0.1:9092", "connection": {}, "connect": {"4.3.0": FOUND}}
WORKER = ConnectWorker(version="4.3.0", plugins=("/plugins/mine.jar",), connectors=("source",))


def test_what_runs_share_begins_with_the_runs_prefix():
    settings = properties(WORKER, PLAN, {}, "http://10.0.0.1:8083")
    shared = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    assert [settings[key] for key in shared] == [f"fp-ab12-connect{end}" for end in ("", "-configs", "-offsets", "-status")]
    assert transactional_ids("fp-ab12-", WORKER, tasks=2) == [
        "connect-cluster-fp-ab12-connect",
        "fp-ab12-connect-source-0",
        "fp-ab12-connect-source-1",
    ]


def test_a_tests_own_settings_are_laid_over_ours():
    settings = properties(
        replace(WORKER, support="preparing", settings=(("session.timeout.ms", "9000"),)), PLAN, {}, "http://h:1"
    )
    assert (settings["exactly.once.source.support"], settings["session.timeout.ms"]) == ("preparing", "9000")


def test_every_client_of_a_worker_gets_what_it_needs_to_connect():
    settings = properties(WORKER, PLAN, {"security.protocol": "SASL_PLAINTEXT"}, "http://h:1")
    assert {settings[f"{part}security.protocol"] for part in ("", "producer.", "consumer.", "admin.")} == {"SASL_PLAINTEXT"}


def test_no_more_replicas_are_requested_than_there_are_brokers():
    settings = properties(WORKER, {**PLAN, "brokers": 1}, {}, "http://h:1")
    assert {settings[f"{kind}.storage.replication.factor"] for kind in ("config", "offset", "status")} == {"1"}


def test_a_round_of_fencing_ends_by_constants_of_connect_and_the_workers_settings():
    assert fencing_s(WORKER) == 90 + 30 + 2 * (3 + 10 + 5) + 6 + 3
    settings = (("worker.sync.timeout.ms", "4000"), ("rebalance.timeout.ms", "60000"))
    assert fencing_s(replace(WORKER, settings=settings)) == 90 + 30 + 2 * (4 + 60 + 5) + 6 + 3
    assert fencing_s(replace(WORKER, settings=(("session.timeout.ms", "${file:/run/secrets:session}"),))) is None


def test_a_life_begins_with_settings_in_its_directory(tmp_path):
    directory = tmp_path / "data" / "c2"
    directory.mkdir(parents=True)
    (directory / "worker.properties").write_text("of the life before")
    words = prepare(WORKER, PLAN, {"sasl.username": "u", "sasl.password": "p"}, 2, directory)
    assert words[0] == "/opt/java/bin/java"
    assert words[-2:] == ["org.apache.kafka.connect.cli.ConnectDistributed", str(directory / "worker.properties")]
    assert "/cache/connect/4.3.0/a.jar:/cache/connect/4.3.0/b.jar" in words
    assert "plugin.path=/plugins/mine.jar\n" in (directory / "worker.properties").read_text()
    assert stat.S_IMODE((directory / "worker.properties").stat().st_mode) == 0o600, "it has secrets"
    assert addresses(tmp_path / "data", {"c2"}) == {"c2": "http://127.0.0.1:8085"}
    assert {"/cache/connect/4.3.0", "/plugins", "/opt/java"} <= set(jar_directories(WORKER, FOUND))


def test_an_address_is_that_from_which_the_brokers_are_reached():
    assert own_address("127.0.0.1:9092,10.1.1.1:9092") == "127.0.0.1"


@pytest.fixture
def answering():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_worker_serves_when_it_answers_and_not_before(tmp_path, answering, monkeypatch):
    monkeypatch.setattr("fencepost.harness.connect.worker.ANSWER_S", 60.0)
    assert not serves(tmp_path), "it has not even said where it is"
    (tmp_path / "rest").write_text(f"http://127.0.0.1:{closed_port()}")
    assert not serves(tmp_path)
    (tmp_path / "rest").write_text(answering)
    assert serves(tmp_path)


def test_older_releases_log_as_the_others_do(tmp_path):
    jars = dict.fromkeys(("connect-runtime-3.2.3.jar", "slf4j-reload4j-1.7.36.jar", "slf4j-simple-1.7.36.jar"), "")
    command = prepare(WORKER, {**PLAN, "connect": {"4.3.0": {**FOUND, "jars": jars}}}, {}, 0, tmp_path)
    names = [path.rpartition("/")[2] for path in command[command.index("-cp") + 1].split(":")]
    assert names == ["connect-runtime-3.2.3.jar", "slf4j-simple-1.7.36.jar"]


def test_an_instance_begins_its_next_life_with_the_version_and_the_level_that_it_was_given(tmp_path, monkeypatch):
    older = {**FOUND, "directory": "/cache/connect/3.9.1"}
    role = ConnectInstance(connect=replace(WORKER, upgrades=("3.9.1",)))
    plan = {**PLAN, "connect": {"4.3.0": FOUND, "3.9.1": older}}
    assert settings_of([role]) == {"c0": {"support": "enabled", "version": "4.3.0", "versions": "4.3.0 3.9.1"}}
    assert set(worker_directories([role], plan["connect"])) >= {"/cache/connect/4.3.0", "/cache/connect/3.9.1"}
    (tmp_path / "data" / "c0").mkdir(parents=True)
    for version, support in (("", ""), ("3.9.1", "disabled")):
        monkeypatch.setenv("FENCEPOST_VERSION", version)
        monkeypatch.setenv("FENCEPOST_SUPPORT", support)
        launch = launch_of(plan, role, 0, tmp_path)
        command = launch.command()
        assert launch.name == f"connect {version or '4.3.0'}"
        assert f"/cache/connect/{version or '4.3.0'}/a.jar" in command[command.index("-cp") + 1]
        settings = Path(command[-1]).read_text().splitlines()
        assert f"exactly.once.source.support={support or 'enabled'}" in settings
