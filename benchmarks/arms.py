"""The two sides of `workers`: a round of fencepost's workers, a round of bare loops, on one cluster, at the same nodes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import sysconf
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bare_loop import Orders
from fencepost.harness.api import Cluster
from fencepost.harness.perform.plan_roles import name_of, roles_of
from fencepost.harness.perform.worker_pool import WorkerPool
from fencepost.harness.planning.plan import workload_of
from fencepost.workloads.clients.librdkafka import PRODUCER_DEFAULTS

WARM_S = 2.0
STOP_S = 40.0
Done = tuple[int, int, int]  # ended, latency, lead: as bare_loop writes them


@dataclass(frozen=True)
class Figures:
    """The figures of a round.

    per_s: operations per second.
    latency_ms: median latency.
    lead_us: median time from an operation's begin to its first record.
    between_us: median time between two operations.
    cpu_us: processor time per operation of the clients, librdkafka's threads included.
    broker_us: processor time per operation of the brokers.
    """

    per_s: float
    latency_ms: float
    lead_us: float
    between_us: float
    cpu_us: float
    broker_us: float


def harness_round(cluster: Cluster, folder: Path, plan: Mapping[str, Any], seconds: float) -> Figures:
    """Fencepost's own workers, as a run starts them; figures from the history they write."""
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    workload = workload_of(plan)
    pool = WorkerPool(cluster, folder, len(roles_of(workload)), lambda text: print(text, file=sys.stderr))
    pool.start(range(workload.writers))
    pool.go({"rate": 0.0})
    window = watch(cluster, workload.writers, seconds)
    pool.stop(STOP_S)
    return figures([_recorded(path) for path in (folder / "history").glob("*.jsonl")], *window)


def bare_round(cluster: Cluster, folder: Path, plan: Mapping[str, Any], seconds: float, records: int) -> Figures:
    """The same number of bare loops with the same settings at the same nodes."""
    folder.mkdir(parents=True)
    workload = workload_of(plan)
    outs = [folder / f"c{slot}.json" for slot in range(workload.writers)]
    loops = [_spawn(cluster, slot, _orders(cluster, plan, slot, records, out)) for slot, out in enumerate(outs)]
    for process in loops:
        if _line(process) != b"ready\n":
            raise RuntimeError(f"a bare loop ended at its start; its words are above ({folder})")
    _tell(loops)
    window = watch(cluster, workload.writers, seconds)
    _tell(loops)
    for process in loops:
        process.wait(STOP_S)
    return figures([json.loads(out.read_text()) for out in outs], *window)


def _orders(cluster: Cluster, plan: Mapping[str, Any], slot: int, records: int, out: Path) -> Orders:
    (topic, spec), workload = next(iter(plan["topics"].items())), plan["workload"]
    own = {"bootstrap.servers": cluster.bootstrap(), "client.id": f"bare-{slot}"}
    if workload["kind"] == "transactions":
        own["transactional.id"] = name_of(plan, slot)  # the same coordinators
    producer = {**PRODUCER_DEFAULTS, **plan["client"]["producer"], **own}
    size = workload["options"]["record_bytes"]
    return Orders(producer=producer, topic=topic, partitions=spec["partitions"], records=records, size=size, out=str(out))


def _spawn(cluster: Cluster, slot: int, orders: Orders) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "benchmarks.bare_loop", json.dumps(vars(orders))]
    return cluster.spawn(f"c{slot}", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _tell(loops: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in loops:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()


def watch(cluster: Any, clients: int, seconds: float) -> tuple[int, int, float, float]:
    """Let the workers warm up, then wait: (begin, end) of what counts in ns, and the processor time spent meanwhile in s, by
    the clients and by the brokers."""
    time.sleep(WARM_S)
    sides = [f"c{slot}" for slot in range(clients)], cluster.brokers
    pids = [[cluster.pid(node) for node in side] for side in sides]
    began, before = time.monotonic_ns(), [cpu_s(side) for side in pids]
    time.sleep(seconds)
    ended = time.monotonic_ns()
    spent = [cpu_s(side) - cpu for side, cpu in zip(pids, before, strict=True)]
    return began, ended, spent[0], spent[1]


def cpu_s(pids: Sequence[int]) -> float:
    """The processor time of processes since they began, in s."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / float(sysconf("SC_CLK_TCK"))


def figures(workers: Sequence[Sequence[Sequence[int]]], began: int, ended: int, cpu_s: float, broker_s: float) -> Figures:
    """The figures of a round from what each worker did in it."""
    inside = [[done for done in worker if began <= done[0] < ended] for worker in workers]
    every = [done for worker in inside for done in worker]
    between = [b[0] - b[1] - a[0] for worker in inside for a, b in pairwise(worker)]
    return Figures(
        per_s=len(every) / ((ended - began) / 1e9),
        latency_ms=median(done[1] for done in every) / 1e6,
        lead_us=median(done[2] for done in every) / 1e3,
        between_us=median(between) / 1e3,
        cpu_us=cpu_s / len(every) * 1e6,
        broker_us=broker_s / len(every) * 1e6,
    )


def _recorded(path: Path) -> list[Done]:
    return list(_operations(path))


def _operations(path: Path) -> Iterator[Done]:
    """A worker's successful operations, from its history."""
    invoked = 0
    for line in map(json.loads, path.read_text().splitlines()):
        if line.get("type") == "invoke":
            invoked = line["time"]
        elif line.get("type") == "ok":
            yield line["time"], line["time"] - invoked, line["value"][0][4] - invoked
