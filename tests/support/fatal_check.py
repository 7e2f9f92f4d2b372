"""A check that ends the process it runs in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from fencepost.checkers.api import Check, partition_check
from fencepost.checkers.model.results import CheckResult


def fatal(folder: Path, what: str, times: int) -> Check[Any]:
    """So many times it leaves a file and ends its Python `worker` or its `executor`, as the kernel does when memory gives out."""

    def executor() -> int:  # in here, for workers do not have this module
        at = os.getpid()
        while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{at}/cmdline").read_bytes():
            at = int(Path(f"/proc/{at}/stat").read_text().rpartition(")")[2].split()[1])
        return at

    def end(log: Any) -> CheckResult:
        for turn in range(times):
            try:
                (folder / f"ended-{turn}").open("x").close()
            except FileExistsError:
                continue
            os.kill(os.getpid() if what == "worker" else executor(), signal.SIGKILL)
            time.sleep(60)  # the executor's end takes a moment
        return CheckResult(1)

    return partition_check("fatal")(end)


def ended(folder: Path) -> int:
    """Number of times the check ended a process."""
    return len(list(folder.glob("ended-*")))
