"""The logs of all replicas as arrays (`stored.parquet`): what was appended, by whom, and which marker ended it (KIP-98).

Replicas of a partition that hold the same rows are one log, so that nothing is compared three times.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import record_ids, stored_kinds
from fencepost.harness.api.history import LOGS_SINCE, STORED
from fencepost.harness.api.run import table_problem

NO_LOGS = "what the brokers' logs hold was not kept (no stored.parquet)"
NO_BATCHES = "stored.parquet says nothing of batches: it is of an older version, or of a cluster that does not show them"
TWICE = "a log has two rows at one offset: the table holds the logs of several runs, or some twice"
PACKED = "batches in the logs are compressed: which records of this run are in them was not read"
STATES = (*stored_kinds.STATES, stored_kinds.REMOVED)
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, FENCE, REMOVED = range(len(STATES))
DATA, COMMIT, ABORT, CONTROL, STATE, LOG = range(6)  # kinds of rows
STATE_TOPIC = "__transaction_state-"
SEQUENCES = 1 << 31  # numbers before they begin anew
_KINDS = {
    stored_kinds.COMMIT: COMMIT,
    stored_kinds.ABORT: ABORT,
    stored_kinds.CONTROL: CONTROL,
    stored_kinds.LOG: LOG,
    **dict.fromkeys(STATES, STATE),
}
_NUMBERS = (
    "offset",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "timestamp",
    "v",
    "first_offset",
    "last_offset",
    "first_sequence",
    "checksum",
    "coordinator_epoch",
)
_IN_ALL_OR_NONE = (  # columns in which each row has a value, or none, where a cluster does not show it
    *("leader_epoch", "sequence", "timestamp"),
    *("last_offset", "first_sequence", "checksum", "transactional", "coordinator_epoch"),
)
_MIX = np.uint64(6364136223846793005)


@dataclass(frozen=True)
class StoredRows:
    """Rows as columns of one length, in the order of (partition, node, offset).

    partition: number of the partition among `StoredLogs.partitions`.
    node: number of the node among `StoredLogs.nodes`.
    kind: DATA, COMMIT, ABORT, CONTROL or STATE.
    content: a number for the kind's name and for what the record says of a transactional id: alike for alike ones.
    row: position in the table.

    The others: `harness.api.history.STORED`, NONE where there is none.
    """

    partition: Ints
    node: Ints
    kind: Any
    offset: Ints
    leader_epoch: Ints
    producer_id: Ints
    producer_epoch: Ints
    sequence: Ints
    timestamp: Ints
    v: Ints
    first_offset: Ints
    last_offset: Ints
    first_sequence: Ints
    checksum: Ints
    coordinator_epoch: Ints
    transactional: Bools
    content: Any
    row: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, which: Any) -> StoredRows:
        """Some rows: a mask, positions or a slice."""
        return StoredRows(**{name: values[which] for name, values in vars(self).items()})


def joined(parts: Sequence[StoredRows]) -> StoredRows:
    """Rows one after the other; of one part at least."""
    return StoredRows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])})


@dataclass(frozen=True)
class Log:
    """The log of one replica: where it begins, the high watermark of its last checkpoint (NONE: not known), and its rows.

    rows: its rows among those of all distinct logs.
    distinct: no replica before it, by name of the node, holds the same rows.
    """

    partition: int
    node: int
    start: int
    watermark: int
    rows: slice
    distinct: bool


class StoredLogs:
    """All logs of a run.

    partitions, nodes: their names.
    logs: of each partition those of its replicas, in the order of nodes.
    rows: the rows of all logs that are distinct, in the order of (partition, node, offset).
    table: the same rows.
    """

    def __init__(self, table: pa.Table, fewest: Mapping[str, int] | None = None) -> None:
        """Raises OSError for a table that no brokers' logs can hold. fewest: of topics how many replicas' logs have to be there,
        so that one has all that was acknowledged.
        """
        heads = table.filter(pc.equal(table["kind"], stored_kinds.LOG))
        parts = _by_node(table.filter(pc.not_equal(table["kind"], stored_kinds.LOG)))
        names = {name for part in parts.values() for name in part} | set(heads["partition"].to_pylist())
        self.partitions, self.nodes = sorted(names), sorted({*parts, *heads["node"].to_pylist()})
        self.logs, distinct = _logs(self.partitions, self.nodes, parts, heads)
        self.table = pa.concat_tables([part for _, part in distinct] or [table.slice(0, 0)]).combine_chunks()
        self.rows = _rows(self.table, self.logs)
        self._fewest = fewest or {}

    @cached_property
    def distinct(self) -> StoredRows:
        """The rows of all logs that are distinct; those of the coordinators' topic are left out."""
        return self._of([log for log in self.logs if log.distinct and not self.coordinators(log)])

    def unless_packed(self, lacking: str) -> str:
        """What was lacking; where batches are compressed, that."""
        whole = (stored_kinds.EMPTY_BATCH, stored_kinds.DAMAGED_BATCH)
        kinds = set(pc.unique(self.table["kind"]).to_pylist()) - set(whole)
        return PACKED if any(kind.endswith(" batch") for kind in kinds) else lacking

    @cached_property
    def emptied(self) -> Bools:
        """Which rows stand for batches of which compaction left the head alone."""
        return np.asarray(pc.equal(self.table["kind"], stored_kinds.EMPTY_BATCH).to_numpy())

    @cached_property
    def damaged(self) -> Bools:
        """Which rows stand for batches that cannot be read."""
        return np.asarray(pc.equal(self.table["kind"], stored_kinds.DAMAGED_BATCH).to_numpy())

    @cached_property
    def few(self) -> Bools:
        """Of each partition, by its number, whether so few replicas' logs were kept that none of them need have all that was
        acknowledged: fewer are missing than have to be in sync, otherwise.
        """
        count = np.bincount([log.partition for log in self.logs], minlength=len(self.partitions))
        fewest = [self._fewest.get(name.rpartition("-")[0], 0) for name in self.partitions]
        return np.asarray(count < np.array(fewest, dtype=np.int64))

    @cached_property
    def lacking(self) -> Bools:
        """Of each partition, by its number, whether its log may lack something: a batch of some replica cannot be read,
        or one had a high watermark above its end, or so few logs were kept that none of them need have all.
        """
        found: Bools = np.array(self.few, dtype=np.bool_)
        found[self.rows.partition[self.damaged]] = True
        for log in self.logs:
            found[log.partition] |= log.watermark > self._end(self.longest[log.partition])[1] + 1
        return found

    @cached_property
    def longest(self) -> dict[int, Log]:
        """Of each partition, by its number, the log that goes on: of those behind the latest leader the one that ends last.

        What a replica has behind an earlier leader alone it cuts off when it is back (KIP-101).
        """
        longest: dict[int, Log] = {}
        for log in self.logs:
            other = longest.get(log.partition)
            if other is None or self._end(log) > self._end(other):
                longest[log.partition] = log
        return longest

    @cached_property
    def of_longest(self) -> StoredRows:
        """The readable rows of the logs that go on; those of the coordinators' topic are left out."""
        rows = self._of([log for log in self.longest.values() if not self.coordinators(log)])
        return rows.take(~self.damaged[rows.row]) if self.damaged.any() else rows

    def coordinators(self, log: Log) -> bool:
        """True if a log is one of `__transaction_state`."""
        return self.partitions[log.partition].startswith(STATE_TOPIC)

    @cached_property
    def starts(self) -> Ints:
        """Where each partition begins, by its number: the latest of its replicas' beginnings, or of their first rows."""
        starts = np.zeros(len(self.partitions), dtype=np.int64)
        for log in self.logs:
            first = self.rows.first_offset[log.rows.start] if log.rows.start < log.rows.stop else 0
            starts[log.partition] = max(starts[log.partition], log.start, first)
        return starts

    def _end(self, log: Log) -> tuple[int, int]:
        """The leader epoch of a log's last batch, and the last offset."""
        if log.rows.start == log.rows.stop:
            return NONE, NONE
        last = log.rows.stop - 1
        return int(self.rows.leader_epoch[last]), int(self.rows.last_offset[last])

    def _of(self, logs: list[Log]) -> StoredRows:
        """The rows of some logs; without a copy where they lie side by side."""
        places = sorted({(log.rows.start, log.rows.stop) for log in logs if log.rows.start < log.rows.stop})
        if all(one[1] == other[0] for one, other in pairwise(places)):
            return self.rows.take(slice(places[0][0], places[-1][1]) if places else slice(0, 0))
        return self.rows.take(np.concatenate([np.arange(*place) for place in places]))


