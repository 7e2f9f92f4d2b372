"""KIP-618's promises, a row each: how often a run has met and violated them.

The docstring of the check is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.anomalies import connect_occasions as seen
from fencepost.checkers.anomalies import connect_offset_occasions as offsets
from fencepost.checkers.anomalies import connect_setting_occasions as settings
from fencepost.checkers.anomalies.connect_fencing_time import given_up_in_time
from fencepost.checkers.anomalies.connect_occasions import Occasions
from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import UNFENCED_SOURCES, UNLESS_CONNECTOR, cut_off
from fencepost.checkers.contract.needs import REQUESTS, SETTLING, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.connect_log import ConnectLog, connect_log, finding_rows
from fencepost.checkers.selfcheck.connect_damages import RENAME_ID
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import CONNECTOR

BY_ANSWERS = ("status", "restart", "configure", "request")  # `calls` of promises that answers alone show
NO_OCCASION = "no promise of KIP-618 had an occasion"


@dataclass(frozen=True)
class Promise:
    """A row of the table.

    calls: where it is seen.
    source: the section of KIP-618, or another KIP, or what Kafka has mended as a bug.
    """

    situation: str
    calls: str
    demanded: str
    source: str
    occasions: Callable[[RunView, ConnectLog], Occasions]

    @property
    def place(self) -> str:
        return self.source if self.source.startswith(("KIP-", "KAFKA-")) else f"KIP-618: {self.source}"


# --------------------------------------------------------------------------------------------------
# The table
# --------------------------------------------------------------------------------------------------
_LOGS = "configuration topic, coordinators' log"
PROMISES = (
    Promise(
        "a task writes records",
        _LOGS,
        "a task-count record lies after the configurations that were there (else `unfenced-start`)",
        "Task count records; Source task startup",
        seen.started,
    ),
    Promise(
        "configurations follow a task-count record",
        _LOGS,
        "the producers of all tasks that it counts are fenced before the next one",
        "Zombie fencing by the leader",
        seen.fenced,
    ),
    Promise(
        "one task follows one task",
        _LOGS,
        "no round of fencing: the new task fences the older one",
        "Zombie fencing by the leader",
        seen.single,
    ),
    Promise(
        "a producer is made, and newer configurations are there",
        _LOGS,
        "the worker reads to their end, and the task does not write (else `unfenced-start`)",
        "Source task startup",
        seen.given_up,
    ),
    Promise(
        "another leader follows",
        "configuration topic",
        "the older one writes nothing more (else `config-topic-writer`)",
        "Leader access to config topic",
        seen.dethroned,
    ),
    Promise(
        "the leader could not fence, and a task has failed",
        "status",
        "FAILED, with the reason",
        "Cannot fence out producers",
        seen.clear,
    ),
    Promise(
        "the leader cannot fence, for as long as it tries",
        "status, configuration topic, coordinators' log",
        "it gives up, and the tasks fail; not after half a session timeout, as no release fences within a rebalance",
        "Cannot fence out producers",
        given_up_in_time,
    ),
    Promise(
        "a restart of tasks comes while their worker's view is old, or they are gone",
        "restart",
        "409, 404 or 500; what an accepted one does is judged as any start",
        "Manual restart of fenced-out tasks",
        seen.restart_refused,
    ),
    Promise(
        "the next task of a source starts after an aborted offset",
        "offsets topics, records",
        "it reads on from the last committed one",
        "Offset reads",
        offsets.read_committed,
    ),
    Promise(
        "a worker calls commitRecord",
        "records",
        "the record's transaction is committed",
        "SourceTask record commit API",
        offsets.told_after,
    ),
    Promise(
        "a transform drops all records of a batch",
        "records",
        "none of them is written, and the task goes on",
        "Accidental task commit of dropped messages",
        offsets.dropped,
    ),
    Promise(
        "a connector with an offsets topic of its own",
        "offsets topics",
        "the workers' topic gets only what was committed there",
        "Offset (and record) writes; Smooth migration",
        offsets.copied,
    ),
    Promise(
        "a connector's records go to another Kafka cluster than the workers'",
        "offsets topics, records",
        "its offsets are stored there, in the transactions of the records (else `source-offset-torn`)",
        "Offset (and record) writes; Per-connector offsets topics",
        offsets.stored_there,
    ),
    Promise(
        "a connector gets an offsets topic of its own",
        "offsets topics, records",
        "its tasks read on from what the workers' topic has, as long as their own has nothing",
        "Smooth migration",
        offsets.migrated,
    ),
    Promise(
        "offsets are altered or reset while the connector is stopped",
        "offsets topic, records",
        "its tasks read on from there, after a reset from where they began at first",
        "KIP-875: Altering Offsets",
        offsets.altered,
    ),
    Promise(
        "exactly.once.support = required of a connector that does not say so",
        "configure",
        "400",
        "Public Interfaces",
        seen.preflight("exactly.once.support", "required", "answer.exactly.once"),
    ),
    Promise(
        "transaction.boundary = connector of a connector that cannot",
        "configure",
        "400",
        "Public Interfaces",
        seen.preflight("transaction.boundary", "connector", "answer.boundaries"),
    ),
    Promise(
        "a task writes in transactions",
        "coordinators' log, records",
        "its transactional id is GROUP-CONNECTOR-TASK",
        "Offset (and record) writes",
        seen.named,
    ),
    Promise(
        "several Connect clusters share a Kafka cluster, with connectors of one name",
        "coordinators' log, records",
        "their tasks have transactional ids of their own groups, and each writes for its own cluster",
        "Offset (and record) writes",
        seen.apart,
    ),
    Promise(
        "a task asks to abort a transaction that has no record",
        "status, records",
        "nothing is done, and the task goes on",
        "KAFKA-14799",
        seen.empty_aborted,
    ),
    Promise(
        "the permission for a task's transactional id is missing",
        "status",
        "FAILED, with the error as its reason",
        "Connector principal permissions",
        settings.denied("TransactionalIdAuthorizationException"),
    ),
    Promise(
        "the permission for a topic, of records or of offsets, is missing",
        "status",
        "FAILED, with the error as its reason",
        "Connector principal permissions",
        settings.denied("TopicAuthorizationException"),
    ),
    Promise(
        "a transactional id is set for producers of the connector, or of the leader",
        "configure, coordinators' log",
        "it is ignored: they write by their own ids",
        "Offset (and record) writes; Leader access to config topic",
        settings.overridden_ids,
    ),
    Promise(
        "isolation.level=read_uncommitted is set for the connector's consumers",
        "configure, offsets topics, records",
        "it is ignored: after an aborted offset a task reads on from the last committed one",
        "Offset reads",
        settings.overridden_isolation,
    ),
    Promise(
        "workers rebalance eagerly (connect.protocol=eager), and a task writes records",
        _LOGS,
        "a task-count record lies after the configurations that were there (else `unfenced-start`)",
        "Interoperability with rebalancing protocols",
        settings.eager,
    ),
    Promise(
        "somebody else than a worker asks to fence a connector's tasks, or to set their configurations",
        "request",
        "400 or 403: the request has no signature",
        "KIP-507: Internal Connect REST endpoints",
        settings.unsigned,
    ),
)


def judged(run: RunView) -> list[tuple[Promise, Occasions]]:
    """Every row with its occasions."""
    log = run.shared(ConnectLog)
    blind = bool(log.unknown or log.lacking)
    return [(row, Occasions() if blind and row.calls not in BY_ANSWERS else row.occasions(run, log)) for row in PROMISES]


def _row(promise: Promise, occasions: Occasions) -> dict[str, Any]:
    demanded = f"{promise.demanded} ({occasions.measured})" if occasions.measured else promise.demanded
    words = {"situation": promise.situation, "calls": promise.calls, "demanded": demanded}
    return {**words, "source": promise.place, "met": occasions.met, "violated": occasions.violated}


def _explain(finding: Finding, text: FindingText) -> str:
    wrong = [(row, occasions) for row, occasions in text.run.shared(judged) if occasions.entries or occasions.requests]
    promise = next(row for row, occasions in wrong if _has(occasions, finding))
    places = [row for row in finding.rows if row.offset != NONE]
    where = f"By {text.places(places)}" if places else f"By an answer to {text.process(finding.operations[0])}"
    return f"{where}, {promise.situation}, where this is demanded: {promise.demanded} ({promise.place})."


def _has(occasions: Occasions, finding: Finding) -> bool:
    places = {(row.partition, row.offset) for row in finding.rows}
    if places == {("", NONE)}:
        return any(request["op"] in finding.operations for request in occasions.requests)
    return any({(entry.partition, entry.offset) for entry, _ in cause} == places for cause in occasions.entries)


@run_check(
    "connect-promise",
    promise=CONNECTOR,
    rules=(
        UNLESS_CONNECTOR,
        *cut_off("with configurations, task-count records, or stored offsets"),
        *UNFENCED_SOURCES,
        Rule(FORBIDDEN, "workers with exactly.once.source.support=enabled keep what KIP-618 says of them"),
    ),
    evidence=Needs(
        {SETTLING, REQUESTS},
        "not all that the leaders have, or that was requested, is known",
        {SETTLING, REQUESTS},
        "a line that is missing may hold the task-count record, the fencing, or another request",
    ),
    damages=(RENAME_ID,),
    across=True,
    explain=_explain,
    needs=NO_OCCASION,
)
def connect_promise(run: RunView) -> CheckResult:
    """Connect has not kept one of KIP-618's promises, by the rows of a table which the report shows with how often each was met.

    The rows are about task-count records, rounds of fencing, leaders, stored offsets, transactional ids, and answers of the REST
    interface. What another check finds (`unfenced-start`, `config-topic-writer`), and copies of aborted offsets, which harm no
    record, are counted in the table, and are no findings here.

    compared: occasions of all rows. One cause: an occasion.

    Example::

        ms     who       does
        0      leader 1  initialises
        1000   leader 1  generation 2
        2000   leader 1  task-count 2
        3000   task 0    initialises
        4000   task 0    writes at 0
        5000   leader 1  generation 3
        6000   leader 1  task-count 3

    Found: read configs-0@2 and sent configs-0@6. Nobody fenced task 0 between the two.

    Slow twin: `promises` in tests/support/connect_reference.py.
    """
    log = connect_log(run)
    if log is None:
        return CheckResult(0)
    rows = run.shared(judged)
    table = tuple(_row(promise, occasions) for promise, occasions in rows)
    compared = sum(occasions.met + occasions.violated for _, occasions in rows)
    parts = [finding_rows(log, [cause for _, occasions in rows for cause in occasions.entries])]
    parts.append(_request_rows([request for _, occasions in rows for request in occasions.requests]))
    parts = [part for part in parts if part]
    return CheckResult(compared, join_rows(*parts) if parts else {}, "" if compared else log.lacking, table=table)


def _request_rows(requests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows for violations that an answer shows; their causes are not those of `finding_rows`."""
    if not requests:
        return {}
    ops = np.array([request["op"] for request in requests], dtype=np.int64)
    none = np.full(len(ops), NONE, dtype=np.int64)
    words = {"partition": np.full(len(ops), "", dtype=object), "role": np.full(len(ops), "read", dtype=object)}
    return {
        **words,
        "cause": ops,
        "op": ops,
        "v": none,
        "offset": none,
        "time": np.array([request["end"] for request in requests]),
    }
