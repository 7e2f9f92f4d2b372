"""A run as its checks see it: its history and its plan, and what receipts and its manifest say of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.checkers.engine.placement import fits_here
from fencepost.checkers.history.overview import Overview, read_overview
from fencepost.checkers.history.packed_parts import PartsAhead
from fencepost.checkers.history.source import LocalSource, Source, last_cause, read_errors
from fencepost.checkers.history.source_of_run import source_of
from fencepost.checkers.model.threads import results
from fencepost.checkers.pipeline.logged_decisions import logged_decisions
from fencepost.checkers.pipeline.stored_logs import STATE_TOPIC
from fencepost.checkers.verdict.present_topics import PresentTopics, present_topics
from fencepost.checkers.views.run_view import Fencing, RunView, Strike, is_short
from fencepost.harness.api import CampaignError
from fencepost.harness.api.clocks_ahead import clock_error_s, clocks_ahead, jumps_text
from fencepost.harness.api.contract_layers import overlaid_contract, planned_contract
from fencepost.harness.api.deletions import Deletion, deletions_in
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, missing_evidence
from fencepost.harness.api.history import OPERATIONS
from fencepost.harness.api.run import Plan, Problem, Receipts, Run, RunFile
from fencepost.harness.api.values import from_digits, whole_number
from fencepost.harness.api.words import enumeration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSACTION_TIMEOUT_MS = 60_000
ID_EXPIRATION_MS = 604_800_000  # Kafka's transactional.id.expiration.ms


@dataclass(frozen=True)
class OpenedRun:
    """A run as its checks see it.

    run: with what the contract that was given says.
    present: its history without what lay in deleted topics.
    """

    run: Run
    view: RunView
    present: PresentTopics
    receipts: Receipts


def view_of(
    run: Run, session: Callable[[], SparkSession], here: bool = False, contract: Mapping[str, str] | None = None
) -> OpenedRun:
    """The view of a run whose history is merged. Raises HistoryError and CampaignError as `judge` does."""
    run.demand_readable(RunFile.PLAN)
    run.demand_readable(RunFile.DAMAGE)
    full = overlaid_contract(_promised(run), contract or {})
    run = _with_levels(run, {**(run.plan.get("overridden") or {}), **(contract or {})})
    if not run.is_remote:
        run.demand_regular(RunFile.HISTORY)
    history = source_of(run, session)
    ahead = _parts_ahead(run, history, session, here)
    try:
        return _opened(run, history, session, here, full, ahead)
    except BaseException:
        if ahead is not None:
            ahead.drop()
        raise


def _parts_ahead(run: Run, history: Source, session: Callable[[], SparkSession], here: bool) -> PartsAhead | None:
    """The packed parts of a long history that Spark will judge as it is."""
    if not isinstance(history, LocalSource):
        return None
    try:
        short = is_short(history.metadata.num_rows) or (here and fits_here(history))
        return None if short or deletions_in(run.known_receipts()) else PartsAhead(session, history)
    except read_errors(HistoryError):  # who reads that next, says so
        return None


def _opened(
    run: Run, history: Source, session: Callable[[], SparkSession], here: bool, full: dict[str, str], ahead: PartsAhead | None
) -> OpenedRun:
    overview = _overview(run, history, full["isolation"])
    receipts = [_in_order(receipt) for receipt in run.known_receipts()]
    deletions = _deletions(run, receipts)
    faults_known, disturbances = knows_faults(run), disturbances_of(run)
    jumps = run.manifest.clock_jumps if run.manifest else ()
    present = _present(run, history, overview, full, deletions)
    if ahead is not None and present.history is not history:
        ahead.drop()
        ahead = None
    view = RunView(
        present.history,
        session,
        overview,
        present.contract,
        missing_evidence(run.gaps),
        run.logs,
        run.checksums.get(RunFile.STORED),
        _timeout_s(run.plan),
        fencings=None if faults_unknown(run) else _fencings(receipts),
        clocks=clocks_ahead(receipts, jumps) if faults_known else None,
        clock_error_s=clock_error_s(receipts, jumps) if faults_known else None,
        deletions=deletions,
        operator_aborts=None if faults_unknown(run) else _operator_aborts(receipts),
        faults=None if faults_unknown(run) or disturbances else _spans(receipts),
        fencing_s=_fencing_s(run.plan),
        recovery=run.plan.get("recovery"),
        here=here and ahead is None and fits_here(present.history),  # memory that comes free meanwhile changes nothing
        strikes=_strikes(receipts) if faults_known and not disturbances else None,
        wire=run.wire,
        wire_checksum=run.checksums.get(RunFile.WIRE),
        ids_expire=_ids_expire(run.plan),
        state_partitions=_state_partitions(run.plan),
        topics=frozenset(run.plan["topics"]) if run.plan.get("topics") else None,
        fewest_logs=_fewest_logs(run.plan),
        ahead=ahead,
    )
    view.decide(logged_decisions(view))
    return OpenedRun(run, view, present, receipts)


def _promised(run: Run) -> dict[str, str]:
    try:
        return planned_contract(run.contract)
    except CampaignError as error:
        raise HistoryError(f"{run}: {RunFile.PLAN}: {error}; is the run's directory whole?") from error


def _timeout_s(plan: Plan) -> float:
    """The producers' transaction.timeout.ms; Kafka's default where the plan says nothing. Raises HistoryError: no such time."""
    producer: Mapping[str, Any] = (plan.get("client") or {}).get("producer") or {}
    given = producer.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    try:
        timeout_ms = float(str(given))
        if 0 < timeout_ms < 1 << 31:
            return timeout_ms / 1000
    except ValueError:
        pass
    raise HistoryError(f"{RunFile.PLAN}: transaction.timeout.ms is {str(given)[:40]!r}, no time; is the run's directory whole?")


def _ids_expire(plan: Plan) -> bool | None:
    """True if transactional ids may be forgotten during the run, by the brokers' settings; None: nobody knows these."""
    settings = _broker_settings(plan)
    if settings is None:
        return None
    given = settings.get("transactional.id.expiration.ms", ID_EXPIRATION_MS)
    return not str(given).isdecimal() or from_digits(str(given)) < ID_EXPIRATION_MS


