"""A history as two flat tables that damages can work on: operations, and their micro-operations.

Missing numbers are `NONE` here and null in Parquet. Nothing here changes a table in place: every change makes new `HistoryRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import ABORTED, COMMITTED, INFO, NONE
from fencepost.harness.api.history import writing

OPS = ("process", "f", "type", "intent", "isolation", "final", "time", "end", "decided", "detail")
NUMBERS = ("v", "offset", "began", "ended")
Made = TypeVar("Made")
CHANGED = {"type": pa.string(), "detail": pa.string()}  # columns of operations that a damage may change


@dataclass(frozen=True)
class HistoryRows:
    """A history taken apart.

    table: its columns as they were read, without `mops`.
    ops: a row per operation (`OPS`), in the order of the history.
    mops: op (position in `ops`), at (where in the operation; inserted ones lie between), kind, partition and `NUMBERS`.
    logs: what the brokers' logs hold (`harness.api.history.STORED`); None: not known.
    """

    table: pa.Table
    ops: pd.DataFrame
    mops: pd.DataFrame
    logs: pa.Table | None = None

    @cached_property
    def whole(self) -> pa.Table:
        """`table` with what was changed in `ops`."""
        table = self.table
        for name, kind in CHANGED.items():
            column = pa.array(self.ops[name].where(self.ops[name].notna(), None), kind)
            table = table.set_column(table.column_names.index(name), pa.field(name, kind), column)
        return table

    @cached_property
    def sends(self) -> pd.DataFrame:
        """Sent records, with txn, status, process, time, end and decided of their operations."""
        sent = self.mops[self.mops["kind"] == 0]
        return sent.assign(**self._of_operations(sent, ("txn", "status", "process", "time", "end", "decided")))

    @cached_property
    def reads(self) -> pd.DataFrame:
        """Returned records in order of (op, at), with committed, final, process, time and fine (ok) of their operations."""
        read = self.mops[self.mops["kind"] == 1]
        read = read.assign(**self._of_operations(read, ("committed", "final", "process", "time", "fine")))
        return read.sort_values(["op", "at"], kind="stable")

    def _of_operations(self, mops: pd.DataFrame, names: tuple[str, ...]) -> dict[str, Any]:
        at = mops["op"].to_numpy()
        return {name: self._known[name].to_numpy()[at] for name in names}

    @cached_property
    def _known(self) -> pd.DataFrame:
        ops = self.ops
        txn = ops["f"] == "txn"
        failed = (ops["type"] == "fail") | (txn & (ops["type"] == "ok") & (ops["intent"] == "abort"))
        status = np.select([failed, ops["type"] == "ok"], [ABORTED, COMMITTED], INFO)
        level = ops["isolation"] != "read_uncommitted"
        return ops.assign(txn=txn, status=status, committed=level, fine=ops["type"] == "ok")

    def shared(self, make: Callable[[HistoryRows], Made]) -> Made:
        """The value that a function makes of this history: computed once, and shared by the damages that need it."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]  # type: ignore[no-any-return]

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    # ---- what may be damaged so that the checks have to see it ----
    @cached_property
    def witnessed(self) -> pd.DataFrame:
        """Committed records whose loss must be noticed: read once and in order at read_committed, with another read above them.

        Read by a final reader where there is one, else by anybody. `place` is the offset at which they were read.
        """
        reads = self.reads[self.reads["committed"]]
        finals = reads[reads["final"]]
        judges = finals if len(finals) else reads
        last = judges.groupby("partition")["offset"].max()
        place = judges.groupby(["partition", "v"])["offset"].agg(["min", "max"]).reset_index()
        place = place[(place["min"] == place["max"]) & (place["max"] < place["partition"].map(last))]
        sent = self.sends[(self.sends["status"] == COMMITTED) & (self.sends["txn"] | (self.sends["ended"] != NONE))]
        sent = sent[~sent["v"].duplicated(keep=False)]
        return sent.reset_index().merge(place.rename(columns={"min": "place"}).drop(columns="max"), on=["partition", "v"])

    @cached_property
    def complete(self) -> pd.DataFrame:
        """The witnessed records of the transactions (or single sends) of which every record is witnessed."""
        sizes = self.sends.groupby("op").size()
        seen = self.witnessed.groupby("op").size()
        whole = seen.index[seen == sizes.loc[seen.index]]
        return self.witnessed[self.witnessed["op"].isin(whole)]

    def last_polls(self, isolations: tuple[bool, ...] = (True, False)) -> pd.DataFrame:
        """The last read of each partition by each final reader; without any, the highest one at read_committed."""
        reads = self.reads
        finals = reads[reads["final"] & reads["committed"].isin(isolations)]
        if not len(finals):
            finals = reads[reads["committed"]].sort_values(["offset", "op"], kind="stable").groupby("partition").tail(1)
        return finals.groupby(["partition", "process"]).tail(1)

    def end_of(self, partition: str) -> int:
        """An offset beyond everything known of a partition."""
        return int(self.mops.loc[self.mops["partition"] == partition, "offset"].max()) + 2

    # ---- changing ----
    def without(self, labels: Any) -> HistoryRows:
        """The history without these micro-operations (labels of `mops`)."""
        return replace(self, mops=self.mops.drop(index=labels))

    def only(self, partitions: Collection[str]) -> HistoryRows:
        """The history without the records of all other partitions; the operations stay."""
        return replace(self, mops=self.mops[self.mops["partition"].isin(partitions)])

    def unread(self, records: Any) -> HistoryRows:
        """The history in which these records are returned to nobody."""
        gone = (self.mops["kind"] == 1) & self.mops["v"].isin(records)
        return replace(self, mops=self.mops[~gone])

    def with_values(self, labels: Any, column: str, values: Any) -> HistoryRows:
        """The history with other values in one column of some micro-operations."""
        mops = self.mops.copy()
        mops.loc[labels, column] = values
        return replace(self, mops=mops)

    def with_reads(self, added: pd.DataFrame) -> HistoryRows:
        """The history with more reads: op, at, partition, v, offset, ended."""
        new = added.assign(kind=1, began=NONE)[self.mops.columns]
        return replace(self, mops=pd.concat([self.mops, new], ignore_index=True))

    def with_operation(self, position: int, changes: Mapping[str, Any]) -> HistoryRows:
        """The history with an operation changed (columns of `CHANGED`)."""
        ops = self.ops.copy()
        for name, value in changes.items():
            ops.loc[position, name] = value
        return replace(self, ops=ops)


