"""The kit's side in the cluster's sandbox: `python -m fencepost.harness.conformance.sandbox_side RUN_DIR`.

The plan says which faults. Events go out as JSON lines on standard output: `phase`; `up`; `story` for the result of every story;
`held` for every fault that is on at the end; `holding` when the harness may be killed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencepost.harness.api import Cluster, TopicSpec
from fencepost.harness.api.beneath import make_folder
from fencepost.harness.api.run import RunFile
from fencepost.harness.conformance.results import STORIES
from fencepost.harness.conformance.side import Emit, run_side, sweep
from fencepost.harness.conformance.stories import Kit
from fencepost.harness.perform import parent_watch
from fencepost.harness.perform.plan_roles import coordinated, ids_of_clients, instances_of, roles_of
from fencepost.harness.perform.worker_pool import WorkerPool
from fencepost.harness.planning.plan import cluster_of, workload_of
from fencepost.harness.plugins import registry

DIED = tuple(STORIES)[-1]
RATE = 20.0  # operations a second of all writers, so that the machine has time for the fault


def _on_a_cluster(plan: Mapping[str, Any], run_dir: Path, emit: Emit) -> None:
    workload = workload_of(plan)
    topics = {name: TopicSpec(**spec) for name, spec in plan["topics"].items()}
    make_folder(run_dir, RunFile.LINES)
    emit("phase", text="starting the cluster")
    with cluster_of(plan).up(run_dir, topics) as cluster, parent_watch.undisturbed_end():
        roles = workload.roles()
        cluster.note_clients(**coordinated(plan, roles))
        cluster.note_instances(instances_of(roles), transactional_ids=ids_of_clients(plan, roles))
        emit("phase", text="starting clients, so that there is something to hurt")
        pool = WorkerPool(cluster, run_dir, len(roles_of(workload)), lambda text: emit("phase", text=text))
        pool.start(range(len(roles)))
        pool.go({"rate": RATE})
        emit("up", version=cluster.kafka_version)
        if _played(plan["conformance"], cluster, pool, emit):
            sweep(run_dir, emit)  # what kills us lets us sweep no more
            emit("holding")
            threading.Event().wait()


def _played(wanted: Mapping[str, Any], cluster: Cluster, pool: WorkerPool, emit: Emit) -> bool:
    """Every fault's stories; then all of them are on at once. False when one left a cluster that cannot be used."""
    kits: dict[str, Kit] = {}
    for choice in wanted["faults"]:
        fault = registry.build(registry.load("nemesis", choice["kind"]), choice["options"], choice["kind"])
        alive = lambda: pool.counts()["ok"]  # noqa: E731
        kit = Kit(cluster, fault, wanted["seed"], tend=pool.tend, alive=alive, stories=wanted["stories"])
        for result in kit.play():
            emit("story", kind=choice["name"], result=vars(result))
        if kit.unusable:
            return False
        kits[choice["name"]] = kit
    for name, kit in kits.items() if DIED in wanted["stories"] else ():
        receipt = kit.hold()
        if receipt is not None and receipt.effective:
            emit("held", kind=name, targets=list(receipt.targets))
    return True


if __name__ == "__main__":
    code = run_side(Path(sys.argv[1]), _on_a_cluster)
    os._exit(code)  # a fault that hangs keeps its thread
