"""What every program does that a kit runs in a cluster's sandbox: its plan, its events, its logs, its end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import HarnessError
from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.perform import parent_watch
from fencepost.harness.system.logs import BoundedLogs
from fencepost.harness.system.whole_lines import write_line

Emit = Callable[..., None]  # (name of an event, **fields)


def run_side(run_dir: Path, perform: Callable[[Mapping[str, Any], Path, Emit], None]) -> int:
    """Perform what the plan in a directory says; the exit status. Events are JSON lines on standard output; `failed`: why not.

    Secrets are removed from the logs at the end: brokers, clients and libraries write there, and may write one that was resolved.
    """
    plan: Mapping[str, Any] = read_plan(run_dir)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to the log, not into our events

    def emit(event: str, **fields: Any) -> None:
        with suppress(BrokenPipeError):  # nobody reads any more
            write_line(out, json.dumps(secrets.without_secrets({"event": event, **fields})).encode())

    parent_watch.start()
    secrets.guard()
    try:
        with BoundedLogs(run_dir / "logs").bounded():
            perform(plan, run_dir, emit)
    except HarnessError as error:
        emit("failed", text=str(error))
        return 1
    finally:
        sweep(run_dir, emit)
    return 0


def sweep(run_dir: Path, emit: Emit) -> None:
    """Remove secrets from the logs."""
    secrets.sweep(run_dir, "logs", lambda text: emit("phase", text=text))
