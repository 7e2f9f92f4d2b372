"""Looking up a few operations in a history, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.history.source import Source
from fencepost.checkers.model.values import NONE
from fencepost.harness.api import history

_TYPES = {column.name: pa.string() if column.type == "string" else pa.int64() for column in history.STRUCTS["mop"]}
READ_COLUMNS, READ_TEXTS = ("isolation", "mops"), ("isolation",)
MOPS = pa.schema({"op": pa.int64(), **_TYPES})  # op: history index of the operation


def records_of(source: Source, ops: Iterable[int]) -> pa.Table:
    """Micro-operations of some operations (by history index) as `MOPS`; NONE where a number is unknown."""
    batches = source.operations(np.fromiter(ops, dtype=np.int64), ("index", "mops"))
    return pa.Table.from_batches(list(_flat(batches)), schema=MOPS)


def returned(
    batches: Iterable[pa.RecordBatch], identities: pa.Array, isolation: str, unnamed: bool
) -> Iterator[set[tuple[str, int]]]:
    """Records among some that the operations of an isolation level got, in batches of `READ_COLUMNS`: (partition, identity).

    unnamed: operations whose level is not known count too.
    """
    for batch in batches:
        of_level = pc.fill_null(pc.equal(batch.column("isolation"), isolation), unnamed)
        lists = batch.filter(of_level).column("mops")
        mops = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
        which = pc.and_(pc.not_equal(mops["kind"], 0), pc.is_in(mops["v"], identities))
        names = pc.cast(mops["partition"].filter(which), pa.string()).to_pylist()
        yield set(zip(names, mops["v"].filter(which).to_pylist(), strict=True))


def _flat(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for some in batches:
        lists = some.column("mops")
        mops = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
        columns = {**mops, "op": some.column("index").take(pc.list_parent_indices(lists))}
        yield pa.RecordBatch.from_arrays([_filled(columns[field.name], field.type) for field in MOPS], schema=MOPS)


def _filled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    column = pc.cast(column, kind)
    return column if pa.types.is_string(kind) else pc.fill_null(column, NONE)
