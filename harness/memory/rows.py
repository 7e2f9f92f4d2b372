"""A run in a row: what the index, the list, the page over all runs and the summary of a campaign show of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from fencepost.harness.api.history import STORED
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.values import Verdict
from fencepost.harness.api.verdict_document import without_occasion
from fencepost.harness.memory.fingerprints import digest, finding_parts, run_parts

LONGEST_SENTENCE = 2_000  # characters of a text in a row


@dataclass(frozen=True, kw_only=True)
class FindingRow:
    """The first forbidden finding with a fingerprint.

    id: its number in the verdict. time: ns, of the machine's monotonic clock; None: not known.
    count: forbidden findings of the verdict that have this fingerprint.
    """

    id: int
    anomaly: str
    fingerprint: str
    sentence: str
    time: int | None = None
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """What is shown of a run among others. Texts are as they came, and empty where nothing says; they may hold anything.

    place: its directory, relative to the results folder, with `/`.
    round: the performance of the campaign that it belongs to (its time of start, UTC); else the day on which it was planned.
    created: ISO 8601.
    verdict: `valid`, `invalid`, `unknown`; empty: not judged, or unreadable.
    met: whether the test's expectation was met; None: not known.
    reason: the verdict's own reason. expectation: of verdict and expectation, in words.
    anomalies: the forbidden ones that were found, in the verdict's order.
    findings: in the verdict's order, one for each fingerprint.
    client: library and release. kafka: the brokers' release. workload, cluster: kinds.
    operations, faults: counted by the verdict; None: not known.
    rate: successful operations per second. gap_s, recovery_s: longest time without a success, and from the last heal to the next.
    lasted_s: seconds of workload; None: not known.
    problems: documents that could not be read, a sentence each.
    damaged: the plan is missing or cannot be read: a sentence with the remedy; empty for a plan that was read.
    unexpected: anomalies that are forbidden and that the test does not expect, in the verdict's order.
    met_otherwise: whether the expectation would be met without these; None: not known.
    time_s: seconds of workload that were planned. machine: its size, in words.
    outcome: verdict and expectation in a few words, or why there is none.
    unexpected_known: when it was judged, each of these was acknowledged. known: the verdict's sentence on acknowledged findings.
    protocol: the transaction protocols that were spoken, `TV2`, or `TV1, TV2`; empty when the brokers' logs do not show it.
    """

    place: str
    run: str
    campaign: str = ""
    test: str = ""
    round: str = ""
    created: str = ""
    verdict: str = ""
    met: bool | None = None
    reason: str = ""
    expectation: str = ""
    expect: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    weakened: tuple[str, ...] = ()
    kafka: str = ""
    client: str = ""
    workload: str = ""
    cluster: str = ""
    seed: int | None = None
    command: str = ""
    operations: int | None = None
    faults: int | None = None
    rate: float | None = None
    gap_s: float | None = None
    recovery_s: float | None = None
    lasted_s: float | None = None
    problems: tuple[str, ...] = ()
    damaged: str = ""
    unexpected: tuple[str, ...] = ()
    met_otherwise: bool | None = None
    unexpected_known: bool = False
    known: str = ""
    protocol: str = ""
    outcome: str = ""
    time_s: float | None = None
    machine: str = ""

    @property
    def known_alone(self) -> bool:
        """Return whether the run is as its test expects, were it not for findings that were acknowledged."""
        return self.met is False and self.unexpected_known and self.met_otherwise is True

    @property
    def red(self) -> bool:
        """Return whether somebody has to look at it: against expectation, not decided, not judged."""
        return self.met is not True and not self.known_alone


def row_of(run: Run, root: Path) -> RunRow:
    """The row of a run whose directory lies below `root`."""
    plan, verdict = run.plan, run.verdict
    counts, progress = verdict.get("counts") or {}, verdict.get("progress") or {}
    client, lasted_s = plan.get("client") or {}, run.manifest.workload_s if run.manifest else None
    succeeded = counts.get("ok")
    return RunRow(
        place=run.directory.relative_to(root).as_posix(),
        run=run.id,
        campaign=run.campaign,
        test=run.test,
        round=str(plan.get("round") or run.created[:10]),
        created=run.created,
        verdict=str(verdict.get("verdict") or ""),
        met=verdict.get("expectation_met"),
        reason=_shortened(str(verdict.get("reason") or "")),
        expectation=_shortened(str(verdict.get("expectation") or "")),
        expect=tuple(map(str, verdict.get("expect") or plan.get("expect") or ())),
        anomalies=tuple(row["name"] for row in verdict.get("properties") or () if row.get("verdict") == "violated"),
        findings=finding_rows(run),
        weakened=tuple(map(str, verdict.get("weakened") or ())),
        kafka=str(((plan.get("cluster") or {}).get("description") or {}).get("kafka") or ""),
        client=" ".join(str(client[key]) for key in ("kind", "version") if client.get(key)),
        workload=str((plan.get("workload") or {}).get("kind") or ""),
        cluster=str((plan.get("cluster") or {}).get("kind") or ""),
        seed=plan.get("seed"),
        command=str(plan.get("command") or ""),
        operations=counts.get("operations"),
        faults=counts.get("faults"),
        rate=_finite(round(succeeded / lasted_s, 3)) if succeeded is not None and lasted_s else None,
        gap_s=_finite(progress.get("longest_gap_s")),
        recovery_s=_finite(progress.get("recovery_s")),
        lasted_s=_finite(lasted_s),
        problems=tuple(str(problem) for file, problem in run.problems.items() if not problem.missing or file == RunFile.PLAN),
        unexpected=tuple(str(row.get("name", "?")) for row in verdict.get("unexpected") or ()),
        met_otherwise=verdict.get("met_without_unexpected"),
        unexpected_known=verdict.get("unexpected_known") is True,
        known=_shortened(str(verdict.get("known") or "")),
        protocol=_protocol(run),
        outcome=outcome(run),
        time_s=_finite(plan.get("time_s")),
        machine=_size(plan.get("machine") or {}),
        damaged=run.sentence(run.problems[RunFile.PLAN]) if RunFile.PLAN in run.problems else "",
    )


def _protocol(run: Run) -> str:
    if run.table_problem(RunFile.STORED, STORED):
        return ""
    from fencepost.harness.history.transaction_protocol import producers

    return ", ".join(f"TV{number}" for number in sorted(producers(run.path(RunFile.STORED))))


def outcome(run: Run) -> str:
    """Verdict and expectation in a few words: `invalid, as expected`; or why there is none."""
    if RunFile.VERDICT in run.problems and not run.lacks(RunFile.VERDICT):
        return str(run.problems[RunFile.VERDICT])
    verdict = run.verdict
    if not verdict.get("verdict"):
        return "not judged"
    word, met = str(verdict["verdict"]), verdict.get("expectation_met")
    if met is None:
        undecided = "expectation_met" in verdict and word != Verdict.UNKNOWN.value
        short = str(verdict.get("expectation") or "") if word == Verdict.VALID.value else ""
        return _shortened(f"{word}, but {short}") if short else f"{word}, not known whether as expected" if undecided else word
    idle = without_occasion(verdict) if met and word == Verdict.VALID.value else ""
    if idle:
        return f"{word}, as expected; {idle}"
    known = verdict.get("unexpected_known") is True and verdict.get("met_without_unexpected") is True
    return f"{word}, {'as expected' if met else 'as expected but for known findings' if known else 'against expectation'}"


def _size(machine: Mapping[str, Any]) -> str:
    """The size of a machine in words; empty when the plan does not say."""
    named = (("cpus", "processors"), ("memory_gib", "GiB"))
    return ", ".join(f"{machine[key]} {unit}" for key, unit in named if machine.get(key) is not None)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SENTENCE else f"{text[:LONGEST_SENTENCE]}..."


def _finite(value: float | None) -> float | None:
    """A number that JSON can hold; None for any other."""
    return value if value is not None and isfinite(value) else None


def finding_rows(run: Run) -> tuple[FindingRow, ...]:
    """The forbidden findings of a run, the first of each fingerprint."""
    first: dict[str, dict[str, Any]] = {}
    parts = run_parts(run.plan)
    for finding in run.verdict.get("findings") or ():
        if finding.get("forbidden", True):
            known = first.setdefault(digest(*finding_parts(finding), *parts), {**finding, "count": 0})
            known["count"] += 1
    return tuple(
        FindingRow(
            id=finding.get("id", 0),
            anomaly=str(finding.get("anomaly", "?")),
            fingerprint=mark,
            sentence=_shortened(str(finding.get("sentence", ""))),
            time=finding.get("time"),
            count=finding["count"],
        )
        for mark, finding in first.items()
    )
