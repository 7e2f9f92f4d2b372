"""Tools of other languages (pip, go, npm) that fetch and build what is kept in a store."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencepost.harness.api import ClusterError
from fencepost.harness.system import programs

LAST_LINES = 12


class ToolError(ClusterError):
    """A tool that failed; output: all that it printed."""

    def __init__(self, text: str, output: str) -> None:
        super().__init__(text)
        self.output = output


def run(
    argv: Sequence[str], what: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout_s: float = 600.0
) -> str:
    """Run a tool to its end and return what it printed on both outputs. It does not outlive this process.

    what: what is done, for messages ("fetching franz-go 1.22.2"); env: beside this process' environment.
    Raises ToolError, with the last lines of its output, when it cannot be started, fails or does not end.
    """
    try:
        done = programs.run(argv, timeout_s, cwd=cwd, env={**os.environ, **(env or {})}, merged=True)
    except OSError as error:
        raise ToolError(f"{what}: {argv[0]} cannot be started: {error.strerror}", "") from error
    except subprocess.TimeoutExpired as error:
        output = str(error.output or "")
        raise ToolError(f"{what}: {argv[0]} has not ended after {timeout_s:.0f} s: {_end(output)}", output) from error
    if done.returncode != 0:
        raise ToolError(f"{what}: {Path(argv[0]).name} failed (exit {done.returncode}): {_end(done.stdout)}", done.stdout)
    return done.stdout


def _end(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-LAST_LINES:]) or "it printed nothing"
