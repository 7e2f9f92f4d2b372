"""Where runs live: `results/<campaign or test>/<time>-<run id>/`, and the index over all of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.api import CampaignError, Test
from harness.plugins.registry import unknown

LEFT_FILE = "left.json"
RESULTS_VARIABLE = "FENCEPOST_RESULTS"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as the index sees it. `verdict` is empty while there is no verdict.json."""

    directory: Path
    id: str
    campaign: str
    test: str
    created: str
    verdict: str
    expectation_met: bool | None


def results_root(given: Path | None = None) -> Path:
    """Where runs land: what was given, else FENCEPOST_RESULTS, else `results` in the current directory."""
    return given or Path(os.environ.get(RESULTS_VARIABLE) or "results")


def new_run_dir(root: Path, campaign_or_test: str | Test, run_id: str, now: datetime | None = None) -> Path:
    """Make and return `root/<campaign or test>/<time>-<run id>`; the time is UTC, so that names sort by it."""
    name = campaign_or_test if isinstance(campaign_or_test, str) else campaign_or_test.campaign or campaign_or_test.name
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    directory = root / slug(name) / f"{stamp}-{run_id}"
    directory.mkdir(parents=True)
    return directory


def leave_behind(run_dir: Path, sentences: Sequence[str]) -> None:
    write_json(run_dir / LEFT_FILE, {"left": list(sentences)})


def left_behind(run_dir: Path) -> list[str]:
    """What a run could not remove from a cluster that is not ours, a sentence each with the remedy."""
    return [str(sentence) for sentence in (read_json(run_dir / LEFT_FILE) or {}).get("left", ())]


def slug(name: str) -> str:
    """`name` as a directory's name: letters, digits, `.`, `_` and `-` stay."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"


def write_json(path: Path, obj: Any) -> None:
    """Write `obj` as JSON, complete or not at all: a reader never sees half a file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(obj, file, indent=1, ensure_ascii=False, default=str)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`; None when there is no such file or it holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def list_runs(root: Path) -> list[Run]:
    """Every run below `root`, oldest first: each directory two levels down that has a plan."""
    runs = [_run(path.parent, plan) for path in root.glob("*/*/plan.json") if (plan := read_json(path)) is not None]
    return sorted(runs, key=lambda run: (run.created, run.directory.name))


def find(root: Path, text: str) -> Path:
    """The directory of the run that `text` means: a path, a run id, the only run whose id begins so, or `latest`.

    Raises CampaignError: no such run, or several.
    """
    if (Path(text) / "plan.json").is_file():
        return Path(text)
    runs = list_runs(root)
    if text == "latest" and runs:
        return runs[-1].directory
    found = [run for run in runs if run.id == text] or [
        run for run in runs if run.id.startswith(text) or run.directory.name.startswith(text)
    ]
    if len(found) == 1:
        return found[0].directory
    if found:
        raise CampaignError([f'"{text}" may mean {len(found)} runs: {", ".join(run.id for run in found)}'])
    if not runs:
        raise CampaignError([f'no run "{text}": there are no runs below {root}'])
    raise CampaignError([unknown("run", text, [run.id for run in runs[-20:]]) + f" (the latest below {root})"])


def _run(directory: Path, plan: Mapping[str, Any]) -> Run:
    verdict = read_json(directory / "verdict.json") or {}
    return Run(
        directory=directory,
        id=str(plan.get("run", directory.name.rpartition("-")[2])),
        campaign=str(plan.get("campaign", "")),
        test=str(plan.get("test", "")),
        created=str(plan.get("created", "")),
        verdict=str(verdict.get("verdict", "")),
        expectation_met=verdict.get("expectation_met"),
    )
