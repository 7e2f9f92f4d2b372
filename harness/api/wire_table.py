"""`wire.parquet` as a table, read if it is one: of a directory that may come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.harness.api import beneath
from fencepost.harness.api.files import fits_in_memory, regular
from fencepost.harness.api.history import demand_columns
from fencepost.harness.api.run import Run, RunFile, table_problem
from fencepost.harness.api.wire import WIRE

if TYPE_CHECKING:
    import pyarrow as pa

MOST_UNPACKED = 100  # times the size of the file: ours have about ten times as much
ALWAYS = 64 << 20  # bytes that any file may unpack to
ROW = 1024  # bytes that a row counts beside its texts
_BATCH = 10_000


def wire_table(path: Path, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """The table, with these columns and rows. Raises OSError and ArrowException: it is damaged, or unpacks to too much."""
    import pyarrow.parquet as pq

    demand_unpacked(path)
    demand_columns(path, WIRE)
    return pq.read_table(path, columns=columns, filters=filters, page_checksum_verification=True)


def wire_table_of(run: Run, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """The table of a run. Raises OSError and ArrowException: also where it has none, or one that is not its own."""
    if run.wire is None:
        raise FileNotFoundError("it has none of its own")
    demand_wire(run.wire, run.checksums.get(RunFile.WIRE))
    return wire_table(run.wire, columns, filters)


def demand_wire(path: Path, written: tuple[int, int] | None) -> None:
    """Raises OSError and ArrowException for a run's table that is damaged, or unpacks to too much. written: its checksum."""
    demand_unpacked(beneath.regular(path.parent, path.name))
    if problem := table_problem(path, WIRE, written):
        raise OSError(problem.reason)


def demand_unpacked(path: Path) -> None:
    """Raises OSError when the rows and texts of a table would take more memory than those of any record of its size.

    A text that is there once in the file may be in every row.
    """
    status = regular(path).stat()
    _demand_unpacked(path, status.st_size, status.st_mtime_ns)


@lru_cache
def _demand_unpacked(path: Path, size: int, changed_ns: int) -> None:
    import pyarrow.parquet as pq

    most = min(max(MOST_UNPACKED * size, ALWAYS), fits_in_memory())
    with pq.ParquetFile(path) as file:
        head = file.metadata
        groups = [head.row_group(number) for number in range(head.num_row_groups)]
        texts = [column.path for column in map(file.schema.column, range(len(file.schema))) if _is_text(column)]
    least = head.num_rows * ROW + sum(group.total_byte_size for group in groups)
    if least > most or least + _text_bytes(path, texts, most) > most:
        raise OSError(f"it unpacks to more than {most:,} bytes, and no record of {size:,} bytes does")


def _is_text(column: Any) -> bool:
    return bool(column.physical_type == "BYTE_ARRAY")


def _text_bytes(path: Path, texts: Sequence[str], most: int) -> int:
    """The bytes of all texts; of more than `most` some that are more."""
    import pyarrow.parquet as pq

    length = 0
    with pq.ParquetFile(path, read_dictionary=list(texts)) as file:  # what is in the file once is so in memory
        for batch in file.iter_batches(_BATCH, columns=list(texts), use_threads=False):
            length += sum(_length(column) for column in batch.columns)
            if length > most:
                break
    return length


def _length(column: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = _flat(column)
    return int(pc.sum(pc.binary_length(flat.dictionary).take(flat.indices).cast(pa.int64())).as_py() or 0)


def _flat(column: Any) -> Any:
    """The texts of a column that may have lists of them."""
    import pyarrow as pa

    while not pa.types.is_dictionary(column.type):
        column = column.flatten() if pa.types.is_list(column.type) else column.dictionary_encode()
    return column