def _state_partitions(plan: Plan) -> int | None:
    """How many partitions the coordinators' topic was to have, by the brokers' settings; None: nobody knows."""
    given = str((_broker_settings(plan) or {}).get("transaction.state.log.num.partitions", ""))
    return from_digits(given) if given.isdecimal() else None


def _fewest_logs(plan: Plan) -> dict[str, int]:
    """Of each topic, as far as the plan says it, how many replicas' logs have to be there, so that one of them was in sync: fewer
    are missing than `min.insync.replicas`.
    """
    brokers, kept = _broker_settings(plan) or {}, "transaction.state.log."
    pairs = {STATE_TOPIC.rstrip("-"): (brokers.get(f"{kept}replication.factor"), brokers.get(f"{kept}min.isr"))}
    for name, topic in (plan.get("topics") or {}).items():
        if isinstance(topic, Mapping):
            pairs[name] = (topic.get("replication"), (topic.get("settings") or {}).get("min.insync.replicas"))
    texts = {name: [str(value) for value in pair] for name, pair in pairs.items()}
    known = {name: [from_digits(text) for text in pair] for name, pair in texts.items() if all(map(str.isdecimal, pair))}
    return {name: replicas - in_sync + 1 for name, (replicas, in_sync) in known.items() if 0 < in_sync <= replicas}


def _broker_settings(plan: Plan) -> Mapping[str, Any] | None:
    return (plan.get("cluster", {}).get("description") or {}).get("broker_settings")


def _fencing_s(plan: Plan) -> float | None:
    """The longest time (s) for a round of fencing by a leader of Connect, by its workers' settings; None: nobody knows."""
    limits = [settings.get("fencing_s") for settings in (plan.get("connect") or {}).values()]
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


