"""A run on somebody else's cluster with SASL_SSL: a verdict, no trace of the password, nothing of theirs touched."""

from __future__ import annotations

import html
import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from support.external_kafka import FOREIGN, FOREIGN_GROUP, PASSWORD, PREFIX, USER, started
from support.fencepost_command import JUDGED_HERE, finish, only_run, processes_of, start, until, verdict

from fencepost.clusters.external.provider import External
from fencepost.clusters.local.init import descendants
from fencepost.harness.api import ClusterError, Isolation, Placement, TopicSpec
from fencepost.harness.history.run_directory import open_run

pytestmark = pytest.mark.cluster

TEST = """
name = "theirs"
seed = 5
[[test]]
name = "theirs"
time_s = {time_s}
rate = 60
workload = {{ writers = 3, readers = 1, uncommitted_readers = 0 }}
client.producer = {{ debug = "security,conf,broker" }}
[test.cluster]
kind = "external"
{cluster}
[[test.nemesis]]
kind = "kill"
target = "client"
every_s = 1
lasts_s = 1
[[test.nemesis]]
kind = "kill"
lane = "brokers"
target = "leader"
every_s = 1
lasts_s = 1
[[test.nemesis]]
kind = "theirs:Look"
lane = "own"
every_s = 1
lasts_s = 1
"""
FAULT = """
from dataclasses import dataclass
from typing import ClassVar
from confluent_kafka.admin import AdminClient
from fencepost.harness.api import Receipt
from fencepost.harness.secrets import resolve

@dataclass(frozen=True, kw_only=True)
class Look:
    needs: ClassVar[tuple[type, ...]] = ()

    def inject(self, cluster, rng):
        own = AdminClient({"bootstrap.servers": cluster.bootstrap(), **resolve(cluster.connection())})
        seen = len(own.describe_cluster(request_timeout=60).result().nodes)
        leader = cluster.roles().leader("t", 0)
        return Receipt(role="leader", targets=(leader,), evidence={"before": {"brokers": seen}}, effective=seen == 1)

    def heal(self, cluster, receipt):
        return receipt
"""


@pytest.fixture(scope="module")
def somebodys(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, started(tmp_path_factory.mktemp("somebodys")) as cluster:
        patch.setenv("FENCEPOST_TEST_PASSWORD", PASSWORD)
        yield cluster


def write_campaign(directory: Path, options: dict, time_s: int) -> Path:
    """A campaign on this cluster with faults of ours and one of its own."""
    settings = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in options["settings"].items())
    cluster = f"bootstrap = {json.dumps(options['bootstrap'])}\nsettings = {{ {settings} }}"
    (directory / "theirs.py").write_text(FAULT)
    path = directory / "theirs.toml"
    path.write_text(TEST.format(time_s=time_s, cluster=cluster))
    return path


@pytest.fixture(scope="module")
def run(somebodys, tmp_path_factory):
    """A run of some seconds, judged: its directory and everything the command said."""
    place = tmp_path_factory.mktemp("theirs")
    process = start(place / "results", "campaign", str(write_campaign(place, somebodys.options(), 8)))
    with Watched(process.pid) as watched:
        code, out, err = finish(process)
    assert code == 0, out + err
    return only_run(place / "results"), out + err, watched.seen


class Watched(threading.Thread):
    """Looks, until the block ends, at the processes below one. seen: (command line, whether its environment has the password)."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root, self._over, self.seen = root, threading.Event(), set()

    def __enter__(self) -> Watched:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(0.2):
            for pid in [self._root, *descendants(self._root)]:
                with suppress(OSError):  # it ended while we looked
                    command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
                    self.seen.add((command, PASSWORD.encode() in Path(f"/proc/{pid}/environ").read_bytes()))


def test_the_password_is_in_no_command_line_and_in_the_environment_only_of_those_that_log_in(run):
    """Spark's Java and its workers are not among them."""
    seen = run[2]
    assert [command for command, _ in seen if PASSWORD in command] == []
    with_password = {command for command, has in seen if has}
    ours = ("/fencepost campaign", "start_module.py fencepost.clusters.local.init", "start_module.py fencepost.harness.perform.")
    assert [command for command in with_password if not any(part in command for part in ours)] == []
    assert any("fencepost.harness.perform.worker" in command for command in with_password)
    without = {command for command, has in seen if not has}
    assert any("org.apache.spark.deploy.SparkSubmit" in command for command in without)
    assert any("worker_daemon" in command for command in without)


