"""A run as data: its documents, its tables, its graph (docs/run-as-data.md)."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Plan, Run, RunFile
from fencepost.harness.api.values import Property
from fencepost.harness.api.verdict_document import VerdictDocument
from fencepost.harness.data.findings import Fault, Finding, faults_of, findings_of
from fencepost.harness.plugins import services
from fencepost.harness.runs.judgements import judgement_at
from fencepost.harness.runs.merging import merged
from fencepost.harness.runs.store import find, results_root
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from pyspark.sql import SparkSession

    from fencepost.harness.data.spark_tables import SparkTables

MOST_OPERATIONS = 20_000  # of a graph, unless more are asked for: each takes about 15 kB, with its edges


class RecordedRun:
    """A run that was performed or adopted, opened by `fencepost.open`.

    Documents are read when it is opened, tables when they are asked for. Its history is merged from its lines when it is first
    needed, as `fencepost check` does it; nothing is judged. Times are ns of CLOCK_MONOTONIC.

    Methods raise HistoryError where a file is missing or damaged, with the remedy; CampaignError for what cannot be asked.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"<run {self.id} in {self.directory}: {self.verdict.get('verdict') or 'not judged'}>"

    @property
    def directory(self) -> Path:
        """The run's directory (docs/run-directory.md)."""
        return self._run.directory

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def plan(self) -> Plan:
        """`plan.json`: everything that was decided before the run started. An adopted or older run may lack any key."""
        return self._run.plan

    @property
    def verdict(self) -> VerdictDocument:
        """`verdict.json`; empty while the run is not judged. docs/verdict.schema.json is its schema.

        Raises HistoryError where the file is there and cannot be read.
        """
        self._run.demand_readable(RunFile.VERDICT)
        return cast(VerdictDocument, self._run.verdict)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The verdict's findings, forbidden ones first, each by time: up to 100 of each anomaly (`anomalies` has all)."""
        self._run.demand_readable(RunFile.VERDICT)
        return findings_of(self._run)

    @property
    def without_occasion(self) -> tuple[str, ...]:
        """Names of the properties that held, and that nothing could have broken (docs/occasions.md)."""
        answers = self.verdict.get("properties", ())
        return tuple(answer["name"] for answer in answers if answer["verdict"] == Property.WITHOUT_OCCASION.value)

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The receipts of the faults; none where there was no fault."""
        return faults_of(self._merged())

    @property
    def origin_ns(self) -> int:
        """When the first operation began: the zero of the times in the report. Subtract it from any time."""
        table = self.history(["time"])["time"]
        return int(table.min()) if len(table) else 0

    # ---- tables ----
    def history(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row per operation, in the order of `time` (docs/history.md).

        columns: some columns; without, all that have one value per operation. Those with a list per operation (`mops`, `errors`,
        ...) come when they are named.
        """
        from fencepost.harness.data import tables

        return tables.history(self._merged(), columns)

    def records(self) -> pd.DataFrame:
        """A row per record that an operation sent or polled.

        `index`, `process`, `op`, `f`, `type`, `intent`, `isolation`, `final` are those of the operation; `kind` (`sent`,
        `polled`), `partition`, `v` (the identity), `offset`, `began`, `ended` those of the record.
        """
        from fencepost.harness.data import tables

        return tables.records(self._merged())

    def receipts(self) -> pd.DataFrame:
        """A row per fault, as recorded; `faults` has the same as objects. `evidence` and `healing` are JSON texts."""
        return self._frame(RunFile.RECEIPTS)

    def anomalies(self) -> pd.DataFrame:
        """A row per finding of the judgement, without bounds."""
        return self._frame(RunFile.ANOMALIES)

    def stored(self) -> pd.DataFrame:
        """A row per record and broker: what the log segments held when the run ended."""
        return self._frame(RunFile.STORED)

    def _frame(self, file: str) -> pd.DataFrame:
        from fencepost.harness.data import tables

        return tables.frame(self._merged(), file)

    def spark(self, session: SparkSession | None = None) -> SparkTables:
        """The same tables as Spark data frames. session: else the active one, or one on this machine, made at the first table."""
        from fencepost.harness.data.spark_tables import SparkTables

        return SparkTables(self._merged(), session)

    # ---- graph ----
    def graph(
        self,
        finding: int | Finding | None = None,
        radius: int = 1,
        kinds: Collection[str] | None = None,
        most: int = MOST_OPERATIONS,
        session: SparkSession | None = None,
    ) -> nx.MultiDiGraph:
        """The history graph (docs/graphs.md): operations as nodes, by history index, and an edge for each reason why one comes
        before another.

        Attributes of a node: `f`, `type`, `process`, `op`, `slot`, `node`, `role`, `intent`, `isolation`, `transactional_id`,
        `final`, `time`, `end`, `decided` (ns), `sent`, `polled` (how many records), `in_finding`. Of an edge: `kind` (`ww`, `wr`,
        `rw`, `lso`, `process`, `realtime`); unless it is one of time `partition`, `low` and `high` (offsets of the records behind
        it), `records` (how many), `group_offset`; of wr edges `judged`. What is not known is left out.

        finding: a finding or its number: only what lies up to `radius` edges away from its operations, with all edges between.
        Realtime edges lead nowhere then, but are shown. kinds: only edges of these kinds. most: operations that the graph may
        have. session: Spark's, for a history that does not fit in memory; else one is made where it is needed.

        Raises CampaignError: no such finding, or kind, or more operations; the sentence says what to do.
        """
        from fencepost.harness.graphs.model import KINDS, history_graph

        if unknown := [kind for kind in kinds or () if kind not in KINDS]:
            raise CampaignError([f'"{unknown[0]}" is no kind of edge; there are {", ".join(KINDS)}'])
        run, chosen = self._merged(), self._finding(finding)
        start = None if chosen is None else sorted({op for op in chosen.operations if op >= 0})
        columns = self._columns(run, start, radius, most, session)
        graph = history_graph(self._nodes(run, columns.operations, start or ()), columns, kinds or KINDS)
        graph.graph.update({"run": self.id, **({"finding": chosen.id, "radius": radius} if chosen else {})})
        return graph

    def _columns(self, run: Run, start: Sequence[int] | None, radius: int, most: int, session: Any) -> Any:
        from fencepost.harness.data.spark_tables import session_or_local
        from fencepost.harness.data.tables import demand

        demand(run, RunFile.HISTORY)
        count = pq.read_metadata(run.path(RunFile.HISTORY)).num_rows
        if start is None and count > most:
            raise CampaignError(
                [
                    f"{run}: its graph has {count:,} operations, more than {most:,}: ask for what lies around a finding "
                    "(`graph(finding=1)`, `--finding 1`), or allow more (`most`)"
                ]
            )
        with liveness.hold(self.directory):
            return services.judge().graph(run, session_or_local(session), start, radius, most)

    def _nodes(self, run: Run, operations: Any, start: Sequence[int]) -> Any:
        from fencepost.harness.data.tables import nodes

        of_finding = frozenset(start)
        return ((index, {**more, "in_finding": index in of_finding}) for index, more in nodes(run, operations))

    def _finding(self, finding: int | Finding | None) -> Finding | None:
        if finding is None or isinstance(finding, Finding):
            return finding
        for known in self.findings:
            if known.id == finding:
                return known
        there = f"there are {', '.join(str(known.id) for known in self.findings[:20])}" if self.findings else "there are none"
        raise CampaignError([f"{self._run}: no finding {finding} in its verdict; {there}"])

    def _merged(self) -> Run:
        """The run with its history merged."""
        with liveness.hold(self.directory):
            self._run = merged(self._run)
        return self._run


def open_run(run: str | os.PathLike[str], results: str | os.PathLike[str] | None = None) -> RecordedRun:
    """See `fencepost.open`."""
    text = os.fspath(run)
    root = results_root(None if results is None else Path(results))
    return RecordedRun(judgement_at(Path(text)) or find(root, text))
