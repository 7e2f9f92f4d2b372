"""The one Spark job that all partition checks share.

    history.parquet -> scan -> one shuffle by topic-partition -> PartitionLog -> every check -> only suspicious rows leave

`checkers.history.scan` makes few large parts, and the job returns few large messages: no row passes through the JVM, which only
moves bytes; where all executors are on one machine only the places of parts in files (`checkers.history.part_files`). A short
history is scanned by the driver, and needs no shuffle.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fencepost.checkers.api import Check
from fencepost.checkers.engine.answers import Counts, PartitionResult, Questions
from fencepost.checkers.engine.joined_answers import JoinedAnswers
from fencepost.checkers.history.large_partitions import PackedParts, is_large, large_partition_lock
from fencepost.checkers.history.packed_parts import PartsAhead, packed_parts, shared_place
from fencepost.checkers.history.part_files import StoredMessage, StoredPart, stored_message
from fencepost.checkers.history.positions import Positions
from fencepost.checkers.history.scan import PackedPart, scan_columns, scan_locally
from fencepost.checkers.history.source import LocalSource, Source, from_message
from fencepost.checkers.model import forks
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.results import NO_ROWS, ROW_NUMBERS, Rows
from fencepost.checkers.model.values import UNDECIDED, FinalRead, LoggedDecisions, Resets, Settings
from fencepost.checkers.views import several_records
from fencepost.checkers.views.assembly import log_of_columns, unpack_log
from fencepost.checkers.views.gathering import ExecutorMessage, GatheredMessages
from fencepost.checkers.views.joined_logs import Sides, joinable, joined_log
from fencepost.checkers.views.log import IN_MEMORY, PartitionLog
from fencepost.checkers.views.unseen import total_unseen
from fencepost.harness.system.array_files import ArrayFiles, ReusedFiles

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

BYTES_PER_TASK = 1 << 20  # packed, of a short history; to start a worker costs as much as to judge so many
MOST_BYTES_IN_TASKS = 64 << 20  # packed, of all partitions of a short history; Spark sends no task of more than 128 MiB
RELEASED = 3  # the first questions to a large partition need by far the most memory; freed, it would lie between what others need
RECORDS_OF_A_FORK = 400_000  # sent or read, that take this process a few tenths of a second; a fork costs a twentieth of one
PACKED_RECORD = 14  # bytes, about
FEW_RECORDS = 4_000  # of a partition in a row group, below which it costs more to pack and unpack them than to judge them
RECORDS_OF_A_PARTITION = 5_000  # that cost as much as a partition with few
MOST_THREADS = 2  # that judge one large partition: each needs some memory of its own
PartitionJudge = Callable[..., Iterator["PartitionResult | ExecutorMessage"]]


@dataclass
class CombinedResult:
    """One check's result over all partitions: rows, how much was compared, what was lacking, and the first error."""

    rows: Rows = field(default_factory=dict)
    compared: int = 0
    lacking: str = ""
    error: str = ""
    more: int = 0  # findings beyond those in `rows`
    unread: int = 0  # promises that the second step found, and that nobody got or had to get
    table: Sequence[Mapping[str, Any]] = ()
    bound: str = ""
    single: int = 0  # operations that have one record, where the check compares those that have several


@dataclass(frozen=True)
class JobResult:
    """Results of the one job.

    results: by check.
    counts: sends and reads of all partitions.
    unsent: identities that were read in a partition to which nobody sent them.
    unseen: how many records were unseen at each of the moments (`checkers.views.unseen`).
    written_late: partitions whose final read does not count.
    """

    results: dict[str, CombinedResult]
    counts: Counts = field(default_factory=Counts)
    unsent: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    unseen: list[list[int]] = field(default_factory=list)
    written_late: list[str] = field(default_factory=list)


