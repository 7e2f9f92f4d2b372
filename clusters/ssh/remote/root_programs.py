"""Programs of this host that need root: run with sudo if set, without a password, with a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess

_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
_RUN_S = 15.0


class ProgramError(Exception):
    """A program failed; the text is its output."""


def run(name: str, *words: str, sudo: bool) -> str:
    """Run a program; its output. Raises ProgramError."""
    program = shutil.which(name, path=_SBIN)
    if program is None:
        raise ProgramError(f"{name} is not installed")
    argv = [*(["sudo", "-n"] if sudo else []), program, *words]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_RUN_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramError(f"{' '.join(argv)}: {error}") from error
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(argv)}: {' '.join((done.stderr or done.stdout).split())}")
    return done.stdout
