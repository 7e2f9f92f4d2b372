"""The kit's side in the cluster's sandbox: `python -m fencepost.harness.conformance.sandbox_side RUN_DIR`.

The plan says which faults. Events go out as JSON lines on standard output: `phase`; `up`; `story` for the result of every story;
`held` for every fault that is on at the end; `holding` when the harness may be killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import Cluster, HarnessError, TopicSpec
from fencepost.harness.api.beneath import make_folder
from fencepost.harness.api.run import RunFile
from fencepost.harness.conformance.results import STORIES
from fencepost.harness.conformance.stories import Kit
from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.perform import parent_watch
from fencepost.harness.perform.worker import coordinated, instances_of, roles_of
from fencepost.harness.perform.worker_pool import WorkerPool
from fencepost.harness.planning.plan import cluster_of, workload_of
from fencepost.harness.plugins import registry
from fencepost.harness.system.logs import BoundedLogs

Emit = Callable[..., None]
DIED = tuple(STORIES)[-1]
RATE = 20.0  # operations a second of all writers, so that the machine has time for the fault


def main(argv: list[str]) -> int:
    run_dir = Path(argv[0])
    plan: Mapping[str, Any] = read_plan(run_dir)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to the log, not into our events

    def emit(event: str, **fields: Any) -> None:
        with suppress(BrokenPipeError):  # nobody reads any more
            os.write(out, json.dumps(secrets.without_secrets({"event": event, **fields})).encode() + b"\n")

    parent_watch.start()
    secrets.guard()
    try:
        with BoundedLogs(run_dir / "logs").bounded():
            _on_a_cluster(plan, run_dir, emit)
    except HarnessError as error:
        emit("failed", text=str(error))
        return 1
    finally:
        _sweep(run_dir, emit)
    return 0


def _sweep(run_dir: Path, emit: Emit) -> None:
    """Remove secrets from the logs: brokers, clients and libraries write there, and may write a secret that was resolved."""
    secrets.sweep(run_dir, "logs", lambda text: emit("phase", text=text))


def _on_a_cluster(plan: Mapping[str, Any], run_dir: Path, emit: Emit) -> None:
    workload = workload_of(plan)
    topics = {name: TopicSpec(**spec) for name, spec in plan["topics"].items()}
    make_folder(run_dir, RunFile.LINES)
    emit("phase", text="starting the cluster")
    with cluster_of(plan).up(run_dir, topics) as cluster, parent_watch.undisturbed_end():
        roles = workload.roles()
        cluster.note_clients(**coordinated(plan, roles))
        cluster.note_instances(instances_of(roles))
        emit("phase", text="starting clients, so that there is something to hurt")
        pool = WorkerPool(cluster, run_dir, len(roles_of(workload)), lambda text: emit("phase", text=text))
        pool.start(range(len(roles)))
        pool.go({"rate": RATE})
        emit("up", version=cluster.kafka_version)
        if _played(plan["conformance"], cluster, pool, emit):
            _sweep(run_dir, emit)  # what kills us lets us sweep no more
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
    code = main(sys.argv[1:])
    os._exit(code)  # a fault that hangs keeps its thread
