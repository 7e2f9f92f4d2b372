"""A child that does not outlive its parent: the kernel kills it when the parent dies, however that happens (prctl(2))."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

KILLED = 128 + signal.SIGKILL
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> Callable[[], None]:
    """A function that a child runs before exec: it asks the kernel to kill it when `parent` dies."""
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here, since little is safe in the child

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, libc)
        if os.getppid() != parent:
            os._exit(KILLED)

    return before_exec


def prctl(option: int, value: int, libc: ctypes.CDLL | None = None) -> None:
    """Set an attribute of this process. Raises OSError."""
    called = libc or ctypes.CDLL(None, use_errno=True)
    if called.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
