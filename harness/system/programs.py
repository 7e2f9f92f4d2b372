"""Programs: one that is run to its end, bounded in time and in what it prints; the reason why one cannot be executed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from fencepost.harness.system.logs import ShortLog
from fencepost.harness.system.parent_death import die_with

MOST_OUTPUT = 32 << 20  # bytes on each stream; more is cut behind its beginning
_STEP_S = 0.1


def run(
    argv: Sequence[str],
    timeout_s: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    merged: bool = False,
    given: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program; its status and what it printed. Neither it nor what it has started outlives this process.

    env: all of its variables; None: those of this process.
    given: the text on its standard input; empty: it has none.
    merged: its standard error goes where its standard output does.
    Raises OSError (it cannot be started) and subprocess.TimeoutExpired, with what it has printed on its standard output.
    """
    with ShortLog(MOST_OUTPUT) as output, ShortLog(MOST_OUTPUT) as errors, TemporaryFile() as entered:
        entered.write(given.encode("utf-8", "backslashreplace"))
        entered.seek(0)
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=entered if given else subprocess.DEVNULL,
            stdout=output.file,
            stderr=subprocess.STDOUT if merged else errors.file,
            start_new_session=True,
            preexec_fn=die_with(os.getpid()),
        )
        try:
            ended = _await(process, timeout_s, (output, errors))
        finally:
            _end(process)
        if not ended:
            output.shorten()
            raise subprocess.TimeoutExpired(list(argv), timeout_s, output.text())
        return subprocess.CompletedProcess(list(argv), process.returncode, output.text(), errors.text())


def _await(process: subprocess.Popen[bytes], timeout_s: float, logs: Sequence[ShortLog]) -> bool:
    """Return whether a program has ended in time; its logs are kept short meanwhile."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            process.wait(min(_STEP_S, max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                return process.poll() is not None  # it may have ended while this process did not run
            for log in logs:
                log.shorten()
        else:
            return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of its session's process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def no_program(name: str) -> str:
    """The reason why there is no program of this name or path to be executed here, and the remedy."""
    path = Path(name)
    if path.is_file():
        return f'"{name}" is not executable: chmod +x {name}'
    if path.is_dir():
        return f'"{name}" is a directory, no program'
    return f'"{name}" is no program that can be executed here' + ("; there is no such file" if "/" in name else "")
