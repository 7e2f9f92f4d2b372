"""Errors: what prevents an answer. Findings and outcomes are values and never exceptions.

HarnessError           fencepost itself broke (exit 255)
├── CampaignError      a campaign, option or plug-in that cannot be used (exit 254)
│   └── UnwritableFile    a result that could not be written, when the work was done
├── ClusterError       a cluster that did not start, or cannot be reached (exit 254)
│   ├── OverBudget     a fault that would hurt more nodes than the test allows
│   └── UnusableLibrary   a client in the cache that this machine cannot use any more
├── HistoryError       a history that cannot be read at all (exit 254)
├── MachineError       this machine, or its installation, lacks what is needed (exit 254)
└── Interrupted        the person asked us to stop
    └── NotBegun          before there was anything to judge
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of the command (as Jepsen's)."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    UNUSABLE = 254  # what was given, the cluster, or this machine
    HARNESS_BROKE = 255


class HarnessError(Exception):
    """A failure of the harness, a cluster or an input; no finding. The text says what was tried, what happened, what to do."""

    exit: ClassVar[Exit] = Exit.HARNESS_BROKE


class CampaignError(HarnessError):
    """Bad input: every mistake found, one per line, each with file, key and remedy."""

    exit = Exit.UNUSABLE

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(self.mistakes))


class UnwritableFile(CampaignError):
    """A file cannot be written; what was done for it was done in vain."""


class ClusterError(HarnessError):
    """A cluster could not be started, reached or changed."""

    exit = Exit.UNUSABLE


class OverBudget(ClusterError):
    """A fault would hurt more nodes at a time than the test allows."""


class UnusableLibrary(ClusterError):
    """A client library in the cache cannot be used on this machine any more; it can be fetched anew."""


class HistoryError(HarnessError):
    """A history could not be read at all."""

    exit = Exit.UNUSABLE


class MachineError(HarnessError):
    """This machine, or what is installed on it, lacks what is needed: memory, room on a disk, Spark."""

    exit = Exit.UNUSABLE


class Interrupted(HarnessError):
    """The person pressed Ctrl-C; what there is should still be judged."""


class NotBegun(Interrupted):
    """The person pressed Ctrl-C before the workload began: there is nothing to judge."""


_LACKS = {
    errno.ENOSPC: "no room is left on the disk: make some, or name another folder (--results; TMPDIR for temporary files)",
    errno.EDQUOT: "your quota on the disk is used up: make some room, or name another folder (--results)",
    errno.EROFS: "the disk may only be read: name another folder (--results)",
    errno.EIO: "the disk cannot be read or written (an input/output error)",
    errno.ENOMEM: "not enough memory",
    errno.EMFILE: "a process may open too few files here: raise the limit (ulimit -n 4096)",
    errno.ENFILE: "this machine can open no more files: raise fs.file-max, or end what has so many open",
    errno.EAGAIN: "this machine can start no more processes or threads: raise the limit (ulimit -u), or end some",
}

_IN_JAVA = {"No space left on device": errno.ENOSPC, "OutOfMemoryError": errno.ENOMEM, "Too many open files": errno.EMFILE}


def lack_of_machine(error: BaseException) -> str:
    """The sentence on what this machine lacks, where that is why something failed; empty for any other error."""
    if isinstance(error, MemoryError):
        return "not enough memory: what was read, or is to be judged, does not fit into it"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _LACKS[errno.EAGAIN]
    if type(error).__module__.startswith("py4j"):
        return next((_LACKS[number] for words, number in _IN_JAVA.items() if words in str(error)), "")
    if not isinstance(error, OSError):
        return ""
    if error.errno == errno.EMFILE:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"a process may open {most} files here, which are too few: raise the limit (ulimit -n 4096)"
    text = _LACKS.get(error.errno or 0, "")
    return f"{text} ({error.filename})" if text and error.filename else text


def exit_of(error: BaseException) -> Exit:
    """The exit code of the command that an error ends."""
    if isinstance(error, HarnessError):
        return error.exit
    return Exit.UNUSABLE if lack_of_machine(error) else Exit.HARNESS_BROKE
