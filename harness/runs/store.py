"""The directories of runs: `results/<campaign or test>/<time>-<run id>/`, and the index over all of them."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history.results_folder import age, each_run, is_run
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.plugins.registry import unknown
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    from fencepost.harness.api.plans import Test

RESULTS_VARIABLE = "FENCEPOST_RESULTS"
LONGEST_NAME = 100  # of a directory


def results_root(given: Path | None = None) -> Path:
    """The folder of new runs: what was given, else FENCEPOST_RESULTS, else `results` in the current directory."""
    return given or Path(os.environ.get(RESULTS_VARIABLE) or "results")


def writable_root(given: Path | None = None) -> Path:
    """`results_root`, made where it is not there yet. Raises CampaignError when no run can be written to it."""
    root = results_root(given)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=root):
            return root
    except OSError as error:
        raise CampaignError([f"--results {root}: runs cannot be written there: {error.strerror}; name another folder"]) from error


def new_run_dir(root: Path, campaign_or_test: str | Test, run_id: str, now: datetime | None = None) -> Path:
    """Make and return `root/<campaign or test>/<time>-<run id>`; the time is UTC, so that names sort by it."""
    name = campaign_or_test if isinstance(campaign_or_test, str) else campaign_or_test.campaign or campaign_or_test.name
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    directory = root / slug(name) / f"{stamp}-{run_id}"
    directory.mkdir(parents=True)
    return directory


def campaign_folder(root: Path, campaign: str, make: bool = False) -> Path:
    """The folder of a campaign's runs and rounds in the results; made where it is not there, if that is asked for."""
    folder = root / slug(campaign)
    if make:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def unless_empty(run_dir: Path | None) -> Path | None:
    """The directory of a run that ended without a verdict; None when it holds nothing but the plan: it is removed."""
    if run_dir is None or any(_holds(path) for path in run_dir.rglob("*")):
        return run_dir
    discard(run_dir)
    return None


def _holds(path: Path) -> bool:
    """Return whether a file of a run tells anything of it."""
    return path.name not in (RunFile.PLAN, liveness.LOCK) and (path.is_symlink() or (path.is_file() and path.stat().st_size > 0))


def discard(run_dir: Path) -> None:
    """Remove a run's directory, and that of its campaign if nothing else is in it."""
    shutil.rmtree(run_dir, ignore_errors=True)
    with suppress(OSError):
        run_dir.parent.rmdir()


def slug(name: str) -> str:
    """`name` as a directory's name: letters, digits, `.`, `_` and `-` stay."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:LONGEST_NAME] or "unnamed"


def list_runs(root: Path) -> list[Run]:
    """Every run below `root` whose plan can be read, oldest first."""
    return sorted((run for run in each_run(root) if RunFile.PLAN not in run.problems), key=age)


@dataclass(frozen=True)
class RunEntry:
    """A run in the results.

    place: its directory.
    run: its id.
    """

    place: Path
    run: str

    def begins(self, text: str) -> bool:
        """True if `text` may mean this run."""
        return self.run.startswith(text) or self.place.name.startswith(text)


def _entries_of_runs(root: Path) -> tuple[list[RunEntry], list[RunEntry]]:
    """The runs below `root`, the oldest first, and those whose plan is missing or cannot be read."""
    from fencepost.harness.memory import index

    whole: list[RunEntry] = []
    damaged: list[RunEntry] = []
    for row in index.rows(root):
        (damaged if row.damaged else whole).append(RunEntry(root / row.place, row.run))
    return whole, sorted(damaged, key=lambda entry: str(entry.place))


def find(root: Path, text: str) -> Run:
    """The run that `text` means: a path, a run id, the only run whose id begins so, or `latest`, of those that have ended.

    Raises CampaignError: no such run, several, one whose plan is missing or cannot be read, or one that is still performed.
    """
    run = _found(root, text)
    if _is_performed(run.directory):
        raise CampaignError([f'run "{run.id}" is still being performed or judged: wait for its end, or name another run'])
    return run


def _found(root: Path, text: str) -> Run:
    if not text.strip():  # a variable of a shell that is not set: every run begins so
        raise CampaignError(["the run has no name; a run is named by its directory, its id, the beginning of one, or `latest`"])
    if is_run(Path(text)):
        return _whole(Path(text))
    runs, damaged = _entries_of_runs(root)
    if text == "latest" and runs:
        return _whole(next((run for run in reversed(runs) if not _is_performed(run.place)), runs[-1]).place)
    matches = [run for run in runs if run.run == text] or [run for run in runs if run.begins(text)]
    if len(matches) == 1:
        return _whole(matches[0].place)
    if matches:
        raise CampaignError([f'"{text}" may mean {len(matches)} runs: {", ".join(run.run for run in matches)}'])
    for run in damaged:
        if run.begins(text):
            return _whole(run.place)
    if "/" in text:
        why = "is no run's directory" if os.path.exists(text) else "there is no such file or directory"
        raise CampaignError([f'"{text}": {why}; a run is named by its directory, its id, the beginning of one, or `latest`'])
    if not runs:
        raise CampaignError([f'no run "{text}": there are no runs below {root}'])
    named = [*(run.run for run in runs[-20:]), "latest"]
    raise CampaignError([unknown("run", text, named) + f" (the latest runs below {root})"])


def _whole(directory: Path) -> Run:
    """The run in a directory. Raises CampaignError when its plan is missing or cannot be read."""
    run = open_run(directory)
    run.demand_plan()
    return run


def _is_performed(directory: Path) -> bool:
    """Return whether a process performs this run still: it is in use, and its history is neither concluded nor merged.

    The manifest is there from the start, and is complete at the end. Adopted histories and runs whose manifest is lost are merged
    without one, and several may judge them at once.
    """
    if os.path.lexists(directory / RunFile.HISTORY) or not liveness.lock_reference(directory):
        return False
    manifest = open_run(directory).manifest
    return manifest is None or not manifest.complete
