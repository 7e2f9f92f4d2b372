"""The prober's side in the cluster's sandbox: `python -m fencepost.harness.conformance.probe_side RUN_DIR`.

Events go out as JSON lines on standard output: `phase`; `up`; `row` for every answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import TopicSpec
from fencepost.harness.api.services import ProbeRow
from fencepost.harness.conformance.side import Emit, run_side
from fencepost.harness.perform import parent_watch
from fencepost.harness.planning.plan import cluster_of
from fencepost.harness.plugins import services


def _probe(plan: Mapping[str, Any], run_dir: Path, emit: Emit) -> None:
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
    os._exit(run_side(Path(sys.argv[1]), _probe))
