"""The first stage of the check: from a history to a few packed parts for each topic-partition.

`checkers.history.source` reads the history; here its batches of operations are packed. A part holds the sends or the reads of one
partition in one batch, without text: once per operation what all its records share, then the columns of each record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.history.packing import lower_bound, packed, unpacked
from fencepost.checkers.history.source import PARTITION, Source
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.values import ABORTED, COMMITTED, INFO, NONE, UNDECIDED, LoggedDecisions
from fencepost.harness.system.array_files import Arrays

STATUS, TXN, FINISHED, FINAL, UNCOMMITTED, UNNAMED = 3, 4, 8, 16, 32, 64  # bits of `flags`; the lowest two are the status
SENDS, READS = 0, 1
SHARED = {SENDS: ("op", "flags", "decided", "over"), READS: ("op", "process", "flags", "ended")}
OWN = {SENDS: ("v", "offset", "began", "ended"), READS: ("v", "offset")}
COLUMNS_OF = {side: (*SHARED[side], *OWN[side]) for side in (SENDS, READS)}
TYPES = {"flags": np.int8, "process": np.int32}  # the others: 64 bits
TEXTS = ("f", "type", "intent", "isolation")
RECORD = ("v", "offset", "began", "ended")
COLUMNS = ("index", "process", *TEXTS, "final", "end", "decided", "mops")


class PackedPart(NamedTuple):
    """Records that one batch sent to a partition, or read from it, packed: how many share each of `SHARED`, and `OWN`."""

    side: int
    shared: bytes | memoryview
    own: bytes | memoryview

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.shared) + len(self.own)


NamedPart = tuple[str, PackedPart]  # with the topic-partition's name
_MEMORY = Arrays()
Columns = Mapping[str, Any]


def scan_locally(history: Source) -> dict[str, list[PackedPart]]:
    """The parts of each topic-partition of a history, made in this process."""
    parts: dict[str, list[PackedPart]] = {}
    for name, part in history.map_here(COLUMNS, TEXTS, pack):
        parts.setdefault(name, []).append(part)
    return dict(sorted(parts.items()))


def scan_columns(history: Source, decisions: LoggedDecisions = UNDECIDED) -> dict[str, tuple[Columns, Columns]]:
    """The sends and the reads of each topic-partition as columns, in the order of the history: all at once, in this process.

    For partitions with few records each: to pack and unpack them one by one takes longer. With many, the parts take less memory,
    which costs time too. decisions: what the logs say of transactions of unknown outcome.
    """
    codes: dict[str, int] = {}
    parts: dict[int, list[dict[str, Any]]] = {SENDS: [], READS: []}
    for batch in _with_records(history.batches(COLUMNS, (*TEXTS, PARTITION))[1]):
        for side, columns in _of_sides(batch, codes):
            parts[side].append(columns)
    sides = {side: _by_code(parts.pop(side), side, len(codes)) for side in (SENDS, READS)}
    sides[SENDS][0]["flags"] = _decided(sides[SENDS][0]["flags"], sides[SENDS][0]["op"], decisions)
    named = {name: tuple(_sliced(*sides[side], code) for side in (SENDS, READS)) for name, code in codes.items()}
    return {name: named[name] for name in sorted(named) if any(len(columns["v"]) for columns in named[name])}  # type: ignore[misc]


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[NamedPart]:
    """Parts of batches of operations (`COLUMNS`), in order."""
    for batch in _with_records(batches):
        yield from _packed(batch)


def _with_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches that hold a record, without the operations that have no list of records."""
    for batch in batches:
        lists = batch.column("mops")
        filled = batch.filter(lists.is_valid()) if lists.null_count else batch  # what a null covers is no record
        if pc.any(pc.greater(pc.list_value_length(filled.column("mops")), 0)).as_py():
            yield filled


