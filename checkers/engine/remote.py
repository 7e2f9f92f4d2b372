"""A run's directory on another file system (`hdfs://`, `s3a://`, ...): what a check and its report need of it here.

The history is not copied. The JVM copies the small files beside it (Hadoop's FileSystem knows every scheme that Spark knows).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.checkers.history.source import last_cause
from fencepost.checkers.history.spark_source import SparkSource, reader, whole_table
from fencepost.checkers.model.arrays import Ints
from fencepost.harness.api import CampaignError, HarnessError
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.history import OPERATIONS, writing
from fencepost.harness.api.run import MOST_BYTES, Run, RunFile

SMALL_FILES = (RunFile.PLAN, RunFile.RECEIPTS, RunFile.DAMAGE)  # what a check reads besides the history
CONNECTORS = {"s3a": "org.apache.hadoop:hadoop-aws", "abfs": "org.apache.hadoop:hadoop-azure"}
ROWS_PER_GROUP = 32_768
HELP = "docs/spark.md says how to reach other file systems"


# --------------------------------------------------------------------------------------------------
# Before the check
# --------------------------------------------------------------------------------------------------
def fetch(spark: SparkSession, url: str, run_dir: Path, schema: pa.Schema) -> str:
    """Copy the small files of the run at `url` into `run_dir`; returns where its history lies.

    `url` may be a Parquet history without a run, too; then nothing is copied. schema: what a history has to have.
    Raises CampaignError (nothing is there), HistoryError (no run, no access, no connector, no history in our format).
    """
    url = url.rstrip("/")
    try:
        history = _fetched(_Files(spark, url), url, run_dir)
        _check_schema(spark, history, schema)
    except IllegalArgumentException as error:
        raise CampaignError([f"{url}: is no address ({last_cause(error)}); {HELP}"]) from error
    except Py4JJavaError as error:
        raise _explained(spark, url, error) from error
    except PySparkException as error:
        raise HistoryError(f"{url}: cannot be read as Parquet ({last_cause(error)}); {_INSTEAD}") from error
    return history


_INSTEAD = "copy anything but a run's directory or a Parquet history (docs/history.md) to this machine, and check the copy"


def contents(spark: SparkSession, history: str) -> tuple[dict[str, int], list[str]]:
    """The number of operations of each f in a history, and the partitions in it."""
    table = reader(spark).parquet(history)
    functions = {row["f"]: row["count"] for row in table.groupBy("f").count().collect()}
    partitions = table.select(F.explode("mops.partition").alias("partition")).distinct().collect()
    return functions, sorted(row["partition"] for row in partitions if row["partition"] is not None)


class _Files:
    """Hadoop's file system behind a URL."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._path = spark._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(url).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def is_directory(self, url: str) -> bool:
        return bool(self._files.getFileStatus(self._path(url)).isDirectory())

    def exists(self, url: str) -> bool:
        return bool(self._files.exists(self._path(url)))

    def copy(self, url: str, to: Path) -> None:
        """Copy a document of a run. Raises HistoryError for one that is larger than any of ours."""
        size, most = int(self._files.getFileStatus(self._path(url)).getLen()), MOST_BYTES[to.name]
        if size > most:
            raise HistoryError(f"{url}: has {size:,} bytes; {to.name} of a run has at most {most:,}")
        self._files.copyToLocalFile(False, self._path(url), self._path(to.resolve().as_uri()), True)


def _fetched(files: _Files, url: str, run_dir: Path) -> str:
    if not files.is_directory(url):
        return url
    if files.exists(f"{url}/{RunFile.HISTORY}"):
        if files.exists(f"{url}/{RunFile.PLAN}"):
            for name in SMALL_FILES:
                if files.exists(f"{url}/{name}"):
                    files.copy(f"{url}/{name}", run_dir / name)
        return f"{url}/{RunFile.HISTORY}"
    if files.exists(f"{url}/{RunFile.PLAN}") or files.exists(f"{url}/{RunFile.LINES}"):
        raise HistoryError(f"{url}: a run whose history is not merged (no history.parquet); copy it to this machine and check it")
    if url.endswith(".parquet"):
        return url  # as Spark writes: a directory of part files
    raise HistoryError(f"{url}: is no run's directory, neither plan.json nor history.parquet is in it (docs/run-directory.md)")


OPTIONAL = {column.name for column in OPERATIONS if column.optional}


def _check_schema(spark: SparkSession, history: str, schema: pa.Schema) -> None:
    """Raises HistoryError for a column that is not there or of another type."""
    types = {field.name: field.dataType.simpleString() for field in spark.read.parquet(history).schema}
    wrong = [
        f"{field.name} is {types.get(field.name, 'not there')}, not {field.dataType.simpleString()}"
        for field in from_arrow_schema(schema)
        if types.get(field.name) != field.dataType.simpleString() and not (field.name in OPTIONAL and field.name not in types)
    ]
    if wrong:
        raise HistoryError(f"{history}: is no history in our format ({'; '.join(wrong)}); {_INSTEAD}")


