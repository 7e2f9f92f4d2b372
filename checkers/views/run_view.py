"""The whole run, for what no single partition can decide: second steps, run checks and sentences.

Lookups read only the few operations in question from the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.history.lookup import MOPS, READ_COLUMNS, READ_TEXTS, records_of, returned
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.history.packed_parts import PartsAhead
from fencepost.checkers.history.source import Source, read_errors
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import Rows, count_rows
from fencepost.checkers.model.values import ABORTED, COMMITTED, NONE, LoggedDecisions
from fencepost.checkers.views.gathering import SHORT_HISTORY, GatheredMessages
from fencepost.checkers.views.log import slices
from fencepost.harness.api import Isolation, record_ids
from fencepost.harness.api.clocks_ahead import ClockAhead
from fencepost.harness.api.deletions import Deletion
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.files import Checksum
from fencepost.harness.api.record_ids import MAX_OP
from fencepost.harness.api.recovery import RecoveryPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_MASTER = "none: this process judged"
Made = TypeVar("Made")


@dataclass(frozen=True)
class Fencing:
    """An operator fenced a transactional id, in a call from `began` to `ended` (ns; None: nobody knows whether it did)."""

    transactional_id: str
    began: int
    ended: int | None


@dataclass(frozen=True)
class Strike:
    """A fault that was active from `began` to `ended` (ns; None: to the end), and the nodes that it names.

    Without any it is about topics, rights or settings.
    """

    nodes: frozenset[str]
    began: int
    ended: int | None


def is_short(operations: int) -> bool:
    """True if a history of so many operations needs no executors to be looked through."""
    return operations <= SHORT_HISTORY


class RunView:
    """All that is known of a run: its Spark tables (made on first use, then shared) and its overview.

    missing: kinds of evidence that the history lacks in part, or may lack.
    stored: the table of what the brokers' logs hold (docs/history.md); there may be none.
    stored_checksum: of the table as it was written, if that is known.
    wire: the table of the requests on the wire (docs/wire.md); there may be none.
    wire_checksum: of that table as it was written, if that is known.
    topics: those that the plan names; None: nobody knows.
    fewest_logs: topic -> how many of its replicas' logs have to be there, so that one of them has all that was acknowledged; what
        nobody knows is left out.
    ids_expire: transactional ids may be forgotten during the run, for it is long or their time is short; None: nobody knows.
    state_partitions: how many partitions the coordinators' topic has; None: nobody knows.
    transaction_timeout_s: the producers'.
    fencings: what operators did to transactional ids; None: nobody knows.
    clocks: those that faults had set ahead; None: nobody knows.
    clock_error_s: by how much faults made a clock wrong, at most; None: nobody knows.
    deletions: the topics that faults deleted; None: nobody knows.
    operator_aborts: on which partitions, and when (ns), faults aborted transactions; None: nobody knows.
    faults: from when to when each one was active (ns; until None: to the end); None: nobody knows, or something failed besides.
    strikes: the same with the nodes that each one names; None: nobody knows.
    recovery: the bounds within which clients have to succeed again after the last fault; None: nobody knows.
    fencing_s: how long a round of fencing by the leader of Connect's workers may take, by their settings; None: nobody knows.
    decisions: what the logs say of transactions of unknown outcome: `overview` has these as ABORTED and COMMITTED.
    unsent: identities that were read in partitions to which they were not sent; known once the partition checks ran.
    gathered: what run checks gathered of each partition; known once the partition checks ran.
    original_values: identity -> the value it stands for, of records in findings of a history from elsewhere; known once all
        checks ran.
    session: makes, or waits for, the Spark session.
    here: this process and forks of it judge, and no session is made unless a check asks for `spark` or one of its tables.
    ahead: the packed parts of the history, which Spark makes already.
    """

    def __init__(
        self,
        history: Source,
        session: Callable[[], SparkSession],
        overview: Overview,
        contract: Mapping[str, str],
        missing: Collection[Evidence] = (),
        stored: Path | None = None,
        stored_checksum: Checksum | None = None,
        transaction_timeout_s: float = 60.0,
        fencings: Sequence[Fencing] | None = (),
        clocks: Sequence[ClockAhead] | None = (),
        clock_error_s: float | None = 0.0,
        deletions: Sequence[Deletion] | None = (),
        faults: Sequence[tuple[int, int | None]] | None = (),
        fencing_s: float | None = None,
        recovery: RecoveryPlan | None = None,
        here: bool = False,
        strikes: Sequence[Strike] | None = (),
        wire: Path | None = None,
        wire_checksum: Checksum | None = None,
        ids_expire: bool | None = None,
        state_partitions: int | None = None,
        topics: Collection[str] | None = None,
        fewest_logs: Mapping[str, int] | None = None,
        operator_aborts: Sequence[tuple[str, int]] | None = (),
        ahead: PartsAhead | None = None,
    ) -> None:
        self.history, self.overview, self.contract = history, overview, contract
        self._session, self.here, self.ahead = session, here, ahead
        self._spark: SparkSession | None = None
        self.missing = frozenset(missing)
        self.stored, self.stored_checksum, self.transaction_timeout_s = stored, stored_checksum, transaction_timeout_s
        self.fencings, self.clocks, self.clock_error_s = fencings, clocks, clock_error_s
        self.deletions, self.operator_aborts = deletions, operator_aborts
        self.wire, self.wire_checksum, self.ids_expire = wire, wire_checksum, ids_expire
        self.state_partitions = state_partitions
        self.faults, self.fencing_s, self.recovery = faults, fencing_s, recovery
        self.strikes, self.topics, self.fewest_logs = strikes, topics, fewest_logs or {}
        self.decisions = LoggedDecisions()
        self.unsent: Ints = np.empty(0, dtype=np.int64)
        self.gathered = GatheredMessages()
        self.original_values: dict[int, str] = {}
        self._unreadable: dict[tuple[int, str, int], str] = {}
        self._made: dict[Any, Any] = {}

    def shared(self, make: Callable[[RunView], Made]) -> Made:
        """The value that a function makes of this run: computed once, for the first check that needs it, and shared by all."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]  # type: ignore[no-any-return]

    def decide(self, decisions: LoggedDecisions) -> None:
        """Take transactions of unknown outcome as what the logs say of them, from now on."""
        if not len(decisions):
            return
        status = np.array(self.overview.status)
        status[self.overview.at(decisions.aborted)] = ABORTED
        status[self.overview.at(decisions.committed)] = COMMITTED
        self.decisions, self.overview = decisions, replace(self.overview, status=status)

    def forget(self) -> None:
        """Let go of what `shared` made. Some of it holds this run, so that all its arrays would wait for a search for garbage."""
        self._made.clear()

    # ---- Spark tables, for checks that need joins over everything ----
    @property
    def spark(self) -> SparkSession:
        """The session.

        Not a cached property: until Python 3.12 these share one lock for all instances, and the thread that makes the session
        judges a run to warm it.
        """
        self._spark = self._spark or self._session()
        return self._spark

    @property
    def master(self) -> str:
        """The Spark master that judged, or that none was needed."""
        return str(self.spark.sparkContext.master) if not self.here or self._spark is not None else NO_MASTER

    @cached_property
    def ops(self) -> DataFrame:
        """The history, a row per operation (docs/history.md)."""
        return self.history.table(self.spark)

    @cached_property
    def sends(self) -> DataFrame:
        """index, process, op, f, type, v, partition, offset, began, ended: a row per sent record. Cached."""
        return self._mops(0).cache()

    @cached_property
    def reads(self) -> DataFrame:
        """index, process, op, isolation, final, v, partition, offset, ended: a row per returned record. Cached."""
        return self._mops(1).cache()

    def release(self) -> None:
        """Let go of the cached tables: another history may be written to the same place."""
        for name in ("sends", "reads"):
            if name in self.__dict__:
                self.__dict__.pop(name).unpersist()

    def _mops(self, kind: int) -> DataFrame:
        from pyspark.sql import functions as F

        whole = ("index", "process", "op", "f", "type", "isolation", "final", "time", "end", "decided")
        return self.ops.select(*whole, F.explode("mops").alias("mop")).where(F.col("mop.kind") == kind).select(*whole, "mop.*")

    @property
    def deletes(self) -> bool:
        """True if topics delete records (compaction, retention), so that an absent one proves nothing."""
        return self.contract["compaction"] != "false" or self.contract["retention"] != "none"

    # ---- operations ----
    def status(self, ops: Ints) -> Any:
        """COMMITTED, ABORTED or INFO of operations by history index."""
        return self.overview.status[self.overview.at(ops)]

    def transactional(self, ops: Ints) -> Any:
        return self.overview.txn[self.overview.at(ops)]

    def finished(self, ops: Ints) -> Any:
        """True for each operation that has a completion, or was to abort, so that nobody calls its commit."""
        at = self.overview.at(ops)
        return (self.overview.end[at] != NONE) | self.overview.aborting[at]

    def sends_of(self, ops: Any) -> pd.DataFrame:
        """Records sent by some operations: op, partition, v, offset, began, ended (NONE for unknown)."""
        if not len(ops):
            return no_sends()
        sent = records_of(self.history, ops)
        return sent.filter(pc.equal(sent["kind"], 0)).drop_columns(["kind"]).to_pandas()

    def covered(self, partitions: pd.Series, offsets: Ints) -> Bools:
        """True where a complete read_committed final read surely had to return what was acknowledged at these offsets."""
        finals = self.overview.final_reads
        answer = np.zeros(len(partitions), dtype=np.bool_)
        for partition in partitions.unique():
            final = finals.get(partition)
            if final is not None and final.committed:
                below = (offsets != NONE) & (offsets < final.reach)
                answer |= (partitions == partition).to_numpy() & (below if final.stalled or final.unsettled else True)
        return answer

    # ---- records ----
    @property
    def short(self) -> bool:
        """True if the driver has all messages of the partitions, and looks through the history by itself."""
        return self.here or is_short(len(self.overview))

    def map_batches(
        self, columns: Sequence[str], texts: Sequence[str], job: Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]
    ) -> list[Any]:
        """The results of a job over some columns of the whole history (`Source.map_batches`), wherever it is judged."""
        if self.short:
            return self.history.map_here(columns, texts, job)
        return list(self.history.map_batches(self.spark, columns, job).collect())

    def got_at_read_committed(self, sends: pd.DataFrame) -> Bools:
        """True for each of a few sends (`partition`, `v`) that a read_committed reader got in their partition."""
        return self.got_at(sends, Isolation.COMMITTED)

    def got_at(self, sends: pd.DataFrame, level: Isolation) -> Bools:
        """True for each of a few sends (`partition`, `v`) that a reader at a level of isolation got in their partition."""
        if sends.empty:
            return np.zeros(0, dtype=np.bool_)
        identities, unnamed = pa.array(sends["v"].unique()), self.contract["isolation"] == level.value
        look_up = partial(returned, identities=identities, isolation=level.value, unnamed=unnamed)
        got = {pair for part in self.map_batches(READ_COLUMNS, READ_TEXTS, look_up) for pair in part}
        pairs = zip(sends["partition"], sends["v"], strict=True)
        return np.fromiter((pair in got for pair in pairs), dtype=np.bool_, count=len(sends))

    @cached_property
    def origins(self) -> dict[int, tuple[str, int]]:
        """Identities among `unsent` that this run sent elsewhere: identity -> (partition, operation)."""
        wanted = self.unsent[self.unsent >= 0]
        return {int(v): (partition, int(op)) for v, partition, op in self.senders(wanted)}

    @cached_property
    def misplaced(self) -> set[int]:
        """Records that were sent in this run, and read in a partition to which they were not sent."""
        return set(self.origins)

    def senders(self, identities: Ints) -> Any:
        """Senders of some records of this run: (identity, partition, operation) of those that were sent."""
        identities = np.unique(identities)
        overview = self.overview
        wanted, some = record_ids.operation_key_of(identities), []
        for part in slices(len(overview) if len(wanted) else 0):
            keys = record_ids.operation_key(overview.process[part].astype(np.int64), overview.op[part] & MAX_OP)
            some.append(overview.index[part][np.isin(keys, wanted) & (overview.txn[part] | overview.send[part])])
        ops = np.concatenate([overview.index[:0], *some])
        if not len(ops):
            return []
        sends = self.sends_of(ops)
        sends = sends[sends["v"].isin(identities)]
        return zip(sends["v"], sends["partition"], sends["op"], strict=True)

    def look_up_records(self, rows: Iterable[Rows]) -> None:
        """Look up the original values of the records in all rows, and why some records are unreadable.

        When that cannot be read, sentences lack the values, and nothing else is lost.
        """
        parts = [part for part in rows if count_rows(part)]
        op, v = (np.concatenate([np.empty(0, dtype=np.int64), *(part[name] for part in parts)]) for name in ("op", "v"))
        with suppress(*read_errors()):
            self.original_values = self.history.original_values(np.unique(v))
        with suppress(*read_errors()):
            odd = np.unique(op[v < 0])
            for batch in self.history.operations(odd, ("index", "strange")) if len(odd) else ():
                self._unreadable |= _unreadable_reasons(batch)

    def unreadable(self, op: int, partition: str, offset: int) -> str:
        """The reason why a record is unreadable, in words; empty when the history does not say."""
        return self._unreadable.get((op, partition, offset), "")


@cache
def no_sends() -> pd.DataFrame:
    """The answer of `RunView.sends_of` for no operation."""
    return MOPS.empty_table().drop_columns(["kind"]).to_pandas()


def _unreadable_reasons(batch: pa.RecordBatch) -> dict[tuple[int, str, int], str]:
    """Reasons why records are unreadable: (operation, partition, offset) -> words, from the column `strange`."""
    return {
        (row["index"], odd["partition"], odd["offset"]): odd["why"] + (f" (it begins with {odd['raw']!r})" if odd["raw"] else "")
        for row in batch.to_pylist()
        for odd in row["strange"] or ()
    }
