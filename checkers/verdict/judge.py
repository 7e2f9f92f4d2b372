"""The judge: from a run's directory to its verdict. Every finding is written down; a check that fails stops no other."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.api import Check
from fencepost.checkers.contract.needs import unless_shown
from fencepost.checkers.contract.rules import DELETIONS, FORBIDDEN, READS, SENTENCE, rule_for, rule_on_evidence
from fencepost.checkers.engine.answers import Counts
from fencepost.checkers.engine.job import CombinedResult, JobResult
from fencepost.checkers.engine.registry import installed_checks, with_more
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.history.source import last_cause, read_errors
from fencepost.checkers.model.failures import RAISED, described
from fencepost.checkers.model.findings import SLACK_NS, Finding, group
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.applications import unreached_inputs
from fencepost.checkers.pipeline.listed_transactions import questions_ended
from fencepost.checkers.verdict import expectation
from fencepost.checkers.verdict.decision import JudgedProperty, decide, judge_property, weaknesses
from fencepost.checkers.verdict.evidence import shown
from fencepost.checkers.verdict.finding_errors import MOST_READ, add_errors, listed_findings
from fencepost.checkers.verdict.occasions import Counts as OccasionCounts
from fencepost.checkers.verdict.occasions import beside, count_occasions
from fencepost.checkers.verdict.opening import disturbances_of, faults_unknown, knows_faults, unread_receipts, view_of
from fencepost.checkers.verdict.progress import count_operations, progress
from fencepost.checkers.verdict.run_checks import run_checks
from fencepost.checkers.verdict.shortfalls import Shortfall, decisive, of_programs, shortfalls
from fencepost.checkers.verdict.stored_evidence import add_stored_evidence
from fencepost.checkers.verdict.weakening import gap_sentences, weaken
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.history import ANOMALIES, schema
from fencepost.harness.api.run import Plan, Receipts, Run, RunFile
from fencepost.harness.api.values import VERDICT_SCHEMA
from fencepost.harness.api.words import plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_PER_ANOMALY, SHOWN_PER_FINDING, SHOWN_GAPS = 100, 200, 100
ANOMALIES_SCHEMA = schema(ANOMALIES)


def judge(
    run: Run,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    here: bool = False,
    contract: Mapping[str, str] | None = None,
    checks: Sequence[Check[Any]] | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge a run whose history is merged; write `anomalies.parquet`, and return the verdict's document.

    spark: a session to use, or what waits for one (called late); else one is started on this machine.
    here: this process judges a history that fits in memory, and no session is called for unless a check asks for Spark's tables.
    contract: laid over the plan's own.
    checks: instead of the installed ones.
    more: checks beside those (import path -> check, or why there is none).

    Raises HistoryError when there is no readable history or plan, CampaignError for a contract that no client keeps.
    """
    begun = time.monotonic()
    session = cache(spark if callable(spark) else lambda: spark or _local_session())
    installed, broken = (list(checks), []) if checks is not None else installed_checks()
    installed, broken = with_more(installed, broken, more or {})
    opened = view_of(run, session, here, contract)
    run, view, present, receipts = opened.run, opened.view, opened.present, opened.receipts
    overview, full = view.overview, present.contract
    job = run_checks(view, installed)
    judged = [prop for check in installed for prop in _judged(check, job.results[check.name], view, receipts)]
    view.release()
    judged += [judge_property(unusable.name, rule_for((), full), 0, [], error=unusable.reason) for unusable in broken]
    judged = [present.judged(weaken(prop, run.gaps, full)) for prop in judged]
    occasions = count_occasions(run, view, receipts if knows_faults(run) else None)
    wanted = {check.name: check.occasions for check in installed}
    judged = [beside(prop, wanted.get(prop.name, ()), occasions) for prop in judged]
    add_errors(view.history, [finding for prop in judged for finding in prop.findings[:MOST_READ]])
    unread = _unread(run.plan, overview, view.gathered.partitions) if full["final_read"] == "true" else []
    tail = _unread_promises(job) if full["final_read"] != "true" else 0
    late = of_programs(unreached_inputs(view))
    document = _document(run, overview, job.counts, judged, unread, tail, job.written_late, occasions, late)
    document["weakened"] += filter(None, [questions_ended(view), present.note])
    document["unseen"] = job.unseen
    document["timing"] = {"merge_s": 0.0, "check_s": round(time.monotonic() - begun, 3)}
    document["checker"] = {"spark": _spark_version(), "master": view.master}
    view.forget()
    _write_anomalies(run, judged)
    return document


@cache
def _spark_version() -> str:
    return version("pyspark")


_STARTING = threading.Lock()  # who packs the records ahead may ask for the session at the same time


