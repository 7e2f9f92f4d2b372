"""The one Spark job that all partition checks share.

    history.parquet -> pack -> one shuffle by topic-partition -> PartitionLog -> every check -> only suspicious rows leave

`pack` splits each Arrow batch of operations into one row per topic-partition: its name and its micro-operations as one
Arrow message. So the shuffle moves few large rows instead of millions of small ones, and strings are gone before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.anomaly import NUMBERS, Check, Suspects
from checkers.log import ABORTED, COMMITTED, INFO, NONE, FinalRead, PartitionLog, Reads, Sends, Settings

TXN, FINISHED, FINAL, UNCOMMITTED = 4, 8, 16, 32  # bits of `flags`, above two bits of status
PACKED = "partition string, batch binary"
RESULT = pa.schema(
    [
        ("check", pa.string()),
        ("what", pa.string()),  # row, total, error, or stranger
        ("partition", pa.string()),
        *[(name, pa.int64()) for name in NUMBERS],
        ("role", pa.string()),
        ("compared", pa.int64()),
        ("text", pa.string()),
    ]
)
RESULT_DDL = (
    "check string, what string, partition string, cause bigint, op bigint, v bigint, offset bigint, time bigint, "
    "role string, compared bigint, text string"
)


@dataclass
class Answer:
    """What came back for one check: rows of all partitions, how much was compared, what was lacking, what broke."""

    rows: pd.DataFrame
    compared: int = 0
    lacking: str = ""
    error: str = ""


@dataclass(frozen=True)
class Counts:
    """Micro-operations over all partitions."""

    sent: int = 0
    read: int = 0
    final_read: int = 0
    partitions: int = 0


def run_partition_checks(
    spark: SparkSession, history: str, checks: Sequence[Check[PartitionLog]], finals: Mapping[str, FinalRead], settings: Settings
) -> tuple[dict[str, Answer], Counts, Any]:
    """Run every partition check over every partition in one job. Returns answers by check, counts, and strangers' identities."""
    packed = _operations(spark.read.parquet(history)).mapInArrow(pack, PACKED)
    bare = [replace(check, resolve=None, explain=None) for check in checks]  # what the workers need
    judged = packed.groupBy("partition").applyInArrow(_judge(bare, dict(finals), settings), RESULT_DDL)
    table = judged.toArrow()
    results = table.to_pandas()
    strangers = results.loc[results["what"] == "stranger", "v"].to_numpy(dtype=np.int64)
    return {check.name: _answer(check.name, results) for check in checks}, _counts(results), strangers


def _answer(name: str, results: pd.DataFrame) -> Answer:
    mine = results[results["check"] == name]
    totals, errors = mine[mine["what"] == "total"], mine[mine["what"] == "error"]
    rows = mine.loc[mine["what"] == "row", ["partition", *NUMBERS, "role"]].astype(dict.fromkeys(NUMBERS, "int64"))
    lacking = "; ".join(sorted(set(totals["text"]) - {""}))
    return Answer(rows.reset_index(drop=True), int(totals["compared"].sum()), lacking, next(iter(errors["text"]), ""))


def _counts(results: pd.DataFrame) -> Counts:
    counted = results[results["what"] == "count"].groupby("role")["compared"].sum()
    return Counts(**{name: int(counted.get(name, 0)) for name in ("sent", "read", "final_read", "partitions")})


# --------------------------------------------------------------------------------------------------
# Before the shuffle
# --------------------------------------------------------------------------------------------------
def _operations(ops: DataFrame) -> DataFrame:
    """Only what partition checks need; what is text becomes bits here, in generated code."""
    flags = _status() + _bit(F.col("f") == "txn", TXN) + _bit(F.col("end").isNotNull(), FINISHED)
    flags = flags + _bit(F.col("final"), FINAL) + _bit(F.col("isolation") == "read_uncommitted", UNCOMMITTED)
    return ops.where(F.size("mops") > 0).select(
        F.col("index").alias("op"), "process", flags.cast("byte").alias("flags"), F.col("decided"), "mops"
    )


def _status() -> Column:
    aborting = (F.col("f") == "txn") & (F.coalesce(F.col("intent"), F.lit("")) == "abort")
    failed = (F.col("type") == "fail") | ((F.col("type") == "ok") & aborting)
    return F.when(failed, F.lit(ABORTED)).when(F.col("type") == "ok", F.lit(COMMITTED)).otherwise(F.lit(INFO))


