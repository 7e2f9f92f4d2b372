"""Packed parts back to one topic-partition's log: sends by identity, reads by offset, and which read returned which send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fencepost.checkers.history.scan import (
    COLUMNS_OF,
    FINAL,
    FINISHED,
    READS,
    SENDS,
    STATUS,
    TXN,
    UNCOMMITTED,
    UNNAMED,
    Columns,
    PackedPart,
    Unpacked,
)
from fencepost.checkers.model.arrays import Ints, positions_in, true_positions
from fencepost.checkers.model.threads import results
from fencepost.checkers.model.values import NONE, UNDECIDED, FinalRead, LoggedDecisions, Resets, Settings
from fencepost.checkers.views.log import IN_MEMORY, PartitionLog, Reads, Sends, position_type, slices
from fencepost.harness.api.record_ids import MAX_PROCESS, process_of
from fencepost.harness.system.array_files import Arrays

WHOLE_BITS = 63  # of a number that is not negative
SPARSE = 4  # offsets for every send, beyond which no table of them is made


def unpack_log(
    partition: str,
    parts: Sequence[PackedPart],
    final: FinalRead,
    settings: Settings,
    resets: Resets | None = None,
    threads: int = 1,
    arrays: Arrays = IN_MEMORY,
    decisions: LoggedDecisions = UNDECIDED,
) -> PartitionLog:
    """Packed parts back to one partition's sorted arrays. decisions: what the logs say of transactions of unknown outcome."""
    sent, read = results([partial(Unpacked, parts, SENDS, decisions), partial(Unpacked, parts, READS)], threads)
    if read.least("offset") < 0 and (places := _with_places(sent, read)) is not None:
        read.replace("offset", arrays.stored(places))
    return sorted_log(partition, sent, read, final, settings, resets or Resets(), threads, arrays)


def build_log(
    partition: str, columns: dict[str, Any], sent: Any, final: FinalRead, settings: Settings, resets: Resets
) -> PartitionLog:
    """A log from mixed micro-operations; `sent` says which of them are sends."""
    out, back = ({name: columns[name][which] for name in COLUMNS_OF[side]} for side, which in ((SENDS, sent), (READS, ~sent)))
    return log_of_columns(partition, out, back, final, settings, resets)


def log_of_columns(
    partition: str, sent: Columns, read: Columns, final: FinalRead, settings: Settings, resets: Resets, threads: int = 1
) -> PartitionLog:
    """A log from the columns of the sends and of the reads, in the order of the history."""
    if (places := _with_places(sent, read)) is not None:
        read = {**read, "offset": places}
    return sorted_log(partition, sent, read, final, settings, resets, threads)


def sorted_log(
    partition: str,
    sent: Columns,
    read: Columns,
    final: FinalRead,
    settings: Settings,
    resets: Resets,
    threads: int = 1,
    arrays: Arrays = IN_MEMORY,
) -> PartitionLog:
    """Sort sends by identity and reads by offset, and look up the send of each read.

    arrays: where a column is kept once it is sorted, before the next one is asked for.
    """
    arrival, calls = results([partial(_order_of_offsets, read), partial(_order_of_identities, sent)], threads)
    own = [name for name in read if name != "v"]  # a read's identity is that of its send
    back, out = _in_order([(read, own, arrival), (sent, list(sent), calls)], arrays, threads)
    stored, flags = arrays.stored, back.pop("flags")
    uncommitted = UNCOMMITTED | UNNAMED if settings.read_uncommitted else UNCOMMITTED
    tasks: list[Callable[[], Any]] = [
        partial(_sends_and_lookup, out, arrays),
        partial(read.__getitem__, "v"),
        lambda: stored((flags & uncommitted) == 0),
        lambda: stored((flags & FINAL) > 0),
        lambda: stored(flags & STATUS),
    ]
    (sends, lookup), v, committed, last, status = results(tasks, threads)
    send = stored(_sends_of_reads(sends, lookup, v, arrival, back["offset"], threads))
    unsent = true_positions(send < 0)
    reads = Reads(
        **back,
        committed=committed,
        judged=stored(committed | ~last) if settings.all_readers else committed,
        final=last,
        send=send,
        status=status,
        arrival=stored(arrival),
        sent_v=sends.v,
        unsent=unsent,
        unsent_v=v[arrival[unsent]],
    )
    return PartitionLog(partition, sends, reads, final, settings, resets, arrays)


def _sends_and_lookup(columns: dict[str, Any], arrays: Arrays) -> tuple[Sends, tuple[int, Any]]:
    """The sends, of sorted columns, and which of them lies where (`_by_offset`)."""
    stored, flags = arrays.stored, columns.pop("flags")
    sends = Sends(
        **{name: columns.pop(name) for name in ("op", "v", "began", "ended", "decided", "over")},
        offset=_at_least_none(columns.pop("offset"), arrays),
        status=stored(flags & STATUS),
        txn=stored((flags & TXN) > 0),
        finished=stored((flags & FINISHED) > 0),
    )
    return sends, _by_offset(sends)


