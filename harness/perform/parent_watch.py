"""The end of standard input is the end of the harness: a process that performs something for it then stops and cleans up.

Where brokers are ours, the supervisor of the sandbox ends everything anyhow; on somebody else's cluster topics must be removed.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fencepost.harness.api.errors import Interrupted


def start(on_command: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Pass each command on standard input to `on_command`, from a thread. At its end the main thread raises Interrupted, once.

    A standard input that is no pipe is not the harness.
    """
    signal.signal(signal.SIGHUP, _hung_up)
    threading.Thread(target=_listen, args=(on_command,), daemon=True).start()


@contextmanager
def undisturbed_end() -> Iterator[None]:
    """Ignore the end of the harness from the end of the block on, when the cluster is being taken down."""
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _listen(on_command: Callable[[dict[str, Any]], None]) -> None:
    for line in sys.stdin:
        on_command(json.loads(line))
    kind = os.fstat(0).st_mode
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        os.kill(os.getpid(), signal.SIGHUP)


def _hung_up(*_: Any) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise Interrupted("the harness is gone")
