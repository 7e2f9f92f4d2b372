"""The records that operations sent and read, as flat columns: what curves and records' lives are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.report.documents import NEVER, Ints, Ops

MOST = 3_000_000  # in a history with more, only some operations' records are read
_FIELDS = ("kind", "partition", "v", "offset", "began", "ended")
SENT, READ = 0, 1


@dataclass(frozen=True, kw_only=True)
class Records:
    """Records in the order of their operations; NEVER stands where a number is not known.

    at: positions of the operations looked at, ascending.
    counts: how many records each of them has; NEVER: they are not in the table.
    op: the position of each record's operation.
    whole: every operation of the history was looked at.
    """

    at: Ints
    counts: Ints
    op: Ints
    kind: Ints
    partition: Ints  # a number of `partitions`
    v: Ints
    offset: Ints
    began: Ints
    ended: Ints
    partitions: tuple[str, ...]
    whole: bool

    def of(self, chosen: npt.NDArray[np.bool_]) -> Ints:
        """The positions of the records of chosen operations (a mask over `at`)."""
        return np.flatnonzero(np.repeat(chosen, np.maximum(self.counts, 0)))


def records(ops: Ops, named: set[int]) -> Records:
    """The records of all operations, or of those named (by index) where the history has too many."""
    with pq.ParquetFile(ops.path) as file:
        leaves = _leaves(file)
        groups = range(file.metadata.num_row_groups)
        if (
            sum(file.metadata.row_group(group).column(min(leaves)).num_values for group in groups) <= MOST
        ):  # empty lists count too
            names = list(leaves.values())
            parts = [file.read_row_group(group, columns=names)["mops"] for group in groups]
            return _flat(np.arange(len(ops)), [chunk for part in parts for chunk in part.chunks], whole=True)
    at = ops.at(named)
    return _flat(at, ops.table(at, ["mops"])["mops"].chunks, whole=False)


def _leaves(file: pq.ParquetFile) -> dict[int, str]:
    """The Parquet columns that hold the fields, by their numbers: writers name what lies between in different ways."""
    paths = [file.metadata.schema.column(number).path for number in range(file.metadata.num_columns)]
    wanted = {number: path.split(".") for number, path in enumerate(paths)}
    return {number: paths[number] for number, path in wanted.items() if path[0] == "mops" and path[-1] in _FIELDS}


def _flat(at: Ints, chunks: list[pa.ListArray], whole: bool) -> Records:
    names: dict[str, int] = {}
    columns: dict[str, list[Ints]] = {name: [np.zeros(0, dtype=np.int64)] for name in _FIELDS}
    for chunk in chunks:
        inner = chunk.flatten()
        for name in _FIELDS:
            column = pc.struct_field(inner, name)
            columns[name].append(_codes(column, names) if name == "partition" else _numbers(column))
    counts = np.concatenate([np.zeros(0, dtype=np.int64), *map(_counts, chunks)])
    flat = {name: np.concatenate(parts) for name, parts in columns.items()}
    op = np.repeat(at, np.maximum(counts, 0))
    return Records(at=at, counts=counts, op=op, partitions=tuple(names), whole=whole, **flat)


def _counts(chunk: pa.ListArray) -> Ints:
    return np.asarray(chunk.value_lengths().fill_null(NEVER).to_numpy(zero_copy_only=False), dtype=np.int64)


def _numbers(column: pa.Array) -> Ints:
    return np.asarray(column.cast(pa.int64()).fill_null(NEVER).to_numpy(zero_copy_only=False), dtype=np.int64)


def _codes(column: pa.Array, names: dict[str, int]) -> Ints:
    """A column of words as numbers; `names` grows by what is new."""
    encoded = column.fill_null("?").dictionary_encode()
    codes = np.array([names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()], dtype=np.int64)
    return codes[encoded.indices.to_numpy()] if len(codes) else np.zeros(0, dtype=np.int64)


def by_partition(table: Records) -> Mapping[int, Ints]:
    """Positions of the records of each partition."""
    order = np.argsort(table.partition, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(table.partition, minlength=len(table.partitions)))[:-1])
    return dict(enumerate(parts))