def _order_of_offsets(columns: Columns) -> Any:
    """Positions by offset, of equal ones as they come.

    Sorted as one number for both where 64 bits are enough: half of the memory of numpy's positions and what it sorts them by.
    """
    offset = columns["offset"]
    kind, bits = position_type(len(offset)), len(offset).bit_length()
    low, high = (int(offset.min()), int(offset.max())) if len(offset) else (0, 0)
    if (high - low).bit_length() + bits > WHOLE_BITS:
        return np.argsort(offset, kind="stable").astype(kind)
    both = np.subtract(offset, low)
    del offset
    for part in slices(len(both)):
        both[part] <<= bits
        both[part] |= np.arange(part.start, part.stop)
    both.sort(kind="stable")  # the history is nearly in this order
    positions = np.empty(len(both), dtype=kind)
    for part in slices(len(both)):
        positions[part] = both[part] & ((1 << bits) - 1)
    return positions


def _order_of_identities(columns: Columns) -> Any:
    """Positions by identity, of equal ones as they come.

    A process sends in the order of its records' identities, so these are in order once the processes are, which are few enough
    for a sort without comparisons: a quarter of the time.
    """
    v = columns["v"]
    if len(v) and process_of(v.min()) >= 0 and process_of(v.max()) <= MAX_PROCESS:
        process = np.empty(len(v), dtype=np.uint16)
        for part in slices(len(v)):
            process[part] = process_of(v[part])
        order = np.argsort(process, kind="stable").astype(position_type(len(v)))
        if all(_rises(v[order[max(0, part.start - 1) : part.stop]]) for part in slices(len(v))):
            return order
    return np.argsort(v, kind="stable").astype(position_type(len(v)))


def _rises(values: Any) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _in_order(sides: Sequence[tuple[Columns, list[str], Any]], arrays: Arrays, threads: int) -> list[dict[str, Any]]:
    """Columns of each side at its positions; each is a task of its own, for whichever thread is free."""
    tasks = [partial(_taken, columns, name, positions, arrays) for columns, names, positions in sides for name in names]
    taken = iter(results(tasks, threads))
    return [{name: next(taken) for name in names} for _, names, _ in sides]


def _taken(columns: Columns, name: str, positions: Any, arrays: Arrays) -> Any:
    return arrays.taken(columns[name], positions)


def _at_least_none(offset: Ints, arrays: Arrays) -> Ints:
    """Offsets, of which librdkafka marks unknown ones with other negative numbers."""
    return offset if int(offset.min(initial=NONE)) == NONE else arrays.stored(np.maximum(offset, NONE))


def _with_places(sent: Columns, read: Columns) -> Any:
    """The offsets of reads; where one is unknown, that at which its record was acknowledged, or at which others got it.

    None where all are known.
    """
    offset = read["offset"]
    unknown = true_positions(offset < 0)
    if not len(unknown):
        return None
    v, offset = read["v"], np.maximum(offset, NONE)
    for values, places in ((sent["v"], np.maximum(sent["offset"], NONE)), (v, offset.copy())):
        known = true_positions(places != NONE)
        known = known[np.argsort(values[known], kind="stable")]
        still = unknown[offset[unknown] == NONE]
        if len(known) and len(still):
            at = positions_in(values[known], v[still])
            offset[still] = np.where(at != NONE, places[known][at], NONE)
    return offset


def _sends_of_reads(sends: Sends, lookup: tuple[int, Any], v: Ints, order: Any, offset: Ints, threads: int) -> Any:
    """The send of each read, NONE for none: the one that was acknowledged where the read found it, or else by a search.

    lookup: see `_by_offset`.
    v: identities of reads, as they came.
    order: their positions by offset.

    Nearly every record lies where its acknowledgement says, and to look there costs a sixth of a search.
    """
    if not len(sends):
        return np.full(len(v), NONE, dtype=position_type(0))
    positions = np.empty(len(v), dtype=position_type(len(sends)))
    low, there = lookup

    def find(part: slice) -> None:
        at, wanted = there[np.clip(offset[part], low, low + len(there) - 1) - low], v[order[part]]
        elsewhere = true_positions(sends.v[at] != wanted)
        at[elsewhere] = positions_in(sends.v, wanted[elsewhere])
        positions[part] = at

    results([partial(find, part) for part in slices(len(v))], threads)
    return positions


def _by_offset(sends: Sends) -> tuple[int, Any]:
    """An offset, and from it on which send was acknowledged at each (any, where none was); of equal identities only the first.

    Where acknowledgements are few and far between, that is only one.
    """
    first = np.ones(len(sends), dtype=np.bool_)
    first[1:] = sends.v[1:] != sends.v[:-1]
    known = first & (sends.offset != NONE)
    low = int(sends.offset.min(where=known, initial=np.iinfo(np.int64).max))
    size = int(sends.offset.max(where=known, initial=NONE)) - low + 1
    if not 0 < size <= SPARSE * len(sends):
        return 0, np.zeros(1, dtype=position_type(len(sends)))
    there = np.zeros(size, dtype=position_type(len(sends)))
    for part in slices(len(sends)):
        at = part.start + true_positions(known[part])
        there[sends.offset[at] - low] = at
    return low, there
