"""Looking up a few operations in `history.parquet`: only the row groups that hold them are read, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.log import NONE

ROWS = 8_192  # read at once
MOPS = pa.schema(
    [
        *((name, pa.int64()) for name in ("op", "kind", "v", "offset", "began", "ended")),
        ("partition", pa.string()),
    ]
)


def records_of(history: Path, ops: Iterable[int]) -> pa.Table:
    """Micro-operations of some operations (by history index) as `MOPS`; NONE where a number is unknown."""
    wanted = np.unique(np.fromiter(ops, dtype=np.int64))
    with pq.ParquetFile(history) as file:
        groups = [group for group in range(file.metadata.num_row_groups) if _may_hold(file.metadata.row_group(group), wanted)]
        batches = file.iter_batches(ROWS, row_groups=groups, columns=["index", "mops"]) if groups else ()
        return pa.Table.from_batches(list(_flat(batches, pa.array(wanted))), schema=MOPS)


def _may_hold(group: pq.RowGroupMetaData, wanted: np.ndarray) -> bool:
    """Whether the statistics of a row group allow that one of these sorted indices is in it."""
    columns = (group.column(number) for number in range(group.num_columns))
    known = next((column.statistics for column in columns if column.path_in_schema == "index"), None)
    if known is None or not known.has_min_max:
        return True
    return bool(np.searchsorted(wanted, known.min, "left") < np.searchsorted(wanted, known.max, "right"))


def _flat(batches: Iterable[pa.RecordBatch], wanted: pa.Array) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        some = batch.filter(pc.is_in(batch.column("index"), wanted))
        lists = some.column("mops")
        mops = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
        columns = {**mops, "op": some.column("index").take(pc.list_parent_indices(lists))}
        yield pa.RecordBatch.from_arrays([_filled(columns[field.name], field.type) for field in MOPS], schema=MOPS)


def _filled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    column = pc.cast(column, kind)
    return column if pa.types.is_string(kind) else pc.fill_null(column, NONE)
