"""Records acknowledged at an offset that holds an older record of the same producer (`swallowed-write`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Ints
from fencepost.harness.api import record_ids

NO_READ = -1


def holding_reads(offset: Ints, v: Ints, read_offset: Ints, read_v: Callable[[Ints], Ints], read_send: Any) -> Ints:
    """The first read, for each of some records, at the offset of its acknowledgement of a record that its producer sent before
    it.

    offset: where each record was acknowledged.
    v: its identity.
    read_offset: what was read of the partition, sorted.
    read_v: the identities of some reads.
    read_send: negative where nobody sent that record to the partition.

    Returns positions of reads, NO_READ where there is none.
    """
    first = np.searchsorted(read_offset, offset, side="left")
    count = np.searchsorted(read_offset, offset, side="right") - first
    which = np.repeat(np.arange(len(offset)), count)  # a pair for each record and each read at its offset
    at = np.arange(len(which)) + np.repeat(first - (np.cumsum(count) - count), count)
    held = read_v(at)
    older = (record_ids.process_of(held) == record_ids.process_of(v[which])) & (held < v[which])
    older &= read_send[at] >= 0
    positions = np.full(len(offset), NO_READ, dtype=np.int64)
    positions[which[older][::-1]] = at[older][::-1]  # of several values for one place the last one stays
    return positions
