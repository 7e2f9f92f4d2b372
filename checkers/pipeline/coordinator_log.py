"""What transaction coordinators logged (`__transaction_state`, KIP-98): the states of each transactional id, and its
transactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.stored_logs import (
    ABORT,
    COMMIT,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    FENCE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    STATE,
    STATE_TOPIC,
    STATES,
    Log,
    StoredLogs,
    StoredRows,
    stored_logs,
)
from fencepost.checkers.views.run_view import RunView

NO_STATES = "no log of the transaction coordinators (__transaction_state) was kept"
NOT_WHOLE = "the logs of the transaction coordinators have lost records, by compaction, or some cannot be read, or were not kept"
_FIELDS = ("producer_id", "producer_epoch", "next_producer_id", "started", "updated")


@dataclass(frozen=True)
class States:
    """Records of transactional ids, in the order of (id, offset).

    rows: their rows.
    ident: number of the id among `names`.
    state: number among `STATES`.
    first: the record is the first of its id.
    producer_id, producer_epoch, next_producer_id, started, updated: as in the record, NONE where there is none.
    bounds, listed: the partitions of the transaction, by number among `CoordinatorLog.partitions`: those of record i are
        `listed[bounds[i]:bounds[i + 1]]`, in rising order.
    """

    rows: StoredRows
    ident: Ints
    names: list[str]
    state: Any
    first: Bools
    producer_id: Ints
    producer_epoch: Ints
    next_producer_id: Ints
    started: Ints
    updated: Ints
    bounds: Ints
    listed: Ints

    def __len__(self) -> int:
        return len(self.ident)


@dataclass(frozen=True)
class Transactions:
    """Transactions that were begun, in the order of (id, offset).

    state: position in `States` of the decision; of one without a decision, of its last record.
    kind: COMMIT or ABORT; NONE: it was not decided.
    complete: the coordinator has logged that all markers were written.
    producer_id: whose.
    begun_epoch: the epoch of its records.
    epoch: the epoch of its markers (NONE: not decided).
    """

    state: Ints
    kind: Any
    complete: Bools
    producer_id: Ints
    begun_epoch: Ints
    epoch: Ints

    def __len__(self) -> int:
        return len(self.state)


class CoordinatorLog:
    """The logs of a run's coordinators that are whole: nothing was compacted away.

    lacking: why there are none, in words; empty where there are some.
    complete: all of them are whole, so that a producer id which none of them names was given to no transactional id.
    states: all records of their ids.
    """

    def __init__(self, logs: StoredLogs, state_partitions: int | None = None) -> None:
        whole, some = _whole_rows(logs)
        self.lacking = "" if len(whole) else NOT_WHOLE if some else NO_STATES
        self.complete = not self.lacking and _complete(logs, state_partitions)
        self.partitions: list[str] = list(logs.partitions)
        self._numbers = {name: number for number, name in enumerate(self.partitions)}
        self.states = self._states(logs, whole)

    def _states(self, logs: StoredLogs, rows: StoredRows) -> States:
        structs = logs.table["state"].combine_chunks()
        if isinstance(structs, pa.ChunkedArray):
            structs = pa.concat_arrays(structs.chunks)
        structs = structs.take(pa.array(rows.row))
        names = structs.field("transactional_id").dictionary_encode()
        ident = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        kinds = logs.table["kind"].cast(pa.string()).combine_chunks().take(pa.array(rows.row))
        state = pc.index_in(kinds, pa.array(STATES)).to_numpy(zero_copy_only=False).astype(np.int64)
        columns = {
            name: pc.fill_null(structs.field(name).cast(pa.int64()), NONE).to_numpy(zero_copy_only=False) for name in _FIELDS
        }
        order = np.lexsort((rows.offset, ident))
        ident = ident[order]
        first = np.ones(len(ident), dtype=np.bool_)
        first[1:] = np.diff(ident) != 0
        return States(
            rows=rows.take(order),
            ident=ident,
            names=names.dictionary.to_pylist(),
            state=state[order],
            first=first,
            **self._lists(structs.field("partitions").take(pa.array(order))),
            **{name: values[order] for name, values in columns.items()},
        )

    def _lists(self, lists: pa.Array) -> dict[str, Ints]:
        """The partitions of some records (`States`); names that no log has get numbers of their own."""
        flat = lists.flatten().dictionary_encode()
        for name in flat.dictionary.to_pylist():
            if name not in self._numbers:
                self._numbers[name] = len(self.partitions)
                self.partitions.append(name)
        codes = np.array([self._numbers[name] for name in flat.dictionary.to_pylist()] or [0], dtype=np.int64)
        numbers = codes[flat.indices.to_numpy(zero_copy_only=False)] if len(flat) else np.empty(0, dtype=np.int64)
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        order = np.lexsort((numbers, np.repeat(np.arange(len(sizes)), sizes)))
        return {"bounds": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), "listed": numbers[order]}

    def knows(self, producer_id: Ints) -> Bools:
        """True for each producer id of which the logs say all: it is in one of them, or all are whole."""
        return np.asarray(np.isin(producer_id, np.unique(self.states.producer_id)) | self.complete)

    @cached_property
    def changes(self) -> Ints:
        """Positions of the records that are not the one before once more: a coordinator repeats what it could not replicate at
        once."""
        states = self.states
        again = np.zeros(len(states), dtype=np.bool_)
        again[1:] = ~states.first[1:] & (np.diff(states.state) == 0) & (states.state[1:] != ONGOING)
        for name in ("producer_id", "producer_epoch"):
            again[1:] &= np.diff(getattr(states, name)) == 0
        return np.flatnonzero(~again)

    @cached_property
    def transactions(self) -> Transactions:
        """All transactions with partitions: the decided ones, and those that were begun and never decided."""
        states, at = self.states, self.changes
        state, first = states.state[at], states.first[at]
        before, after = (np.full(len(at), NONE, dtype=np.int64) for _ in range(2))
        before[1:] = np.where(first[1:], NONE, np.arange(len(at) - 1))
        after[:-1] = np.where(first[1:], NONE, np.arange(1, len(at)))
        decided = np.isin(state, (PREPARE_COMMIT, PREPARE_ABORT))
        following = np.where(after == NONE, NONE, state[after])
        opened = (state == ONGOING) & ~np.isin(following, (ONGOING, FENCE, PREPARE_COMMIT, PREPARE_ABORT))
        which = np.flatnonzero(decided | opened)
        begun = np.where(decided[which] & (before[which] != NONE), before[which], which)
        complete = (after[which] != NONE) & np.isin(state[after[which]], (COMPLETE_COMMIT, COMPLETE_ABORT))
        kind = np.select([state[which] == PREPARE_COMMIT, state[which] == PREPARE_ABORT], [COMMIT, ABORT], NONE)
        return Transactions(
            state=at[which],
            kind=kind,
            complete=complete & decided[which],
            producer_id=states.producer_id[at[which]],
            begun_epoch=states.producer_epoch[at[begun]],
            epoch=np.where(kind == NONE, NONE, states.producer_epoch[at[which]]),
        )

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Positions in `transactions`, and for each a partition of the transaction."""
        at, bounds = self.transactions.state, self.states.bounds
        sizes = bounds[at + 1] - bounds[at]
        owner = np.repeat(np.arange(len(at)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return owner, self.states.listed[bounds[at][owner] + within]

    def text(self, transaction: int) -> str:
        """`the transaction of id that its coordinator decided to commit at __transaction_state-3@17`."""
        at = int(self.transactions.state[transaction])
        place = f"{self.partitions[self.states.rows.partition[at]]}@{self.states.rows.offset[at]}"
        word = {COMMIT: "commit", ABORT: "abort"}[int(self.transactions.kind[transaction])]
        return f"the transaction of {self.states.names[self.states.ident[at]]} that its coordinator decided to {word} at {place}"


def _whole_rows(logs: StoredLogs) -> tuple[StoredRows, bool]:
    """The rows of the coordinators' logs from which nothing is missing, and whether any log of a coordinator was kept."""
    own = [log for log in logs.longest.values() if logs.coordinators(log) and log.rows.start < log.rows.stop]
    positions = [np.empty(0, dtype=np.int64), *(np.arange(log.rows.start, log.rows.stop) for log in own if _whole(logs, log))]
    rows = logs.rows.take(np.concatenate(positions))
    return rows.take(rows.kind == STATE), bool(own)


def _whole(logs: StoredLogs, log: Log) -> bool:
    """True if a log begins at offset 0, lacks no offset up to its high watermark, each of its records could be read, and so many
    replicas' logs were kept that one has all that was acknowledged.
    """
    offsets = logs.rows.offset[log.rows]
    read = bool((logs.rows.kind[log.rows] == STATE).all()) and not logs.few[log.partition]
    return read and log.start == 0 and len(offsets) >= log.watermark and np.array_equal(offsets, np.arange(len(offsets)))


def _complete(logs: StoredLogs, count: int | None) -> bool:
    """True if the log of each partition of the coordinators' topic was kept, and is whole. count: how many it has; None: as many
    as the numbers tell."""
    own = [log for log in logs.longest.values() if logs.coordinators(log)]
    numbers = sorted(int(logs.partitions[log.partition].removeprefix(STATE_TOPIC)) for log in own)
    return numbers == list(range(count or len(numbers))) and all(_whole(logs, log) for log in own)


def coordinator_log(run: RunView) -> CoordinatorLog:
    """The coordinators' logs of a run that has logs, once for all checks."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    return CoordinatorLog(logs, run.state_partitions)
