"""Evidence that a setting leaves intact although it permits losses: findings that it shows by itself are no loss.

Where acknowledgements bind nobody (acks=0 or 1), what readers got still does: it is on all replicas in sync (KIP-101). Where
a log may be cut off even below what was read (unclean elections, power failures), the final reads still bind each other: they
come after healing, when no log is cut off any more. So two records at one offset, or one record at two, are judged again by
these reads.

Where a topic was deleted, records and offsets that surely lie in its last incarnation still bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.deletions import TopicDeletions
from fencepost.checkers.views.gathering import SHORT_HISTORY
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import Isolation

READS, FINAL_READS = "reads", "final reads"
DELETIONS = "deletions"  # findings that no deletion of a topic explains
COLUMNS, LOOKED_AT = ("partition", "offset", "v"), ("isolation", "final", "mops")
Shows = Callable[[Finding, pd.DataFrame], bool]


def shown(anomaly: str, findings: Sequence[Finding], evidence: str, run: RunView) -> list[bool]:
    """Of each finding, whether the evidence shows it by itself. Raises what the reading of the history raises."""
    if evidence == DELETIONS:
        deletions = run.shared(TopicDeletions)
        return [not deletions.explains(anomaly, finding.rows) for finding in findings]
    if not findings or anomaly not in SHOWS:
        return [False] * len(findings)
    reads = _reads_of(findings, evidence, run)
    by_partition = {str(name): part for name, part in reads.groupby("partition")}
    return [SHOWS[anomaly](finding, by_partition.get(finding.rows[0].partition, reads.iloc[:0])) for finding in findings]


def _reads_of(findings: Sequence[Finding], evidence: str, run: RunView) -> pd.DataFrame:
    """partition, offset (NONE: unknown), v: where readers got the records of some findings."""
    identities = pa.array(sorted({row.v for finding in findings for row in finding.rows}), pa.int64())
    final = evidence == FINAL_READS
    levels = None
    if final and run.contract["transactional"] == "true":  # at read_uncommitted also what was aborted, and is nobody's promise
        unnamed = run.contract["isolation"] == Isolation.COMMITTED
        levels = [Isolation.COMMITTED.value, *([None] if unnamed else [])]
    look_up = partial(_places, identities=identities, final=final, levels=levels)
    if len(run.overview) <= SHORT_HISTORY:
        parts = list(look_up(run.history.batches(LOOKED_AT)[1]))
    else:
        parts = run.history.map_batches(run.spark, LOOKED_AT, look_up).collect()
    return pd.DataFrame(sorted({place for part in parts for place in part}), columns=list(COLUMNS))


def _places(
    batches: Iterable[pa.RecordBatch], identities: pa.Array, final: bool, levels: Sequence[str | None] | None
) -> Iterator[set[tuple[str, int, int]]]:
    """Where readers got some records, in batches of `LOOKED_AT`: `COLUMNS`. final: in final reads only. levels: of isolation."""
    for batch in batches:
        which = pc.fill_null(pc.or_(batch.column("final"), not final), not final)
        if levels is not None:
            which = pc.and_(which, pc.is_in(pc.cast(batch.column("isolation"), pa.string()), pa.array(levels, pa.string())))
        lists = batch.filter(which).column("mops")
        mops = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
        which = pc.and_(pc.not_equal(mops["kind"], 0), pc.is_in(mops["v"], identities))
        names = pc.cast(mops["partition"].filter(which), pa.string()).to_pylist()
        offsets = pc.fill_null(mops["offset"].filter(which), NONE).to_pylist()
        yield set(zip(names, offsets, mops["v"].filter(which).to_pylist(), strict=True))


def _placed(reads: pd.DataFrame) -> pd.DataFrame:
    return reads[reads["offset"] != NONE]


def got_before(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether somebody got a record that is missing now."""
    return bool(reads["v"].isin({row.v for row in finding.records("missing")}).any())


def two_at_one_offset(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether two records of the finding were read at one of its offsets."""
    at = reads[reads["offset"].isin({row.offset for row in finding.rows}) & reads["v"].isin({row.v for row in finding.rows})]
    return bool((at.groupby(["partition", "offset"])["v"].nunique() > 1).any())


def one_at_two_offsets(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether a record of the finding was read at two offsets."""
    own = _placed(reads)
    own = own[own["v"].isin({row.v for row in finding.rows})]
    return bool((own.groupby(["partition", "v"])["offset"].nunique() > 1).any())


def stored_backwards(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether the first record of the finding's two, in the order of the calls, was read above the second."""
    first, second = sorted({row.v for row in finding.rows})[:1], sorted({row.v for row in finding.rows})[-1:]
    placed = _placed(reads)
    low, high = (placed.loc[placed["v"].isin(one), "offset"] for one in (second, first))
    return bool(len(low) and len(high) and high.min() > low.min())


SHOWS: Mapping[str, Shows] = {
    "lost-write": got_before,
    "inconsistent-offset": two_at_one_offset,
    "duplicate": one_at_two_offsets,
    "order-inversion": stored_backwards,
}
