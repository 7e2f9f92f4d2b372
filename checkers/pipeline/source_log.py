"""What lies in the topics of a source connector, as readers got it and as the leaders have it (docs/connect.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from checkers.partition.log import NONE
from checkers.run_view import RunView
from checkers.verdict.findings import FindingRecord
from harness.api import SECOND, Isolation

PLAIN, OPEN, ABORTED, COMMITTED = 0, 1, 2, 3  # how the transaction of an entry ended, by the next marker of its producer
STRANGE = "strange"  # the kind of what does not tell its position
MARKERS = {"COMMIT": COMMITTED, "ABORT": ABORTED}
WORKERS_OFFSETS = r"(?:^|[^a-z])connect\d*-offsets-\d+$"  # the names of its partitions
SECOND_PRODUCERS = 1 << 48  # what is added to a producer's id of the second Kafka cluster: both clusters count from 0
_NUMBERS = ("offset", "timestamp", "producer_id", "producer_epoch", "number", "op", "end")


@dataclass(frozen=True)
class Entries:
    """read: what readers got, a row for each time: `partition`, `offset`, `kind`, `name`, `number`, `op`, `end` (ns), `final`,
    `isolation`. stored: what the leaders have, by partition and offset: these columns, `timestamp` (ms), `producer_id`,
    `producer_epoch`, `transactional`, and for what is in a transaction `txn` (a number, the same for all of the transaction's
    entries in a partition; NONE outside) and `ended` (PLAIN, OPEN, ABORTED, COMMITTED).
    """

    read: pd.DataFrame
    stored: pd.DataFrame


def has_connector(run: RunView) -> bool:
    """Whether the history is one of a source connector."""
    return run.contract["connect"] != "none" and run.history.has("entries")


def entries_of(run: RunView) -> Entries:
    """The entries of a run, read once."""
    return run.shared(_read)


def _read(run: RunView) -> Entries:
    columns = ("index", "f", "end", "isolation", "final", "entries")
    flat = [_flat(batch, run) for batch in run.history.batches(columns)[1]]
    found = pd.concat(flat, ignore_index=True) if flat else _flat_of({})
    stored = found[found["f"] == "read-log"].drop_duplicates(["partition", "offset"])
    stored = stored.sort_values(["partition", "offset"], ignore_index=True)
    return Entries(found[found["f"] != "read-log"].reset_index(drop=True), _with_transactions(stored))


def _flat(batch: pa.RecordBatch, run: RunView) -> pd.DataFrame:
    lists = batch.column("entries")
    rows = dict(zip((one.name for one in lists.type.value_type), lists.flatten().flatten(), strict=True))
    parents = pc.list_parent_indices(lists)
    rows["op"], rows["end"] = (batch.column(name).take(parents).cast(pa.int64()) for name in ("index", "end"))
    rows["f"] = batch.column("f").take(parents)
    rows["final"] = pc.fill_null(batch.column("final").take(parents), False)
    rows["isolation"] = pc.fill_null(batch.column("isolation").take(parents), run.contract["isolation"])
    return _flat_of(rows)


def _flat_of(rows: dict[str, pa.Array]) -> pd.DataFrame:
    table = pa.table(rows).to_pandas() if rows else pd.DataFrame(columns=["partition", "kind", "name", "f", "isolation"])
    for name in _NUMBERS:
        table[name] = table.get(name, pd.Series(dtype=np.int64)).fillna(NONE).astype(np.int64)
    for name in ("transactional", "final"):
        table[name] = np.asarray(table.get(name, pd.Series(dtype=np.bool_)) == True)  # noqa: E712 - null is false
    elsewhere = in_second(table["partition"]) & (table["producer_id"] >= 0)
    table["producer_id"] += np.where(elsewhere, SECOND_PRODUCERS, 0)
    return table


def in_second(partitions: pd.Series) -> pd.Series:
    """Which of these partitions are of the second Kafka cluster."""
    return partitions.astype(object).str.startswith(f"{SECOND}/").fillna(False).astype(bool)


def of_workers(partitions: pd.Series) -> pd.Series:
    """Which of these partitions are of the workers' offsets topic.

    Where the workers are on the second Kafka cluster, the first one may have an offsets topic of the same name: the connector's.
    """
    named, second = partitions.astype(object).str.contains(WORKERS_OFFSETS).fillna(False).astype(bool), in_second(partitions)
    return named & second if second.any() else named


def producer_text(producer: int) -> str:
    """A producer's id in words: `7`, or `7 of the second cluster`."""
    return f"{producer - SECOND_PRODUCERS} of the second cluster" if producer >= SECOND_PRODUCERS else str(producer)


