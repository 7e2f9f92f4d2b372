"""The one Spark job that all partition checks share.

    history.parquet -> scan -> one shuffle by topic-partition -> PartitionLog -> every check -> only suspicious rows leave

What `checkers.scan` sends through the shuffle are few large rows, two Arrow messages for each batch and topic-partition. A short
history is scanned by the driver, and needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from checkers.anomaly import NUMBERS, Check, Ints, Suspects
from checkers.kept import Function, Kept, gathered
from checkers.log import NONE, FinalRead, PartitionLog, Reads, Resets, Sends, Settings, position_type, slices
from checkers.scan import FINAL, FINISHED, READ, SENT, TXN, UNCOMMITTED, scan, scan_here, unpack
from checkers.source import Source, from_message, to_message
from checkers.turns import turn
from checkers.unseen import total_unseen, unseen_at

RESULT = pa.schema(
    [
        ("check", pa.string()),
        ("what", pa.string()),  # row, total, error, count, unseen, stranger, or of `checkers.kept`
        ("partition", pa.string()),
        *[(name, pa.int64()) for name in NUMBERS],
        ("role", pa.string()),
        ("compared", pa.int64()),
        ("text", pa.string()),
        ("batch", pa.binary()),
    ]
)
RESULT_DDL = (
    "check string, what string, partition string, cause bigint, op bigint, v bigint, offset bigint, time bigint, "
    "role string, compared bigint, text string, batch binary"
)

BYTES_PER_TASK = 1 << 20  # packed, of a short history; a worker's start costs as much as to judge so many
MOST_HERE = 64 << 20  # packed, of all partitions: tasks carry them, and Spark sends none of more than 128 MiB
Judge = Callable[[tuple[Any, ...], pa.Table], pa.Table]


@dataclass
class Answer:
    """What came back for one check: rows of all partitions, how much was compared, what was lacking, what broke."""

    rows: pd.DataFrame
    compared: int = 0
    lacking: str = ""
    error: str = ""
    more: int = 0  # findings beyond those in `rows`


@dataclass(frozen=True)
class Counts:
    """Micro-operations over all partitions."""

    sent: int = 0
    read: int = 0
    final_read: int = 0
    partitions: int = 0


def run_partition_checks(
    spark: SparkSession,
    history: Source,
    checks: Sequence[Check[PartitionLog]],
    finals: Mapping[str, FinalRead],
    settings: Settings,
    resets: Resets | None = None,
    moments: Ints | None = None,
    kept: Kept | None = None,
) -> tuple[dict[str, Answer], Counts, Any, list[list[int]]]:
    """Run every partition check over every partition in one job.

    Returns answers by check, counts, strangers' identities, and what was unseen at each of the moments (`checkers.unseen`).
    """
    bare = [replace(check, resolve=None, explain=None) for check in checks]  # what the workers need
    moments = np.empty(0, dtype=np.int64) if moments is None else moments
    kept = kept or Kept()
    judge = _judge(bare, dict(finals), settings, resets or Resets(), moments, kept.functions)
    results = _judged(spark, history, judge, kept).to_pandas()
    kept.take(results)
    strangers = results.loc[results["what"] == "stranger", "v"].to_numpy(dtype=np.int64)
    unseen = total_unseen(moments, results[results["what"] == "unseen"])
    return {check.name: _answer(check.name, results) for check in checks}, _counts(results), strangers, unseen


def _judged(spark: SparkSession, history: Source, judge: Judge, kept: Kept) -> pa.Table:
    """What the judge says of every partition."""
    groups = scan_here(history) if kept.near else None
    if groups is not None and sum(rows.nbytes for _, rows in groups) <= MOST_HERE:
        return _judged_near(spark, groups, judge) if groups else RESULT.empty_table()
    judged: pa.Table = kept.split(scan(spark, history).groupBy("partition").applyInArrow(judge, RESULT_DDL)).toArrow()
    return judged


def _judged_near(spark: SparkSession, groups: Sequence[tuple[str, pa.Table]], judge: Judge) -> pa.Table:
    """A short history's partitions were packed here and go to the workers as they are.

    The JVM would need longer to learn how to plan, scan and shuffle than everything else takes together.
    """
    context, messages = spark.sparkContext, [(name, to_message(rows)) for name, rows in groups]
    tasks = min(len(messages), context.defaultParallelism, 1 + sum(len(rows) for _, rows in messages) // BYTES_PER_TASK)
    judged = context.parallelize(messages, tasks).map(partial(_judged_message, judge)).collect()
    return pa.concat_tables([RESULT.empty_table(), *map(from_message, judged)])


def _judged_message(judge: Judge, group: tuple[str, bytes]) -> bytes:
    name, rows = group
    return to_message(judge((pa.scalar(name),), from_message(rows)))


def _answer(name: str, results: pd.DataFrame) -> Answer:
    mine = results[results["check"] == name]
    totals, errors = mine[mine["what"] == "total"], mine[mine["what"] == "error"]
    rows = mine.loc[mine["what"] == "row", ["partition", *NUMBERS, "role"]].astype(dict.fromkeys(NUMBERS, "int64"))
    lacking = "; ".join(sorted(set(totals["text"]) - {""}))
    error, more = next(iter(errors["text"]), ""), int(totals["cause"].fillna(0).sum())
    return Answer(rows.reset_index(drop=True), int(totals["compared"].sum()), lacking, error, more)


def _counts(results: pd.DataFrame) -> Counts:
    counted = results[results["what"] == "count"].groupby("role")["compared"].sum()
    return Counts(**{name: int(counted.get(name, 0)) for name in ("sent", "read", "final_read", "partitions")})


# --------------------------------------------------------------------------------------------------
# After the shuffle
# --------------------------------------------------------------------------------------------------
def _judge(
    checks: Sequence[Check[PartitionLog]],
    finals: Mapping[str, FinalRead],
    settings: Settings,
    resets: Resets,
    moments: Ints,
    gathers: Sequence[Function],
) -> Judge:
    """The function that judges one partition's packed rows with every check."""

    def judge_partition(key: tuple[Any, ...], group: pa.Table) -> pa.Table:
        partition = key[0].as_py()
        with turn(group.nbytes):
            log = unpack_log(partition, group, finals.get(partition, FinalRead()), settings, resets)
            answers = [_asked(check, log) for check in checks]
            answers += [_table(**columns) for columns in gathered(gathers, log)]
            return pa.concat_tables([*answers, _strangers(log), _counted(log), _unseen(log, moments)])

    return judge_partition


