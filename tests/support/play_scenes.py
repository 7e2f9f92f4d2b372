"""Plays scenes on a real cluster, from outside its sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

OUTSIDE = Path(__file__).with_name("sandbox_entry.py")


def play(run_dir, *scenes, kind="local", interpreter=(sys.executable,), env=None, **options):
    """Observations of the scenes of `cluster_scenes.py`, played inside the sandbox of a provider with these options."""
    argv = [*interpreter, str(OUTSIDE), json.dumps({"kind": kind, **options}), str(run_dir), *scenes]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
