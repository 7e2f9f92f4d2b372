"""The prober's side in the cluster's sandbox: `python -m fencepost.harness.conformance.probe_side RUN_DIR`.

Events go out as JSON lines on standard output: `phase`; `up`; `row` for every answer.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import HarnessError, TopicSpec
from fencepost.harness.api.services import ProbeRow
from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.perform import parent_watch
from fencepost.harness.planning.plan import cluster_of
from fencepost.harness.plugins import services
from fencepost.harness.system.logs import BoundedLogs


def main(argv: list[str]) -> int:
    run_dir = Path(argv[0])
    plan: Any = read_plan(run_dir)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to the log, not into our events

    def emit(event: str, **fields: Any) -> None:
        with suppress(BrokenPipeError):  # nobody reads any more
            os.write(out, json.dumps(secrets.without_secrets({"event": event, **fields})).encode() + b"\n")

    parent_watch.start()
    secrets.guard()
    try:
        with BoundedLogs(run_dir / "logs").bounded():
            _probe(plan, run_dir, emit)
    except HarnessError as error:
        emit("failed", text=str(error))
        return 1
    finally:
        secrets.sweep(run_dir, "logs", lambda text: emit("phase", text=text))
    return 0


def _probe(plan: Any, run_dir: Path, emit: Any) -> None:
    topics = {name: TopicSpec(**spec) for name, spec in plan["topics"].items()}
    ((topic, spec),) = topics.items()
    emit("phase", text="starting the cluster")
    with cluster_of(plan).up(run_dir, topics) as cluster, parent_watch.undisturbed_end():
        cluster.note_clients(transactional_ids=(), groups=(f"{plan['prefix']}group",))  # which an external cluster gives up again
        emit("up", version=cluster.kafka_version)

        def on_row(row: ProbeRow) -> None:
            emit("row", row=asdict(row))

        services.prober().probe(
            plan["probe"]["release"],
            cluster.bootstrap(),
            secrets.resolve(cluster.connection()),
            (topic, spec.partitions),
            plan["prefix"],
            plan["probe"]["profiles"],
            run_dir,
            on_row,
        )


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
