"""Lawful histories of any length, made era by era, so that ten million transactions need no more memory than a quarter million.

An era is one generated lawful history; the next one follows it in time, in offsets and in operation numbers. Final readers come
last: what they read of each era is kept beside and appended in the end. As in a run of ours each writer initialises first.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.harness.api import record_ids
from fencepost.harness.api.history import writing

ERA = 250_000
SECOND = 1_000_000_000


def write_long(folder: Path, transactions: int, partitions: int = 4, processes: int = 16, era: int = ERA) -> None:
    """Write `plan.json` and `history.parquet` of a lawful run of any length; `transactions` beyond one era are whole eras."""
    era = min(era, transactions)
    if transactions > era and (transactions % era or era % processes):
        raise ValueError(f"{transactions} transactions are not whole eras of {era} by {processes} processes")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fencepost-long-", dir=folder) as temporary:
        _Long(folder, Path(temporary), transactions // era, era, partitions, processes).write()


class _Long:
    """The bases to which the numbers of the next era are added."""

    def __init__(self, folder: Path, scratch: Path, eras: int, era: int, partitions: int, processes: int) -> None:
        self.folder, self.scratch, self.eras, self.era = folder, scratch, eras, era
        self.partitions, self.processes = partitions, processes
        self.time = 0
        self.offsets = {f"t-{number}": 0 for number in range(partitions)}
        self.polls = np.zeros(3, dtype=np.int64)  # of the reader, and of the two final readers
        self.index = 0

    def write(self) -> None:
        schema = self._era(0).schema
        with pq.ParquetWriter(self.folder / "history.parquet", schema, **writing(schema)) as writer:
            finals = [self._write_era(number, writer) for number in range(self.eras)]
            for path in finals:
                self._append(writer, self._later(pq.read_table(path).combine_chunks()))

    def _later(self, table: pa.Table) -> pa.Table:
        """Final reads of an era moved behind everything else: a final phase begins when nobody writes any more."""
        by = self.time - pc.min(table["time"]).as_py()
        lists = table["mops"].chunk(0)
        flat = pa.Table.from_struct_array(lists.flatten())
        for name in ("began", "ended"):
            flat = flat.set_column(flat.column_names.index(name), name, pc.add(flat[name], by))
        structs = flat.combine_chunks().to_struct_array()
        structs = structs.chunk(0) if isinstance(structs, pa.ChunkedArray) else structs
        changed = {"mops": pa.ListArray.from_arrays(lists.offsets, structs)}
        changed |= {name: pc.add(table[name], by) for name in ("time", "end")}
        for name, column in changed.items():
            table = table.set_column(table.column_names.index(name), name, column)
        self.time = pc.max(table["end"]).as_py() + SECOND
        return table

    def _era(self, number: int) -> pa.Table:
        path = self.scratch / "era"
        write_lawful(path, transactions=self.era, partitions=self.partitions, processes=self.processes, seed=number)
        if number == 0:
            (self.folder / "plan.json").write_bytes((path / "plan.json").read_bytes())
        return pq.read_table(path / "history.parquet").combine_chunks()

    def _write_era(self, number: int, writer: pq.ParquetWriter) -> Path:
        table = self._era(number)
        sizes = json.loads(table.filter(pc.equal(table["f"], "settle"))["detail"][0].as_py())
        table = self._shifted(table, 1 + number * self.era // self.processes)
        self.time = pc.max(table["end"]).as_py() + SECOND
        self.offsets = {name: base + sizes[name][1] for name, base in self.offsets.items()}
        last = number == self.eras - 1
        ended = pc.or_(pc.equal(table["f"], "settle"), pc.equal(table["f"], "final-read"))
        late = pc.or_(table["final"], ended)
        main = table.filter(pc.invert(late))
        self._append(writer, main if number else pa.concat_tables([self._instances(main), main]))
        rows = table.filter(late) if last else table.filter(pc.and_(late, pc.invert(ended)))
        path = self.scratch / f"final-{number}.parquet"
        pq.write_table(self._final(rows) if last else rows, path)
        return path

    def _instances(self, table: pa.Table) -> pa.Table:
        """The `initialise` of each writer."""
        writers = table.filter(pc.equal(table["f"], "txn"))
        first = writers.take(np.unique(writers["process"].to_numpy(), return_index=True)[1])
        began, count = pc.min(table["time"]).as_py() - SECOND // 2, len(first)
        changed: dict[str, Any] = {"f": "initialise", "type": "ok", "op": 0, "time": began, "end": began + SECOND // 4}
        changed |= {"intent": None, "decided": None, "mops": []}
        for name, value in changed.items():
            field = table.schema.field(name)
            first = first.set_column(table.column_names.index(name), field, pa.array([value] * count, field.type))
        return first

    def _append(self, writer: pq.ParquetWriter, table: pa.Table) -> None:
        index = pa.array(np.arange(self.index, self.index + len(table)))
        self.index += len(table)
        writer.write_table(table.set_column(0, "index", index), row_group_size=65536)

    def _shifted(self, table: pa.Table, ops: int) -> pa.Table:
        """An era's numbers moved behind those of the eras before it."""
        reader = pc.subtract(table["process"], self.processes).to_numpy()
        polls = table["f"].to_pandas().eq("poll").to_numpy()
        base = np.where(polls, self.polls[np.clip(reader, 0, 2)], np.where(reader < 0, ops, 0))
        self.polls = self.polls + np.bincount(reader[polls], minlength=3)
        changed = {"op": pa.array(table["op"].to_numpy() + base), "mops": self._mops(table["mops"].chunk(0), ops)}
        changed |= {name: pc.add(table[name], self.time) for name in ("time", "end", "decided")}
        for name, column in changed.items():
            table = table.set_column(table.column_names.index(name), name, column)
        return table

    def _mops(self, lists: pa.ListArray, ops: int) -> pa.ListArray:
        flat = pa.Table.from_struct_array(lists.flatten())
        names = flat["partition"].combine_chunks().dictionary_encode()
        names = names.chunk(0) if isinstance(names, pa.ChunkedArray) else names
        bases = np.array([self.offsets[name] for name in names.dictionary.to_pylist()])
        added: dict[str, Any] = {"v": record_ids.of(0, ops, 0), "offset": pa.array(bases[names.indices.to_numpy()])}
        added |= {"began": self.time, "ended": self.time}
        for name, base in added.items():
            flat = flat.set_column(flat.column_names.index(name), name, pc.add(flat[name], base))
        structs = flat.combine_chunks().to_struct_array()
        return pa.ListArray.from_arrays(lists.offsets, structs.chunk(0) if isinstance(structs, pa.ChunkedArray) else structs)

    def _final(self, table: pa.Table) -> pa.Table:
        """The last settling and final reads speak of the whole partitions."""
        settled = json.dumps({name: [size, size] for name, size in self.offsets.items()})
        read = json.dumps({name: [0, size, size] for name, size in self.offsets.items()})
        detail = pc.if_else(pc.equal(table["f"], "settle"), settled, pc.if_else(pc.equal(table["f"], "final-read"), read, None))
        return table.set_column(table.column_names.index("detail"), "detail", pc.cast(detail, pa.string()))
