"""Runs inside a sandbox: brings a cluster up, hurts it, and prints what it saw as one JSON object.

Arguments: the options of `Local` as JSON, the run directory, and names of the scenes to play.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from clusters import wire
from clusters.local import Local
from clusters.roles import coordinator_partition
from harness.api import Isolation, Partitionable, Pausable, TopicSpec

TOPICS = {"t": TopicSpec(partitions=3, settings={"min.insync.replicas": "2"})}


def until(condition, limit_s=40.0):
    """Whether the condition came true before the limit."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False


def start(cluster, seen):
    admin = cluster.admin()
    seen["brokers"], seen["topics"], seen["version"] = cluster.brokers, cluster.topics, cluster.kafka_version
    seen["answers"] = [cluster.answers(n) for n in cluster.brokers]
    seen["ends"] = admin.end_offsets(cluster.topics, Isolation.COMMITTED)
    seen["starts"] = admin.log_start_offsets(cluster.topics)
    seen["lagging"] = admin.lagging(["t"])
    seen["unavailable"] = [cluster.unavailable(Pausable), cluster.unavailable(Partitionable)]


def transaction(cluster, seen):
    """One record in an open transaction; then its leader dies, and then the transaction commits."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": "fp-open", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"x", partition=1)
    producer.flush(10)
    seen["open"] = _ends(cluster)
    cluster.kill(cluster.roles().leader("t", 1))
    seen["open under a new leader"] = until(lambda: _ends(cluster) == seen["open"])
    cluster.heal()
    producer.commit_transaction(60)
    seen["committed"] = until(lambda: _ends(cluster) == [2, 2])


def _ends(cluster):
    """Last stable offset and high watermark of t-1, None for what is not answered."""
    return [cluster.admin().end_offsets(["t-1"], level).get("t-1") for level in (Isolation.COMMITTED, Isolation.UNCOMMITTED)]


def kill(cluster, seen):
    leader, before = cluster.roles().leader("t", 0), cluster.pid("n1")
    killed_pid = cluster.pid(leader)
    cluster.kill(leader)
    seen["killed"] = [cluster.pid(leader), cluster.answers(leader), os.path.exists(f"/proc/{killed_pid}")]
    seen["led by another"] = until(lambda: cluster.roles().leader("t", 0) != leader)
    seen["missed"] = until(lambda: leader in cluster.admin().lagging(["t"]).get("t-0", ""))
    cluster.start(leader)
    cluster.start(leader)
    seen["answers again"] = until(lambda: cluster.answers(leader))
    seen["new pid"] = cluster.pid(leader) != killed_pid
    seen["in sync again"] = until(lambda: not cluster.admin().lagging(["t"]))
    seen["others untouched"] = leader == "n1" or cluster.pid("n1") == before


def pause(cluster, seen):
    cluster.pause("n2")
    seen["frozen"] = [until(lambda: cluster.process_state("n2") == "T", 5), cluster.answers("n2")]
    cluster.resume("n2")
    seen["thawed"] = until(lambda: cluster.answers("n2") and cluster.process_state("n2") != "T")


def partition(cluster, seen):
    pairs = [("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("c0", "n1")]
    with cluster.spawn("c0", ["sleep", "300"], stdin=subprocess.DEVNULL):
        cluster.drop([("n1", "n2"), ("c0", "n1")])
        seen["cut"] = [cluster.probe(pairs)[p] for p in pairs]
        seen["dropped"] = [n > 0 for n in cluster.dropped_packets(pairs).values()]
        cluster.undrop([("n1", "n2"), ("c0", "n1"), ("n3", "n1")])
        seen["uncut"] = [cluster.probe(pairs)[p] for p in pairs]
        seen["count kept"] = cluster.dropped_packets([("n1", "n2")])[("n1", "n2")] > 0
        seen["client"] = [cluster.clients, cluster.answers("c0"), cluster.process_state("c0")]
        cluster.kill("c0")
        seen["client killed"] = [cluster.pid("c0"), cluster.answers("c0"), cluster.process_state("c0")]
    cluster.start("c0")
    seen["client not restarted"] = cluster.pid("c0") is None


def roles(cluster, seen):
    cluster.note_clients(transactional_ids=["fp-a-1"], groups=["g"])
    seen["noted"] = [cluster.transactional_ids, cluster.groups]
    asked = ("10.73.1.1", 9092)
    ids = [f"fp-run-{i}" for i in range(20)]
    brokers = {1: "n1", 2: "n2", 3: "n3"}
    seen["coordinators"] = [
        cluster.roles().transaction_coordinator(i) == brokers[wire.find_coordinator(asked, wire.TRANSACTION, i)] for i in ids
    ] + [cluster.roles().group_coordinator(i) == brokers[wire.find_coordinator(asked, wire.GROUP, i)] for i in ids]
    seen["spread"] = len({coordinator_partition(i, 6) for i in ids})
    controller = cluster.roles().controller()
    cluster.kill(controller)
    seen["new controller"] = until(lambda: _controller(cluster) not in (None, controller))


def _controller(cluster):
    try:
        return cluster.roles().controller()
    except Exception as e:  # noqa: BLE001  nobody leads for a moment
        print(e, file=sys.stderr)
        return None


def heal(cluster, seen):
    """Everything at once: one killed, one frozen, one cut off."""
    if cluster.unavailable(Partitionable) is None:
        cluster.drop([("n1", "n2"), ("n2", "n1")])
    cluster.pause("n2")
    cluster.kill("n3")
    cluster.heal()
    cluster.heal()
    seen["healed"] = [cluster.answers(n) and cluster.process_state(n) != "T" for n in cluster.brokers]
    if cluster.unavailable(Partitionable) is None:
        seen["whole"] = list(cluster.probe([("n1", "n2"), ("n2", "n1")]).values())
    seen["all in sync"] = until(lambda: not cluster.admin().lagging(["t"]))


def main(options, run_dir, scenes):
    seen = {"uid": os.getuid(), "processes": len([p for p in Path("/proc").iterdir() if p.name.isdigit()])}
    with Local(**json.loads(options)).up(Path(run_dir), TOPICS) as cluster:
        for scene in scenes:
            globals()[scene](cluster, seen)
    seen["left in the run"] = sorted(p.name for p in Path(run_dir).iterdir())
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
