"""`start`: how long does a person wait for the first operation? Phase by phase, from the runner's own events."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.command import first_invoke, first_success
from benchmarks.figures import show, spread
from fencepost.harness.api.events import RunEvent
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.runs.runner import Runner

TIME_S = 1.0
STEPS = (
    ("plan written", "the plan: Kafka's jars found, settings derived"),
    ("in the sandbox", "namespaces, supervisor, performer's imports"),
    ("cluster ready", "three brokers formatted, started, topics led and in sync"),
    ("first operation", "eleven worker processes, their clients open, the first invoke line"),
    ("first success", "the first acknowledged transaction"),
)


def measure(*, rounds: int, seconds: float) -> None:
    """`seconds` is of no use here: the workload of every round lasts one second."""
    with tempfile.TemporaryDirectory(prefix="fencepost-start-") as temporary:
        runs = [_run_once(Path(temporary) / str(number)) for number in range(rounds)]
    rows, before = [], [0.0] * rounds
    for name, what in STEPS:
        at = [times[name] for times in runs]
        rows.append((name, what, spread([b - a for a, b in zip(before, at, strict=True)], 2), spread(at, 2)))
        before = at
    show(f"start: a run of the default workload, {rounds} rounds", ("until", "what", "this step, s", "since the start, s"), rows)


def _run_once(results: Path) -> dict[str, float]:
    """One run up to its end; seconds from its start to each step."""
    began = time.monotonic()
    phases: list[tuple[str, float]] = []

    def note_phase(event: RunEvent) -> None:
        if event["event"] == "phase":
            phases.append((event["phase"], time.monotonic()))

    runner = Runner(results=results, on_event=note_phase)
    test = Test(name="start", workload=Choice(kind="transactions"), time_s=TIME_S)
    run_dir = runner.prepare(test, seed=1, command="")
    planned = time.monotonic()
    runner.perform(run_dir)
    clusters = [at for phase, at in phases if phase == "cluster"]
    workload = [at for phase, at in phases if phase == "workload"]
    steps = (planned, clusters[0], workload[0], first_invoke(run_dir), first_success(run_dir))
    return {name: at - began for (name, _), at in zip(STEPS, steps, strict=True)}
