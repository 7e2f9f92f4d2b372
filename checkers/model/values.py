"""Values that history and checks share: what is not known, what became of an operation, how final reads ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints

NONE = -1
"""Number that stands for what is not known, or is not there."""


FOREVER = np.iinfo(np.int64).max  # later than any time


COMMITTED, ABORTED, INFO = 0, 1, 2  # what is known of the operation that sent a record


_INDEX_BITS = 40  # of an operation's history index, beside its process


def no_operations() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class LoggedDecisions:
    """Transactions of unknown outcome of which the brokers' logs say how they ended (history indices)."""

    aborted: Ints = field(default_factory=no_operations)
    committed: Ints = field(default_factory=no_operations)

    def __len__(self) -> int:
        return len(self.aborted) + len(self.committed)


UNDECIDED = LoggedDecisions()


@dataclass(frozen=True)
class FinalRead:
    """The end of the final reads of one partition.

    committed: processes whose read_committed final read was complete (position >= end).
    uncommitted: processes whose read_uncommitted final read was complete.
    reach: how far the complete read_committed reads went (the lowest `end` among them, an offset).
    stalled: the last stable offset was below the high watermark, so that read_committed could not see everything.
    unsettled: nobody knows whether it was: neither offset was looked up, and no read_uncommitted final read was complete.
    readers: of each complete read_committed final read its process, its `final-read` operation (history index), and when that
        process began its first operation (ns). Of a joined log each of these is an array with an entry for each read.
    witnesses: the same of each complete read_uncommitted final read.
    begun: when the ends up to which they read were measured (ns). A partition to which somebody still wrote by then has no final
        read that counts: what was written later lies beyond its end.
    """

    committed: tuple[int, ...] = ()
    uncommitted: tuple[int, ...] = ()
    reach: int = 0
    stalled: bool = False
    unsettled: bool = False
    readers: tuple[tuple[Any, Any, Any], ...] = ()
    witnesses: tuple[tuple[Any, Any, Any], ...] = ()
    begun: int = FOREVER


@dataclass(frozen=True)
class Resets:
    """Operations that assigned a consumer anew (`assign`, `subscribe`), so that its position after them is unknown.

    process: whose.
    op: history index.
    unaffected: partition -> positions in both arrays of those that did not move it.
    """

    process: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    op: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    unaffected: Mapping[str, list[int]] = field(default_factory=dict)

    def between(self, partition: str, process: Ints, first: Ints, last: Ints) -> Bools:
        """True for each process that was assigned a partition anew between two operations (indices; NONE: ever before)."""
        if not len(self.op):
            return np.zeros(len(process), dtype=np.bool_)
        moving = np.delete(self.process << _INDEX_BITS | self.op, self.unaffected.get(partition, []))
        moving.sort()
        bounds = [np.searchsorted(moving, (process << _INDEX_BITS) + np.maximum(op, 0)) for op in (first, last)]
        return np.asarray(bounds[0] < bounds[1])


@dataclass(frozen=True)
class Settings:
    """The contract as far as it says how a log is to be read; a check never looks at the contract itself.

    all_readers: every non-final reader is judged as read_committed, whatever it is.
    read_uncommitted: the workload reads at read_uncommitted, so that what such readers get is what it sees; readers whose own
        level is not known are such readers.
    pipelined_order: the producer promises the order of sends in flight together (idempotence, KIP-98).
    from_start: every process begins to read at the start of the log.
    rewinds: after an operation that did not end ok, the client goes back to the first record that it polled in it.
    deletes: the topic deletes records (compaction, retention), so that an absent one proves nothing and is not lost.
    """

    all_readers: bool = False
    read_uncommitted: bool = False
    pipelined_order: bool = True
    from_start: bool = True
    rewinds: bool = False
    deletes: bool = False
