"""Runs inside a sandbox: brings a cluster up, hurts it, and prints what it saw as one JSON object.

Arguments: a provider's kind and options as JSON, the run directory, and the scenes to play: `scene` or `scene:word,word`.
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random

import structlog
from confluent_kafka import Producer

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.roles import GROUP_LOG, TRANSACTION_LOG, coordinator_partition
from fencepost.harness.api import (
    Fillable,
    HarnessError,
    Isolation,
    Partitionable,
    Pausable,
    Receipt,
    SharedState,
    Skewable,
    TopicSpec,
)
from fencepost.harness.conformance.doubles import HostedCluster
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.fault_validation import lacks

FAULTS = {  # without kill, which is how power-off begins and heals
    "pause": {"target": "controller"},
    "isolate": {},
    "halves": {},
    "bridge": {},
    "one-way": {"direction": "in"},
    "cut-clients": {},
    "cut-client": {},
    "isolate-then-kill": {"alone_s": 1.0},
    "link-flap": {"times": 2, "down_s": 0.2, "up_s": 0.2},
    "packet-loss": {"share": 0.3},
    "graceful-stop": {"target": "leader"},
    "move-leaders": {"target": "all"},
    "move-coordinator": {},
    "move-group-coordinator": {},
    "reassign": {"target": "all"},
    "topic-settings": {},
    "delete-topic": {},
    "transaction-version": {},
    "latency": {"delay_ms": 100, "jitter_ms": 10},
    "bandwidth": {"kbit_s": 512},
    "power-off": {"target": "leader:t-1"},
    "corrupt": {"target": "leader:t-1"},
}
TOPICS = {"t": TopicSpec(partitions=3, settings={"min.insync.replicas": "2"})}


def until(condition, limit_s=90.0):
    """Return whether the condition came true before the limit. Who could not be asked is asked again."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except (HarnessError, OSError) as error:
            print(error, file=sys.stderr)
        time.sleep(0.1)
    return False


def probed(cluster, pairs):
    """Return for each pair whether it is open: by any of three attempts, since a datagram may be held up."""
    is_open = cluster.probe(pairs)
    for _ in range(2):
        if not all(is_open.values()):
            again = cluster.probe(pairs)
            is_open = {pair: arrived or again[pair] for pair, arrived in is_open.items()}
    return [is_open[pair] for pair in pairs]


def answers(cluster, node):
    """Return whether a node answers now: one of five requests, since each has but a second."""
    return any(cluster.answers(node) for _ in range(5))


def start(cluster, seen):
    admin = cluster.admin()
    seen["brokers"], seen["topics"], seen["version"] = cluster.brokers, cluster.topics, cluster.kafka_version
    seen["answers"] = [answers(cluster, node) for node in cluster.brokers]
    seen["ends"] = admin.end_offsets(cluster.topics, Isolation.COMMITTED)
    seen["starts"] = admin.log_start_offsets(cluster.topics)
    seen["lagging"] = admin.lagging(["t"])
    seen["unavailable"] = [cluster.unavailable(capability) for capability in (Pausable, Partitionable, Fillable, Skewable)]