def test_the_run_is_valid_and_compared_what_it_wrote(run):
    run_dir, *_ = run
    document = verdict(run_dir)
    assert document["verdict"] == "valid", document["reason"]
    compared = {entry["name"]: entry["compared"] for entry in document["properties"]}
    assert compared["lost-write"] > 0
    assert compared["torn-transaction"] > 0


def test_the_password_is_nowhere(run):
    """In no file of the run, as it is, as JSON or HTML or Python write it, nor in a column of a table; nor was it said."""
    run_dir, output, _ = run
    forms = {PASSWORD, json.dumps(PASSWORD)[1:-1], html.escape(PASSWORD), repr(PASSWORD)[1:-1], "battery-staple"}
    texts = {path: path.read_text(errors="replace") for path in run_dir.rglob("*") if path.is_file()}
    texts |= {path: str(pq.read_table(path).to_pylist()) for path in run_dir.rglob("*.parquet")}
    assert len(texts) > 15
    assert "env:FENCEPOST_TEST_PASSWORD" in texts[run_dir / "plan.json"]
    assert USER in texts[run_dir / "report.html"]
    assert "sasl.password = [redacted]" in texts[run_dir / "logs" / "c0" / "stderr.log"]
    assert [(path, form) for path, text in {**texts, "output": output}.items() for form in forms if form in text] == []


def test_nothing_of_theirs_was_touched_and_nothing_of_ours_is_left(run, somebodys):
    until(lambda: somebodys.topics() == {FOREIGN})  # a broker learns of a deletion after the controller has answered
    assert somebodys.groups() == {FOREIGN_GROUP}
    theirs = Consumer({**somebodys.inside, "group.id": "look"})
    assert theirs.get_watermark_offsets(TopicPartition(FOREIGN, 0), timeout=60) == (0, 1)
    theirs.close()


def test_everything_of_the_run_has_its_own_prefix(run):
    """Topics in the history are the real ones; ids too, so that rights may be given by prefix."""
    run_dir, *_ = run
    plan = json.loads((run_dir / "plan.json").read_text())
    prefix = f"{PREFIX}{plan['run']}-"
    rows = pq.read_table(run_dir / "history.parquet").to_pylist()
    assert set(plan["topics"]) == {f"{prefix}t"}
    assert {mop["partition"] for row in rows for mop in row["mops"] or () if mop["partition"]} <= {
        f"{prefix}t-{number}" for number in range(4)
    }
    assert {row["transactional_id"] for row in rows if row["transactional_id"]} == {f"{prefix}{slot}" for slot in range(3)}


def test_the_contract_is_that_of_the_topics_as_the_cluster_made_them(run):
    """min.insync.replicas was not chosen, so the cluster's own counts, with a warning; retention is ours."""
    run_dir, output, _ = run
    plan = json.loads((run_dir / "plan.json").read_text())
    (topic,) = plan["topics"].values()
    assert (topic["replication"], topic["settings"]["min.insync.replicas"]) == (1, "1")
    assert (plan["contract"]["min_insync_replicas"], plan["contract"]["retention"]) == ("1", "none")
    assert plan["cluster"]["description"]["nodes"]["n1"].startswith("broker 7 at 127.0.0.1:")
    assert "min.insync.replicas is 1 here" in output


def test_clients_can_be_killed_brokers_cannot_and_an_own_fault_works(run):
    """A fault on brokers is announced as idle, and each of its receipts says why."""
    run_dir, output, _ = run
    receipts = [json.loads(line) for line in (run_dir / "history" / "faults.jsonl").read_text().splitlines()]
    by_lane = {"client": set(), "leader": set()}
    for receipt in receipts:
        by_lane.setdefault(receipt["role"] if receipt["kind"] == "kill" else receipt["kind"], set()).add(receipt["effective"])
    assert by_lane == {"client": {True}, "leader": {False}, "theirs:Look": {True}}
    assert {receipt["note"] for receipt in receipts if receipt["effective"] is False} == {
        "unavailable here, because fencepost does not run these brokers and cannot hurt them; a fault of your own can "
        "(nemesis/README.md)"
    }
    assert "note: the fault kill will have no effect: fencepost does not run these brokers" in output


def test_a_harness_that_is_killed_leaves_no_process_and_no_topic(somebodys, tmp_path):
    """kill -9 in the middle of the workload, with a frozen client."""
    harness, run_dir = in_the_middle(somebodys, tmp_path)
    harness.kill()
    harness.wait()
    until(lambda: somebodys.topics() == {FOREIGN})
    until(lambda: not processes_of(run_dir))
    assert open_run(run_dir).left_behind == ()


