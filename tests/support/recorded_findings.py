"""What recorded controls have to say about fingerprints: of each plan and each finding, as much as a fingerprint may take.

Run as a program (`PYTHONPATH=tests python -m support.recorded_findings RESULTS...`), it writes that of the runs below these
folders to `data/recorded_findings.json`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    shapes = Counter(json.dumps(_shape(finding), sort_keys=True) for finding in verdict["findings"] if finding["forbidden"])
    return {"plan": shown, "findings": [{**json.loads(shape), "count": count} for shape, count in sorted(shapes.items())]}


def _shape(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding without what no fingerprint may take: ids, offsets, times."""
    roles = sorted({record["role"] for record in finding["records"]})
    steps = sorted({step["kind"] for step in (finding.get("cycle") or {}).get("edges", ())})
    shape = {"anomaly": finding["anomaly"], "records": [{"role": role} for role in roles]}
    return shape | ({"cycle": {"edges": [{"kind": kind} for kind in steps]}} if steps else {})


def _runs(folders: list[str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path.parent for path in Path(folder).glob("*/*/verdict.json"))


if __name__ == "__main__":
    runs = [run for path in _runs(sys.argv[1:]) if (run := extract(path))["findings"]]
    runs.sort(key=lambda run: (run["plan"]["test"], run["plan"]["seed"]))
    DATA.write_text("[\n" + ",\n".join(json.dumps(run, sort_keys=True) for run in runs) + "\n]\n", "utf-8")