def kill(cluster, seen):
    """A leader dies while a link to it is cut and a transaction is open; it comes back, and then the transaction commits."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": "fp-open", "log_level": 0})
    producer.init_transactions(90)
    producer.begin_transaction()
    producer.produce("t", b"x", partition=1)
    producer.flush(90)
    seen["open"] = until(lambda: _ends(cluster) == [0, 1])
    leader, before = cluster.roles().leader("t", 1), cluster.pid("n1")
    other = next(node for node in reversed(cluster.brokers) if node != leader)
    killed_pid = cluster.pid(leader)
    cluster.drop([(other, leader)])
    cluster.kill(leader)
    seen["killed"] = [cluster.pid(leader), cluster.answers(leader), os.path.exists(f"/proc/{killed_pid}")]
    seen["led by another"] = until(lambda: cluster.roles().leader("t", 1) != leader)
    seen["open under a new leader"] = until(lambda: _ends(cluster) == [0, 1])
    seen["missed"] = until(lambda: leader in cluster.admin().lagging(["t"]).get("t-1", ""))
    cluster.start(leader)
    cluster.start(leader)
    seen["cut after a restart"] = probed(cluster, [(other, leader), (leader, other)])
    cluster.undrop([(other, leader)])
    seen["answers again"] = until(lambda: cluster.answers(leader))
    seen["new pid"] = cluster.pid(leader) != killed_pid
    seen["in sync again"] = until(lambda: not cluster.admin().lagging(["t"]))
    seen["others untouched"] = leader == "n1" or cluster.pid("n1") == before
    producer.commit_transaction(90)
    seen["committed"] = until(lambda: _ends(cluster) == [2, 2])


def _ends(cluster):
    """Last stable offset and high watermark of t-1, None for what is not answered."""
    return [cluster.admin().end_offsets(["t-1"], level).get("t-1") for level in (Isolation.COMMITTED, Isolation.UNCOMMITTED)]


def pause(cluster, seen):
    cluster.pause("n2")
    seen["frozen"] = [until(lambda: cluster.process_state("n2") == "T"), cluster.answers("n2")]
    cluster.resume("n2")
    seen["thawed"] = until(lambda: cluster.answers("n2") and cluster.process_state("n2") != "T")


def partition(cluster, seen):
    pairs = [("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("c0", "n1")]
    with cluster.spawn("c0", ["sleep", "300"], stdin=subprocess.DEVNULL):
        cluster.drop([("n1", "n2"), ("c0", "n1")])
        seen["cut"] = probed(cluster, pairs)
        seen["dropped"] = [n > 0 for n in cluster.dropped_packets(pairs).values()]
        cluster.undrop([("n1", "n2"), ("c0", "n1"), ("n3", "n1")])
        seen["uncut"] = probed(cluster, pairs)
        seen["count kept"] = cluster.dropped_packets([("n1", "n2")])[("n1", "n2")] > 0
        sleeps = until(lambda: cluster.process_state("c0") == "S")
        seen["client"] = [cluster.clients, cluster.answers("c0"), sleeps]
        cluster.kill("c0")
        seen["client killed"] = [cluster.pid("c0"), cluster.answers("c0"), cluster.process_state("c0")]
    cluster.heal()
    cluster.start("c0")
    seen["client not restarted"] = cluster.pid("c0") is None


def roles(cluster, seen):
    cluster.note_clients(transactional_ids=["fp-a-1"], groups=["g"])
    seen["noted"] = [cluster.transactional_ids, cluster.groups]
    host, _, port = cluster.bootstrap().partition(",")[0].partition(":")
    address = (host, int(port))
    ids = [f"fp-run-{i}" for i in range(20)]
    brokers = {1: "n1", 2: "n2", 3: "n3"}
    roles = {protocol.TRANSACTION: cluster.roles().transaction_coordinator, protocol.GROUP: cluster.roles().group_coordinator}

    def agree(kind, key):
        return roles[kind](key) == brokers[protocol.find_coordinator(address, kind, key)]

    # brokers that were killed or frozen before get their partitions back meanwhile: repeated until both agree
    seen["coordinators"] = [until(partial(agree, kind, key)) for kind in roles for key in ids]
    seen["spread"] = len({coordinator_partition(i, 6) for i in ids})


def versions(cluster, seen):
    """Version of each broker according to its own log."""
    logs = {node: Path(sys.argv[2], "logs", node, "server.log").read_text() for node in cluster.brokers}
    seen["versions"] = {node: re.search(r"Kafka version: (\S+)", text).group(1) for node, text in logs.items()}


def features(cluster, seen):
    """The level of each of Kafka's features."""
    host, _, port = cluster.bootstrap().partition(":")
    seen["features"] = protocol.features((host, int(port)))