def test_topics_of_a_run_that_was_killed_inside_are_named(somebodys, tmp_path):
    """kill -9 of what performs it: no process is left that could remove them, and the supervisor ends the clients."""
    harness, run_dir = in_the_middle(somebodys, tmp_path)
    os.kill(process_of(run_dir, "fencepost.harness.perform.performer"), signal.SIGKILL)
    code, out, err = finish(harness)
    (topic,) = somebodys.topics() - {FOREIGN}
    assert code == 254
    assert f"left behind: {topic}: performing ended before it could remove them" in out + err
    until(lambda: not processes_of(run_dir))
    somebodys.owner.delete_topics([topic])[topic].result()


def in_the_middle(somebodys, tmp_path):
    """A harness in the middle of its workload, with a frozen client and its topic on the cluster; and its run directory."""
    results = tmp_path / "results"
    harness = start(results, "campaign", str(write_campaign(tmp_path, somebodys.options(), 600)), program=JUDGED_HERE)
    run_dir = until(lambda: next((path.parents[1] for path in results.glob("*/*/history/faults.jsonl")), None))
    until(lambda: (run_dir / "history" / "faults.jsonl").stat().st_size)
    os.kill(until(lambda: process_of(run_dir, "fencepost.harness.perform.worker")), signal.SIGSTOP)
    assert len(somebodys.topics()) == 2
    return harness, run_dir


