"""`proxy`: what does the fault proxy cost while no rule acts? One producer, and 500 connections, with and without it in turn.

`python -m benchmarks.proxy FOLDER ROUNDS SECONDS CLASSPATH` runs inside the sandbox, with one broker on its loopback.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer

from benchmarks.arms import cpu_s
from benchmarks.figures import goal, ratios, show, spread
from fencepost.clusters.local import Local
from fencepost.harness.api import TopicSpec
from fencepost.harness.proxy.jars import classpath
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

CONNECTIONS = 500
TOPIC, RECORD, AHEAD = "t", b"." * 1000, 20_000
# Segments are deleted before the disk has them, so that none of it is measured.
SEGMENTS = {"segment.bytes": "67108864", "retention.bytes": "268435456", "file.delete.delay.ms": "1000"}
SETTINGS = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
BROKER = Local(brokers=1, loopback=True, settings=SETTINGS)
WARM_ROUND = -1
ARMS = ("direct", "proxy")
FIGURES = {
    "records": ("records of 1000 bytes per second, idempotent, one partition", 0),
    "transactions": ("transactions of one record per second, one producer", 1),
    "latency_ms": ("median latency of a transaction, ms", 2),
    "requests": (f"ApiVersions per second over {CONNECTIONS} connections", 0),
}
SPENT = {  # processor time of the proxy, beside the broker's without it
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
    by_arm: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    with ExitStack() as steps:
        (folder / "cluster").mkdir()
        cluster = steps.enter_context(BROKER.up(folder / "cluster", {TOPIC: TopicSpec(partitions=1, settings=SEGMENTS)}))
        settings = Settings(brokers=[Broker(upstream=cluster.bootstrap())], rewrite=True, record=folder)
        proxy = steps.enter_context(ProxyProcess(settings, path))
        places = {"direct": cluster.bootstrap(), "proxy": proxy.address}
        for number in range(WARM_ROUND, rounds):
            for arm in ARMS if number % 2 == 0 else ARMS[::-1]:
                figures = _round(places[arm], seconds, [proxy.pid if arm == "proxy" else cluster.pid(cluster.brokers[0])])
                print(f"round {number + 1} {arm:8}{json.dumps(figures)}", flush=True)
                if number != WARM_ROUND:
                    by_arm[arm].append(figures)
        status = Path(f"/proc/{proxy.pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    (folder / "figures.json").write_text(json.dumps({**by_arm, "rss_mb": rss / 1024}))


def _round(address: str, seconds: float, pids: Sequence[int]) -> dict[str, float]:
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
    rows = []
    for name, (label, digits) in FIGURES.items():
        ours, theirs = ([one[name] for one in figures[arm]] for arm in ("proxy", "direct"))
        rows.append((label, spread(ours, digits), spread(theirs, digits), spread(ratios(ours, theirs), 3)))
    title = f"One broker, {rounds} rounds of {seconds:g} s each; the proxy's peak memory: {figures['rss_mb']:.0f} MB"
    show(title, ("", "proxy", "direct", "proxy / direct"), rows)
    spent = [
        (label, *(spread([one[f"{name}_cpu_s"] * factor for one in figures[arm]], 3) for arm in ("proxy", "direct")))
        for name, (label, factor) in SPENT.items()
    ]
    show("Processor time", ("", "the proxy's", "the broker's, direct"), spent)
    for what in ("transactions", "records"):
        pairs = zip(figures["proxy"], figures["direct"], strict=True)
        rate = median(ours[what] / theirs[what] for ours, theirs in pairs)
        goal(f"at least {AT_LEAST:.0%} of the {what} per second without it: {rate:.1%}", rate >= AT_LEAST)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