def upgrade(cluster, seen):
    """Everybody is restarted as 4.4.0, the controller too."""
    seen["upgrade"] = _strike("rolling-restart", cluster, {"version": "4.4.0", "controllers": True})
    seen["upgraded"] = {node: cluster.version(node) for node in ("n1", "n2", "k1")}
    until(lambda: len(_versions_in_log("n1")) > 1)  # logs may come with a delay
    seen["versions of n1"] = _versions_in_log("n1")


def _versions_in_log(node):
    return re.findall(r"Kafka version: (\S+)", Path(sys.argv[2], "logs", node, "server.log").read_text())


def replace(cluster, seen):
    """A broker leaves, and comes back with nothing: it must have its log again after that."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "log_level": 0})
    for partition in range(3):
        producer.produce("t", b"x" * 1000, partition=partition)
    producer.flush(90)
    home = str(cluster.data_directory("n2")).replace("/mounted/", "/h2/directory/")  # what a host has there (`ssh_hosts.py`)
    segment = Path(home, "t-0", "0" * 20 + ".log")
    removed = []
    wipe = cluster.wipe
    cluster.wipe = lambda node: (wipe(node), removed.append(not segment.exists()))
    seen["replaced"] = _strike("membership", cluster, {"target": "broker:n2"})
    seen["data"] = removed and [*removed, until(lambda: segment.exists() and segment.stat().st_size > 1000)]


def faults(cluster, seen):
    """Every fault of ours strikes once and heals twice, with three clients about."""
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    clients = [cluster.spawn(f"c{i}", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for i in range(10, 13)]
    cluster.note_clients(transactional_ids=["fp-a-1"], groups=["g"])
    seen["faults"] = {kind: _strike(kind, cluster, FAULTS[kind]) for kind in registry.names("nemesis") if kind in FAULTS}
    seen["clients"] = [client.poll() for client in clients]
    seen["in sync after all faults"] = until(lambda: not cluster.admin().lagging(["t"]))


def _strike(kind, cluster, options):
    fault = registry.build(registry.load("fencepost.nemesis", kind), options, kind)
    if missing := lacks(fault, cluster):
        return {"effective": False, "notes": list(missing.values()), "healing": False, "whole": True}
    view = HostedCluster(cluster, SharedState())
    until(lambda: not cluster.admin().lagging(["t", TRANSACTION_LOG, GROUP_LOG]))  # since the fault before
    if kind in ("power-off", "corrupt"):  # they need what was not synced, and a fault before them may have synced everything
        producer = Producer({"bootstrap.servers": cluster.bootstrap(), "log_level": 0})
        producer.produce("t", b"x", partition=1)
        producer.flush(90)
    try:
        receipt = fault.inject(view, Random(7))
    except HarnessError as error:  # as the harness does it: a receipt without effect that quotes the reason
        receipt = Receipt(effective=False, note=str(error))
    healed = fault.heal(view, receipt)
    again = fault.heal(view, healed)
    cluster.heal()
    pairs = list(receipt.pairs)
    whole = all(probed(cluster, pairs)) if pairs else True
    return {
        "effective": receipt.effective,
        "notes": [receipt.note, healed.note, again.note],
        "healing": bool(healed.healing),
        "whole": whole,
    }


def disk(cluster, seen):
    """n2's disk is filled, under a few records, until it is healed."""
    others = [cluster.disk_free(node) > 50 << 20 for node in ("n1", "n3")]
    seen["disk"] = _strike_in_full("disk-full", {"target": "broker:n2", "notice_s": 90.0}, cluster)
    seen["others"] = others
    seen["in sync after the full disk"] = until(lambda: not cluster.admin().lagging(["t"]))


