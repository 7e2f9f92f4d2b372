"""Reads of some records in a history: which operations returned them, when, and at which offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.report.documents import Ops

_READ, _ROWS = 1, 65_536
_MOST_OF_A_RECORD = 1_000


@dataclass(frozen=True, slots=True)
class Read:
    """A poll that returned a record.

    operation: index of the poll in the history.
    time: when it was returned, ns; None: not recorded.
    """

    v: int
    operation: int
    partition: str
    offset: int | None
    time: int | None


@dataclass(frozen=True)
class Reads:
    """All reads of some records, by record, in the order of the history. whole: the history has the records of all its polls."""

    of: Mapping[int, tuple[Read, ...]] = field(default_factory=dict)
    whole: bool = True


def reads(ops: Ops | None, identities: Iterable[int], whole: bool = True) -> Reads:
    """Look for the reads of these records, in one pass through the history.

    whole: the table has the records of all operations; not so what a check of a URL has brought. Raises OSError, ArrowException.
    """
    wanted = sorted({v for v in identities if v >= 0})
    if ops is None or not wanted:
        return Reads(whole=ops is not None and whole)
    met: dict[int, list[Read]] = {}
    values = pa.array(wanted, pa.int64())
    with pq.ParquetFile(ops.path) as file:
        for batch in file.iter_batches(_ROWS, columns=["index", "mops"]):
            for read in _in_batch(batch, values):
                of_record = met.setdefault(read.v, [])
                if len(of_record) < _MOST_OF_A_RECORD:
                    of_record.append(read)
    return Reads({v: tuple(some) for v, some in met.items()}, whole)


def _in_batch(batch: pa.RecordBatch, wanted: pa.Array) -> list[Read]:
    mops = batch.column("mops")
    flat = mops.flatten()
    chosen = np.flatnonzero(
        pc.and_(pc.equal(flat.field("kind"), _READ), pc.is_in(flat.field("v"), wanted)).fill_null(False).to_numpy(False)
    )
    if not len(chosen):
        return []
    lengths = pc.list_value_length(mops).fill_null(0).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(batch)), lengths)[chosen]
    index = batch.column("index").take(pa.array(row)).to_pylist()
    taken = [flat.field(name).take(pa.array(chosen)).to_pylist() for name in ("v", "partition", "offset", "ended")]
    return [Read(v, i, partition or "?", offset, time) for i, v, partition, offset, time in zip(index, *taken, strict=True)]
