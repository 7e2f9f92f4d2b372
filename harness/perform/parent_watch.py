"""The end of standard input is the end of the harness: whoever performs something for it lets everything fall and tidies up.

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

from harness.api import Interrupted


def obey(hear: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """From now on: `hear` gets each command on standard input, from a thread; at its end the main thread raises Interrupted,
    wherever it is, once.

    A standard input that is no pipe says nothing about the harness.
    """
    signal.signal(signal.SIGHUP, _hung_up)
    threading.Thread(target=_listen, args=(hear,), daemon=True).start()


@contextmanager
def undisturbed_end() -> Iterator[None]:
    """Once it is left, a cluster is being taken down, and the end of the harness changes nothing any more."""
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _listen(hear: Callable[[dict[str, Any]], None]) -> None:
    for line in sys.stdin:
        hear(json.loads(line))
    kind = os.fstat(0).st_mode
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        os.kill(os.getpid(), signal.SIGHUP)


def _hung_up(*_: Any) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise Interrupted("the harness is gone")