def process_of(run_dir: Path, program: str) -> int | None:
    """The process id of one of the run's processes that runs this program of ours itself."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        if line[2:3] == [program.encode()] and str(run_dir).encode() in line:
            return int(entry.name)
    return None


def owners(somebodys, tmp_path) -> External:
    """The cluster as one sees it who may do everything, and keeps the password in a file."""
    secret = tmp_path / "secret"
    secret.write_text("plain-password\n")
    changed = {"sasl.mechanism": "PLAIN", "sasl.username": "plain", "sasl.password": f"file:{secret}"}
    return External(**somebodys.options(**changed))


def test_it_tells_of_offsets_leaders_and_coordinators(somebodys, tmp_path):
    """An open transaction holds the last stable offset back; the controller is unknown outside."""
    with owners(somebodys, tmp_path).up(tmp_path, {"fencepost-a-t": TopicSpec(partitions=2, replication=1)}) as cluster:
        assert (cluster.brokers, cluster.topics) == (("n1",), ("fencepost-a-t-0", "fencepost-a-t-1"))
        producer = Producer({**somebodys.inside, "transactional.id": "fencepost-a-0"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("fencepost-a-t", b"x", partition=1)
        assert producer.flush(60) == 0
        ends = [cluster.admin().end_offsets(cluster.topics, level)["fencepost-a-t-1"] for level in Isolation]
        assert ends == [0, 1]
        producer.abort_transaction(60)
        written, marker = cluster.log("fencepost-a-t-1")
        assert (written.kind, written.value, written.transactional, marker.kind) == ("record", b"x", True, "ABORT")
        assert written.producer_id == marker.producer_id >= 0
        assert len(cluster.partitions_of("__transaction_state")) == 3
        assert cluster.partitions_of("nowhere") == []
        assert cluster.admin().log_start_offsets(cluster.topics) == {"fencepost-a-t-0": 0, "fencepost-a-t-1": 0}
        assert cluster.admin().lagging(["fencepost-a-t"]) == {}
        roles = cluster.roles()
        assert [roles.leader("t", 1), roles.transaction_coordinator("fencepost-a-0")] == ["n1", "n1"]
        assert roles.group_coordinator(FOREIGN_GROUP) == "n1"
        with pytest.raises(ClusterError, match="a KRaft cluster names any broker"):
            roles.controller()
        assert cluster.answers("n1")
        assert cluster.unreachable_brokers() == set()
        with pytest.raises(ClusterError, match="n1: fencepost does not run these brokers"):
            cluster.kill("n1")
        cluster.heal()
    until(lambda: somebodys.topics() == {FOREIGN})  # a broker learns of a deletion after the controller has answered


def test_only_the_runs_own_topics_are_arranged_anew(somebodys, tmp_path):
    topic = "fencepost-c-t"
    with owners(somebodys, tmp_path).up(tmp_path, {topic: TopicSpec(partitions=2, replication=1)}) as cluster:
        admin, here = cluster.admin(), Placement(leader="n1", replicas=("n1",), in_sync=("n1",))
        assert admin.placements() == {f"{topic}-0": here, f"{topic}-1": here}
        assert admin.placements([f"{topic}-1", f"{topic}-9", "nowhere-0"]) == {f"{topic}-1": here}
        assert admin.in_service() == ("n1",)
        admin.elect([f"{topic}-0"])
        admin.set_topic_settings(topic, {"segment.ms": "60000"})
        until(lambda: admin.topic_settings(topic) == {"segment.ms": "60000"})
        admin.set_topic_settings(topic, {"segment.ms": None})
        until(lambda: admin.topic_settings(topic) == {})
        old = set(admin.topic_ids(topic).values())
        admin.delete_topic(topic)
        until(lambda: set(admin.topic_ids(topic).values()) == {""})
        admin.create_placed_topic(topic, [("n1",)], {"segment.ms": "60000"})
        until(lambda: "" not in admin.topic_ids(topic).values())
        until(lambda: admin.topic_settings(topic) == {"segment.ms": "60000"})
        admin.add_partitions(topic, 2)
        until(lambda: admin.placements() == {f"{topic}-0": here, f"{topic}-1": here})
        assert not old & set(admin.topic_ids(topic).values())
        refused = (
            lambda: admin.elect([f"{FOREIGN}-0"]),
            lambda: admin.set_topic_settings(FOREIGN, {"segment.ms": "1"}),
            lambda: admin.create_placed_topic(FOREIGN, [("n1",)], {}),
            lambda: admin.add_partitions(FOREIGN, 2),
        )
        for forbidden in refused:
            with pytest.raises(ClusterError, match=f"{FOREIGN}: not a topic of this run, so it is left alone"):
                forbidden()
        for impossible in (lambda: admin.reassign({f"{topic}-0": ("n1",)}), lambda: admin.unregister("n1")):
            with pytest.raises(ClusterError, match=r"cannot be moved from here|not ours to strike off"):
                impossible()


def test_a_topic_that_is_there_is_an_error_and_stays(somebodys, tmp_path):
    with pytest.raises(ClusterError, match=f"could not create the topic {FOREIGN}: Topic '{FOREIGN}' already exists"):
        with owners(somebodys, tmp_path).up(tmp_path, {FOREIGN: TopicSpec(partitions=1, replication=1)}):
            pass
    until(lambda: somebodys.topics() == {FOREIGN})  # a broker learns of a deletion after the controller has answered
    assert open_run(tmp_path).left_behind == ()


def test_what_may_not_be_removed_is_named_with_the_remedy(somebodys, tmp_path):
    """The user loses the right to delete while the run goes on."""
    right = (ResourceType.TOPIC, PREFIX, ResourcePatternType.PREFIXED, f"User:{USER}", "*", AclOperation.DELETE)
    with External(**somebodys.options()).up(tmp_path, {"fencepost-b-t": TopicSpec(partitions=1, replication=1)}) as cluster:
        assert list(cluster.log("fencepost-b-t-0")) == []
        assert cluster.partitions_of("__transaction_state") == []
        with pytest.raises(ClusterError, match="__transaction_state-0 is not there, or may not be seen"):
            cluster.log("__transaction_state-0")
        for future in somebodys.owner.delete_acls([AclBindingFilter(*right, AclPermissionType.ALLOW)]).values():
            future.result()
    (sentence,) = open_run(tmp_path).left_behind
    assert sentence.startswith("could not remove the topic fencepost-b-t: Broker: Topic authorization failed")
    assert f"kafka-topics.sh --bootstrap-server {somebodys.bootstrap}" in sentence
    assert "--delete --topic fencepost-b-t" in sentence
    somebodys.owner.delete_topics(["fencepost-b-t"])["fencepost-b-t"].result()


def test_a_wrong_password_is_reported_at_once_and_not_repeated(somebodys, monkeypatch):
    monkeypatch.setenv("FENCEPOST_TEST_PASSWORD", "wrong-password")
    monkeypatch.setattr("fencepost.clusters.external.connection.ANSWER_S", 120.0)
    with pytest.raises(ClusterError, match=r"turned us away: .* invalid credentials with SASL mechanism SCRAM-SHA-512") as caught:
        External(**somebodys.options()).describe()
    assert "wrong-password" not in str(caught.value)


def test_plain_text_to_a_tls_listener_is_reported(somebodys, monkeypatch):
    """The broker says nothing that could be quoted."""
    monkeypatch.setattr("fencepost.clusters.external.connection.ANSWER_S", 1.0)
    options = somebodys.options() | {"settings": {"security.protocol": "PLAINTEXT"}}
    with pytest.raises(ClusterError, match=r"no answer from .* Are `bootstrap` and the security.protocol"):
        External(**options).describe()