def run_partition_checks(
    spark: Callable[[], SparkSession],
    history: Source,
    checks: Sequence[Check[PartitionLog]],
    finals: Mapping[str, FinalRead],
    settings: Settings,
    resets: Resets | None = None,
    moments: Ints | None = None,
    gathered: GatheredMessages | None = None,
    here: bool = False,
    decisions: LoggedDecisions = UNDECIDED,
    ahead: PartsAhead | None = None,
) -> JobResult:
    """Run every partition check over every partition in one job. `gathered` gets the messages for run checks.

    here: this process and forks of it judge, without a session.
    decisions: what the logs say of transactions of unknown outcome.
    ahead: the packed parts of this history, which Spark makes already.
    """
    bare = tuple(replace(check, sift=None, resolve=None, explain=None) for check in checks)  # what the workers need
    moments = np.empty(0, dtype=np.int64) if moments is None else moments
    gathered = gathered or GatheredMessages()
    questions = Questions(bare, dict(finals), settings, resets or Resets(), moments, tuple(gathered.gatherers), decisions)
    made = (
        _judged_here(history, questions)
        if here and isinstance(history, LocalSource)
        else _judged_on_spark(spark, history, questions, gathered, ahead)
    )
    results = sorted((result for result in made if isinstance(result, PartitionResult)), key=lambda result: result.partition)
    gathered.collected = [sent for sent in made if isinstance(sent, ExecutorMessage)]  # of a short history
    gathered.to_driver = [message for result in results for message in result.to_driver]
    gathered.partitions = sorted({name for result in results for name in (result.partition, *result.others)})
    gathered.error = next((result.gather_error for result in results if result.gather_error), "")
    unsent = np.concatenate([np.empty(0, dtype=np.int64), *(result.unsent for result in results)])
    counts = Counts(*map(sum, zip(*(astuple(result.counts) for result in results), strict=True)))
    combined = {check.name: _combined(check.name, results) for check in checks}
    late = [result.partition for result in results if result.written_late]
    return JobResult(combined, counts, unsent, total_unseen(moments, [result.unseen for result in results]), late)


