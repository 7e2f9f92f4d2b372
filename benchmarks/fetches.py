"""`fetches`: what does it cost to record each Fetch? One reader, through the fault proxy with and without that, and without it.

`python -m benchmarks.fetches FOLDER ROUNDS SECONDS CLASSPATH` runs inside the sandbox, with one broker on its loopback.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from os import sysconf
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.figures import ratios, show, spread
from fencepost.clusters.local import Local
from fencepost.harness.api import TopicSpec
from fencepost.harness.api.wire import FETCHES
from fencepost.harness.proxy.jars import classpath
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

FULL, EMPTY, RECORD, RECORDS = "full", "empty", b"." * 1000, 200_000
BROKER = Local(brokers=1, loopback=True)
WARM_ROUND = -1
ARMS = ("direct", "proxy", "fetches")
TITLES = {"proxy": "without --fetches", "fetches": "with --fetches"}
FIGURES = {
    "records": ("records of 1000 bytes read per second", 0),
    "empty": ("Fetches per second without records, one after the other", 0),
    "empty_us": ("the proxy's processor time for one of these, µs", 1),
    "bytes": ("what the record has of one of these, bytes", 0),
}


def measure(*, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-fetches-") as folder:
        inside = [sys.executable, "-m", "benchmarks.fetches", folder, str(rounds), str(seconds), classpath(progress=print)]
        subprocess.run(BROKER.sandbox(inside), check=True, cwd=Path(__file__).parents[1], stdin=subprocess.DEVNULL)
        figures = json.loads((Path(folder) / "figures.json").read_text())
    _report(figures, rounds, seconds)


def main(folder: Path, rounds: int, seconds: float, path: str) -> None:
    by_arm: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    with ExitStack() as steps:
        (folder / "cluster").mkdir()
        topics = {name: TopicSpec(partitions=1) for name in (FULL, EMPTY)}
        cluster = steps.enter_context(BROKER.up(folder / "cluster", topics))
        proxies: dict[str, ProxyProcess] = {}
        for arm in ARMS[1:]:
            (folder / arm).mkdir()
            settings = Settings(brokers=[Broker(upstream=cluster.bootstrap())], rewrite=True, record=folder / arm)
            proxies[arm] = steps.enter_context(ProxyProcess(settings, path))
        proxies["fetches"].control.add(dict(FETCHES))
        _fill(cluster.bootstrap())
        for number in range(WARM_ROUND, rounds):
            for arm in ARMS if number % 2 == 0 else ARMS[::-1]:
                figures = _round(cluster.bootstrap(), proxies.get(arm), folder / arm, seconds)
                print(f"round {number + 1} {arm:8}{json.dumps(figures)}", flush=True)
                if number != WARM_ROUND:
                    by_arm[arm].append(figures)
    (folder / "figures.json").write_text(json.dumps(by_arm))


def _fill(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": RECORDS})
    for _ in range(RECORDS):
        producer.produce(FULL, RECORD)
    producer.flush()


def _round(direct: str, proxy: ProxyProcess | None, record: Path, seconds: float) -> dict[str, float]:
    address = direct if proxy is None else proxy.address
    records = _records(address, seconds)
    cpu, size = _spent(proxy, record)
    count, lasted = _empty(address, seconds)
    cpu_after, size_after = _spent(proxy, record)
    spent = {} if proxy is None else {"empty_us": (cpu_after - cpu) / count * 1e6, "bytes": (size_after - size) / count}
    return {"records": records, "empty": count / lasted, **spent}


def _spent(proxy: ProxyProcess | None, record: Path) -> tuple[float, int]:
    """The processor time of a proxy (s), and the size of its record."""
    if proxy is None:
        return 0.0, 0
    stat = Path(f"/proc/{proxy.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(stat[11]) + int(stat[12])
    return ticks / float(sysconf("SC_CLK_TCK")), sum(file.stat().st_size for file in record.glob("*.jsonl"))


def _records(address: str, seconds: float) -> float:
    """Records per second of a consumer that reads a topic again and again."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(FULL, 0, 0)])
    consumer.consume(1, 30)  # its connections are open
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        some = consumer.consume(5000, 1)
        count += len(some)
        if some and some[-1].offset() == RECORDS - 1:
            consumer.seek(TopicPartition(FULL, 0, 0))
    lasted = time.monotonic() - began
    consumer.close()
    return count / lasted


def _empty(address: str, seconds: float) -> tuple[int, float]:
    """The number of Fetches of a partition without records, each behind the answer to the one before, and how long they took."""
    host, _, port = address.rpartition(":")
    partition = struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    body = struct.pack(">iiiib", -1, 0, 0, 1 << 20, 0) + struct.pack(">ih", 1, len(EMPTY)) + EMPTY.encode() + partition
    content = struct.pack(">hhih", 1, 4, 1, -1) + body  # Fetch of version 4
    frame = struct.pack(">i", len(content)) + content
    with socket.create_connection((host, int(port)), 30) as one:
        count, began = 0, time.monotonic()
        while time.monotonic() - began < seconds:
            one.sendall(frame)
            (size,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
            one.recv(size, socket.MSG_WAITALL)
            count += 1
        return count, time.monotonic() - began


def _report(figures: Mapping[str, Any], rounds: int, seconds: float) -> None:
    rows = []
    for name, (label, digits) in FIGURES.items():
        some = {arm: [one[name] for one in figures[arm] if name in one] for arm in ARMS}
        shares = spread(ratios(some["fetches"], some["proxy"]), 3) if name != "bytes" else "-"  # the other has none of them
        rows.append((label, *(spread(some[arm], digits) for arm in ("fetches", "proxy", "direct")), shares))
    header = ("", *(TITLES[arm] for arm in ("fetches", "proxy")), "direct", "with / without --fetches")
    show(f"One broker, {rounds} rounds of {seconds:g} s each", header, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
