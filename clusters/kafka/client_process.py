"""A client's process on this machine, and all that it starts: one node, hurt as one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any


class ClientProcess(subprocess.Popen[Any]):
    """Leads a process group; every signal to it, SIGKILL included, goes to the whole group."""

    def __init__(self, argv: Sequence[str], **popen: Any) -> None:
        super().__init__(argv, start_new_session=True, **popen)

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.killpg(self.pid, sig)
