"""The runs in the results folder, `results/<campaign or test>/<time>-<run id>/`: which directories are those of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history.run_directory import open_run

_NAME = re.compile(r"\d{8}T\d{6}Z-\w+")  # of a run's directory
_TRACES = (  # what only a run's directory has
    RunFile.DAMAGE,
    RunFile.LEFT_BEHIND,
    RunFile.VERDICT,
    RunFile.ANOMALIES,
    RunFile.REPORT,
    RunFile.SUMMARY,
    RunFile.LOGS,
)


def each_run(root: Path) -> Iterator[Run]:
    """Every run below `root`, in any order, also one whose plan cannot be read; one at a time, since each may be large."""
    return map(open_run, run_directories(root))


def run_directories(root: Path) -> Iterator[Path]:
    """The directories of all runs below `root`, in any order. Raises CampaignError: `root` cannot be read."""
    return (path for folder in _entries(root) for path in _runs_in(folder))


def runs_in(folder: Path) -> Iterator[Run]:
    """Every run in the folder of a campaign or test, in any order."""
    return map(open_run, _runs_in(folder))


def age(run: Run) -> tuple[str, str]:
    """The key by which runs are sorted, the oldest first."""
    return run.created, run.directory.name


def unreadable(root: Path) -> list[str]:
    """A sentence for each folder below `root` in which runs may lie that nobody may see."""
    folders = sorted(path for path in _entries(root) if path.is_dir())
    return [
        f"{path}: cannot be read: no permission" for path in folders if not os.access(path, os.R_OK | os.X_OK, effective_ids=True)
    ]


def is_run(directory: Path) -> bool:
    """Return whether a directory is that of a run, even if its plan is gone: a history alone is none, nor is a table.

    Of one that may not be read its name tells.
    """
    if os.path.lexists(directory) and not os.access(directory, os.X_OK, effective_ids=True):
        return bool(_NAME.fullmatch(directory.name))
    if os.path.lexists(directory / RunFile.PLAN):
        return True
    held = any(os.path.lexists(directory / name) for name in (RunFile.LINES, RunFile.HISTORY))
    return held and (bool(_NAME.fullmatch(directory.name)) or any(os.path.lexists(directory / name) for name in _TRACES))


def _runs_in(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*") if is_run(path))


def _entries(root: Path) -> list[Path]:
    """The entries of a folder; none when it is not there. Raises CampaignError: it cannot be read."""
    try:
        return list(root.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CampaignError([f"--results {root}: cannot be read: {error.strerror}"]) from error
