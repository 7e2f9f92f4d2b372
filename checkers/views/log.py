"""One Kafka partition as numpy arrays: what was sent to it, what was read from it, and in which order it lies.

Everything that several checks need is computed once, on first use, and shared, also between threads. Missing numbers are -1
(`NONE`). Offsets are sparse (markers and aborted records occupy offsets), so nothing here compares distances of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from threading import RLock
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers.model.arrays import Bools, Ints, among, true_positions
from fencepost.checkers.model.values import COMMITTED, FOREVER, INFO, NONE, FinalRead, Resets, Settings
from fencepost.checkers.views.parts import Parts
from fencepost.checkers.views.swallowed import NO_READ, holding_reads
from fencepost.harness.system.array_files import Arrays

_SPARSE = 8  # numbers from the lowest to the highest for each one that there is, beyond which no table of them is made
_MOST_IN_32_BITS = np.iinfo(np.int32).max
SLICE = 1 << 21  # rows worked on at once, where all of them together would need several times their own memory
Made = TypeVar("Made")
IN_MEMORY = Arrays()


def position_type(count: int) -> Any:
    """The type of positions among so many: 32 bits where that is enough."""
    return np.int32 if count < _MOST_IN_32_BITS else np.int64


def slices(count: int) -> Iterator[slice]:
    """So many positions, `SLICE` at a time."""
    if count <= SLICE:
        return iter((slice(0, count),) if count > 0 else ())
    return (slice(start, min(start + SLICE, count)) for start in range(0, count, SLICE))


@dataclass(frozen=True)
class Sends:
    """Records sent to the partition, sorted by `v` (so by process, operation and sequence).

    op: history index.
    v: identity of the record.
    offset: where it was acknowledged (NONE: not).
    began: call (ns).
    ended: acknowledgement (ns).
    decided: first call of commit (ns).
    over: when the operation ended ok (ns).
    status: COMMITTED, ABORTED or INFO.
    txn: sent in a transaction.
    finished: the operation has a completion, or was to abort, so that nobody calls its commit.
    """

    op: Any  # 32 bits where that is enough, here and below
    v: Ints
    offset: Ints
    began: Ints
    ended: Ints
    decided: Ints
    over: Ints
    status: NDArray[np.int8]
    txn: Bools
    finished: Bools

    def __len__(self) -> int:
        return len(self.v)


@dataclass(frozen=True)
class Reads:
    """Records returned by polls, sorted by offset.

    committed: the reader is read_committed.
    judged: the contract judges it as read_committed.
    final: a reader of the final phase.
    send: position in `Sends` of the record, NONE when it was not sent to this partition.
    status: what became of the operation that polled.
    arrival: a number that grows from record to record of one operation, as they were returned.
    sent_v: the identities of `Sends`.
    unsent: the reads without a send (positions, rising).
    unsent_v: the identities of these.
    """

    op: Any
    process: NDArray[np.int32]
    offset: Ints
    ended: Ints
    committed: Bools
    judged: Bools
    final: Bools
    send: Any
    status: NDArray[np.int8]
    arrival: Any
    sent_v: Ints
    unsent: Ints
    unsent_v: Ints

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def v(self) -> Ints:
        """The identities of all records: made anew with each use, so that they need no memory meanwhile."""
        return self.identities(slice(None))

    def identities(self, which: Any) -> Ints:
        """The identities of some records (a mask, positions or a slice)."""
        send = self.send[which]
        v = self.sent_v[send] if len(self.sent_v) else np.full(len(send), NONE, dtype=np.int64)
        if len(self.unsent):
            unsent = true_positions(send < 0)
            positions = np.arange(len(self))[which][unsent]
            v[unsent] = self.unsent_v[np.searchsorted(self.unsent, positions)]
        return v


def _once(values: Ints, others: Ints) -> Ints:
    """The values of an array; those of another one that is equal to it, so that only one is in memory."""
    return others if np.array_equal(values, others) else values


class shared_property(Generic[Made]):
    """A property of a log that is computed on first use, once for all threads, and then kept.

    It is also put into the log's own attributes, which Python looks up before it asks here again.
    """

    def __init__(self, make: Callable[[PartitionLog], Made]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    @overload
    def __get__(self, log: None, owner: type) -> shared_property[Made]: ...
    @overload
    def __get__(self, log: PartitionLog, owner: type) -> Made: ...
    def __get__(self, log: PartitionLog | None, owner: type) -> Any:
        if log is None:
            return self
        made = vars(log)[self._make.__name__] = log.shared(self._make)
        return made


@dataclass(frozen=True)
class PartitionLog:
    """All that the history knows of one partition (`topic-number`).

    arrays: where those lie that several checks need.
    parts: its partitions, where it is a joined log (`checkers.views.joined_logs`).
    """

    partition: str
    sends: Sends
    reads: Reads
    final: FinalRead
    settings: Settings
    resets: Resets = field(default_factory=Resets)
    arrays: Arrays = field(default=IN_MEMORY, repr=False, compare=False)
    parts: Parts | None = None
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _locks: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def shared(self, make: Callable[[PartitionLog], Made]) -> Made:
        """The value that a function makes of this log: computed once, for the first check that needs it, and shared by all.

        A check in another thread that needs it meanwhile waits. A function may use what others make, but not in a circle.
        """
        made = self._made.get(make, self)  # a log stands for nothing: no function makes it
        if made is self:
            with self._locks.setdefault(make, RLock()):
                if make not in self._made:
                    self._made[make] = self.arrays.stored(make(self))
                made = self._made[make]
        return made  # type: ignore[no-any-return]

    def in_slices(self, count: int, kind: Any, make: Callable[[slice], Any]) -> Any:
        """So many values, of which a function makes those of some positions: no more are in memory if the whole is large."""
        return self.arrays.joined(lambda: map(make, slices(count)), count, kind)

    @property
    def written_late(self) -> bool:
        """True if somebody still wrote when the final phase had begun."""
        times = (self.sends.began, self.sends.ended, self.sends.over)
        return max((int(time.max(initial=NONE)) for time in times), default=NONE) > self.final.begun

    @shared_property
    def acked(self) -> Bools:
        """Sends with an acknowledgement."""
        return np.asarray(self.sends.ended != NONE)

    def seen_by(self, which: Bools) -> Bools:
        """Sends that were returned by at least one of these reads."""
        seen = np.zeros(len(self.sends) + 1, dtype=np.bool_)  # `send` is NONE for records of nobody, and so marks the last entry
        for part in slices(len(self.reads)):
            some = which[part]
            seen[self.reads.send[part] if some.all() else np.compress(some, self.reads.send[part])] = True
        return seen[:-1]

    @shared_property
    def seen(self) -> Bools:
        """Sends returned to anybody."""
        if len(self.reads) and self.reads.offset[0] != NONE:  # the first: all have an offset
            return np.asarray(self.places_read[0] != NONE)
        return self.seen_by(np.ones(len(self.reads), dtype=np.bool_))

    @shared_property
    def seen_committed(self) -> Bools:
        """Sends returned to a reader that really was read_committed: evidence that their transaction committed."""
        return self.seen_by(self.reads.committed)

    @shared_property
    def seen_final(self) -> Bools:
        """Sends returned by a complete read_committed final read."""
        return self.seen_by(self.reads.committed & self._by(self.final.committed))

    @shared_property
    def seen_witness(self) -> Bools:
        """Sends returned by a complete read_uncommitted final read: what the log holds, aborted records included."""
        return self.seen_by(~self.reads.committed & self._by(self.final.uncommitted))

    def _by(self, processes: tuple[int, ...]) -> Bools:
        final, process = self.reads.final, self.reads.process
        return np.concatenate([final[:0], *(final[part] & among(process[part], processes) for part in slices(len(final)))])

    def span(self, which: Bools) -> tuple[Ints, Ints]:
        """Lowest and highest offset at which each send was returned by these reads (NONE: by none).

        Reads are sorted by offset, and of several assignments to one place numpy lets the last win. So writing the offsets in
        order leaves the highest for each send, and writing them in reverse the lowest: no sorting, no comparing.
        """
        low, high = (np.full(len(self.sends), NONE, dtype=np.int64) for _ in range(2))
        parts = list(slices(len(self.reads)))
        for part in parts:
            position, offset = self._placed(which, part)
            high[position] = offset
        for part in reversed(parts):
            position, offset = self._placed(which, part)
            low[position[::-1]] = offset[::-1]
        return low, _once(high, low)

    def _placed(self, which: Bools, part: slice) -> tuple[Any, Ints]:
        """Wanted reads among some whose send and offset are known: the position of the send, and the offset."""
        send, offset = self.reads.send[part], self.reads.offset[part]
        wanted = which[part] & (send >= 0) & (offset != NONE)
        return (send, offset) if wanted.all() else (send[wanted], offset[wanted])

    @shared_property
    def places_read(self) -> tuple[Ints, Ints]:
        """Lowest and highest offset at which each send was returned to anybody."""
        return self.span(np.ones(len(self.reads), dtype=np.bool_))

    @shared_property
    def first_returned(self) -> Ints:
        """The time at which each send was first returned to anybody, FOREVER for never."""
        first = np.full(len(self.sends), FOREVER)
        for part in slices(len(self.reads)):
            send, ended = self.reads.send[part], self.reads.ended[part]
            known = (send >= 0) & (ended != NONE)
            np.minimum.at(first, *((send, ended) if known.all() else (send[known], ended[known])))
        return first

    @shared_property
    def swallows(self) -> tuple[Ints, Ints]:
        """Sends (positions) that nobody got, acknowledged at an offset that holds an older record of the same producer; and for
        each the read (position) that returned the older one there.
        """
        sends, reads = self.sends, self.reads
        unread = true_positions((sends.offset != NONE) & ~self.seen)
        read = holding_reads(sends.offset[unread], sends.v[unread], reads.offset, reads.identities, reads.send)
        return unread[read != NO_READ], read[read != NO_READ]

    @shared_property
    def swallowed(self) -> Bools:
        """Sends that are in `swallows`: they lie nowhere."""
        swallowed = np.zeros(len(self.sends), dtype=np.bool_)
        swallowed[self.swallows[0]] = True
        return swallowed

    @shared_property
    def place(self) -> Ints:
        """The place of each send: the lowest offset that its acknowledgement or a reader gave (NONE: unknown, or nowhere)."""
        read, _ = self.places_read
        both = np.where(read == NONE, self.sends.offset, read)
        place = np.where((self.sends.offset != NONE) & (self.sends.offset < both), self.sends.offset, both)
        place[self.swallows[0]] = NONE
        return _once(_once(place, read), self.sends.offset)

    @shared_property
    def by_place(self) -> Any:
        """Positions of all sends by their place, of equal places as they come; those without a place first."""
        return np.argsort(self.place, kind="stable").astype(position_type(len(self.sends)))

    def in_place_order(self, which: Bools) -> Any:
        """Positions of some sends by their place, of equal places as they come."""
        return np.compress(which[self.by_place], self.by_place)  # a mask without a pattern takes twice as long as an index

    @shared_property
    def by_senders(self) -> Bools:
        """Reads by operations that sent something here themselves: mostly none."""
        op, sent = self.reads.op, self.sends.op
        if not len(op) or not len(sent):
            return np.zeros(len(op), dtype=np.bool_)
        low, high = int(sent.min()), int(sent.max())
        if high - low > _SPARSE * (len(op) + len(sent)):
            return np.isin(op, sent)
        senders = np.zeros(high - low + 3, dtype=np.bool_)  # an entry before and one after, for all others
        senders[sent - (low - 1)] = True
        return np.concatenate([senders.take(op[part] - (low - 1), mode="clip") for part in slices(len(op))])

    @shared_property
    def unsent_reads(self) -> Bools:
        """Reads of a record that nobody sent to this partition."""
        return np.asarray(self.reads.send < 0)

    @shared_property
    def covered(self) -> Bools:
        """Sends that a complete read_committed final read had to return if they are committed.

        In a stalled partition only what lies below the offset that the read reached: the rest is hidden, another finding. Where
        nobody knows whether it is stalled, what surely lies higher may be hidden, unless a read_committed reader got it before.
        """
        everything = np.full(len(self.sends), bool(self.final.committed))
        if self.final.stalled:
            everything &= (self.place != NONE) & (self.place < self.final.reach)
        elif self.final.unsettled and self.sends.txn.any():  # only a transaction hides what lies above it
            everything &= (self.place < self.final.reach) | self.seen_committed
        return everything

    @shared_property
    def uncalled(self) -> Bools:
        """Sends of transactions of unknown outcome for which commit was never called, as far as is known of one that has no
        completion: they promise nothing.
        """
        sends = self.sends
        return np.asarray(sends.txn & (sends.status == INFO) & sends.finished & (sends.decided == NONE))

    @shared_property
    def commit_returned(self) -> Bools:
        """Sends of transactions whose commit returned ok, without those that only the logs have committed."""
        return np.asarray(self.sends.txn & (self.sends.status == COMMITTED) & (self.sends.over != NONE))

    @shared_property
    def promised(self) -> Bools:
        """Sends that are promises in any case: all of a transaction that committed, by its client or by the logs; acknowledged
        ones outside transactions.
        """
        return np.asarray(np.where(self.sends.txn, self.sends.status == COMMITTED, self.acked), dtype=np.bool_)


def once(make: Callable[[PartitionLog], Made]) -> Callable[[PartitionLog], Made]:
    """A function of a log that computes its answer once (`PartitionLog.shared`); nobody may change the answer."""

    @wraps(make)
    def shared(log: PartitionLog) -> Made:
        return log.shared(make)

    return shared