# --------------------------------------------------------------------------------------------------
# In this process and its forks
# --------------------------------------------------------------------------------------------------
def _judged_here(history: LocalSource, questions: Questions) -> list[Any]:
    """The results and messages of every partition, in the order of their names."""
    scanned = _scanned_here(history, questions)
    names = sorted(scanned, key=lambda name: scanned[name].records, reverse=True)  # the largest first: all end at about one time
    work = sum(partition.records + RECORDS_OF_A_PARTITION for partition in scanned.values())
    processes = min(forks.cores(), len(names), 1 + work // RECORDS_OF_A_FORK)
    threads = min(MOST_THREADS, forks.cores() // max(1, processes)) if work >= RECORDS_OF_A_FORK else 1
    made = forks.results(lambda number: list(scanned[names[number]].judged(threads)), len(names), processes)
    return [outcome for _, outcomes in sorted(zip(names, made, strict=True), key=itemgetter(0)) for outcome in outcomes]


class _Scanned(NamedTuple):
    """A partition that this process has scanned: how many records it has, about, and what judges it by so many threads."""

    records: int
    judged: Callable[[int], Iterator[PartitionResult | ExecutorMessage]]


def _scanned_here(history: LocalSource, questions: Questions) -> dict[str, _Scanned]:
    """All partitions by name."""
    if history.records_of_a_partition() < FEW_RECORDS:
        return _small_partitions(scan_columns(history, questions.decisions), questions)
    groups = scan_locally(history)
    return {
        name: _Scanned(sum(part.size for part in parts) // PACKED_RECORD, partial(_of_parts, questions, name, parts))
        for name, parts in groups.items()
    }


def _small_partitions(columns: Mapping[str, Sides], questions: Questions) -> dict[str, _Scanned]:
    """Partitions by name, those that are judged together by the first one's."""
    places = {name: place for place, name in enumerate(sorted(columns))}
    joined = joinable(columns, questions.final, questions.resets)
    together = {name: group for group in joined for name in group}
    judges: dict[str, Callable[[int], Any]] = {
        group[0]: partial(_of_group, questions, places, columns, group) for group in joined
    }
    judges |= {name: partial(_of_columns, questions, name, columns[name]) for name in columns if name not in together}
    records = {name: sum(len(side["v"]) for side in sides) for name, sides in columns.items()}
    return {name: _Scanned(sum(records[own] for own in together.get(name, (name,))), judge) for name, judge in judges.items()}


def _of_group(
    questions: Questions, places: Mapping[str, int], columns: Mapping[str, Sides], group: Sequence[str], threads: int
) -> Iterator[PartitionResult | ExecutorMessage]:
    """The answers of partitions that are judged together, as far as they can be."""
    assert isinstance(questions.resets, Positions)
    finals = {name: questions.final(name) for name in group}
    log = joined_log({name: columns[name] for name in group}, places, finals, questions.settings, questions.resets)
    alone: Collection[str] = group
    if log is not None and log.parts is not None:
        own = partial(_log_of, questions, columns)
        yield from JoinedAnswers(questions, log, own).answers()
        alone = [name for name in group if name not in set(log.parts.names)]
    for name in alone:
        yield from _of_columns(questions, name, columns[name], threads)


def _log_of(questions: Questions, columns: Mapping[str, Sides], name: str) -> PartitionLog:
    return log_of_columns(name, *columns[name], questions.final(name), questions.settings, questions.resets)


def _of_columns(questions: Questions, partition: str, sides: Sides, threads: int) -> Iterator[PartitionResult | ExecutorMessage]:
    log = log_of_columns(partition, *sides, questions.final(partition), questions.settings, questions.resets, threads)
    return questions.answers(log, threads)


def _of_parts(
    questions: Questions, partition: str, parts: list[PackedPart], threads: int
) -> Iterator[PartitionResult | ExecutorMessage]:
    waiting = PackedParts()
    while parts:
        waiting.append(parts.pop(0))
    return _judged(questions, partition, waiting, threads, min(MOST_THREADS, forks.cores()))


# --------------------------------------------------------------------------------------------------
# On Spark
# --------------------------------------------------------------------------------------------------
def _judged_on_spark(
    session: Callable[[], SparkSession],
    history: Source,
    questions: Questions,
    gathered: GatheredMessages,
    ahead: PartsAhead | None,
) -> list[Any]:
    """The results of every partition, and of a short history all messages."""
    made = ahead.take() if ahead else None
    spark, judge = session(), partial(_judged, questions)
    groups = _packed_here(history) if gathered.short else None
    if groups is not None:
        return list(_judged_in_tasks(spark, groups, judge).collect())
    judge = partial(judge, of_large=_threads(spark))
    parts, place = made or (None, shared_place(spark))
    job = partial(_packed_and_judged, spark, history, judge, parts)
    return list(map(_from_file, gathered.of_job(job, place)))


def _packed_and_judged(
    spark: SparkSession, history: Source, judge: PartitionJudge, parts: RDD[Any] | None, folder: Path | None
) -> RDD[Any]:
    """The results and messages of every partition, which the executors scan and shuffle (unless there are `parts`) and judge."""
    parts = parts or packed_parts(spark, history, folder)
    if folder is None:
        return parts.mapPartitions(partial(_bucket_results, judge))
    return parts.mapPartitions(partial(_bucket_results, partial(judge, folder=folder))).map(partial(_in_file, folder))


def _in_file(folder: Path, outcome: Any) -> Any:
    """A partition's result in a file; a message as it is."""
    return stored_message(folder, pickle.dumps(outcome)) if isinstance(outcome, PartitionResult) else outcome


def _from_file(outcome: Any) -> Any:
    return pickle.loads(outcome.read()) if isinstance(outcome, StoredMessage) else outcome


def _packed_here(history: Source) -> Mapping[str, Sequence[PackedPart]] | None:
    """The packed partitions of a history with few operations; None where they hold too many records."""
    groups = scan_locally(history)
    return groups if _size(groups) <= MOST_BYTES_IN_TASKS else None


def _judged_in_tasks(spark: SparkSession, groups: Mapping[str, Sequence[PackedPart]], judge: PartitionJudge) -> RDD[Any]:
    """The results and messages of partitions that the driver has packed: they go to the workers inside the tasks.

    A shuffle would take longer than everything else together.
    """
    context = spark.sparkContext
    tasks = max(1, min(len(groups), context.defaultParallelism, 1 + _size(groups) // BYTES_PER_TASK))
    return context.parallelize(list(groups.items()), tasks).flatMap(lambda group: judge(*group))


def _size(groups: Mapping[str, Sequence[PackedPart]]) -> int:
    return sum(part.size for parts in groups.values() for part in parts)


def _bucket_results(
    judge: PartitionJudge, parts: Iterable[tuple[str, PackedPart | StoredPart]]
) -> Iterator[PartitionResult | ExecutorMessage]:
    """The results and messages of the partitions of one bucket, one partition after the other."""
    groups: dict[str, PackedParts] = {}
    for name, part in parts:
        groups.setdefault(name, PackedParts()).append(part)
    for name in sorted(groups):
        yield from judge(name, groups.pop(name))


def _combined(name: str, partitions: Sequence[PartitionResult]) -> CombinedResult:
    results = [(judged.partition, judged.results[name]) for judged in partitions if name in judged.results]
    rows = _joined_rows([(partition, _columns(result.rows)) for partition, result in results if result.rows])
    lacking = "; ".join(sorted({result.lacking for _, result in results} - {""}))
    error = next((result.error for _, result in results if result.error), "")
    several, single = several_records.count(result.several for _, result in results)
    compared = sum(result.compared for _, result in results) + several
    more = sum(result.more for _, result in results)
    return CombinedResult(rows, compared, lacking, error, more, single=single)


def _joined_rows(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Rows:
    """The rows of all partitions."""
    if not parts:
        return NO_ROWS
    names = [columns.get("partition", np.full(len(columns["op"]), name, dtype=object)) for name, columns in parts]
    columns = {name: np.concatenate([part[name] for _, part in parts]) for name in (*ROW_NUMBERS, "role")}
    rows = {"partition": np.concatenate(names), **columns}
    if any("partition" in part for _, part in parts):
        order = np.argsort(rows["partition"], kind="stable")
        rows = {name: column[order] for name, column in rows.items()}
    return rows


def _columns(rows: Mapping[str, Any] | bytes) -> Mapping[str, Any]:
    """What `_packed_rows` made of rows, as arrays by column."""
    if not isinstance(rows, bytes):
        return rows
    table = from_message(rows)
    role = table["role"].combine_chunks()
    names = np.array(role.dictionary.to_pylist(), dtype=object)
    return {**{name: table[name].to_numpy() for name in ROW_NUMBERS}, "role": names[np.asarray(role.indices)]}


# --------------------------------------------------------------------------------------------------
# One partition
# --------------------------------------------------------------------------------------------------
def _judged(
    questions: Questions,
    partition: str,
    parts: Sequence[PackedPart] | PackedParts,
    threads: int = 1,
    of_large: int = 1,
    folder: Path | None = None,
) -> Iterator[PartitionResult | ExecutorMessage]:
    """Unpack one partition, and ask every question of it.

    of_large: the threads for a large one, of which a machine judges one at a time.
    folder: for its arrays (None: the temporary directory).
    """
    size = parts.size if isinstance(parts, PackedParts) else 0
    large = is_large(size)
    with large_partition_lock(size), _array_files(folder, large) as files:
        packed = parts.take(files) if isinstance(parts, PackedParts) else parts
        arrays, threads = (files, of_large) if large else (IN_MEMORY, threads)
        final = questions.final(partition)
        log = unpack_log(partition, packed, final, questions.settings, questions.resets, threads, arrays, questions.decisions)
        del packed
        yield from questions.answers(log, threads, folder, RELEASED if large else 0)
        del log  # before the lock gives back what was freed


@contextmanager
def _array_files(folder: Path | None, large: bool) -> Iterator[ArrayFiles]:
    """What maps the files of a partition's parts, and of a large one keeps its arrays."""
    if not large:
        yield ArrayFiles(folder)
        return
    with ReusedFiles(folder) as files, files.dropping_pages():
        yield files


def _threads(spark: SparkSession) -> int:
    """The number of threads that may judge a large partition: of this machine's executors, whose other tasks wait meanwhile."""
    context = spark.sparkContext
    return min(MOST_THREADS, context.defaultParallelism) if context.master.startswith("local") else 1
