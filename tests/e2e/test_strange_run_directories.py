"""A run's directory that came from elsewhere: it is judged, and runs no code."""

from __future__ import annotations

import json
import os
import subprocess

from support.fencepost_command import FENCEPOST, PATIENCE_S

from fencepost.checkers.model.lawful_history import write_lawful

CODE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"


def test_no_code_of_a_run_directory_runs_when_it_is_judged_inside_of_it(tmp_path):
    """Neither the plan's check, nor modules that are called as libraries of ours are, in the command or in Spark's workers."""
    run = write_lawful(tmp_path, transactions=50)
    plan = json.loads((run.directory / "plan.json").read_text())
    (run.directory / "plan.json").write_text(
        json.dumps({**plan, "checkers": ["evil:check", "fencepost.checkers.anomalies.losses:lost_write"]})
    )
    for name in ("evil.py", "numpy.py", "pandas.py", "pyspark.py", "checkers.py", "sitecustomize.py"):
        (run.directory / name).write_text(CODE)
    env = {name: value for name, value in os.environ.items() if name != "FENCEPOST_PLUGIN_PATH"}
    argv = [str(FENCEPOST), "check", str(run.directory), "--json", "--spark-master", "local[1]"]
    done = subprocess.run(argv, cwd=run.directory, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in run.directory.glob("*.ran")) == []
    [ignored] = [text for text in json.loads(done.stdout)["weakened"] if "of the plan was not asked" in text]
    assert "the check evil:check of the plan" in ignored
    assert "--checker evil:check" in ignored
