"""What recorded controls have to say about fingerprints: of each plan and each finding, as much as a fingerprint may take.

Run as a program (`PYTHONPATH=tests python -m support.recorded_findings RESULTS...`), it adds that of the runs below these
folders to `data/recorded_findings.json`, in the place of earlier runs with the same test and seed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.verdict.finding_errors import definite_errors

DATA = Path(__file__).with_name("data") / "recorded_findings.json"
_PLAN = ("test", "seed", "workload", "client", "contract", "overridden", "nemesis")


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run. findings: the forbidden ones, as in its verdict, each shape once."""

    plan: Mapping[str, Any]
    findings: tuple[Mapping[str, Any], ...]

    @property
    def test(self) -> str:
        return str(self.plan["test"])


def recorded() -> list[RecordedRun]:
    """The recorded runs."""
    return [RecordedRun(run["plan"], tuple(run["findings"])) for run in json.loads(DATA.read_text("utf-8"))]


def extract(directory: Path) -> dict[str, Any]:
    """What is written of a run."""
    plan, verdict = (json.loads((directory / f"{name}.json").read_text("utf-8")) for name in ("plan", "verdict"))
    kinds = sorted({fault["kind"] for fault in plan.get("schedule") or ()})
    shown = {key: plan[key] for key in _PLAN if key in plan} | {
        "topics": {name: {"settings": topic.get("settings", {})} for name, topic in plan["topics"].items()},
        "cluster": {"kind": plan["cluster"]["kind"], "options": plan["cluster"]["options"]},
        "schedule": [{"kind": kind} for kind in kinds],
    }
    forbidden = [finding for finding in verdict["findings"] if finding["forbidden"]]
    errors = _errors(directory, forbidden)
    shapes = Counter(json.dumps(_shape(finding, errors), sort_keys=True) for finding in forbidden)
    return {"plan": shown, "findings": [{**json.loads(shape), "count": count} for shape, count in sorted(shapes.items())]}


def _errors(directory: Path, findings: list[Mapping[str, Any]]) -> dict[int, list[str]]:
    """The definite errors of the operations of these findings, also of a run that was judged before verdicts had them."""
    if not (directory / "history.parquet").exists():
        return {}
    wanted = sorted({operation for finding in findings if (operation := _culprit(finding)) is not None})
    table = pq.read_table(directory / "history.parquet", columns=["index", "errors"])
    rows = table.filter(pc.is_in(table["index"], value_set=pa.array(wanted, pa.int64()))).to_pylist()
    return {row["index"]: definite_errors(row["errors"] or ()) for row in rows}


def _culprit(finding: Mapping[str, Any]) -> int | None:
    operations = {record["operation"] for record in finding["records"] if record["role"] != "read"}
    return operations.pop() if len(operations) == 1 else None


def _shape(finding: Mapping[str, Any], errors: Mapping[int, list[str]]) -> dict[str, Any]:
    """A finding without what no fingerprint may take: ids, offsets, times."""
    shape: dict[str, Any] = {"anomaly": finding["anomaly"]}
    if names := finding.get("errors") or errors.get(-1 if (operation := _culprit(finding)) is None else operation):
        shape["errors"] = names
    return shape


def _runs(folders: list[str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path.parent for path in Path(folder).glob("*/*/verdict.json"))


if __name__ == "__main__":
    if not all(Path(folder).is_dir() for folder in sys.argv[1:]) or len(sys.argv) < 2:
        sys.exit(__doc__)
    found = [run for path in _runs(sys.argv[1:]) if (run := extract(path))["findings"]]
    runs = {(run["plan"]["test"], run["plan"]["seed"]): run for run in [*json.loads(DATA.read_text("utf-8")), *found]}
    lines = [json.dumps(runs[key], sort_keys=True) for key in sorted(runs)]
    DATA.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