def read_rows(path: Path) -> HistoryRows:
    """Take a `history.parquet` apart."""
    table = pq.ParquetFile(path).read().combine_chunks()
    table = table.sort_by("index")
    lists = pa.concat_arrays(table["mops"].chunks) if table["mops"].num_chunks else pa.array([], table["mops"].type)
    flat = pa.Table.from_struct_array(lists.flatten())
    mops = pd.DataFrame({"op": pc.list_parent_indices(lists).to_numpy(), "kind": flat["kind"].to_numpy()})
    mops["at"] = np.arange(len(mops), dtype=np.float64)
    mops["partition"] = pc.fill_null(flat["partition"], "").to_pandas()
    for name in NUMBERS:
        mops[name] = pc.fill_null(flat[name], NONE).to_numpy()
    return rows_of(table.drop_columns(["mops"]), mops)


def rows_of(table: pa.Table, mops: pd.DataFrame) -> HistoryRows:
    """A history from its columns without `mops`, and its micro-operations."""
    ops = table.select(list(OPS)).to_pandas(integer_object_nulls=True)
    for name in ("time", "end", "decided"):
        ops[name] = pc.fill_null(table[name], NONE).to_numpy()
    return HistoryRows(table, ops, mops)


def write_rows(rows: HistoryRows, path: Path) -> None:
    """Put a history together again."""
    mops = rows.mops.sort_values(["op", "at"], kind="stable")
    nullable = {
        name: pa.array(mops[name].to_numpy(), mask=mops[name].to_numpy() == NONE) for name in ("offset", "began", "ended")
    }
    fields = {
        "kind": pa.array(mops["kind"].to_numpy(), pa.int8()),
        "partition": pa.array(mops["partition"], pa.string()),
        "v": pa.array(mops["v"].to_numpy(), pa.int64()),
        **nullable,
    }
    structs = pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
    bounds = np.searchsorted(mops["op"].to_numpy(), np.arange(len(rows.ops) + 1))
    table = rows.whole.append_column("mops", pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), structs))
    pq.write_table(table, path, **writing(table.schema))