def _by_node(table: pa.Table) -> dict[str, dict[str, pa.Table]]:
    """Node -> partition -> its rows in the order of offsets. Raises OSError where two have one offset."""
    parts: dict[str, dict[str, pa.Table]] = {}
    for node in table["node"].unique().to_pylist():
        own = table.filter(pc.equal(table["node"], node)).combine_chunks()
        codes = _whole(own["partition"]).dictionary_encode()
        numbers, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
        offsets = own["offset"].to_numpy()
        if ((np.diff(numbers) < 0) | ((np.diff(numbers) == 0) & (np.diff(offsets) < 0))).any():
            order = np.lexsort((offsets, numbers))
            own, numbers, offsets = own.take(pa.array(order)), numbers[order], offsets[order]
        if ((np.diff(numbers) == 0) & (np.diff(offsets) == 0)).any():
            raise OSError(TWICE)
        bounds = np.searchsorted(numbers, np.arange(len(names) + 1)).tolist()
        places = [(name, *place) for name, place in zip(names, pairwise(bounds), strict=True) if place[0] < place[1]]
        parts[node] = {name: own.slice(start, stop - start) for name, start, stop in places}
    return parts


def _logs(
    partitions: list[str], nodes: list[str], parts: dict[str, dict[str, pa.Table]], heads: pa.Table
) -> tuple[list[Log], list[tuple[int, pa.Table]]]:
    """All logs, and the rows of those that are distinct, each with the number of its node."""
    known = {(row["partition"], row["node"]): (row["offset"], row["last_offset"]) for row in heads.to_pylist()}
    if len(known) < len(heads):
        raise OSError(TWICE)
    logs: list[Log] = []
    distinct: list[tuple[int, pa.Table]] = []
    end = 0
    for number, partition in enumerate(partitions):
        earlier: list[tuple[slice, pa.Table]] = []
        for node, name in enumerate(nodes):
            rows = parts.get(name, {}).get(partition)
            if rows is None and (partition, name) not in known:
                continue
            rows = heads.slice(0, 0) if rows is None else rows
            first = int(rows["first_offset"][0].as_py()) if len(rows) else 0
            start, watermark = known.get((partition, name), (first, NONE))
            place = next((place for place, other in earlier if _alike(rows, other)), None)
            new = place is None
            if place is None:
                place = slice(end, end + len(rows))
                end += len(rows)
                earlier.append((place, rows))
                distinct.append((node, rows))
            logs.append(Log(number, node, start, watermark, place, new))
    return logs, distinct