# --------------------------------------------------------------------------------------------------
# What went wrong
# --------------------------------------------------------------------------------------------------
def _explained(spark: SparkSession, url: str, error: Py4JJavaError) -> HarnessError:
    """An exception of the JVM as an error of ours: one line, with what to do."""
    causes = list(_causes(error.java_exception))
    names, everything, text = {name for name, _ in causes}, str(causes), ": ".join(causes[-1])
    if names & {"AccessControlException", "AccessDeniedException"} or _DENIED.search(_PATHS.sub("", everything)):
        return HistoryError(f"{url}: no permission ({text}); docs/spark.md says where credentials go")
    if "is not a Parquet file" in everything or "CANNOT_READ_FILE_FOOTER" in everything:
        return HistoryError(f"{url}: cannot be read as Parquet ({text}); {_INSTEAD}")
    if names & {"FileNotFoundException", "UnknownStoreException"}:
        return CampaignError([f"{url}: there is nothing at this address ({text})"])
    if names & {"UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError"}:
        return HistoryError(f"{url}: Spark has no file system for {url.partition(':')[0]}:// ({text}); {_connector(spark, url)}")
    return HistoryError(f"{url}: cannot be reached ({text}); {HELP}")


_PATHS = re.compile(r"\S*/\S*")  # a directory may be named 401, too
_DENIED = re.compile(r"permission denied|\b40[13]\b", re.I)  # by HDFS; by HTTP


def _causes(thrown: Any) -> Iterator[tuple[str, str]]:
    """An exception of the JVM and its causes: class and first line of the message."""
    while thrown is not None:
        message = (thrown.getMessage() or "").strip().splitlines()
        yield thrown.getClass().getSimpleName(), (message[0] if message else "")[:300]
        thrown = thrown.getCause()


def _connector(spark: SparkSession, url: str) -> str:
    scheme = url.partition(":")[0]
    package = CONNECTORS.get(scheme.removesuffix("s") if scheme == "abfss" else scheme)
    version = spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    named = f"--spark-conf spark.jars.packages={package}:{version}" if package else "--spark-conf spark.jars.packages=..."
    return f"add its connector with {named} ({HELP})"


# --------------------------------------------------------------------------------------------------
# After the check
# --------------------------------------------------------------------------------------------------
def bring(
    spark: SparkSession,
    run: Run,
    light: Sequence[str],
    shown: Callable[[pa.Table], Ints],
    records: Iterable[int],
) -> None:
    """Write what a report shows of a history elsewhere: `operations.parquet`, and the original values if it has any.

    light: columns that all operations get.
    shown: from these columns to the positions of the operations that get the other columns as well (null elsewhere).
    records: identities whose values are wanted besides those of the operations shown.

    Raises HistoryError when the history cannot be read.
    """
    try:
        _bring(SparkSource(run.history, spark), run, light, shown, records)
    except (Py4JJavaError, PySparkException) as error:
        raise HistoryError(f"{run.history}: cannot be read ({last_cause(error)}); {HELP}") from error


def _bring(
    source: SparkSource, run: Run, light: Sequence[str], shown: Callable[[pa.Table], Ints], records: Iterable[int]
) -> None:
    table = source.table(source.spark)
    operations = whole_table(source.batches(light)[1], table.select(*light)).sort_by("index")
    index = operations["index"].to_numpy()
    heavy = ["index", *(name for name in table.columns if name not in light)]
    inside = whole_table(source.operations(index[shown(operations)], heavy), table.select(*heavy))
    place = np.full(len(index), -1)
    place[np.searchsorted(index, inside["index"].to_numpy())] = np.arange(len(inside))
    places = pa.array(place, mask=place < 0)
    for name in heavy[1:]:
        operations = operations.append_column(name, inside[name].combine_chunks().take(places))
    with replacing(run.directory, run.place(RunFile.OPERATIONS)) as part:
        pq.write_table(operations, part, **writing(operations.schema), row_group_size=ROWS_PER_GROUP)
    named = [v for mops in inside["mops"].to_pylist() for mop in mops or () if (v := mop["v"]) is not None]
    values = _values(source, np.unique(np.array([*named, *records], dtype=np.int64)))
    if values:
        names = {"v": pa.array(values, pa.int64()), "value": pa.array(values.values(), pa.string())}
        with replacing(run.directory, RunFile.VALUES) as part:
            pq.write_table(pa.table(names), part)


def _values(source: SparkSource, identities: Ints) -> dict[int, str]:
    """Values of records; none where the history has none of its own."""
    try:
        return source.original_values(identities)
    except PySparkException:
        return {}
