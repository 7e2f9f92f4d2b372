"""The tables of a run as Spark data frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.data.tables import OF_RECORD, RECORD_KINDS, demand
from fencepost.harness.plugins import services

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[*]"


class SparkTables:
    """The tables of a run on Spark, with the columns of docs/history.md; each is read when an action needs it.

    A history on another file system is read there. Methods raise HistoryError where a table is missing or damaged, and
    MachineError where no session starts.
    """

    def __init__(self, run: Run, session: SparkSession | None = None) -> None:
        self._run, self._session = run, session

    @property
    def session(self) -> SparkSession:
        """The session that was given; else the active one, or a new one on this machine."""
        if self._session is None:
            self._session = local_session()
        return self._session

    def history(self) -> DataFrame:
        """A row per operation, with all columns."""
        if self._run.is_remote:
            return self.session.read.parquet(self._run.history)
        return self._table(RunFile.HISTORY)

    def records(self) -> DataFrame:
        """A row per sent or polled record: columns of its operation, and `kind`, `partition`, `v`, `offset`, `began`, `ended`."""
        from pyspark.sql import functions as F

        rows = self.history().select(*OF_RECORD, F.explode("mops").alias("mop")).select(*OF_RECORD, "mop.*")
        return rows.withColumn("kind", F.when(F.col("kind") == 0, RECORD_KINDS[0]).otherwise(RECORD_KINDS[1]))

    def receipts(self) -> DataFrame:
        """A row per fault."""
        return self._table(RunFile.RECEIPTS)

    def anomalies(self) -> DataFrame:
        """A row per finding."""
        return self._table(RunFile.ANOMALIES)

    def stored(self) -> DataFrame:
        """A row per record and broker: what the log segments held when the run ended."""
        return self._table(RunFile.STORED)

    def _table(self, file: str) -> DataFrame:
        demand(self._run, file)
        return self.session.read.parquet(str(self._run.path(file).resolve()))


def local_session() -> Any:
    """A session on this machine; the active one, where there is one. Raises MachineError."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or services.judge().start_session(MASTER, {})


def session_or_local(session: Any) -> Callable[[], Any]:
    """What makes the session when it is needed."""
    return lambda: session or local_session()