def unpack_log(
    partition: str, group: pa.Table, final: FinalRead, settings: Settings, resets: Resets | None = None
) -> PartitionLog:
    """Packed rows back to one partition's sorted arrays."""
    sent, read = unpack(group.column("sends"), SENT), unpack(group.column("reads"), READ)
    pa.default_memory_pool().release_unused()
    return sorted_log(partition, sent, read, final, settings, resets or Resets())


def build_log(
    partition: str, columns: dict[str, Any], sent: Any, final: FinalRead, settings: Settings, resets: Resets
) -> PartitionLog:
    """A log from mixed micro-operations; `sent` says which of them are sends."""
    out, back = {name: columns[name][sent] for name in SENT}, {name: columns[name][~sent] for name in READ}
    return sorted_log(partition, out, back, final, settings, resets)


def sorted_log(
    partition: str, sent: dict[str, Any], read: dict[str, Any], final: FinalRead, settings: Settings, resets: Resets
) -> PartitionLog:
    """Sort sends by identity and reads by offset, and look up the send of each read. Empties both, to save memory."""
    _sort(sent, _order(sent["v"]))
    flags = sent.pop("flags")
    sends = Sends(
        **{name: sent.pop(name) for name in ("op", "v", "began", "ended", "decided", "over")},
        offset=np.maximum(sent.pop("offset"), NONE),  # librdkafka marks unknown offsets with other negative numbers
        status=flags & 3,
        txn=(flags & TXN) > 0,
        finished=(flags & FINISHED) > 0,
    )
    arrival = _order(read["offset"])
    _sort(read, arrival)
    flags = read.pop("flags")
    committed, last = (flags & UNCOMMITTED) == 0, (flags & FINAL) > 0
    reads = Reads(
        **{name: read[name] for name in ("op", "process", "v", "offset", "ended")},
        committed=committed,
        judged=committed | ~last if settings.all_readers else committed,
        final=last,
        send=_find(sends.v, read["v"]),
        status=flags & 3,
        arrival=arrival,
    )
    return PartitionLog(partition, sends, reads, final, settings, resets)


def _sort(columns: dict[str, Any], order: Any) -> None:
    for name in list(columns):
        columns[name] = columns[name][order]


def _order(values: Ints) -> Any:
    """The positions of values in rising order, equal ones as they come."""
    return np.argsort(values, kind="stable").astype(position_type(len(values)))


def _find(sorted_values: Ints, wanted: Ints) -> Any:
    """Positions of values in a sorted array, NONE where they are not in it."""
    found = np.full(len(wanted), NONE, dtype=position_type(len(sorted_values)))
    if not len(sorted_values):
        return found
    for part in slices(len(wanted)):
        at = np.minimum(np.searchsorted(sorted_values, wanted[part]), len(sorted_values) - 1)
        found[part] = np.where(sorted_values[at] == wanted[part], at, NONE)
    return found


def _asked(check: Check[PartitionLog], log: PartitionLog) -> pa.Table:
    """One check's answer about one partition. Whatever it raises is its own trouble: an `error` row."""
    try:
        return _suspects_table(check.name, log.partition, check(log))
    except Exception as error:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
        return _table(check=check.name, what="error", partition=log.partition, text=f"{type(error).__name__}: {error}")


def _suspects_table(name: str, partition: str, suspects: Suspects) -> pa.Table:
    said = {"compared": suspects.compared, "text": suspects.lacking, "cause": suspects.more}
    total = _table(check=name, what="total", partition=partition, **said)
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
    return _table(len(numbers), what="count", partition=log.partition, role=list(numbers), compared=list(numbers.values()))


def _unseen(log: PartitionLog, moments: Ints) -> pa.Table:
    counts = unseen_at(log, moments)
    some = counts > 0
    return _table(int(some.sum()), what="unseen", time=moments[some], compared=counts[some])


def _table(count: int = 1, /, **columns: Any) -> pa.Table:
    """Rows of RESULT; a single value stands for a whole column, an absent one for nulls."""
    arrays = []
    for field in RESULT:
        value = columns.get(field.name)
        alone = value is None or isinstance(value, (str, int, bytes))
        arrays.append(pa.repeat(pa.scalar(value, field.type), count) if alone else pa.array(value, field.type))
    return pa.Table.from_arrays(arrays, schema=RESULT)
