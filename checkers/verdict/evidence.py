"""Evidence that a setting leaves intact although it permits losses: findings that it shows by itself are no loss.

Where acknowledgements bind nobody (acks=0 or 1), what readers got still does: it is on all replicas in sync (KIP-101). Where
a log may be cut off even below what was read (unclean elections, power failures), the final reads still bind each other: they
come after healing, when no log is cut off any more. So two records at one offset, or one record at two, are judged again by
these reads.

Where an operator aborts transactions in part, their records stay in the log. So a record that the read_uncommitted final reads
lack, too, was lost all the same, and one that a read_committed reader got was never aborted. Of a program's changelogs the
leaders' logs are read, aborted records too.

Where a topic was deleted, records and offsets that surely lie in its last incarnation still bind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.api import Check
from fencepost.checkers.contract.rules import (
    COMMITTED_READS,
    DELETIONS,
    FINAL_READS,
    LEADERS_LOGS,
    MEMBERS_ANSWERS,
    SENTENCE,
    UNCOMMITTED_READS,
)
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.deletions import TopicDeletions
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import Isolation
from fencepost.harness.api.evidence import Evidence

COLUMNS, LOOKED_AT = ("partition", "offset", "v"), ("isolation", "final", "mops")


def shown(check: Check[Any], findings: Sequence[Finding], evidence: str, run: RunView) -> list[bool]:
    """True for each finding that the evidence shows by itself. Raises what the reading of the history raises."""
    if evidence == DELETIONS:
        deletions = run.shared(TopicDeletions)
        return [not deletions.explains(check.name, finding.rows) for finding in findings]
    if evidence == SENTENCE and check.undoubted is not None:
        return [check.undoubted(finding, run) for finding in findings]
    if evidence in (UNCOMMITTED_READS, LEADERS_LOGS, MEMBERS_ANSWERS):
        return check.beyond_aborts(findings, run) if check.beyond_aborts and findings else _gone(findings, run)
    if evidence == COMMITTED_READS:
        return _got_by_others(findings, run)
    if not findings or check.shown_by is None:
        return [False] * len(findings)
    reads = _reads_of(findings, evidence, run)
    by_partition = {str(name): part for name, part in reads.groupby("partition")}
    return [check.shown_by(finding, by_partition.get(finding.rows[0].partition, reads.iloc[:0])) for finding in findings]


def _gone(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding with a missing record that no log holds: a complete read_uncommitted final read lacks it."""
    whole = {partition for partition, final in run.overview.final_reads.items() if final.uncommitted}
    if not findings or not whole or run.missing & {Evidence.FINAL_UNCOMMITTED, Evidence.LEVELS}:
        return [False] * len(findings)
    reads = _reads_of(findings, UNCOMMITTED_READS, run)
    held = set(zip(reads["partition"], reads["v"], strict=True))
    return [
        any(row.partition in whole and (row.partition, row.v) not in held for row in finding.records("missing"))
        for finding in findings
    ]


def _got_by_others(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding with a missing record that a read_committed reader got in its partition."""
    records = {(row.partition, row.v) for finding in findings for row in finding.records("missing")}
    if not records or Evidence.LEVELS in run.missing:
        return [False] * len(findings)
    frame = pd.DataFrame(sorted(records), columns=["partition", "v"])
    got = set(frame[run.got_at_read_committed(frame)].itertuples(index=False, name=None))
    return [any((row.partition, row.v) in got for row in finding.records("missing")) for finding in findings]


def _reads_of(findings: Sequence[Finding], evidence: str, run: RunView) -> pd.DataFrame:
    """partition, offset (NONE: unknown), v: where readers got the records of some findings."""
    identities = pa.array(sorted({row.v for finding in findings for row in finding.rows}), pa.int64())
    final = evidence in (FINAL_READS, UNCOMMITTED_READS)
    level = Isolation.UNCOMMITTED if evidence == UNCOMMITTED_READS else Isolation.COMMITTED
    levels = None
    if final and run.contract["transactional"] == "true":  # at read_uncommitted also what was aborted, and is nobody's promise
        unnamed = run.contract["isolation"] == level
        levels = [level.value, *([None] if unnamed else [])]
    look_up = partial(_places, identities=identities, final=final, levels=levels)
    return pd.DataFrame(
        sorted({place for part in run.map_batches(LOOKED_AT, (), look_up) for place in part}), columns=list(COLUMNS)
    )


def _places(
    batches: Iterable[pa.RecordBatch], identities: pa.Array, final: bool, levels: Sequence[str | None] | None
) -> Iterator[set[tuple[str, int, int]]]:
    """Places at which readers got some records, in batches of `LOOKED_AT`: `COLUMNS`.

    final: in final reads only.
    levels: of isolation; None: any.
    """
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
