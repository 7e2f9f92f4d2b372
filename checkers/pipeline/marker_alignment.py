"""Markers in a partition beside the decisions of their coordinator (KIP-98).

A coordinator that fails over, or gets no answer, writes a marker again, so that a decision may have several markers of its
kind. A marker that is alike in kind, and follows the one of its decision before the next decision's, is such a repetition.

Which decision a marker belongs to is told by the order of both logs, and by their clocks: a coordinator begins no transaction of
an id before all markers of the last one are written. Where brokers' clocks agree, only the clocks tell which one of several like
markers is missing. The explanation with fewer deviations is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.coordinator_log import CoordinatorLog, Transactions
from fencepost.checkers.pipeline.stored_logs import ABORT, COMMIT, StoredLogs, StoredRows


@dataclass
class Aligned:
    """Markers (positions among `Markers.rows`) and decisions (transactions), as far as they do not match.

    other: markers of the other kind than their decision, each with the transaction.
    surplus: markers for which there is no decision.
    repeated: markers that repeat the one before.
    missing: pairs of a transaction and a partition without a marker, although its coordinator logged that all were written.
    """

    other: list[tuple[int, int]] = field(default_factory=list)
    surplus: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)

    def add(self, more: Aligned) -> None:
        """Take over what does not match elsewhere."""
        for name, found in vars(more).items():
            getattr(self, name).extend(found)

    def deviations(self) -> int:
        """How many markers and decisions do not match; repetitions do."""
        return len(self.other) + len(self.surplus) + len(self.missing)


@dataclass(frozen=True)
class Markers:
    """Markers of producers of which the coordinators' logs say all, and decisions with these partitions, both in the order of
    (partition, producer id, epoch), then of the log.

    rows: the markers.
    transaction, partition: the decisions, each once for each partition that has a log.
    """

    rows: StoredRows
    transaction: Ints
    partition: Ints


def markers(logs: StoredLogs, coordinators: CoordinatorLog) -> Markers:
    """The markers of the longest logs and their decisions."""
    transactions = coordinators.transactions
    rows = logs.of_longest
    rows = rows.take(np.isin(rows.kind, (COMMIT, ABORT)) & coordinators.knows(rows.producer_id))
    rows = rows.take(np.lexsort((rows.offset, rows.producer_epoch, rows.producer_id, rows.partition)))
    owner, partition = coordinators.pairs
    stored = np.array(sorted(logs.longest), dtype=np.int64)
    which = (transactions.kind[owner] != NONE) & np.isin(partition, stored)
    owner, partition = owner[which], partition[which]
    order = np.lexsort((transactions.state[owner], transactions.epoch[owner], transactions.producer_id[owner], partition))
    return Markers(rows, owner[order], partition[order])


def align(logs: StoredLogs, coordinators: CoordinatorLog, some: Markers, compacted: Sequence[bool]) -> Aligned:
    """The markers and decisions that do not match.

    compacted: of each partition, whether a marker may be gone: its topic may be compacted, or a batch cannot be read. In a log
        that does not begin at offset 0 the first ones may.
    """
    transactions, rows = coordinators.transactions, some.rows
    decided_at = coordinators.states.updated[transactions.state]
    key_m = np.stack([rows.partition, rows.producer_id, rows.producer_epoch])
    key_d = np.stack([some.partition, transactions.producer_id[some.transaction], transactions.epoch[some.transaction]])
    m, d = _keys(key_m, key_d)
    aligned = Aligned()
    for key in _deviating(m, d, rows.kind, transactions.kind[some.transaction]).tolist():
        of_m = slice(*np.searchsorted(m, [key, key + 1]).tolist())
        of_d = slice(*np.searchsorted(d, [key, key + 1]).tolist())
        partition = int(rows.partition[of_m.start] if of_m.start < of_m.stop else some.partition[of_d.start])
        gone = len(rows) if compacted[partition] else int(logs.starts[partition] > 0)
        found, decisions = range(of_m.start, of_m.stop), some.transaction[of_d].tolist()
        explanations = [_by_order(found, rows.kind, decisions, transactions, partition, gone)]
        if (np.diff(decided_at[decisions]) >= 0).all():
            following = np.searchsorted(decided_at[decisions], rows.timestamp[of_m], side="right").tolist()
            explanations.insert(0, _by_time(found, rows.kind, decisions, transactions, partition, gone, following))
        aligned.add(min(explanations, key=Aligned.deviations))
    return aligned


def _keys(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """A number for each column of two matrices, alike for alike columns, and in their order."""
    both = np.concatenate([one, other], axis=1)
    order = np.lexsort(both[::-1])
    new = np.zeros(both.shape[1], dtype=np.int64)
    new[1:] = (np.diff(both[:, order], axis=1) != 0).any(axis=0)
    numbers = np.empty(both.shape[1], dtype=np.int64)
    numbers[order] = np.cumsum(new)
    return numbers[: one.shape[1]], numbers[one.shape[1] :]


def _deviating(m: Ints, d: Ints, kinds: Ints, decided: Ints) -> Ints:
    """The keys under which markers and decisions are not as many, and of the same kinds one by one."""
    size = int(max(m.max(initial=NONE), d.max(initial=NONE))) + 1
    differ = np.bincount(m, minlength=size) != np.bincount(d, minlength=size)
    at, same = np.searchsorted(d, m), ~differ[m]
    rank = np.arange(len(m)) - np.searchsorted(m, m)
    place = (at + rank)[same]
    differ[m[same][kinds[same] != decided[place]]] = True
    return np.flatnonzero(differ)


def _by_time(
    found: range,
    kinds: Ints,
    decisions: Sequence[int],
    transactions: Transactions,
    partition: int,
    gone: int,
    following: Sequence[int],
) -> Aligned:
    """The markers and decisions of one key, each marker beside the last decision before it. following: for each marker the number
    of decisions that are not later. gone: see `_by_order`.
    """
    aligned, seen = Aligned(), set[int]()
    for at, behind in zip(found, following, strict=True):
        if behind == 0:
            aligned.surplus.append(at)
        elif int(kinds[at]) != int(transactions.kind[decisions[behind - 1]]):
            aligned.other.append((at, decisions[behind - 1]))
        elif behind in seen:
            aligned.repeated.append(at)
        seen.add(behind)
    first = min(seen, default=len(decisions)) if gone else 0
    if gone <= 1:
        aligned.missing += [
            (transaction, partition)
            for number, transaction in enumerate(decisions, start=1)
            if transactions.complete[transaction] and number not in seen and number >= first
        ]
    return aligned


def _by_order(
    found: range, kinds: Ints, decisions: Sequence[int], transactions: Transactions, partition: int, gone: int
) -> Aligned:
    """The markers and decisions of one key, in the order of their logs. gone: markers may be missing before the others (1), or
    anywhere (more).
    """
    aligned = Aligned()
    decided = [int(transactions.kind[transaction]) for transaction in decisions]
    first = _first(decided, [int(kinds[at]) for at in found]) if gone else 0
    following = first
    last: list[int] = []  # the markers that repeat the latest decision
    for at in found:
        kind = int(kinds[at])
        while following + 1 < len(decided) and decided[following] != kind and not transactions.complete[decisions[following]]:
            following += 1
        if following < len(decided) and decided[following] == kind:
            aligned.repeated += last
            following, last = following + 1, []
        elif following > 0 and decided[following - 1] == kind:
            last.append(at)
        elif following < len(decided):
            aligned.other.append((at, decisions[following]))
            following += 1
        else:
            aligned.surplus.append(at)
    while last and following < len(decided) and transactions.complete[decisions[following]]:
        aligned.other.append((last.pop(0), decisions[following]))
        following += 1
    aligned.repeated += last
    if gone <= 1:
        aligned.missing += [
            (transaction, partition)
            for transaction in decisions[following:]
            if transactions.complete[transaction] and (not gone or found)
        ]
    return aligned


def _first(decided: Sequence[int], kinds: Sequence[int]) -> int:
    """How many decisions come before those of the markers, where the first markers may be gone: as few as explain the others."""
    runs = _runs(kinds)
    for first in range(len(decided) + 1):
        some = _runs(decided[first:])
        alike = [kind for kind, _ in some] == [kind for kind, _ in runs]
        if alike and all(there >= count for (_, there), (_, count) in zip(runs, some, strict=True)):
            return first
    return 0


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for kind in kinds:
        runs = [*runs[:-1], (kind, runs[-1][1] + 1)] if runs and runs[-1][0] == kind else [*runs, (kind, 1)]
    return runs


def data_groups(rows: StoredRows) -> Ints:
    """Positions of the rows of transactional records that come first in their log, or after a marker of their producer, or
    after a record of another epoch of it. rows: in the order of (partition, producer id, offset).
    """
    marker = np.isin(rows.kind, (COMMIT, ABORT))
    starts = ~marker
    same = np.ones(max(0, len(rows) - 1), dtype=np.bool_)
    for name in ("partition", "producer_id", "producer_epoch"):
        same &= np.diff(getattr(rows, name)) == 0
    follows: Bools = same & ~marker[:-1]
    starts[1:] &= ~follows
    return np.flatnonzero(starts)