def _bit(condition: Column, bit: int) -> Column:
    return F.when(condition, F.lit(bit)).otherwise(F.lit(0))


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of operations to one row per topic-partition: (name, Arrow message with its micro-operations)."""
    for batch in batches:
        rows = [_message(flat, partition) for flat, partition in _by_partition(_flatten(batch))]
        yield pa.RecordBatch.from_pydict(
            {"partition": [name for name, _ in rows], "batch": pa.array([message for _, message in rows], pa.binary())}
        )


def _flatten(batch: pa.RecordBatch) -> tuple[pa.Array, dict[str, Any]]:
    """The partition of every micro-operation, and its columns with those of its operation."""
    lists = batch.column("mops")
    owner = pc.list_parent_indices(lists)
    names = [field.name for field in lists.type.value_type]
    mop = dict(zip(names, lists.flatten().flatten(), strict=True))
    columns = {name: batch.column(name).take(owner) for name in ("op", "process", "flags", "decided")}
    columns |= {name: mop[name] for name in ("kind", "v", "offset", "began", "ended")}
    return mop["partition"], {name: pc.fill_null(column, NONE) for name, column in columns.items()}


def _by_partition(flat: tuple[pa.Array, dict[str, Any]]) -> Iterator[tuple[pa.RecordBatch, str]]:
    partitions, columns = flat
    texts = pc.fill_null(partitions, "").dictionary_encode()
    codes = texts.indices.to_numpy()
    order = pa.array(np.argsort(codes, kind="stable"))
    sorted_rows = pa.RecordBatch.from_pydict(columns).take(order)
    bounds = np.searchsorted(codes[order.to_numpy()], np.arange(len(texts.dictionary) + 1))
    for code, name in enumerate(texts.dictionary.to_pylist()):
        yield sorted_rows.slice(bounds[code], bounds[code + 1] - bounds[code]), name


def _message(rows: pa.RecordBatch, partition: str) -> tuple[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return partition, sink.getvalue().to_pybytes()


# --------------------------------------------------------------------------------------------------
# After the shuffle
# --------------------------------------------------------------------------------------------------
def _judge(
    checks: Sequence[Check[PartitionLog]], finals: Mapping[str, FinalRead], settings: Settings
) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """The function that judges one partition's packed rows with every check."""

    def judge_partition(key: tuple[Any, ...], group: pa.Table) -> pa.Table:
        partition = key[0].as_py()
        log = unpack(partition, group.column("batch"), finals.get(partition, FinalRead()), settings)
        return pa.concat_tables([*(_asked(check, log) for check in checks), _strangers(log), _counted(log)])

    return judge_partition


def unpack(partition: str, messages: pa.ChunkedArray, final: FinalRead, settings: Settings) -> PartitionLog:
    """Packed rows back to one partition's sorted arrays."""
    tables = [pa.ipc.open_stream(message.as_buffer()).read_all() for chunk in messages.chunks for message in chunk]
    columns = pa.concat_tables(tables)
    del tables
    sent = columns["kind"].to_numpy() == 0
    return build_log(partition, {name: columns[name].to_numpy() for name in columns.column_names}, sent, final, settings)


def build_log(partition: str, columns: dict[str, Any], sent: Any, final: FinalRead, settings: Settings) -> PartitionLog:
    """Sort sends by identity and reads by offset, and look up the send of each read."""
    out = np.flatnonzero(sent)
    out = out[np.argsort(columns["v"][out], kind="stable")]
    flags = columns["flags"][out]
    sends = Sends(
        **{name: columns[name][out] for name in ("op", "v", "began", "ended", "decided")},
        offset=np.maximum(columns["offset"][out], NONE),  # librdkafka marks unknown offsets with other negative numbers
        status=flags & 3,
        txn=(flags & TXN) > 0,
        finished=(flags & FINISHED) > 0,
    )
    back = np.flatnonzero(~sent)
    back = back[np.argsort(columns["offset"][back], kind="stable")]
    flags = columns["flags"][back]
    committed, last = (flags & UNCOMMITTED) == 0, (flags & FINAL) > 0
    v = columns["v"][back]
    reads = Reads(
        **{name: columns[name][back] for name in ("op", "process", "offset", "ended")},
        v=v,
        committed=committed,
        judged=committed | (~last if settings.all_readers else False),
        final=last,
        send=_find(sends.v, v),
    )
    return PartitionLog(partition, sends, reads, final, settings)


def _find(sorted_values: Any, wanted: Any) -> Any:
    """Positions of values in a sorted array, NONE where they are not in it."""
    if not len(sorted_values):
        return np.full(len(wanted), NONE, dtype=np.intp)
    at = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    return np.where(sorted_values[at] == wanted, at, NONE)


def _asked(check: Check[PartitionLog], log: PartitionLog) -> pa.Table:
    """One check's answer about one partition. Whatever it raises is its own trouble: an `error` row."""
    try:
        return _suspects_table(check.name, log.partition, check(log))
    except Exception as error:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
        return _table(check=check.name, what="error", partition=log.partition, text=f"{type(error).__name__}: {error}")


def _suspects_table(name: str, partition: str, suspects: Suspects) -> pa.Table:
    total = _table(check=name, what="total", partition=partition, compared=suspects.compared, text=suspects.lacking)
    if not suspects.count:
        return total
    rows = _table(suspects.count, check=name, what="row", partition=partition, **suspects.rows)
    return pa.concat_tables([total, rows])


def _strangers(log: PartitionLog) -> pa.Table:
    identities = np.unique(log.reads.v[log.strangers])
    return _table(len(identities), what="stranger", v=identities)


def _counted(log: PartitionLog) -> pa.Table:
    final = int(log.reads.final.sum())
    numbers = {"sent": len(log.sends), "read": len(log.reads) - final, "final_read": final, "partitions": 1}
    return _table(len(numbers), what="count", role=list(numbers), compared=list(numbers.values()))


def _table(count: int = 1, /, **columns: Any) -> pa.Table:
    """Rows of RESULT; a single value stands for a whole column, an absent one for nulls."""
    arrays = []
    for field in RESULT:
        value = columns.get(field.name)
        alone = value is None or isinstance(value, (str, int))
        arrays.append(pa.repeat(pa.scalar(value, field.type), count) if alone else pa.array(value, field.type))
    return pa.Table.from_arrays(arrays, schema=RESULT)
