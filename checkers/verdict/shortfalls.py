"""Planned and performed: what of a test was planned and not performed, or is less than the test demands.

A run that was cut short, or whose faults struck nothing, has tested less than its test asks. What its checks found stands; that
they found nothing says less than it seems to. So each shortfall weakens the verdict, with the numbers, and one that is decisive
leaves open whether a run without findings is what its test expects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.run import Plan, Receipts, Run
from fencepost.harness.api.words import plural

SHORT = 0.9  # of the planned time, or of a program's inputs: the last operations may take their time


@dataclass(frozen=True)
class Shortfall:
    """A difference between what was planned and what was performed.

    sentence: the difference in words.
    decisive: a run without findings is not what the test asked for.
    """

    sentence: str
    decisive: bool = False


def shortfalls(
    run: Run,
    counts: Mapping[str, int | None],
    receipts: Receipts | None,
    occasions: Mapping[Occasion, int | None] | None = None,
) -> list[Shortfall]:
    """The shortfalls of a run. counts: those of its verdict. receipts: None where some may be missing."""
    made = [*_time(run), *_faults(run.plan, receipts), *_partitions(run.plan, counts)]
    demanded = run.plan.get("at_least") or {}
    made += [*_demanded_faults(int(demanded.get("faults", 0)), receipts), *_demands(demanded, counts)]
    return [*made, *_demanded_occasions(demanded, occasions or {})]


def _time(run: Run) -> Iterator[Shortfall]:
    """The time of the workload. Older runs, and those of others, do not tell it."""
    planned, manifest = float(run.plan.get("time_s") or 0.0), run.manifest
    if manifest is None or manifest.workload_s is None:
        return
    spent = f"{manifest.workload_s:.0f} of {planned:g} s"
    if manifest.stopped:
        yield Shortfall(f"stopped by {manifest.stopped} after {spent}", decisive=True)
    elif manifest.workload_s < SHORT * planned:
        yield Shortfall(f"the workload ran for {spent}", decisive=True)


def _faults(plan: Plan, receipts: Receipts | None) -> Iterator[Shortfall]:
    """Faults of the schedule that never struck, by kind; or that none of those chosen fell into the time of the workload."""
    schedule, chosen = plan.get("schedule") or (), plan.get("nemesis") or ()
    if chosen and not schedule and "schedule" in plan:
        yield Shortfall(f"no fault ({', '.join(chosen)}) fell into the {float(plan.get('time_s') or 0.0):g} s of the workload")
    if receipts is None or not schedule:
        return
    begun = {receipt["id"] for receipt in receipts}
    missed = Counter(str(entry.get("kind")) for entry in schedule if entry.get("id") not in begun)
    if missed:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(missed.items()))
        yield Shortfall(f"{missed.total()} of {len(schedule)} planned faults never struck ({kinds})")


def _partitions(plan: Plan, counts: Mapping[str, int | None]) -> Iterator[Shortfall]:
    """Partitions of the only topic without a record; which topics of several are written to, the plan does not say.

    Of an adopted history nobody planned any.
    """
    topics = {} if plan.get("source") else plan.get("topics") or {}
    planned, used = sum(int(topic.get("partitions") or 0) for topic in topics.values()), counts.get("partitions")
    if len(topics) == 1 and used is not None and 0 < used < planned:
        yield Shortfall(f"{planned - used} of {planned} partitions have no record")


def _demanded_faults(least: int, receipts: Receipts | None) -> Iterator[Shortfall]:
    """The demand for faults that struck, if it was not met; of some receipts nobody may know whether theirs did."""
    if least and receipts is None:
        yield Shortfall(f"how many faults struck is not known, and the test demands {least:,}", decisive=True)
        return
    begun = [fault["effective"] for fault in receipts or () if fault["injected_ns"]]
    struck, doubtful = begun.count(True), begun.count(None)
    if struck < least:
        perhaps = f", of {doubtful:,} more nobody knows whether they did" * bool(doubtful)
        yield Shortfall(f"{struck:,} faults that struck{perhaps}, and the test demands {least:,}", decisive=True)


def _demands(at_least: Mapping[str, Any], counts: Mapping[str, int | None]) -> Iterator[Shortfall]:
    """Demands of the test (`at_least`) for what is counted in the history that were not met."""
    had: Mapping[str, int | None] = {
        "transactions": counts.get("committed"),
        "operations": counts.get("ok"),
        "records": counts.get("sent"),
    }
    words = {"transactions": "committed transactions", "operations": "operations that succeeded"}
    for name, least in at_least.items():
        count = had.get(name)
        if count is not None and count < int(least):
            yield Shortfall(f"{count:,} {words.get(name, 'records sent')}, and the test demands {int(least):,}", decisive=True)


def _demanded_occasions(at_least: Mapping[str, Any], occasions: Mapping[Occasion, int | None]) -> Iterator[Shortfall]:
    """Demands for occasions that were not met, or of which nobody knows."""
    for occasion in Occasion:
        least, count = int(at_least.get(occasion.value, 0)), occasions.get(occasion)
        if least and count is None:
            yield Shortfall(f"how often {occasion} occurred is not known, and the test demands {least:,}", decisive=True)
        elif count is not None and count < least:
            yield Shortfall(f"{occasion} occurred {plural(count, 'time')}, and the test demands {least:,}", decisive=True)


def of_programs(unreached: Sequence[tuple[str, float]]) -> list[Shortfall]:
    """Programs that had not reached their inputs in the end: what of it is not judged, in words, and the share that each had."""
    return [Shortfall(sentence, decisive=share < SHORT) for sentence, share in unreached]


def decisive(short: Sequence[Shortfall]) -> str:
    """The sentences of the decisive shortfalls; empty when there is none."""
    return "; ".join(shortfall.sentence for shortfall in short if shortfall.decisive)
