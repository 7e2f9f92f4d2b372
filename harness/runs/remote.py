"""Runs whose history is on another file system: the part of them that lies in a directory here (docs/run-directory.md).

Spark reaches them, so its room does the work (`checkers.engine.remote`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.run import Plan, Problem, Run, RunFile
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run, write_damage, write_plan
from fencepost.harness.interop.adopted_plan import contract, foreign_plan
from fencepost.harness.plugins import services
from fencepost.harness.report.documents import LIGHT, Ints, operations, shown_findings
from fencepost.harness.report.panels.findings import of_cards
from fencepost.harness.report.panels.timeline import shown


def adopt(spark: Any, url: str, run_dir: Path, given: Mapping[str, str]) -> None:
    """Make `run_dir` the directory of the run at `url`, or of the Parquet history there.

    given: contract keys (docs/run-directory.md) laid over what is taken for granted of a history without plan.
    Raises CampaignError (nothing is there) and HistoryError (not reached, not understood).
    """
    history = services.judge().fetch(spark, url, run_dir, OPS_SCHEMA)
    run = open_run(run_dir)
    run.demand_readable(RunFile.PLAN)
    plan = run.plan
    if run.lacks(RunFile.PLAN):
        plan = _plan(spark, url, history, run_dir, given)
        write_damage(run_dir, [], [])  # a table that can be read at all is read whole
    write_plan(run_dir, {**plan, "history": history})
    if not run.path(RunFile.RECEIPTS).exists():
        with replacing(run_dir, RunFile.RECEIPTS) as table:
            pq.write_table(FAULTS_SCHEMA.empty_table(), table)


def _plan(spark: Any, url: str, history: str, run_dir: Path, given: Mapping[str, str]) -> Plan:
    functions, partitions = services.judge().contents(spark, history)
    source = {"path": url, "format": "fencepost-parquet", "operations": functions, "partitions": len(partitions)}
    return foreign_plan(run_dir, source, contract(functions, given), given, partitions)


def bring(spark: Any, run: Run) -> None:
    """Bring what the report shows of the operations: see `checkers.engine.remote.bring`. Raises HistoryError."""
    findings = shown_findings(run.verdict)
    carded = np.fromiter(of_cards(findings), dtype=np.int64)

    def positions(light: pa.Table) -> Ints:
        ops = operations([light], len(light), run.path(RunFile.OPERATIONS))
        receipts = () if isinstance(run.receipts, Problem) else run.receipts
        return np.union1d(shown(ops, findings, receipts), np.flatnonzero(np.isin(ops.index, carded)))

    records = {record["v"] for finding in findings for record in finding["records"]}
    services.judge().bring(spark, run, LIGHT, positions, records)
