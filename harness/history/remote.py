"""Runs whose history stays on another file system: what of them lies in a directory here (docs/run-directory.md).

Spark reaches them, so its room does the work (`checkers.spark.remote`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from harness.api import HistoryError
from harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from harness.interop.plan import contract, foreign_plan
from harness.plugins import registry
from harness.report.documents import LIGHT, Ints, Run
from harness.report.findings import of_cards
from harness.report.timeline import shown
from harness.runs.store import read_json, write_json


def adopt(spark: Any, url: str, run_dir: Path, given: Mapping[str, str]) -> None:
    """Make `run_dir` the directory of the run at `url`, or of the Parquet history there.

    given: contract keys (docs/run-directory.md) laid over what is taken for granted of a history without plan.
    Raises CampaignError (nothing is there) and HistoryError (not reached, not understood).
    """
    history = registry.load("fencepost.judge", "fetch")(spark, url, run_dir, OPS_SCHEMA)
    plan = read_json(run_dir / "plan.json")
    if plan is None:
        if (run_dir / "plan.json").exists():
            raise HistoryError(f"{url}/plan.json: is no JSON object; is the run's directory whole?")
        plan = _plan(spark, url, history, run_dir, given)
    write_json(run_dir / "plan.json", {**plan, "history": history})
    if not (run_dir / "faults.parquet").exists():
        pq.write_table(FAULTS_SCHEMA.empty_table(), run_dir / "faults.parquet")


def _plan(spark: Any, url: str, history: str, run_dir: Path, given: Mapping[str, str]) -> dict[str, Any]:
    functions, partitions = registry.load("fencepost.judge", "contents")(spark, history)
    source = {"path": url, "format": "fencepost-parquet", "operations": functions, "partitions": len(partitions)}
    return foreign_plan(run_dir, source, contract(functions, given), given, partitions)


def bring(spark: Any, history: str, run_dir: Path, verdict: Mapping[str, Any]) -> None:
    """Bring what the report shows of the operations: see `checkers.spark.remote.bring`. Raises HistoryError."""
    findings = Run(plan={}, verdict=verdict, ops=None, faults=None, anomalies=None).findings
    told = np.fromiter(of_cards(findings), dtype=np.int64)

    def positions(index: Ints) -> Ints:
        return np.union1d(shown(index, findings), np.flatnonzero(np.isin(index, told)))

    records = {record["v"] for one in findings for record in one["records"]}
    registry.load("fencepost.judge", "bring")(spark, history, run_dir, LIGHT, positions, records)
