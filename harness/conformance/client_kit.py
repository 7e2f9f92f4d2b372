"""The conformance kit for drivers, outside the sandbox: `fencepost client check`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.words import unknown_word
from fencepost.harness.conformance.client_stories import STORIES
from fencepost.harness.conformance.kit import END_S, LOG, events_of, log_directory
from fencepost.harness.conformance.results import StoryResult, exit_code
from fencepost.harness.drivers import families
from fencepost.harness.history.run_directory import write_plan
from fencepost.harness.planning.plan import cluster_of, obtain_cluster
from fencepost.harness.system import lifeline
from fencepost.harness.system.python_command import module_command

# Stories freeze the broker for seconds. If its session ended meanwhile, its partitions would have no leader, and it would leave
# transactions open for ever (KAFKA-20734).
CLUSTER = {
    "kind": "local",
    "options": {"brokers": 1, "loopback": True, "settings": {"broker.session.timeout.ms": 120_000}},
}


def check(
    kind: str, stories: Sequence[str], kafka: str, progress: Callable[[Mapping[str, Any]], None]
) -> tuple[list[StoryResult], Path]:
    """The results of a driver's stories (all without names), and where the logs lie when one failed.

    Raises CampaignError for a driver or a story that there is not, and ClusterError when there is no cluster.
    """
    if mistakes := [unknown_word("story", story, [*STORIES]) for story in stories if story not in STORIES]:
        raise CampaignError(mistakes)
    driver = families.obtain(kind, lambda text: progress({"event": "phase", "text": text}))
    options = {**CLUSTER["options"], **({"kafka": kafka} if kafka else {})}  # type: ignore[dict-item]
    plan: Any = {"cluster": {**CLUSTER, "options": options}}
    plan["conformance"] = {"command": list(driver.command), "stories": list(stories or STORIES)}
    obtain_cluster(plan, lambda text: progress({"event": "phase", "text": text}))
    results: list[StoryResult] = []
    with log_directory("client", lambda: not results or exit_code(results) == 1) as place:
        write_plan(place, plan)
        for event in _played(place, plan):
            progress(event)
            if event["event"] == "story":
                results.append(StoryResult(**event["result"]))
    return results, place


def _played(place: Path, plan: Any) -> Iterator[dict[str, Any]]:
    argv = cluster_of(plan).sandbox(module_command("fencepost.harness.conformance.client_side", str(place)))
    with log_file(place, LOG) as log:
        side = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        yield from events_of(side, place)
    finally:
        lifeline.cut(side, END_S)