def slow_disk(cluster, seen):
    """The last broker's disk is slow: a record that it leads is acknowledged later than its disk delays a write."""
    node = cluster.brokers[-1]
    options = {"target": f"broker:{node}", "delay_ms": 150, "notice_s": 60}
    fault = registry.build(registry.load("fencepost.nemesis", "slow-disk"), options, "slow-disk")
    receipt = fault.inject(cluster, Random(7))
    led = next(number for number in range(3) if cluster.roles().leader("t", number) == node)
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": 1, "linger.ms": 0, "log_level": 0})
    began = time.monotonic()
    producer.produce("t", b"x", partition=led)
    seen["records left over"] = producer.flush(90)
    seen["acknowledged after ms"] = (time.monotonic() - began) * 1000
    healed = fault.heal(cluster, receipt)
    seen["slow disk"] = {**asdict(healed), "again": asdict(fault.heal(cluster, healed))}
    during = receipt.evidence["during"][node]
    seen["quick again"] = healed.healing["after"][node] < during or until(lambda: cluster.disk_waits([node], 0.5)[node] < during)
    seen["in sync after the slow disk"] = until(lambda: not cluster.admin().lagging(["t"]))


def clocks(cluster, seen):
    """n2's clock jumps ahead, then behind; and is set right when the cluster is healed."""
    seen["clocks"] = {
        direction: _strike_in_full("clock-skew", {"target": "broker:n2", "by_s": 3600, "direction": direction}, cluster)
        for direction in ("ahead", "behind")
    }
    cluster.skew("n2", 600)
    seen["other clock"] = cluster.clock_ahead("n3")
    cluster.heal()
    seen["right after all"] = cluster.clock_ahead("n2")


def disk_and_clock(cluster, seen):
    """n2's clock jumps ahead; while it is wrong n2's disk is filled, until it is healed; then the clock is set right."""
    seen["no disk"], seen["no clock"] = cluster.unavailable(Fillable), cluster.unavailable(Skewable)
    if seen["no disk"]:
        return
    skew = registry.build(
        registry.load("fencepost.nemesis", "clock-skew"),
        {"target": "broker:n2", "by_s": 3600, "direction": "ahead"},
        "clock-skew",
    )
    ahead = skew.inject(cluster, Random(7)) if seen["no clock"] is None else None
    disk(cluster, seen)
    if ahead is not None:
        seen["wrong after a restart"] = cluster.clock_ahead("n2")
        healed = skew.heal(cluster, ahead)
        seen["clock"] = {"note": healed.note, **healed.evidence, **healed.healing}


def _strike_in_full(kind, options, cluster):
    """The receipt of a fault that strikes and is healed."""
    fault = registry.build(registry.load("fencepost.nemesis", kind), options, kind)
    healed = fault.heal(cluster, fault.inject(cluster, Random(7)))
    return {"effective": healed.effective, "note": healed.note, "evidence": healed.evidence, "healing": healed.healing}


def frozen_and_killed(cluster, seen):
    """The only broker is frozen, then killed; each time the cluster is healed."""
    before = cluster.pid("n1")
    cluster.pause("n1")
    seen["frozen"] = [until(lambda: cluster.process_state("n1") == "T"), cluster.answers("n1")]
    cluster.heal()
    seen["thawed"] = [cluster.process_state("n1") != "T", answers(cluster, "n1"), cluster.pid("n1") == before]
    cluster.kill("n1")
    seen["killed"] = [cluster.pid("n1"), cluster.answers("n1")]
    cluster.heal()
    seen["started"] = [answers(cluster, "n1"), cluster.pid("n1") != before]


def wait(cluster, seen):
    """Tell that it is up, with a frozen broker, and go on until somebody ends us."""
    cluster.pause("n1")
    print("up", flush=True)
    time.sleep(300)