def _packed(batch: pa.RecordBatch) -> Iterator[NamedPart]:
    owner, mops = _micro_operations(batch)
    operations, records = _operations(batch), {name: numbers_of(mops[name]) for name in RECORD}
    names, order, bounds = _by_partition(mops["partition"], numbers_of(mops["kind"]) != 0)
    for code, (start, stop) in enumerate(pairwise(bounds.tolist())):
        if stop > start:
            yield names[code // 2], _part(code % 2, order[start:stop], owner, operations, records)


def _micro_operations(batch: pa.RecordBatch) -> tuple[Any, dict[str, pa.Array]]:
    """The operation of each micro-operation (its row in the batch), and the fields of all."""
    lists = batch.column("mops")
    fields = [field.name for field in lists.type.value_type]
    return np.asarray(pc.list_parent_indices(lists)), dict(zip(fields, lists.flatten().flatten(), strict=True))


def _of_sides(batch: pa.RecordBatch, codes: dict[str, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The columns of the sends and of the reads of a batch, with the `code` of the partition, which `codes` gets."""
    owner, mops = _micro_operations(batch)
    shared, records = _operations(batch), {name: numbers_of(mops[name]) for name in RECORD}
    coded, read = _coded(mops["partition"]), numbers_of(mops["kind"]) != 0
    numbers = [codes.setdefault(name or "", len(codes)) for name in (*coded.dictionary.to_pylist(), "")]
    code = np.array(numbers)[np.asarray(pc.fill_null(coded.indices, len(numbers) - 1))]
    for side, which in ((SENDS, np.flatnonzero(~read)), (READS, np.flatnonzero(read))):
        own = {*OWN[side], "ended"}
        columns = {name: records[name][which] if name in own else shared[name][owner[which]] for name in COLUMNS_OF[side]}
        yield side, {**columns, "code": code[which]}


def _by_code(parts: list[dict[str, Any]], side: int, partitions: int) -> tuple[dict[str, Any], Any]:
    """The columns of one side of all batches in the order of their partitions, and where each partition begins."""
    code = np.concatenate([np.empty(0, dtype=np.int64), *(part.pop("code") for part in parts)])
    bounds = np.r_[0, np.cumsum(np.bincount(code, minlength=partitions))]
    # numpy sorts numbers of 16 bits without comparing them
    order = np.argsort(code.astype(np.uint16) if partitions < 1 << 16 else code, kind="stable") if partitions > 1 else slice(None)

    def joined(name: str) -> Any:
        values = np.concatenate([np.empty(0, dtype=TYPES.get(name, np.int64)), *(part.pop(name) for part in parts)])
        return _narrow(name, values)[order]

    return {name: joined(name) for name in COLUMNS_OF[side]}, bounds


def _narrow(name: str, values: Any) -> Any:
    """A column in the type of `Unpacked`."""
    return values.astype(_op_type([values]) if name == "op" else TYPES.get(name, np.int64), copy=False)


def _sliced(columns: Columns, bounds: Any, code: int) -> Columns:
    """The rows of one partition."""
    return {name: values[bounds[code] : bounds[code + 1]] for name, values in columns.items()}


def _operations(batch: pa.RecordBatch) -> dict[str, Any]:
    """The columns of each operation that are numbers; `flags` instead of texts."""
    end = numbers_of(batch.column("end"))
    numbers = {"op": numbers_of(batch.column("index")), "process": numbers_of(batch.column("process"))}
    over = np.where(_has(batch.column("type"), "ok"), end, NONE)
    return {**numbers, "decided": numbers_of(batch.column("decided")), "over": over, "flags": _flags(batch)}


def _decided(flags: Any, op: Any, decisions: LoggedDecisions) -> Any:
    """The flags of sends with what the logs say of their operations.

    Those of reads stay as they are: a client whose commit did not return ok goes on as after a failure.
    """
    for status, ops in ((ABORTED, decisions.aborted), (COMMITTED, decisions.committed)):
        if len(ops):
            flags = np.where(np.isin(op, ops), flags & ~STATUS | status, flags)
    return flags.astype(np.int8, copy=False)


def _flags(batch: pa.RecordBatch) -> Any:
    """The texts of operations as bits."""
    txn, ok = _has(batch.column("f"), "txn"), _has(batch.column("type"), "ok")
    failed = _has(batch.column("type"), "fail") | (ok & txn & _has(batch.column("intent"), "abort"))
    # of a transaction without a word of its intent it is as if nobody had seen it end
    known = failed | ~ok | ~txn | _has(batch.column("intent"), "commit")
    status = np.where(failed, ABORTED, np.where(ok & known, COMMITTED, INFO))
    ended = np.asarray(batch.column("end").is_valid()) | (txn & _has(batch.column("intent"), "abort"))
    finished, final = known & ended, np.asarray(pc.fill_null(batch.column("final"), False))
    uncommitted, unnamed = _has(batch.column("isolation"), "read_uncommitted"), np.asarray(batch.column("isolation").is_null())
    return (status + txn * TXN + finished * FINISHED + final * FINAL + uncommitted * UNCOMMITTED + unnamed * UNNAMED).astype(
        np.int8
    )


def _has(texts: pa.Array, word: str) -> Bools:
    """True where some texts, dictionary-encoded or not, are a word."""
    coded = _coded(texts)
    return np.asarray(pc.fill_null(pc.equal(coded.indices, coded.dictionary.index(word)), False))


def _coded(texts: pa.Array) -> pa.DictionaryArray:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def numbers_of(column: pa.Array) -> Any:
    """A column as an array, NONE where nothing is known."""
    return np.asarray(pc.fill_null(column, NONE) if column.null_count else column)


def _by_partition(partitions: pa.Array, read: Bools) -> tuple[list[str], Any, Any]:
    """Names of partitions, the records in order of partition and side, and where each side of each partition begins."""
    coded = _coded(partitions)
    names = [name or "" for name in coded.dictionary.to_pylist()]
    codes = np.asarray(pc.fill_null(coded.indices, len(names))) * 2 + read
    codes = codes.astype(np.uint16) if len(names) < 1 << 15 else codes  # numpy sorts these without comparing
    counts = np.bincount(codes, minlength=2 * len(names) + 2)
    return [*names, ""], np.argsort(codes, kind="stable"), np.r_[0, np.cumsum(counts)]


def _part(side: int, which: Any, owner: Any, operations: dict[str, Any], records: dict[str, Any]) -> PackedPart:
    """Some records as a part. owner: the operation of each record. Reads of one poll also share when it ended.

    Records of one operation lie together, so a run-length code is enough: a new run begins where the operation changes, and
    its length comes first.
    """
    mine, own = owner[which], {name: records[name][which] for name in {*OWN[side], "ended"}}
    new = np.ones(len(which), dtype=np.bool_)
    new[1:] = mine[1:] != mine[:-1]
    if side == READS:
        new[1:] |= own["ended"][1:] != own["ended"][:-1]
    first = np.flatnonzero(new)
    shared = [own[name][first] if name in own else operations[name][mine[first]] for name in SHARED[side]]
    return PackedPart(side, packed([np.diff(first, append=len(which)), *shared]), packed([own[name] for name in OWN[side]]))


# --------------------------------------------------------------------------------------------------
# Unpacking
# --------------------------------------------------------------------------------------------------
class Unpacked(Mapping[str, Any]):
    """One side of a partition as columns; each is made anew when it is asked for, so that no more than one need be in memory.

    In the order of the history, in which a shuffle does not leave the parts: whoever sorts by process, identity or offset then
    finds the rows nearly sorted.
    """

    def __init__(self, parts: Sequence[PackedPart], side: int, decisions: LoggedDecisions = UNDECIDED) -> None:
        self._parts, self._side = sorted((part for part in parts if part.side == side), key=_first_operation), side
        self._decisions = decisions
        self._counts = [unpacked(part.shared, 0) for part in self._parts]
        self._size = sum(int(count.sum()) for count in self._counts)
        self._replaced: dict[str, Any] = {}

    def replace(self, name: str, values: Any) -> None:
        """Another column instead of the packed one."""
        self._replaced[name] = values

    def least(self, name: str) -> int:
        """A number that no value of a record's own column is less than; only the heads of the parts are looked at. 0 of none."""
        return min((lower_bound(part.own, OWN[self._side].index(name)) for part in self._parts), default=0)

    def __iter__(self) -> Iterator[str]:
        return iter(COLUMNS_OF[self._side])

    def __len__(self) -> int:
        return len(COLUMNS_OF[self._side])

    def __getitem__(self, name: str) -> Any:
        if name in self._replaced:
            return self._replaced[name]
        if not self._parts:
            return np.empty(0, dtype=TYPES.get(name, np.int64))
        if name in OWN[self._side]:
            place = OWN[self._side].index(name)
            return _MEMORY.joined(lambda: (unpacked(part.own, place) for part in self._parts), self._size, np.int64)
        of_operations = self._of_operations(name)
        if name == "flags" and self._side == SENDS and len(self._decisions):
            of_operations = [
                _decided(flags, op, self._decisions) for flags, op in zip(of_operations, self._of_operations("op"), strict=True)
            ]
        kind = _op_type(of_operations) if name == "op" else TYPES.get(name, np.int64)
        return _MEMORY.joined(lambda: map(np.repeat, of_operations, self._counts), self._size, kind)

    def _of_operations(self, name: str) -> list[Any]:
        return [unpacked(part.shared, 1 + SHARED[self._side].index(name)) for part in self._parts]


def _first_operation(part: PackedPart) -> int:
    """A history index that none of a part's operations is below, mostly that of its first one."""
    return lower_bound(part.shared, 1 + SHARED[part.side].index("op"))


def _op_type(parts: Sequence[Any]) -> Any:
    """The type of history indices: 32 bits where that is enough."""
    return np.int32 if max(int(part.max(initial=0)) for part in parts) < np.iinfo(np.int32).max else np.int64