def _alike(one: pa.Table, other: pa.Table) -> bool:
    return len(one) == len(other) and all(one[name].equals(other[name]) for name in one.column_names if name != "node")


def _rows(table: pa.Table, logs: list[Log]) -> StoredRows:
    """The rows of a table that holds distinct logs one after the other."""
    partition, node = (np.empty(len(table), dtype=np.int64) for _ in range(2))
    for log in logs:
        if log.distinct:
            partition[log.rows], node[log.rows] = log.partition, log.node
    encoded = _whole(table["kind"]).dictionary_encode()
    numbers = encoded.indices.to_numpy()
    kinds = np.array([_KINDS.get(name, DATA) for name in encoded.dictionary.to_pylist()] or [DATA], dtype=np.int8)
    return StoredRows(
        partition=partition,
        node=node,
        kind=kinds[numbers] if len(table) else np.empty(0, dtype=np.int8),
        transactional=pc.fill_null(table["transactional"], False).to_numpy().astype(np.bool_),
        content=numbers.astype(np.uint64) + _state_content(_whole(table["state"])),
        row=np.arange(len(table)),
        **{name: _numbers(table[name]) for name in _NUMBERS},
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _state_content(structs: pa.Array) -> Any:
    """A number for each state, alike for alike ones, the partitions in any order; 0 where there is none."""
    content = np.zeros(len(structs), dtype=np.uint64)
    known = np.flatnonzero(structs.is_valid().to_numpy(zero_copy_only=False))
    structs = structs.take(pa.array(known))
    mixed = np.zeros(len(structs), dtype=np.uint64)
    for name in (field.name for field in structs.type if field.name != "partitions"):
        values = structs.field(name)
        values = values.dictionary_encode().indices if pa.types.is_string(values.type) else values
        numbers = pc.fill_null(values.cast(pa.int64()), NONE).to_numpy(zero_copy_only=False)
        mixed = mixed * _MIX + numbers.astype(np.uint64)
    lists = structs.field("partitions")
    owner = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    names = lists.flatten().dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.uint64)
    np.add.at(mixed, owner, (names + np.uint64(1)) * _MIX * _MIX)
    content[known] = mixed
    return content


