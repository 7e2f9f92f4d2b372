"""Where runs live: `results/<campaign or test>/<time>-<run id>/`, and the index over all of them."""

from __future__ import annotations

import os
import re
from datetime import datetime, timezone
from pathlib import Path

from harness.api import CampaignError, Run, RunFile, Test
from harness.plugins.registry import unknown
from harness.runs.directory import open_run

RESULTS_VARIABLE = "FENCEPOST_RESULTS"


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


def slug(name: str) -> str:
    """`name` as a directory's name: letters, digits, `.`, `_` and `-` stay."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"


def list_runs(root: Path) -> list[Run]:
    """Every run below `root`, oldest first: each directory two levels down that has a plan."""
    found = [open_run(path.parent) for path in root.glob(f"*/*/{RunFile.PLAN}")]
    runs = [run for run in found if RunFile.PLAN not in run.problems]
    return sorted(runs, key=lambda run: (run.created, run.directory.name))


def find(root: Path, text: str) -> Run:
    """The run that `text` means: a path, a run id, the only run whose id begins so, or `latest`.

    Raises CampaignError: no such run, or several.
    """
    if (Path(text) / RunFile.PLAN).is_file():
        return open_run(Path(text))
    runs = list_runs(root)
    if text == "latest" and runs:
        return runs[-1]
    found = [run for run in runs if run.id == text] or [
        run for run in runs if run.id.startswith(text) or run.directory.name.startswith(text)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise CampaignError([f'"{text}" may mean {len(found)} runs: {", ".join(run.id for run in found)}'])
    if not runs:
        raise CampaignError([f'no run "{text}": there are no runs below {root}'])
    raise CampaignError([unknown("run", text, [run.id for run in runs[-20:]]) + f" (the latest below {root})"])
