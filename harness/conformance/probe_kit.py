"""The prober from options to rows, outside the sandbox: `fencepost probe`."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.errors import Exit
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.api.services import ProbeResult, ProbeRow
from fencepost.harness.api.words import unknown_word
from fencepost.harness.conformance.kit import END_S, LOG, events_of, log_directory
from fencepost.harness.history.run_directory import write_plan
from fencepost.harness.planning.plan import cluster_of, look_up_secrets, make_plan, obtain
from fencepost.harness.plugins import registry, services
from fencepost.harness.system import lifeline
from fencepost.harness.system.python_command import module_command

Progress = Callable[[Mapping[str, Any]], None]
PARTITIONS = 8  # a transaction takes a while to end that has so many
SMALL: dict[str, Any] = {"brokers": 2, "heap_mb": 256}  # where the provider has such options and nobody gave others


def probe(cluster: Choice, profiles: Sequence[str], progress: Progress) -> tuple[str, list[ProbeRow]]:
    """The brokers' version, and every row with each of these profiles (all without names).

    Raises CampaignError for a cluster or a profile that there is not, ClusterError when the cluster does not start or answer.
    """
    prober = services.prober()
    mistakes = [unknown_word("profile", name, [*prober.profiles()]) for name in profiles if name not in prober.profiles()]
    test = Test(name="probe", cluster=_small(cluster, mistakes), workload=_workload())
    if mistakes:
        raise CampaignError(mistakes)
    look_up_secrets([test])
    obtain([test], lambda text: progress({"event": "phase", "text": text}))
    plan: Any = make_plan(test, run=secrets.token_hex(3), seed=1, command="fencepost probe")
    version = str(plan["cluster"]["description"].get("kafka", ""))
    release = prober.obtain(version, lambda text: progress({"event": "phase", "text": text}))
    plan["probe"] = {"release": release, "profiles": list(profiles or prober.profiles())}
    rows: list[ProbeRow] = []
    with log_directory("probe", lambda: not rows) as place:
        write_plan(place, plan)
        for event in _events(place, plan):
            progress(event)
            if event["event"] == "row":
                rows.append(ProbeRow(**{**event["row"], "result": ProbeResult(event["row"]["result"])}))
            elif event["event"] == "up":
                version = event["version"] or version
    return version, rows


def exit_code(rows: Sequence[ProbeRow]) -> Exit:
    """The exit code: 1 when an answer violates its row; 2 when none does, but none was compared; else 0."""
    results = {row.result for row in rows}
    if ProbeResult.VIOLATED in results:
        return Exit.INVALID
    return Exit.VALID if results - {ProbeResult.UNREACHED} else Exit.UNKNOWN


def _workload() -> Choice:
    """A workload with one topic; none of its clients is started."""
    options = {"writers": 1, "readers": 1, "uncommitted_readers": 0, "partitions": PARTITIONS}
    return Choice(kind="transactions", options=options)


def _small(cluster: Choice, mistakes: list[str]) -> Choice:
    """The cluster with the options of a small one; what cannot be used is added to the mistakes."""
    try:
        provider = registry.load("cluster", cluster.kind)
        known = {option.name for option in registry.option_fields(provider)}
        small = Choice(kind=cluster.kind, options={**{name: SMALL[name] for name in known & SMALL.keys()}, **cluster.options})
        registry.build(provider, small.options, f"cluster {cluster.kind}")
    except CampaignError as error:
        mistakes += error.mistakes
        return cluster
    return small


def _events(place: Path, plan: Any) -> Iterator[dict[str, Any]]:
    argv = cluster_of(plan).sandbox(module_command("fencepost.harness.conformance.probe_side", str(place)))
    with log_file(place, LOG) as log:
        side = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        yield from events_of(side, place)
    finally:
        lifeline.cut(side, END_S)
