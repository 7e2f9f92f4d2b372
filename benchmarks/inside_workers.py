"""Runs inside the sandbox, for `workers`: `python -m benchmarks.inside_workers FOLDER ROUNDS SECONDS`.

FOLDER holds a plan per case (`transactions.json`, ...). One cluster; in each round every case is performed by
fencepost's workers and by bare loops, each time on a fresh topic, under the same transactional ids, the order turned round every
time. A round that does not count comes first: young brokers run uncompiled code and would favour whoever comes later. The figures
go to `figures.json`, the progress to standard output.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.arms import Figures, bare_round, harness_round
from benchmarks.recording import recording_us
from fencepost.clusters.local import Local
from fencepost.harness.api import Cluster, TopicSpec

ARMS = ("fencepost", "bare loop")
WARM_ROUND = -1


def measured_round(cluster: Cluster, folder: Path, arm: str, plan: Mapping[str, Any], name: str, seconds: float) -> Figures:
    """One round of one side on a topic of its own."""
    spec = plan["topics"]["t"]
    cluster.admin().create_topics({name: TopicSpec(**spec)})
    own = {**plan, "topics": {name: spec}}
    if arm == "fencepost":
        return harness_round(cluster, folder / name, own, seconds)
    options = plan["workload"]["options"]
    records = options.get("sends") or options.get("burst")
    return bare_round(cluster, folder / name, own, seconds, records[0])


def main(folder: Path, rounds: int, seconds: float) -> None:
    plans = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"), reverse=True)}
    by_case: dict[str, Any] = {case: {arm: [] for arm in ARMS} | {"recording": []} for case in plans}
    with Local(**next(iter(plans.values()))["cluster"]["options"]).up(folder / "cluster", {}) as cluster:
        for number in range(WARM_ROUND, rounds):
            for case, plan in plans.items():
                for arm in ARMS if number % 2 == 0 else ARMS[::-1]:
                    name = f"{case}-{arm.split()[0]}-{number}"
                    figures = measured_round(cluster, folder, arm, plan, name, seconds)
                    print(f"round {number + 1} {case:22}{arm:10}{figures.per_s:8.1f}/s {figures.latency_ms:8.2f} ms", flush=True)
                    if number != WARM_ROUND:
                        by_case[case][arm].append(dataclasses.asdict(figures))
                by_case[case]["recording"].append(recording_us(plan, folder))
    (folder / "figures.json").write_text(json.dumps(by_case))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
