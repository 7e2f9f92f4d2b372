"""Packed parts back to one topic-partition's log: sends by identity, reads by offset, and which read returned which send."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.arrays import Ints
from checkers.partition.log import NONE, FinalRead, PartitionLog, Reads, Resets, Sends, Settings, position_type, slices
from checkers.partition.threads import results
from checkers.spark.scan import COLUMNS_OF, FINAL, FINISHED, READS, SENDS, TXN, UNCOMMITTED, UNNAMED, PackedPart, unpack

SPARSE = 4  # offsets for every send, beyond which no table of them is made


def unpack_log(
    partition: str,
    parts: Sequence[PackedPart],
    final: FinalRead,
    settings: Settings,
    resets: Resets | None = None,
    threads: int = 1,
) -> PartitionLog:
    """Packed parts back to one partition's sorted arrays."""
    read, sent = results([partial(unpack, parts, side) for side in (READS, SENDS)], threads)
    read["offset"] = _with_places(sent, read)
    pa.default_memory_pool().release_unused()
    return sorted_log(partition, sent, read, final, settings, resets or Resets(), threads)


def build_log(
    partition: str, columns: dict[str, Any], sent: Any, final: FinalRead, settings: Settings, resets: Resets
) -> PartitionLog:
    """A log from mixed micro-operations; `sent` says which of them are sends."""
    out, back = ({name: columns[name][which] for name in COLUMNS_OF[side]} for side, which in ((SENDS, sent), (READS, ~sent)))
    back["offset"] = _with_places(out, back)
    return sorted_log(partition, out, back, final, settings, resets)


def sorted_log(
    partition: str,
    sent: dict[str, Any],
    read: dict[str, Any],
    final: FinalRead,
    settings: Settings,
    resets: Resets,
    threads: int = 1,
) -> PartitionLog:
    """Sort sends by identity and reads by offset, and look up the send of each read. Empties both, to save memory."""
    arrival, _ = results([partial(_sort, read, "offset"), partial(_sort, sent, "v")], threads)
    flags = sent.pop("flags")
    sends = Sends(
        **{name: sent.pop(name) for name in ("op", "v", "began", "ended", "decided", "over")},
        offset=np.maximum(sent.pop("offset"), NONE),  # librdkafka marks unknown offsets with other negative numbers
        status=flags & 3,
        txn=(flags & TXN) > 0,
        finished=(flags & FINISHED) > 0,
    )
    flags = read.pop("flags")
    uncommitted = UNCOMMITTED | UNNAMED if settings.read_uncommitted else UNCOMMITTED
    committed, last = (flags & uncommitted) == 0, (flags & FINAL) > 0
    send, v = _found(sends, read["v"], read["offset"]), read.pop("v")
    unsent = np.flatnonzero(send < 0)
    unsent_v = v[unsent]
    del v
    reads = Reads(
        **{name: read[name] for name in ("op", "process", "offset", "ended")},
        committed=committed,
        judged=committed | ~last if settings.all_readers else committed,
        final=last,
        send=send,
        status=flags & 3,
        arrival=arrival,
        sent_v=sends.v,
        unsent=unsent,
        unsent_v=unsent_v,
    )
    return PartitionLog(partition, sends, reads, final, settings, resets)


def _with_places(sent: dict[str, Any], read: dict[str, Any]) -> Any:
    """The offsets of reads; where one is unknown, that at which its record was acknowledged, or at which others got it."""
    v, offset = read["v"], read["offset"]
    unknown = np.flatnonzero(offset < 0)
    if not len(unknown):
        return offset
    offset = np.maximum(offset, NONE)
    for values, places in ((sent["v"], np.maximum(sent["offset"], NONE)), (v, offset.copy())):
        known = np.flatnonzero(places != NONE)
        known = known[np.argsort(values[known], kind="stable")]
        still = unknown[offset[unknown] == NONE]
        if len(known) and len(still):
            at = _searched(values[known], v[still])
            offset[still] = np.where(at != NONE, places[known][at], NONE)
    return offset


def _sort(columns: dict[str, Any], by: str) -> Any:
    """Sort columns by one of them, rows with equal values as they come. Returns where each row was."""
    order = np.argsort(columns[by], kind="stable").astype(position_type(len(columns[by])))
    for name in list(columns):
        columns[name] = columns[name][order]
    return order


def _found(sends: Sends, v: Ints, offset: Ints) -> Any:
    """The send of each read, NONE for none: the one that was acknowledged where the read found it, or else by a search.

    Nearly every record lies where its acknowledgement says, and to look there costs a sixth of a search.
    """
    found = np.full(len(v), NONE, dtype=position_type(len(sends)))
    if not len(sends):
        return found
    low, there = _by_offset(sends)
    for part in slices(len(v)):
        at = there[np.clip(offset[part], low, low + len(there) - 1) - low]
        elsewhere = np.flatnonzero(sends.v[at] != v[part])
        at[elsewhere] = _searched(sends.v, v[part][elsewhere])
        found[part] = at
    return found


def _by_offset(sends: Sends) -> tuple[int, Any]:
    """An offset, and from it on which send was acknowledged at each (any, where none was); of equal identities only the first.

    Where acknowledgements are few and far between, that is only one.
    """
    first = np.ones(len(sends), dtype=np.bool_)
    first[1:] = sends.v[1:] != sends.v[:-1]
    known = np.flatnonzero(first & (sends.offset != NONE))
    offset = sends.offset[known]
    low = int(offset.min(initial=np.iinfo(np.int64).max))
    size = int(offset.max(initial=NONE)) - low + 1
    if not 0 < size <= SPARSE * len(sends):
        return 0, np.zeros(1, dtype=position_type(len(sends)))
    there = np.zeros(size, dtype=position_type(len(sends)))
    there[offset - low] = known
    return low, there


def _searched(sorted_values: Ints, wanted: Ints) -> Any:
    """Positions of values in a sorted array, NONE where they are not in it."""
    at = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    return np.where(sorted_values[at] == wanted, at, NONE)
