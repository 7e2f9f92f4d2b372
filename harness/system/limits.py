"""The number of files that a process may open: raised to what this machine allows, and demanded before a run."""

from __future__ import annotations

import resource
from contextlib import suppress

LEAST, COMFORTABLE = 1024, 4096  # Spark's JVM opens more than 400 jars, a broker some for each partition
_MOST = 65_536  # some programs close every possible descriptor one by one


def raise_open_files() -> None:
    """Use as many as are allowed; what is started from now on inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files() -> int:
    """The number of files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft


def too_few_files() -> str:
    """The sentence on too few files for a run; empty when there are enough."""
    most = open_files()
    return f"a process may open {most} files here, and a run needs {LEAST}: raise the limit (ulimit -n {COMFORTABLE})" * (
        most < LEAST
    )