def _in_order(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt, without a healing that lies before the fault: when that was healed is not known."""
    early = (receipt["healed_ns"] or 0) < (receipt["injected_ns"] or 0)
    return {**receipt, "healed_ns": 0} if early else {**receipt}


def _spans(receipts: Receipts) -> list[tuple[int, int | None]]:
    """Spans in which each fault was active (ns)."""
    return [(int(receipt["injected_ns"]), receipt["healed_ns"]) for receipt in receipts if receipt["injected_ns"]]


def _strikes(receipts: Receipts) -> list[Strike]:
    """Each fault that was active, with the nodes that it names."""
    return [
        Strike(
            frozenset([*(receipt["targets"] or ()), *(node for pair in receipt["pairs"] or () for node in pair.split(">"))]),
            int(receipt["injected_ns"]),
            receipt["healed_ns"],
        )
        for receipt in receipts
        if receipt["injected_ns"]
    ]


def faults_unknown(run: Run) -> bool:
    """True if there may have been faults of which no receipt tells."""
    return _receipts_lost(run) or (isinstance(run.receipts, Problem) and bool(run.plan.get("schedule")))


def unread_receipts(run: Run) -> list[str]:
    """Why nothing is known of faults, where the table of receipts is not there; what its lines lack is among the gaps."""
    if not isinstance(run.receipts, Problem) or _receipts_lost(run) or not faults_unknown(run):
        return []
    return [f"{run.receipts}: what the faults did is not known"]


def disturbances_of(run: Run) -> list[str]:
    """Sentences on what was no fault's doing, and looks like that in its effects, which no receipt explains."""
    ended, jumps = (run.manifest.ended, run.manifest.clock_jumps) if run.manifest else ((), ())
    unjudged = "what rests on the times of faults is not judged"
    return [
        *([f"{enumeration(ended)} ended, and no fault ended it: {unjudged}"] if ended else ()),
        *([f"{jumps_text(jumps)}, and no fault did that: {unjudged}"] if jumps else ()),
    ]


def _tells_faults(run: Run) -> bool:
    """True unless the history is somebody else's, without receipts in our format: what faults did to clocks is not known then."""
    source = run.plan.get("source")
    return source is None or bool(source.get("receipts", run.known_receipts()))


def knows_faults(run: Run) -> bool:
    return not faults_unknown(run) and _tells_faults(run)


def _deletions(run: Run, receipts: Receipts) -> list[Deletion] | None:
    """The deletions of topics; None: not known."""
    if faults_unknown(run):
        return None
    known = deletions_in(receipts)
    return known if known or _tells_faults(run) else None


def _fencings(receipts: Receipts) -> list[Fencing]:
    """Fencings by operators, by the evidence of faults (docs/history.md); what is no such evidence is left out."""
    calls = [call for receipt in receipts for call in _calls_of(receipt, "fencings", "transactional_id")]
    return [Fencing(str(call["transactional_id"]), call["began_ns"], _ended(call)) for call in calls]


def _operator_aborts(receipts: Receipts) -> list[tuple[str, int]]:
    """On which partitions, and when (ns), faults asked to abort transactions."""
    calls = [call for receipt in receipts for call in _calls_of(receipt, "aborts", "partition")]
    return [(str(call["partition"]), call["began_ns"]) for call in calls]


def _ended(call: Mapping[str, Any]) -> int | None:
    """When a call of an operator ended; None: it is not known, or said to be before it began."""
    ended = whole_number(call.get("ended_ns"))
    return ended if ended is not None and ended >= call["began_ns"] else None


def _calls_of(receipt: Mapping[str, Any], name: str, subject: str) -> list[Mapping[str, Any]]:
    """The calls under a name of a receipt's evidence that say their subject and when they began."""
    evidence = receipt.get("evidence")
    listed = evidence.get(name) if isinstance(evidence, Mapping) else None
    calls = [call for call in listed if isinstance(call, Mapping)] if isinstance(listed, list) else []
    return [call for call in calls if whole_number(call.get("began_ns")) is not None and subject in call]


def _present(
    run: Run, history: Source, overview: Overview, full: dict[str, str], deletions: Sequence[Deletion] | None
) -> PresentTopics:
    try:
        return present_topics(history, overview, full, deletions, run.directory)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{history}: what lay in deleted topics cannot be left out ({last_cause(error)})") from error


def _overview(run: Run, history: Source, isolation: str) -> Overview:
    """The columns with one value per operation, read while those of records are looked through for what is missing."""
    try:
        tasks: list[Callable[[], Any]] = [partial(read_overview, history, isolation)]
        if not run.is_remote:
            tasks.insert(0, partial(run.demand_table, RunFile.HISTORY, OPERATIONS))
        overview: Overview = results(tasks, len(tasks))[-1]
    except read_errors(ValueError) as error:
        raise HistoryError(f"{history}: cannot be read ({last_cause(error)}); merge the run's history first") from error
    index, times = overview.index, overview.time
    if not isinstance(history, LocalSource) and not ((index[1:] > index[:-1]) & (times[1:] >= times[:-1])).all():
        raise HistoryError(f"{history}: `index` does not number the operations in the order of their times (docs/history.md)")
    return overview


def _with_levels(run: Run, given: Mapping[str, str]) -> Run:
    """The run without the gap of unknown isolation levels, where a contract that was given says the level."""
    known = "isolation" in given
    return replace(run, gaps=tuple(gap for gap in run.gaps if not known or gap.evidence != (Evidence.LEVELS,)))


def _receipts_lost(run: Run) -> bool:
    """True if there may have been more faults than receipts."""
    return any(Evidence.RECEIPTS in gap.evidence for gap in run.gaps)
