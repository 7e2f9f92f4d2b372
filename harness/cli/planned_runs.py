"""Performing planned runs with progress on the screen, and the last lines of `fencepost run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.harness.api.errors import MachineError
from fencepost.harness.api.events import note_event
from fencepost.harness.api.words import plural
from fencepost.harness.cli import console
from fencepost.harness.cli.console import Texts, err, out, print_json, print_line, print_table

if TYPE_CHECKING:
    from fencepost.harness.api.events import RunEvent
    from fencepost.harness.campaign.campaign import PlannedRun
    from fencepost.harness.memory.known import Known
    from fencepost.harness.runs.sequence import RunResult, RunSequence


@dataclass(frozen=True)
class Performing:
    """What performs runs. show: an event, on the screen. show_result: a result as a sentence, as it comes."""

    sequence: RunSequence
    root: Path
    show: Callable[[RunEvent], None]
    show_result: Callable[[RunResult], None]


@contextmanager
def performing(
    plan: Sequence[PlannedRun], results: Path | None, master: str, spark_conf: Texts, to_stderr: bool, known: Known | None = None
) -> Iterator[Performing]:
    """Fetch what the planned runs need, and make ready to perform them, showing progress, within the block.

    known: findings that are acknowledged.
    Raises CampaignError, with nothing started, when a secret of any test is missing, and MachineError when too few files can be
    open.
    """
    from fencepost.harness.cli.option_texts import spark_conf_of
    from fencepost.harness.planning.plan import look_up_secrets, obtain
    from fencepost.harness.runs.result_words import in_words
    from fencepost.harness.runs.sequence import RunSequence
    from fencepost.harness.runs.store import writable_root
    from fencepost.harness.system.limits import too_few_files

    if few := too_few_files():
        raise MachineError(few)
    tests = list({id(planned.test): planned.test for planned in plan}.values())
    look_up_secrets(tests)
    conf = spark_conf_of(spark_conf or ())
    root = writable_root(results)
    progress = console.display(to_stderr)
    forward: Callable[[RunEvent], None] = progress.event
    try:
        obtain(tests, lambda text: progress.event(note_event(text)))
    except BaseException:
        progress.close()
        raise
    engine = console.engine(root, master, lambda event: forward(event), conf, known)
    sequence = RunSequence(engine, progress.event, progress.close)
    forward = sequence.on_event

    def show_result(result: RunResult) -> None:
        progress.event({"event": "result", "text": in_words(result)})

    try:
        yield Performing(sequence, root, progress.event, show_result)
    finally:
        progress.close()
        engine.close()


def perform(
    plan: Sequence[PlannedRun], results: Path | None, master: str, spark_conf: Texts, to_stderr: bool, known: Known | None = None
) -> list[RunResult]:
    """Run the plan, as `performing` says."""
    with performing(plan, results, master, spark_conf, to_stderr, known) as made:
        return made.sequence.run_all(plan, made.show_result)


def print_plan(plan: Sequence[PlannedRun], as_json: bool, estimate: str = "") -> None:
    """The runs that would be performed, in their order, the estimate of their time, and the settings that were not judged."""
    from fencepost.harness.planning import schedule
    from fencepost.harness.planning.plan import unjudged_settings

    if as_json:
        tests = [(run.test.name, run.seed, list(run.test.expect), run.command) for run in plan]
        print_json([dict(zip(("test", "seed", "expect", "command"), test, strict=True)) for test in tests])
    else:
        rows = []
        for run in plan:
            kinds = Counter(schedule.in_words(unit) for unit in schedule.units(run.test.nemesis))
            faults = ", ".join(f"{count} {words}" if count > 1 else words for words, count in kinds.items()) or "none"
            rows.append((run.test.name, f"{run.test.time_s:g} s", faults, ", ".join(run.test.expect), str(run.seed)))
        print_table(("test", "time", "nemesis", "expect", "seed"), rows)
        if estimate:
            err().print(estimate, soft_wrap=True)
    for text in unjudged_settings([run.test for run in plan]):
        err().print(f"note: {text}", soft_wrap=True)


def print_outcome(results: Sequence[RunResult], plan: Sequence[PlannedRun], seed: int, quiet: bool) -> int:
    """The last lines: table, reports, how to repeat it, the seed. Returns the exit code."""
    from fencepost.harness.cli import results_table

    code = _exit_code(results, plan)
    if len(results) < len(plan):
        err().print(f"stopped: {len(plan) - len(results)} of {plural(len(plan), 'run')} not performed")
    if quiet:
        return code
    print_line()
    if results:
        out().print(results_table.results_table(results, _unperformed(results, plan)))
    for line in results_table.report_lines(results):
        print_line(line)
    for line in dict.fromkeys(str(result.verdict["known"]) for result in results if result.verdict.get("known")):
        print_line(f"known findings: {line}")
    if len(plan) == 1:
        print_line(f"repeat: {plan[0].command}")
    print_line(f"seed {seed}")
    return code


def _exit_code(results: Sequence[RunResult], plan: Sequence[PlannedRun]) -> int:
    """The exit code of performed runs; at best that of `unknown` where some were not performed."""
    from fencepost.harness.runs.sequence import exit_code

    return int(exit_code(results, _unperformed(results, plan)))


def _unperformed(results: Sequence[RunResult], plan: Sequence[PlannedRun]) -> Collection[str]:
    """The names of tests of which runs were not performed."""
    return Counter(run.test.name for run in plan) - Counter(result.planned.test.name for result in results)


def summary(results: Sequence[RunResult], plan: Sequence[PlannedRun]) -> dict[str, Any]:
    """The results for machines. left_out: how many planned runs were not performed."""
    from fencepost.harness.cli.results_table import as_json

    return {
        "exit": _exit_code(results, plan),
        "left_out": len(plan) - len(results),
        "runs": [as_json(result) for result in results],
    }