def _local_session() -> SparkSession:
    from fencepost.checkers.engine.session import start_session

    with _STARTING:
        return start_session()


# --------------------------------------------------------------------------------------------------
# Judging
# --------------------------------------------------------------------------------------------------
def _judged(check: Check[Any], result: CombinedResult, run: RunView, receipts: Receipts) -> list[JudgedProperty]:
    """A check's result as a property: its findings, with a sentence and the faults around each, under the rule that decides.

    Two properties where the rule allows some findings, and evidence that it leaves intact shows others; or could show them, of
    what lies around a deletion, or is not beyond doubt.
    """
    rule, strict = rule_for(check.rules, run.contract), rule_on_evidence(check.rules, run.contract)
    findings = group(check.name, result.rows, run.original_values, check.across)
    error, certain = result.error, [False] * len(findings)
    try:
        if rule.unless and strict.judged == FORBIDDEN:
            certain = shown(check, findings, rule.unless, run)
        if check.evidence.explains is unless_shown and run.missing & set(check.evidence.presence):
            for finding, yes in zip(findings, shown(check, findings, READS, run), strict=True):
                finding.shown = yes
    except read_errors() as broken:
        error = f"what the readers got could not be looked up ({last_cause(broken)})"
    text = FindingText(run)
    for finding, is_certain in zip(findings, certain, strict=True):
        finding.forbidden = (strict if is_certain else rule).judged == FORBIDDEN
        finding.sentence = _sentence(check, finding, text)
        finding.detail = _detail(check, finding, text)
        finding.faults = _faults_around(finding, run.overview, receipts)
        finding.processes = _processes(finding, run.overview)
    lacking = result.lacking or check.needs
    if result.single and not result.compared:
        lacking = f"{plural(result.single, 'operation')}, each with one record"
        rule = replace(rule, essential=False)  # there was nothing to exercise it with
    reason = error or (f"{result.more} more were found; only examples are kept" if result.more else "")
    binding, others = (
        [each for each, is_certain in zip(findings, certain, strict=True) if is_certain is kind] for kind in (True, False)
    )
    apart = bool(binding) or rule.unless in (DELETIONS, SENTENCE)
    parts = [(strict, binding)] * apart + [(rule, others)] * bool(others or not apart)
    return [
        judge_property(
            check.name,
            by,
            result.compared,
            some,
            error=reason,
            lacking=lacking,
            definition=check.summary,
            table=result.table,
            bound=result.bound,
            needs=check.evidence,
            promise=check.promise,
            consequences=check.consequences,
            attribution=check.attribution,
        )
        for by, some in parts
    ]


def _bounds(judged: Iterable[JudgedProperty]) -> Iterator[str]:
    """Up to what properties held, where a check has a bound of its own."""
    yield from (f"{prop.name} has a bound: {prop.bound}" for prop in judged if prop.bound and not prop.allowed)


def _sentence(check: Check[Any], finding: Finding, text: FindingText) -> str:
    plain = f"{check.name}: {plural(len(finding.rows), 'record')}, first {finding.rows[0].place}."
    if check.explain is None:
        return plain
    try:
        return check.explain(finding, text)
    except RAISED as error:  # a finding without a good sentence is still a finding
        return f"{plain} (It could not be explained: {described(error, check.explain)})"


def _detail(check: Check[Any], finding: Finding, text: FindingText) -> dict[str, Any]:
    """A check's own keys for a finding's document; where they cannot be had the sentence says so."""
    if check.detail is None:
        return {}
    try:
        given = dict(check.detail(finding, text))
        json.dumps(given)
    except RAISED as error:
        finding.sentence += f" (Its details cannot be had: {described(error, check.detail)})"
        return {}
    return given


def _processes(finding: Finding, overview: Overview) -> dict[str, frozenset[int]]:
    """The processes of a finding's operations, by the role of the record."""
    by_role: dict[str, set[int]] = {}
    for row in finding.rows:
        by_role.setdefault(row.role, set()).add(row.op)
    ops = {role: overview.at(np.array(sorted(of_role), dtype=np.int64)) for role, of_role in by_role.items()}
    return {role: frozenset(overview.process[at].tolist()) for role, at in ops.items()}


def _faults_around(finding: Finding, overview: Overview, receipts: Receipts) -> list[int]:
    """Faults that were active while an operation of the finding ran, with a second before and after."""
    if not receipts:
        return []
    at = overview.at(np.array(finding.operations))
    start = overview.time[at] - SLACK_NS
    stop = np.maximum(overview.end[at], np.where(overview.end[at] == NONE, finding.time, overview.end[at])) + SLACK_NS
    return [
        int(receipt["id"])
        for receipt in receipts
        if receipt["injected_ns"]
        and bool(((start <= (receipt["healed_ns"] or np.iinfo(np.int64).max)) & (stop >= receipt["injected_ns"])).any())
    ]