def hanging(cluster, seen):
    """A record of a transaction of which no coordinator knows: the answers to three questions, and to one after its abort."""
    from raw_producer import produce  # beside this program

    admin, node, began = cluster.admin(), cluster.brokers[0], time.monotonic_ns()
    producer = admin.fence_producer("late")
    seen["offset"] = produce(cluster.request_address(node), "late", producer, "t", 0, b"late")
    seen["answers"] = []
    for pause_s in (0, 1, 15):
        time.sleep(pause_s)
        sent_ns, listing = time.monotonic_ns(), cluster.transaction_listing(["t-0"])
        seen["answers"].append([sent_ns - began, time.monotonic_ns() - began, asdict(listing)])
    seen["offsets"] = [admin.end_offsets(["t-0"], isolation)["t-0"] for isolation in Isolation]
    admin.abort_on_partition("t-0", next(entry for entry in admin.producers(["t-0"])["t-0"] if entry.first_offset is not None))
    seen["ended by an operator"] = until(lambda: not cluster.transaction_listing(["t-0"]).opened)


def rights(cluster, seen):
    """A client with the cluster's own connection: its errors while it lacks a right, and when it has it again."""
    settings = {"bootstrap.servers": cluster.bootstrap(), **cluster.connection(), "log_level": 0}
    seen["written"] = [_write(settings)]
    number = cluster.revoke(["t"], "write", "topic")
    seen["denied"] = until(lambda: _write(settings) == "TOPIC_AUTHORIZATION_FAILED")
    seen["rights"] = sorted(str(right) for right in cluster.rights()["n1"] if right.name == "t")
    seen["the harness reads on"] = sorted(cluster.admin().end_offsets(["t-0"], Isolation.COMMITTED))
    cluster.regrant(number)
    cluster.regrant(number)
    seen["again"] = until(lambda: _write(settings) == "")
    cluster.revoke(["*"], "write", "topic")
    seen["refused without the right"] = until(lambda: _write(settings) == "TOPIC_AUTHORIZATION_FAILED")
    cluster.heal()
    seen["healed"] = _write(settings)
    seen["nameless"] = _write({"bootstrap.servers": cluster.bootstrap(), "log_level": 0})


def _write(settings):
    """The name of the error of one record; empty when it was delivered."""
    errors = []
    producer = Producer({**settings, "message.timeout.ms": 3000})
    producer.produce("t", b"x", partition=0, on_delivery=lambda error, _: errors.append(error.name() if error else ""))
    producer.flush(10)
    return errors[0]


def heal(cluster, seen):
    """Everything at once: the controller killed (and followed by another), of the others one frozen, and cut off."""
    assert until(cluster.roles().controller)
    controller = cluster.roles().controller()
    cluster.kill(controller)
    seen["new controller"] = until(lambda: cluster.roles().controller() != controller)
    first, second = (node for node in cluster.brokers if node != controller)
    if cluster.unavailable(Partitionable) is None:
        cluster.drop([(first, second), (second, first)])
    cluster.pause(second)
    cluster.heal()
    cluster.heal()
    seen["healed"] = [cluster.process_state(node) != "T" and answers(cluster, node) for node in cluster.brokers]
    if cluster.unavailable(Partitionable) is None:
        seen["whole"] = probed(cluster, [(first, second), (second, first)])
    seen["all in sync"] = until(lambda: not cluster.admin().lagging(["t"]))


def main(options, run_dir, scenes):
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is for what was seen
    seen = {"uid": os.getuid()}
    began = time.monotonic()
    given = json.loads(options)
    provider = registry.build(registry.load("fencepost.cluster", given.pop("kind")), given, "cluster")
    Path(run_dir).mkdir(parents=True, exist_ok=True)
    with provider.up(Path(run_dir), TOPICS) as cluster:
        for scene in scenes:
            print(f"{time.monotonic() - began:.1f} s: {scene}", file=sys.stderr)
            name, _, words = scene.partition(":")
            globals()[name](cluster, seen, *filter(None, words.split(",")))
    seen["left in the run"] = sorted(p.name for p in Path(run_dir).iterdir())
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
