"""The phase of a run that is being performed, by what its directory holds so far."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.system import liveness


def phase(directory: Path) -> str:
    """What is done now with a run that has no verdict, in words; empty for one that nobody uses."""
    if not os.path.lexists(directory / liveness.LOCK) or not liveness.lock_reference(directory):
        return ""
    return phase_of(open_run(directory))


def phase_of(run: Run) -> str:
    """The phase of a run that is in use."""
    manifest = run.manifest
    if (manifest and manifest.complete) or os.path.lexists(run.path(RunFile.HISTORY)):
        return "judging"
    if manifest is None:
        return "starting the cluster"
    if manifest.workload_s:
        return "settling and reading back"
    return f"performing {run.plan.get('time_s') or 0:g} s of workload"
