"""A child that ends with its lifeline: its standard input, which the kernel closes too when whoever holds the other end dies."""

from __future__ import annotations

import subprocess
from contextlib import suppress


def cut(child: subprocess.Popen[bytes], within_s: float) -> None:
    """Close a child's standard input and wait until it has ended; kill it only if it takes longer than it may."""
    assert child.stdin is not None
    with suppress(OSError):  # it may have ended meanwhile
        child.stdin.close()
    try:
        child.wait(within_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
