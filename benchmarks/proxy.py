"""`proxy`: what does the fault proxy cost while no rule acts? With and without it in turn, on two clusters.

One broker, where little else takes time: one producer, and 500 connections. Three brokers with replicas and eight producers, as
tests have them.

`python -m benchmarks.proxy FOLDER ROUNDS SECONDS CLASSPATH` runs inside the sandbox, with the brokers on its loopback.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from confluent_kafka import Producer

from benchmarks.arms import cpu_s
from benchmarks.bare_loop import Orders, loop, transaction
from benchmarks.figures import goal, ratios, show, spread
from fencepost.clusters.local import Local
from fencepost.clusters.local.cluster import LocalCluster
from fencepost.harness.api import TopicSpec
from fencepost.harness.proxy.jars import classpath
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.workloads.clients.librdkafka import PRODUCER_DEFAULTS

CONNECTIONS = 500
TOPIC, RECORD, AHEAD = "t", b"." * 1000, 20_000
# Segments are deleted before the disk has them, so that none of it is measured.
SEGMENTS = {"segment.bytes": "67108864", "retention.bytes": "268435456", "file.delete.delay.ms": "1000"}
SETTINGS = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
BROKER = Local(brokers=1, loopback=True, settings=SETTINGS)
THREE = Local(brokers=3, loopback=True, settings=SETTINGS)
TOPICS = {1: TopicSpec(partitions=1, settings=SEGMENTS), 3: TopicSpec(partitions=4, settings=SEGMENTS)}
PRODUCERS, A_TRANSACTION = 8, 4
WARM_ROUNDS = 3
Round = Callable[[str, Sequence[int]], dict[str, float]]  # of an address, and of the processes whose processor time is counted
ARMS = ("direct", "proxy")
FIGURES = {
    "records": ("records of 1000 bytes per second, idempotent, one partition", 0),
    "transactions": ("transactions of one record per second, one producer", 1),
    "latency_ms": ("median latency of a transaction, ms", 2),
    "requests": (f"ApiVersions per second over {CONNECTIONS} connections", 0),
}
FIGURES_OF_THREE = {
    "transactions": (f"transactions of {A_TRANSACTION} records per second, {PRODUCERS} producers", 1),
    "latency_ms": ("median latency of a transaction, ms", 2),
}
SPENT = {  # processor time of the proxy, beside the brokers' without it
    "records": ("ms for 1 MB of records", 1e6),
    "transactions": ("ms for a transaction", 1e3),
    "requests": ("ms for an ApiVersions", 1e3),
}
AT_LEAST = 0.9  # of the transactions, and of the records


def measure(*, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-proxy-") as folder:
        inside = [sys.executable, "-m", "benchmarks.proxy", folder, str(rounds), str(seconds), classpath(progress=print)]
        subprocess.run(BROKER.sandbox(inside), check=True, cwd=Path(__file__).parents[1], stdin=subprocess.DEVNULL)
        figures = json.loads((Path(folder) / "figures.json").read_text())
    _report(figures, rounds, seconds)


def main(folder: Path, rounds: int, seconds: float, path: str) -> None:
    figures = {
        "one": _in_turn(folder / "one", BROKER, path, rounds, partial(_one_producer, seconds)),
        "three": _in_turn(folder / "three", THREE, path, rounds, partial(_many_producers, seconds)),
    }
    (folder / "figures.json").write_text(json.dumps(figures))


def _in_turn(folder: Path, local: Local, path: str, rounds: int, measured: Round) -> dict[str, Any]:
    """The figures of each round with and without a proxy, one process before all brokers of a cluster, and its peak memory."""
    by_arm: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    with _cluster_and_proxy(folder, local, path) as (cluster, proxy):
        places = {"direct": cluster.bootstrap(), "proxy": proxy.address}
        pids: dict[str, Sequence[int]] = {
            "direct": [pid for node in cluster.brokers if (pid := cluster.pid(node))],
            "proxy": [proxy.pid],
        }
        for number in range(-WARM_ROUNDS, rounds):
            for arm in ARMS if number % 2 == 0 else ARMS[::-1]:
                figures = measured(places[arm], pids[arm])
                print(f"{folder.name}, round {number + 1} {arm:8}{json.dumps(figures)}", flush=True)
                if number >= 0:
                    by_arm[arm].append(figures)
        status = Path(f"/proc/{proxy.pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return {**by_arm, "rss_mb": rss / 1024}


@contextmanager
def _cluster_and_proxy(folder: Path, local: Local, path: str) -> Iterator[tuple[LocalCluster, ProxyProcess]]:
    (folder / "cluster").mkdir(parents=True)
    with local.up(folder / "cluster", {TOPIC: TOPICS[local.brokers]}) as cluster:
        brokers = [Broker(upstream=address) for address in cluster.bootstrap().split(",")]
        with ProxyProcess(Settings(brokers=brokers, rewrite=True, record=folder), path) as proxy:
            yield cluster, proxy


def _one_producer(seconds: float, address: str, pids: Sequence[int]) -> dict[str, float]:
    """The figures of a round. pids: whose processor time is counted, in s for each record, transaction and request."""
    times = [cpu_s(pids)]
    latencies = _transactions(address, seconds)
    times.append(cpu_s(pids))
    records = _records(address, seconds)
    times.append(cpu_s(pids))
    requests = _requests(address, seconds)
    times.append(cpu_s(pids))
    rates = {"transactions": len(latencies) / sum(latencies), "records": records, "requests": requests}
    spent = [after - before for before, after in pairwise(times)]
    return {
        **rates,
        "latency_ms": median(latencies) * 1000,
        **{f"{name}_cpu_s": cpu / (rate * seconds) for (name, rate), cpu in zip(rates.items(), spent, strict=True)},
    }


def _many_producers(seconds: float, address: str, pids: Sequence[int]) -> dict[str, float]:
    """The figures of a round of producers that commit without a pause, each over all partitions."""
    orders = Orders(producer={}, topic=TOPIC, partitions=TOPICS[3].partitions, records=A_TRANSACTION, size=100, out="")
    ids = [{"bootstrap.servers": address, "transactional.id": f"bench-{number}"} for number in range(PRODUCERS)]
    producers = [Producer({**PRODUCER_DEFAULTS, **one}) for one in ids]
    stop = threading.Event()
    with ThreadPoolExecutor(PRODUCERS) as threads:
        for opened in [threads.submit(producer.init_transactions, 30) for producer in producers]:
            opened.result()
        began, before = time.monotonic(), cpu_s(pids)
        loops = [
            threads.submit(loop, partial(transaction, producer, orders, Random(number)), stop)
            for number, producer in enumerate(producers)
        ]
        time.sleep(seconds)
        stop.set()
        latencies = [latency for one in loops for _, latency, _ in one.result()]
    lasted, spent = time.monotonic() - began, cpu_s(pids) - before
    return {
        "transactions": len(latencies) / lasted,
        "latency_ms": median(latencies) / 1e6,
        "transactions_cpu_s": spent / len(latencies),
    }


def _records(address: str, seconds: float) -> float:
    """Acknowledged records per second of a producer that has always some on their way."""
    settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5}
    producer, sent, began = Producer(settings), 0, time.monotonic()
    while time.monotonic() - began < seconds:
        if len(producer) < AHEAD:
            producer.produce(TOPIC, RECORD)
            sent += 1
            producer.poll(0)
        else:
            producer.poll(0.01)
    producer.flush()
    return sent / (time.monotonic() - began)


def _transactions(address: str, seconds: float) -> list[float]:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "bench"})
    producer.init_transactions(30)
    latencies: list[float] = []
    while sum(latencies) < seconds:
        began = time.monotonic()
        producer.begin_transaction()
        producer.produce(TOPIC, RECORD)
        producer.commit_transaction(30)
        latencies.append(time.monotonic() - began)
    return latencies


def _requests(address: str, seconds: float) -> float:
    """Answers per second while every one of many connections has one request on its way."""
    host, _, port = address.rpartition(":")
    content = struct.pack(">hhih", 18, 0, 1, -1)
    frame = struct.pack(">i", len(content)) + content
    with ExitStack() as steps:
        sockets = [steps.enter_context(socket.create_connection((host, int(port)), 30)) for _ in range(CONNECTIONS)]
        count, began = 0, time.monotonic()
        while time.monotonic() - began < seconds:
            for one in sockets:
                one.sendall(frame)
            for one in sockets:
                (size,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
                one.recv(size, socket.MSG_WAITALL)
            count += CONNECTIONS
        return count / (time.monotonic() - began)


def _report(figures: Mapping[str, Any], rounds: int, seconds: float) -> None:
    for title, name, labels in (("One broker", "one", FIGURES), ("Three brokers", "three", FIGURES_OF_THREE)):
        by_arm = figures[name]
        peak = f"the proxy's peak memory: {by_arm['rss_mb']:.0f} MB"
        show(
            f"{title}, {rounds} rounds of {seconds:g} s each; {peak}",
            ("", "proxy", "direct", "proxy / direct"),
            _rates(by_arm, labels),
        )
        show("Processor time", ("", "the proxy's", "the brokers', direct"), _processor_times(by_arm, labels))
        for what in [name for name in ("transactions", "records") if name in labels]:
            rate = median(ratios(*([one[what] for one in by_arm[arm]] for arm in ("proxy", "direct"))))
            goal(f"{title.lower()}: at least {AT_LEAST:.0%} of the {what} per second without it: {rate:.1%}", rate >= AT_LEAST)


def _rates(by_arm: Mapping[str, Any], labels: Mapping[str, tuple[str, int]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, (label, digits) in labels.items():
        ours, theirs = ([one[name] for one in by_arm[arm]] for arm in ("proxy", "direct"))
        rows.append((label, spread(ours, digits), spread(theirs, digits), spread(ratios(ours, theirs), 3)))
    return rows


def _processor_times(by_arm: Mapping[str, Any], labels: Mapping[str, tuple[str, int]]) -> list[tuple[str, ...]]:
    return [
        (label, *(spread([one[f"{name}_cpu_s"] * factor for one in by_arm[arm]], 3) for arm in ("proxy", "direct")))
        for name, (label, factor) in SPENT.items()
        if name in labels
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
