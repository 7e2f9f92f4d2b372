"""Runs in which a topic of the workload was deleted and created again: their history without what lay in the deleted one.

Each incarnation of a topic has offsets of its own, from 0 on. An operation that began when every broker knew the new topic wrote
to that one, and so the identity of a record tells its incarnation. What earlier operations sent to the topic is left out,
wherever somebody got it: it may lie in either, or in none. So is what brokers answered about transactions until then. A consumer
may go on anywhere in the new topic. Records of a connector are told apart by `checkers.pipeline.deletions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.history.overview import Overview
from fencepost.checkers.history.source import LocalSource, Source
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import FOREVER
from fencepost.checkers.pipeline.deletions import NOT_KNOWN, RECORDS
from fencepost.checkers.verdict.decision import JudgedProperty
from fencepost.harness.api import record_ids
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.deletions import Deletion
from fencepost.harness.api.history import writing
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.values import Property

LISTING = "list-transactions"
GROUPS = "the input or the output of a group was deleted: its offsets before and after are not told apart"
NO_END = "when every broker knew {topics} again, which was deleted, is not known: nothing that was sent to it is compared"
ELSEWHERE = "a topic was deleted, and its history lies on another file system: before and after are not told apart"


@dataclass(frozen=True)
class PresentTopics:
    """The judged part of a run.

    note: what is left out.
    unknown: why nothing can be judged.
    partial: why nothing is known of some topics. All three are empty where all is judged.
    """

    history: Source
    contract: dict[str, str]
    note: str = ""
    unknown: str = ""
    partial: str = ""

    def judged(self, prop: JudgedProperty) -> JudgedProperty:
        """A property's answer, as far as it stands."""
        if self.partial and prop.verdict is Property.HELD:
            return replace(prop, verdict=Property.UNKNOWN, reason=self.partial)
        if not self.unknown or prop.verdict is Property.NOT_EXERCISED:
            return prop
        return replace(prop, verdict=Property.UNKNOWN, findings=[], reason=self.unknown)


def present_topics(
    history: Source, overview: Overview, contract: dict[str, str], deletions: Sequence[Deletion] | None, run_dir: Path
) -> PresentTopics:
    """A run without what lay in deleted topics. run_dir: where its history goes (`present.parquet`), when anything is left out.

    Raises OSError and ArrowException.
    """
    whole = PresentTopics(history, contract)
    if RECORDS not in contract["topic_deletions"].split(",") or deletions == () or deletions == []:
        return whole
    if why := _unknown(history, contract, deletions):
        return replace(whole, unknown=why)
    if contract["connect"] != "none":
        return whole
    assert isinstance(history, LocalSource)
    assert deletions is not None
    since = {deletion.topic: FOREVER if deletion.known_ns is None else deletion.known_ns for deletion in deletions}
    left_out = _without(history.path, overview, since, run_dir)
    topics = ", ".join(sorted(since))
    note = f"{topics} was deleted: {left_out} sends and reads of what was sent before every broker knew it again are not compared"
    without_end = [topic for topic, known in sorted(since.items()) if known == FOREVER]
    partial = NO_END.format(topics=", ".join(without_end)) if without_end else ""
    return PresentTopics(
        LocalSource(run_dir / RunFile.PRESENT), {**contract, "first_poll": "anywhere"}, note if left_out else "", partial=partial
    )


def _unknown(history: Source, contract: Mapping[str, str], deletions: Sequence[Deletion] | None) -> str:
    grouped = contract["application"] != "none" or contract["consumption"] != "assigned"
    if contract["connect"] != "none" and not grouped:
        return ""
    if deletions is None:
        return NOT_KNOWN
    return GROUPS if grouped else "" if isinstance(history, LocalSource) else ELSEWHERE


def _without(path: Path, overview: Overview, since: Mapping[str, int], run_dir: Path) -> int:
    """Write a history without the records of operations that began too early in topics; how many were left out."""
    count, first = 0, min(since.values())
    keys, times = _beginnings(overview)
    with (
        pq.ParquetFile(path, page_checksum_verification=True) as file,
        replacing(run_dir, RunFile.PRESENT) as part,
        pq.ParquetWriter(part, file.schema_arrow, **writing(file.schema_arrow)) as writer,
    ):
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group).combine_chunks()
            for batch in table.to_batches():
                present, dropped = _present(batch, keys, times, since)
                writer.write_batch(_without_listings(present, first if FOREVER not in since.values() else FOREVER))
                count += dropped
    return count


def _beginnings(overview: Overview) -> tuple[Ints, Ints]:
    """The operations that write, by their keys (`record_ids.operation_key`) in order, and when each began."""
    writers = overview.txn | overview.send
    keys = record_ids.operation_key(overview.process[writers].astype(np.int64), overview.op[writers] & record_ids.MAX_OP)
    order = np.argsort(keys, kind="stable")
    return keys[order], overview.time[writers][order]


def _present(batch: pa.RecordBatch, keys: Ints, times: Ints, since: Mapping[str, int]) -> tuple[pa.RecordBatch, int]:
    """Operations without the records that were sent too early, and how many those are."""
    mops = batch.column("mops")
    flat, parents = mops.flatten(), pc.list_parent_indices(mops).to_numpy(zero_copy_only=False)
    early = _early(flat, keys, times, since)
    counts = np.bincount(parents[~early], minlength=len(batch))
    offsets = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, flat.filter(pa.array(~early)), type=mops.type, mask=mops.is_null())
    return batch.set_column(batch.schema.get_field_index("mops"), batch.schema.field("mops"), lists), int(early.sum())


def _early(mops: pa.StructArray, keys: Ints, times: Ints, since: Mapping[str, int]) -> Bools:
    """True for each record that was sent by an operation that began before its topic was known again."""
    partition = pc.struct_field(mops, "partition").dictionary_encode()
    known = [since.get(str(name).rpartition("-")[0], -1) for name in partition.dictionary.to_pylist()]
    codes = pc.fill_null(partition.indices, len(known)).to_numpy(zero_copy_only=False)
    from_then = np.asarray([*known, -1], dtype=np.int64)[codes]
    identities = pc.fill_null(pc.struct_field(mops, "v"), -1).to_numpy(zero_copy_only=False)
    sender = record_ids.operation_key_of(identities)
    at = np.minimum(np.searchsorted(keys, sender), max(0, len(keys) - 1))
    ours = (identities >= 0) & (keys[at] == sender) if len(keys) else np.zeros(len(sender), dtype=np.bool_)
    return ours & (times[at] < from_then) if len(keys) else ours


def _without_listings(batch: pa.RecordBatch, until: int) -> pa.RecordBatch:
    """Operations without answers about open transactions that were asked for before a time."""
    early = pc.and_(pc.equal(batch.column("f"), LISTING), pc.less(batch.column("time"), until))
    detail = pc.if_else(pc.fill_null(early, False), pa.scalar(None, batch.schema.field("detail").type), batch.column("detail"))
    return batch.set_column(batch.schema.get_field_index("detail"), batch.schema.field("detail"), detail)
