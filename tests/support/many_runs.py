"""Many runs for the page over all runs: rows made up by a seed, and small run directories.

Run as a program (`PYTHONPATH=tests python -m support.many_runs FOLDER [COUNT]`), it writes pages over made-up rows.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.site import pages
from fencepost.harness.site.entries import Entry, entry_of, report_place
from fencepost.harness.site.settings import Settings

EVIL = "</script><script>document.documentElement.dataset.owned=1</script><img src=x onerror=alert(1)>'\"&{{7*7}}\u2028\u202e"
BEGIN = datetime(2026, 9, 1, 1, 17, tzinfo=timezone.utc)
ANOMALIES = ("lost-write", "duplicate", "torn-transaction", "aborted-read", "lso-stall", "reprocessed", "no-recovery")


def run_rows(count: int, seed: int = 1, tests: int = 40, red: float = 0.01) -> list[RunRow]:
    """So many runs of a nightly campaign, each test once in a round; `red` of them have a finding that nobody expects."""
    rng = Random(seed)
    return [_row(number, rng, tests, red) for number in range(count)]


def _row(number: int, rng: Random, tests: int, red: float) -> RunRow:
    night, test = divmod(number, tests)
    start = BEGIN + timedelta(days=night)
    created = start + timedelta(minutes=2 * test)
    expects_bug, is_red = test % 8 == 7, rng.random() < red
    anomaly = ANOMALIES[test % len(ANOMALIES)] if expects_bug else rng.choice(ANOMALIES)
    sentence = (
        f"Transaction {rng.randrange(9999)} of process {rng.randrange(12)} was committed, and its record at "
        f"t-{rng.randrange(6)}@{rng.randrange(99_999)} is nowhere: neither in the final read nor in the logs of three replicas."
    )
    finding = FindingRow(id=1, anomaly=anomaly, fingerprint=f"{ANOMALIES.index(anomaly):06x}{test:06x}", sentence=sentence)
    run = f"{number:06x}"
    return RunRow(
        place=f"nightly/{created:%Y%m%dT%H%M%SZ}-{run}",
        run=run,
        campaign="nightly",
        test=f"test {test} with {'a pause of the leader' if test % 2 else 'kills'}",
        round=f"{start:%Y%m%dT%H%M%SZ}",
        created=created.isoformat(),
        verdict="invalid" if expects_bug or is_red else "valid",
        met=not is_red,
        outcome=f"{'invalid' if expects_bug or is_red else 'valid'}, {'against expectation' if is_red else 'as expected'}",
        expect=(anomaly,) if expects_bug and not is_red else ("valid",),
        anomalies=(anomaly,) if expects_bug or is_red else (),
        findings=(finding,) if expects_bug or is_red else (),
        kafka="4.4.0" if night > 40 else "4.3.0",
        client=("librdkafka 2.16.0", "java 4.4.0", "franz-go 1.22.3")[test % 3],
        workload=("transactions", "pipeline", "idempotent")[test % 3],
        cluster="local",
        protocol="TV2" if night > 40 else "TV1",
        seed=rng.randrange(2**31),
        operations=rng.randrange(2_000, 60_000),
        faults=rng.randrange(3, 9),
        rate=round(rng.gauss(900, 40), 3),
        gap_s=round(rng.uniform(2, 7), 3),
        recovery_s=round(rng.uniform(0.01, 0.6), 3),
        lasted_s=60.0,
    )


def entries(rows: list[RunRow]) -> list[Entry]:
    """The entries of rows, each with a report."""
    return [entry_of(row, report=report_place(row)) for row in rows]


def settings(rows: list[RunRow]) -> dict[str, Settings | None]:
    """Settings of runs: a hundred and fifty, alike in the runs of a test but for two."""
    names = [f"client / producer / setting.number.{number}" for number in range(150)]
    return {
        row.place: (*((name, f"value of {name}") for name in names), ("kafka", row.kafka), ("test", row.test)) for row in rows
    }


def write_run(root: Path, campaign: str, name: str, **fields: Any) -> Path:
    """A run's directory: the documents that a row is made of, and a report. fields: `plan`, `verdict` (None: none), `report`."""
    directory = root / campaign / name
    directory.mkdir(parents=True)
    run = name.rpartition("-")[2]
    plan = {"schema": 1, "run": run, "campaign": campaign, "test": "steady", "seed": 7, "created": "2026-11-25T19:00:00+00:00"}
    plan |= {
        "round": "20261125T190000Z",
        "time_s": 60.0,
        "expect": ["valid"],
        "workload": {"kind": "transactions", "options": {}},
    }
    plan |= {"client": {"kind": "librdkafka", "version": "2.16.0", "producer": {"acks": "all"}}, "topics": {}, "schedule": []}
    plan |= {"cluster": {"kind": "local", "options": {}, "description": {"kafka": "4.4.0"}}, **fields.get("plan", {})}
    (directory / "plan.json").write_text(json.dumps(plan), "utf-8")
    verdict = {"schema": 1, "verdict": "valid", "run": run, "expectation_met": True, "expectation": "", "properties": []}
    verdict |= {"findings": [], "counts": {"operations": 100, "ok": 90}, "expect": ["valid"], **(fields.get("verdict") or {})}
    if fields.get("verdict", {}) is not None:
        (directory / "verdict.json").write_text(json.dumps(verdict), "utf-8")
    if fields.get("report", True):
        (directory / "report.html").write_text(f"<!doctype html><title>{run}</title><p id=finding-1>report of {run}", "utf-8")
        (directory / "summary.md").write_text(f"# {run}\n", "utf-8")
    return directory


def finding(
    anomaly: str = "lost-write", sentence: str = "A record is nowhere.", number: int = 1, **fields: Any
) -> dict[str, Any]:
    """A forbidden finding, as a verdict has it."""
    return {"id": number, "anomaly": anomaly, "forbidden": True, "sentence": sentence, "operations": [], "records": [], **fields}


def invalid(*findings: dict[str, Any], met: bool | None = False) -> dict[str, Any]:
    """Fields of a verdict with findings."""
    named = dict.fromkeys(of["anomaly"] for of in findings)
    properties = [{"name": name, "verdict": "violated", "count": 1, "compared": 10} for name in named]
    return {"verdict": "invalid", "expectation_met": met, "findings": list(findings), "properties": properties}


def write_pages(folder: Path, rows: list[RunRow]) -> None:
    """The pages over made-up rows."""
    (folder / "tests").mkdir(parents=True, exist_ok=True)
    site = pages.Site(entries=entries(rows), written="made up")
    runs = pages.by_test(site)
    for name, test in pages.tests_of(site).items():
        (folder / name).write_text(pages.history_page(site, test, runs[test]), "utf-8")
    made = {"index.html": pages.index_page(site), "grid.html": pages.grid_page(site), "findings.html": pages.findings_page(site)}
    for name, text in {**made, "compare.html": pages.compare_page(site, settings(rows))}.items():
        (folder / name).write_text(text, "utf-8", "backslashreplace")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), run_rows(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
