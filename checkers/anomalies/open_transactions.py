"""Records returned above the last stable offset: the first record of any transaction that is still open (KIP-98).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_rules import (
    ABORTED_IN_PART,
    COORDINATOR_CUT_OFF,
    UNLESS_PRODUCER,
    UNLESS_TRANSACTIONAL,
    cut_off,
)
from fencepost.checkers.contract.needs import (
    ANYBODY_OR_WHEN,
    DECISIONS,
    FINAL_COMMITTED,
    LEVELS,
    OUTCOMES,
    POLLS,
    SENDS,
    UNCOMMITTED_READER,
    Needs,
)
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.graph.layers import READ_CYCLES
from fencepost.checkers.model.arrays import Bools, Ints, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import COMMITTED, NONE
from fencepost.checkers.selfcheck.accompanying import SKIPS
from fencepost.checkers.selfcheck.schedules import scheduled
from fencepost.checkers.views.log import PartitionLog, slices
from fencepost.checkers.views.result_rows import first_of_each, read_rows, send_rows
from fencepost.checkers.views.versions import committed_records, fixed, lost, placed_reads
from fencepost.checkers.views.wording import FindingText, apart
from fencepost.harness.api.promises import ISOLATED


def _explain_overrun(finding: Finding, text: FindingText) -> str:
    writer, reader = finding.records("sent")[0], finding.records("read")[0]
    got = f"{text.name(reader.op)} read {reader.place}{text.first_of(finding.records('read'), 'reads')} past {writer.place}"
    if writer.op == reader.op:
        return f"{got}, a record of its own that was not decided yet."
    whose, decided = text.name(writer.op, capital=False), text.decided(writer.op)
    if text.promised(writer.op) or decided > reader.time:
        return f"{got} of {whose}, {apart(decided - reader.time)} its commit was called."
    later = apart(writer.time - reader.time, "later")
    return f"{got} of {whose}, which was open: {later} it sent a record to {writer.partition} that was appended."


@partition_check(
    "lso-overrun",
    together=True,
    promise=ISOLATED,
    consequences=("poll-skip", "int-poll-skip", *READ_CYCLES),  # who reads past an open transaction never gets its records
    rules=(
        UNLESS_PRODUCER,
        UNLESS_TRANSACTIONAL,
        ABORTED_IN_PART,
        *cut_off("what an open transaction had sent may be gone, and its place given away again"),
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "read_committed returns nothing above the first record of an open transaction (KIP-98)"),
    ),
    evidence=Needs({SENDS, OUTCOMES, POLLS, FINAL_COMMITTED, DECISIONS}, ANYBODY_OR_WHEN, {LEVELS}, UNCOMMITTED_READER),
    damages=(scheduled("lso-overrun", SKIPS),),
    across=True,
    explain=_explain_overrun,
    needs="no record was read at read_committed above one of a transaction whose decision has a known time",
)
def lso_overrun(log: PartitionLog) -> CheckResult:
    """A record returned to a reader judged by read_committed, although below it lies one of a transaction that was still open.

    A read_committed reader gets nothing at or above the last stable offset, and no open transaction has a record below that.
    Compared are

    1. transactions that committed (ok, or a read_committed reader got the record): open until commit is first called, and to
       itself as long as it polls.
    2. other transactions, aborted or of unknown outcome: their timeout may have ended them before the client asked. Open until
       the last record was sent to the same partition that was acknowledged: after its marker there the broker would have
       refused that record. Where a read_uncommitted final read is complete, it returned both records.
    3. records of these at one place only, and not lost;
    4. reads of records that are at one place, not lost, and were decided when they were read.

    compared: reads above a record of such a transaction. One cause: the open transaction.

    Example::

        ms     process  operation  t-0               outcome
        0-9    1        txn        send b@6          committed
        2-3    2        txn        send a@5          committed
        2-3    2        txn        send c@7          committed
        4-5    3        poll       read a@5, c@7
        10-11  4        poll       read b@6, c@7

    Found: sent b@6 and read c@7 at 5 ms, before commit was called at 9 ms. a lies below b.

    Slow twin: `lso_overruns` in tests/support/reference.py.
    """
    opened = _Opened.of(log)
    parts = [_overruns(log, opened, part) for part in slices(len(log.reads))]
    compared = sum(count for count, _, _ in parts)
    reads, writer = (np.concatenate([np.empty(0, dtype=np.int64), *(part[side] for part in parts)]) for side in (1, 2))
    return CheckResult(compared, _rows(log, reads, writer) if len(reads) else {})


def _overruns(log: PartitionLog, opened: _Opened, part: slice) -> tuple[int, Ints, Ints]:
    """The number of reads compared; those that overrun (positions), and of each the send (position) that it passed."""
    reads = _sound_reads(log, part)
    below = opened.last_below(log.reads.offset[part])[reads - part.start]
    if log.parts is not None:  # nothing lies below in another partition
        there = np.append(log.parts.numbers(log.sends.op[opened.sends]), NONE)[below]
        below = np.where(there == log.parts.numbers(log.reads.op[reads]), below, NONE)
    reads, below = reads[below >= 0], below[below >= 0]
    writer = opened.own_below(log, reads)
    over = true_positions(opened.longest[below] > log.reads.ended[reads])
    writer[over] = opened.sends[opened.open_longest(below[over])]
    overrun = writer != NONE
    return len(reads), reads[overrun], writer[overrun]


def _sound_reads(log: PartitionLog, part: slice) -> Ints:
    """Some reads (positions), those at a known time of records that lie where they were read and were decided by then; other
    checks have the others.
    """
    sends, ended = log.sends, log.reads.ended
    reads = part.start + true_positions(log.reads.judged[part] & log.shared(placed_reads)[part] & (ended[part] != NONE))
    sound = log.shared(_decided_when)[log.reads.send[reads]] <= ended[reads]
    if log.by_senders.any():
        sound &= sends.op[log.reads.send[reads]] != log.reads.op[reads]
    return np.asarray(reads[sound])


def _decided_when(log: PartitionLog) -> Ints:
    """The time at which each send was called, or, in a transaction, its commit, if that came later."""
    sends = log.sends

    def decided(part: slice) -> Ints:
        return np.maximum(np.where(sends.txn[part], sends.decided[part], NONE), sends.began[part])

    return np.asarray(log.in_slices(len(sends), np.int64, decided))


def _surely_open_until(log: PartitionLog) -> tuple[Bools, Ints]:
    """Sends of transactions that did not commit, as far as is known, and until when each was surely open (others: NONE; where
    there is no such send, no times).

    That is when the last of its records of this partition was sent that surely was appended: the acknowledged ones.
    """
    sends = log.sends
    undone = sends.txn & (sends.status != COMMITTED) & ~log.seen_committed & log.acked
    if not undone.any():
        return undone, np.empty(0, dtype=np.int64)
    until = np.full(len(sends), NONE, dtype=np.int64)
    undone &= log.shared(fixed) & ~log.shared(lost) & (log.seen_witness if log.final.uncommitted else True)
    at = true_positions(undone)
    if len(at):
        first = true_positions(np.r_[True, sends.op[at][1:] != sends.op[at][:-1]])  # sends of one operation lie together
        last = np.maximum.reduceat(sends.began[at], first)
        until[at] = np.repeat(last, np.diff(first, append=len(at)))
        undone &= sends.began < until  # not the last one itself
    return undone, np.where(undone, until, NONE)


@dataclass(frozen=True)
class _Opened:
    """Sends of transactions, by place: positions in `Sends`.

    longest: of each, until when a transaction of it or of one below was surely open.
    committed: positions among these of those that committed (None: all).
    ops: of all sends of the partition.
    """

    sends: Any
    place: Ints
    longest: Ints
    committed: Any
    ops: Any

    @classmethod
    def of(cls, log: PartitionLog) -> _Opened:
        sends, committed = log.shared(committed_records), None
        undone, open_until = log.shared(_surely_open_until)
        whole = None
        if undone.any():
            whole = _mask(len(log.sends), sends)
            sends = log.in_place_order(undone | whole)
            committed = true_positions(whole[sends])

        def longest() -> Iterator[Ints]:
            reached = NONE
            for part in slices(len(sends)):
                some = log.sends.decided[sends[part]]
                if whole is not None:
                    some = np.where(whole[sends[part]], some, open_until[sends[part]])
                yield np.maximum(np.maximum.accumulate(some), reached)
                reached = max(reached, int(some.max()))

        place, open_longest = log.arrays.taken(log.place, sends), log.arrays.joined(longest, len(sends), np.int64)
        return cls(sends, place, open_longest, committed, log.sends.op)

    def open_longest(self, which: Ints) -> Ints:
        """For some of these (as numbers), where the one stands that was open longest of all up to it."""
        return np.searchsorted(self.longest, self.longest[which], side="left")

    @cached_property
    def op(self) -> Any:
        """The operations of those that committed."""
        return self.ops[self.sends if self.committed is None else self.sends[self.committed]]

    def last_below(self, offset: Ints) -> Ints:
        """The last send (as a number among these) below each of some offsets, which rise; NONE for none."""
        start, stop = np.searchsorted(self.place, offset[[0, -1]], side="left")
        first_above = np.searchsorted(offset, self.place[start:stop], side="right")  # of each send: both are sorted by place
        return np.asarray(start + np.cumsum(np.bincount(first_above, minlength=len(offset))) - 1)

    @cached_property
    def _lowest(self) -> tuple[Any, Ints]:
        """The operations that committed, rising, and of each its lowest send (as a number among theirs)."""
        return np.unique(self.op, return_index=True)  # sorted by place, so the first of each is its lowest

    @cached_property
    def _wrote(self) -> tuple[int, Bools]:
        """The lowest operation, and of each from there on whether it is one of these; one entry at least."""
        low = int(self.op.min()) if len(self.op) else 0
        wrote = np.zeros(max(1, int(self.op.max(initial=NONE)) - low + 1), dtype=np.bool_)
        wrote[self.op - low] = True
        return low, wrote

    def own_below(self, log: PartitionLog, reads: Ints) -> Ints:
        """The lowest record of each read's own operation, if that lies below it (NONE: none does)."""
        own = np.full(len(reads), NONE, dtype=np.int64)
        if not log.by_senders.any():
            return own
        reader = log.reads.op[reads]
        low, wrote = self._wrote
        both = wrote[np.clip(reader - low, 0, len(wrote) - 1)] & (reader >= low) & (reader < low + len(wrote))
        if both.any():
            writers, lowest = self._lowest
            of_these = lowest[np.searchsorted(writers, reader[both])]
            send = self.sends[of_these if self.committed is None else self.committed[of_these]]
            own[both] = np.where(log.place[send] < log.reads.offset[reads[both]], send, NONE)
        return own


def _rows(log: PartitionLog, reads: Ints, writer: Ints) -> dict[str, np.ndarray]:
    """Rows of reads (positions) and of the send that each passed: of each reader and open transaction the first read."""
    first = first_of_each(log.reads.op[reads], log.sends.op[writer])
    reads, writer = reads[first], writer[first]
    cause = np.full(len(log.reads), NONE, dtype=np.int64)
    cause[reads] = log.sends.op[writer]
    sent, (_, open_until) = _mask(len(log.sends), writer), log.shared(_surely_open_until)
    time = np.where(open_until != NONE, open_until, log.sends.ended) if len(open_until) else log.sends.ended
    return join_rows(read_rows(log, _mask(len(log.reads), reads), cause), send_rows(log, sent, log.sends.op, "sent", time))


def _mask(count: int, positions: Ints) -> Bools:
    mask = np.zeros(count, dtype=np.bool_)
    mask[positions] = True
    return mask
