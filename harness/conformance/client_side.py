"""The client kit's side in the cluster's sandbox: `python -m fencepost.harness.conformance.client_side RUN_DIR`.

The plan names the driver and the stories. Events go out as JSON lines on standard output: `phase`; `story` for every result.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.harness.api import HarnessError, TopicSpec
from fencepost.harness.conformance.client_fixture import GROUP_PARTITIONS, GROUP_TOPIC, TOPIC
from fencepost.harness.conformance.client_stories import ClientKit
from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.perform import parent_watch
from fencepost.harness.planning.plan import cluster_of
from fencepost.harness.plugins import registry
from fencepost.harness.system.logs import BoundedLogs
from fencepost.harness.system.whole_lines import write_line

LOG = Path("logs", "driver.log")
OBSERVER = "librdkafka"
REPLICATED = {"min.insync.replicas": "1"}


def main(argv: list[str]) -> int:
    run_dir = Path(argv[0])
    plan: Any = read_plan(run_dir)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to the log, not into our events

    def emit(event: str, **fields: Any) -> None:
        with suppress(BrokenPipeError):  # nobody reads any more
            write_line(out, json.dumps({"event": event, **fields}).encode())

    parent_watch.start()
    topics = {
        TOPIC: TopicSpec(partitions=2, settings=REPLICATED),
        GROUP_TOPIC: TopicSpec(partitions=len(GROUP_PARTITIONS), settings=REPLICATED),
    }
    emit("phase", text="starting a broker")
    try:
        logs = BoundedLogs(run_dir / "logs")
        with logs.bounded(), cluster_of(plan).up(run_dir, topics) as cluster, parent_watch.undisturbed_end():
            wanted = plan["conformance"]
            kit = ClientKit(cluster, wanted["command"], registry.load("client", OBSERVER), run_dir / LOG)
            for result in kit.play(wanted["stories"]):
                emit("story", result=vars(result))
    except HarnessError as error:
        emit("failed", text=str(error))
        return 1
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