def _numbers(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), NONE).to_numpy())


def may_be_compacted(run: RunView, logs: StoredLogs) -> list[bool]:
    """Of each partition, by its number: those of topics that the run did not make may always be, as Connect's own and changelogs.

    The coordinators' topic has segments that are too large to be cleaned in a run, unless everything is.
    """
    own = [
        run.topics is None or name.rpartition("-")[0] in run.topics or name.startswith(STATE_TOPIC) for name in logs.partitions
    ]
    return [run.contract["compaction"] != "false" or not made for made in own]


def stored_logs(run: RunView) -> StoredLogs | str:
    """The logs of a run, once for all checks; why there are none, in words.

    Raises OSError and ArrowException for a damaged table: also for one that no broker's logs can hold.
    """
    if run.stored is None or not os.path.lexists(run.stored):
        return NO_LOGS
    if problem := table_problem(run.stored, STORED, run.stored_checksum):
        raise OSError(problem.reason)
    if LOGS_SINCE not in pq.read_schema(run.stored).names or pq.read_table(run.stored, columns=[LOGS_SINCE])[0].null_count:
        return NO_BATCHES
    table = pq.read_table(run.stored, read_dictionary=["node", "partition", "kind"], page_checksum_verification=True)
    table = table.unify_dictionaries()
    if len(table) and table["last_offset"].null_count == len(table):
        return NO_BATCHES
    if reason := _lacking(table):
        raise OSError(reason)
    return StoredLogs(table, run.fewest_logs)


def _lacking(table: pa.Table) -> str:
    """What a table of brokers' logs lacks, in words; empty: nothing."""
    some = [name for name in _IN_ALL_OR_NONE if table[name].null_count]
    if some:
        rows = table.filter(pc.not_equal(table["kind"], stored_kinds.LOG))
        if lacking := next((name for name in some if 0 < rows[name].null_count < len(rows)), ""):
            return f"its column `{lacking}` lacks values"
    states = table.filter(pc.is_in(table["kind"].cast(pa.string()), pa.array(STATES)))["state"].combine_chunks()
    if len(states) and any(
        pc.struct_field(states, name).null_count for name in ("transactional_id", "producer_id", "partitions")
    ):
        return "its column `state` lacks values"
    return ""


def operations_of(run: RunView, v: Ints) -> Ints:
    """The history indices of the operations that sent some records (NONE: of nobody in this run)."""
    overview = run.overview
    writers = np.flatnonzero(overview.txn | overview.send)
    keys = record_ids.operation_key(
        overview.process[writers].astype(np.int64), overview.op[writers].astype(np.int64) & record_ids.MAX_OP
    )
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    wanted = record_ids.operation_key_of(v)
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    known = (v >= 0) & (keys[at] == wanted) if len(keys) else np.zeros(len(v), dtype=np.bool_)
    return np.where(known, overview.index[writers[order]][at] if len(keys) else NONE, NONE).astype(np.int64)