def _document(
    run: Run,
    overview: Overview,
    counts: Counts,
    judged: Sequence[JudgedProperty],
    unread: Sequence[str],
    tail: int,
    written_late: Sequence[str],
    occasions: OccasionCounts,
    late: Sequence[Shortfall],
) -> dict[str, Any]:
    plan, receipts = run.plan, run.known_receipts()
    verdict, reason = decide(judged, unread, tail)
    expect = plan.get("expect") or ["valid"]
    expect = [expect] if isinstance(expect, str) else list(expect)
    for number, finding in enumerate(sorted((f for prop in judged for f in prop.findings), key=_forbidden_first), 1):
        finding.id = number
    known = None if faults_unknown(run) else receipts
    counted = count_operations(overview, counts, known)
    short = [*shortfalls(run, counted, known, occasions), *late]
    expected = expectation.compare(expect, plan.get("tolerate") or (), judged, lambda some: decide(some, unread, tail))
    expected = expectation.of_short_run(expected, expect, decisive(short))
    listed = sorted((f for prop in judged for f in listed_findings(prop.findings, SHOWN_PER_ANOMALY)), key=lambda f: f.id)
    unread_logs = add_stored_evidence(run, listed)
    cut_off = int(((overview.end == NONE) & (overview.process >= 0)).sum())
    return {
        "schema": VERDICT_SCHEMA,
        "verdict": verdict.value,
        "reason": reason,
        **{key: plan.get(key, "") for key in ("run", "campaign", "test")},
        "expect": expect,
        "expectation_met": expected.met,
        "expectation": expected.sentence,
        "unexpected": expected.document(),
        "met_without_unexpected": expected.otherwise,
        "shortfalls": [shortfall.sentence for shortfall in short],
        "weakened": [
            *disturbances_of(run),
            *(shortfall.sentence for shortfall in short),
            *unread_receipts(run),
            *weaknesses(receipts, cut_off, unread, tail),
            *gap_sentences(run.gaps, judged),
            *_bounds(judged),
            *filter(None, [_written_late(written_late), unread_logs]),
        ],
        "gaps": [gap.document() for gap in run.gaps[:SHOWN_GAPS]],
        "properties": [prop.document() for prop in judged if not prop.allowed],
        "allowed": [prop.document() for prop in judged if prop.allowed],
        "findings": [finding.document(SHOWN_PER_FINDING) for finding in listed],
        "counts": counted,
        "occasions": {occasion.value: count for occasion, count in occasions.items()},
        "progress": progress(overview, receipts),
    }


def _written_late(partitions: Sequence[str]) -> str:
    """The reason why the final read of some partitions does not count; empty when there is none."""
    if not partitions:
        return ""
    return f"somebody still wrote to {', '.join(partitions)} when the final phase began: its final read does not count"


def _forbidden_first(finding: Finding) -> tuple[bool, int]:
    """The order in which findings are numbered: those that matter, then those that the contract permits; each by time."""
    return not finding.forbidden, finding.time


def _unread(plan: Plan, overview: Overview, seen: Sequence[str]) -> list[str]:
    """Partitions of the plan's topics, and others in the history, without a complete read_committed final read.

    Of an adopted history nobody planned any: what it does not name has no record that could be lost.
    """
    topics = {} if plan.get("source") else plan.get("topics") or {}
    planned = [f"{topic}-{number}" for topic, spec in topics.items() for number in range(int(spec.get("partitions", 0)))]
    finals = overview.final_reads
    there = dict.fromkeys([*planned, *filter(None, seen)])
    return [partition for partition in there if partition not in finals or not finals[partition].committed]


def _unread_promises(job: JobResult) -> int:
    """The number of promises that nobody got by the end of a history without a final phase, undecided transactions' included."""
    last = job.unseen[-1][1] if job.unseen else 0
    return last + sum(result.unread for result in job.results.values())


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------
def _write_anomalies(run: Run, judged: Sequence[JudgedProperty]) -> None:
    rows = sorted((finding.document() for prop in judged for finding in prop.findings), key=lambda row: row["id"])
    with replacing(run.directory, run.place(RunFile.ANOMALIES)) as part:
        part.write(_anomalies(rows) if rows else _no_anomalies())


def _anomalies(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALIES_SCHEMA), sink)
    return bytes(sink.getvalue())


@cache
def _no_anomalies() -> bytes:
    """The empty file that most runs have: made once in a process."""
    return _anomalies([])
