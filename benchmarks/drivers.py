"""`drivers`: what does the protocol cost? The installed librdkafka in the workers' own processes and in drivers, in turn.

Both sides are fencepost's workers with the same settings on one cluster: transactions of a fixed number of records, no faults, no
readers, no polls, no pauses, no aborts. `python -m benchmarks.drivers FOLDER ROUNDS SECONDS` runs inside the sandbox.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import confluent_kafka

from benchmarks.arms import Figures, harness_round
from benchmarks.figures import goal, ratios, show, spread
from benchmarks.workers import RECORDS, TRANSACTIONS, WRITERS
from fencepost.clusters.local import Local
from fencepost.harness.api import Cluster, TopicSpec
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.planning.plan import make_plan, obtain

ARMS = {"in process": "librdkafka", "driver": f"librdkafka@{confluent_kafka.__version__}"}
AT_LEAST = 0.95
WARM_ROUND = -1


def measure(*, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-drivers-") as temporary:
        folder = Path(temporary)
        for arm, client in ARMS.items():
            test = Test(name="drivers", workload=Choice(kind="transactions", options=TRANSACTIONS), client=client)
            obtain([test], print)
            (folder / f"{arm}.json").write_text(json.dumps(make_plan(test, run="drivers", seed=1, command="")))
        inside = [sys.executable, "-m", "benchmarks.drivers", temporary, str(rounds), str(seconds)]
        root = Path(__file__).parents[1]
        subprocess.run(Local().sandbox(inside), check=True, cwd=root, stdin=subprocess.DEVNULL)
        figures = json.loads((folder / "figures.json").read_text())
    _report(figures, rounds, seconds)


def main(folder: Path, rounds: int, seconds: float) -> None:
    plans = {arm: json.loads((folder / f"{arm}.json").read_text()) for arm in ARMS}
    by_arm: dict[str, list[list[float]]] = {arm: [] for arm in ARMS}
    with Local(**plans["driver"]["cluster"]["options"]).up(folder / "cluster", {}) as cluster:
        for number in range(WARM_ROUND, rounds):
            for arm in list(ARMS) if number % 2 == 0 else list(ARMS)[::-1]:
                figures = _round(cluster, folder, plans[arm], f"{arm.split()[0]}-{number}", seconds)
                print(f"round {number + 1} {arm:12}{figures.per_s:8.1f}/s {figures.latency_ms:8.2f} ms", flush=True)
                if number != WARM_ROUND:
                    by_arm[arm].append([figures.per_s, figures.latency_ms])
    (folder / "figures.json").write_text(json.dumps(by_arm))


def _round(cluster: Cluster, folder: Path, plan: Mapping[str, Any], name: str, seconds: float) -> Figures:
    """One round on a topic of its own."""
    spec = plan["topics"]["t"]
    cluster.admin().create_topics({name: TopicSpec(**spec)})
    return harness_round(cluster, folder / name, {**plan, "topics": {name: spec}}, seconds)


def _report(by_arm: Mapping[str, list[list[float]]], rounds: int, seconds: float) -> None:
    rows, rates = [], []
    for at, label, digits in ((0, "transactions per second", 1), (1, "median latency, ms", 2)):
        ours, theirs = ([figures[at] for figures in by_arm[arm]] for arm in ("driver", "in process"))
        shares = ratios(ours, theirs)
        rates = rates or shares
        rows.append((label, spread(ours, digits), spread(theirs, digits), spread(shares, 3)))
    sizes = f"{WRITERS} writers, {RECORDS} records a transaction, {rounds} rounds of {seconds:g} s"
    title = f"librdkafka {confluent_kafka.libversion()[0]}: {sizes}"
    show(title, ("", "driver", "in process", "driver / in process"), rows)
    rate = median(rates)
    goal(f"at least {AT_LEAST:.0%} of the transactions per second of the same client in process: {rate:.1%}", rate >= AT_LEAST)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