def _with_transactions(stored: pd.DataFrame) -> pd.DataFrame:
    """Adds `txn` and `ended`. A producer has one transaction at a time in a partition, and its marker ends it."""
    code = stored["kind"].map(MARKERS).fillna(0).to_numpy(dtype=np.int64)
    keys = stored.groupby(["partition", "producer_id"], sort=False).ngroup().to_numpy()
    marks = np.zeros(len(stored), dtype=np.int64)
    ended = np.full(len(stored), OPEN, dtype=np.int64)
    for rows in pd.Series(np.arange(len(stored))).groupby(keys).indices.values():
        marker = code[rows] > 0
        marks[rows] = np.cumsum(marker) - marker  # how many markers lie before
        following = np.append(code[rows][marker], OPEN)
        ended[rows] = following[marks[rows]]
    inside = stored["transactional"].to_numpy() & ~np.asarray(stored["kind"].isin((*MARKERS, "control")))
    txn = pd.Series(list(zip(keys, marks, strict=True)), dtype=object).factorize()[0] if len(stored) else marks
    return stored.assign(txn=np.where(inside, txn, NONE), ended=np.where(inside, ended, PLAIN))


@dataclass(frozen=True)
class Known:
    """An entry in words. place: `t-0@17`."""

    kind: str
    name: str
    number: int
    place: str


def _alters(detail: str | None) -> bool:
    request = json.loads(detail) if detail else {}
    return str(request.get("path", "")).endswith("/offsets") and request.get("method") != "GET"


def unread_logs(run: RunView) -> str:
    """Why no answer can be given by the leaders' logs: some of them could not be read; empty when all were."""
    asked = run.history.select(("f", "type"), ds.field("f") == "read-log").to_pylist()
    broken = sum(one["type"] != "ok" for one in asked)
    return f"{broken} of the leaders' logs could not be read" if broken else ""


class SourceLog:
    """Records and offsets of a connector. Made once for all checks of a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        self.run = run
        self.entries = entries_of(run)
        self.stored = self.entries.stored

    @cached_property
    def targets(self) -> frozenset[str]:
        """The partitions of the target topic: those of the run's final reads."""
        return frozenset(self.run.overview.final_reads)

    @cached_property
    def read_back(self) -> bool:
        """Whether every partition of the target has a complete read_committed final read."""
        finals = self.run.overview.final_reads
        return bool(finals) and all(one.committed and not one.stalled for one in finals.values())

    @cached_property
    def visible(self) -> pd.DataFrame:
        """The records that the read_committed final read got, each once, by partition and offset."""
        read = self.entries.read
        chosen = read["final"] & (read["isolation"] == Isolation.COMMITTED.value) & (read["kind"] == "record")
        return read[chosen].drop_duplicates(["partition", "offset"]).sort_values(["partition", "offset"], ignore_index=True)

    @cached_property
    def records(self) -> pd.DataFrame:
        """The records of the target as the leaders have them."""
        return self.stored[(self.stored["kind"] == "record") & self.stored["partition"].isin(self.targets)]

    @cached_property
    def altered(self) -> bool:
        """Whether somebody may have altered or reset the connector's offsets on request (KIP-875)."""
        asked = self.run.history.select(("f", "type", "detail"), ds.field("f") == "rest").to_pylist()
        return any(one["type"] != "fail" and _alters(one["detail"]) for one in asked)

    @cached_property
    def opaque(self) -> str:
        """Why the leaders' logs do not show every record and every stored offset; empty when they do."""
        mine = self.stored["partition"].isin(self.targets) | self.stored["kind"].isin(("offset", STRANGE))
        logs = self.stored[self.stored["partition"].isin(self.stored["partition"][mine].unique())]
        if (logs["kind"] == STRANGE).any() or logs["kind"].str.endswith(" batch").any():
            return "a record or a stored offset in the leaders' logs does not tell its position"
        spans = logs.groupby("partition")["offset"].agg(["min", "max", "size"])
        if (spans["min"] != 0).any() or (spans["max"] + 1 != spans["size"]).any():
            return "the leaders' logs have lost entries, by compaction or retention"
        return ""

    @cached_property
    def untold(self) -> bool:
        """Whether the final read has records that do not tell their position."""
        read = self.entries.read
        return bool((read["final"] & (read["kind"] == STRANGE)).any())

    @cached_property
    def _places(self) -> dict[tuple[str, int], Known]:
        both = pd.concat([self.stored, self.visible])[["partition", "offset", "kind", "name", "number"]]
        return {
            row[:2]: Known(row[2], row[3], int(row[4]), f"{row[0]}@{row[1]}") for row in both.itertuples(index=False, name=None)
        }

    def at(self, row: FindingRecord) -> Known:
        """What the record of a finding says."""
        return self._places[row.partition, row.offset]

    def transaction(self, row: FindingRecord) -> str:
        """The transaction of a record of a finding in words: `by producer 7 in epoch 3`, or `outside transactions`."""
        mine = self.stored[(self.stored["partition"] == row.partition) & (self.stored["offset"] == row.offset)].iloc[0]
        inside = f"by producer {producer_text(mine['producer_id'])} in epoch {mine['producer_epoch']}"
        return inside if mine["transactional"] else "outside transactions"

    @cached_property
    def offsets(self) -> pd.DataFrame:
        """The stored source offsets that are committed.

        Where the connector has a topic of its own, entries outside transactions in the workers' topic are copies, and left out;
        those in transactions are of the time before.
        """
        shared = of_workers(self.stored["partition"])
        chosen = (self.stored["kind"] == "offset") & self.stored["ended"].isin((PLAIN, COMMITTED))
        found, shared = self.stored[chosen], shared[chosen]
        return found if shared.all() else found[~shared | (found["ended"] == COMMITTED)]
