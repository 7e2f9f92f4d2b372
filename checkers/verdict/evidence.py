"""Evidence that a setting leaves intact although it permits losses: findings that it shows by itself are no loss.

Where acknowledgements bind nobody (acks=0 or 1), what readers got still does: it is on all replicas in sync (KIP-101). Where
a log may be cut off even below what was read (unclean elections, power failures), the final reads still bind each other: they
come after healing, when no log is cut off any more. So two records at one offset, or one record at two, are judged again by
these reads.

Where a topic was deleted, records and offsets that surely lie in its last incarnation still bind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from pyspark.sql import functions as F

from checkers.pipeline.deletions import TopicDeletions
from checkers.run_view import RunView
from checkers.verdict.findings import Finding
from harness.api import Isolation

READS, FINAL_READS = "reads", "final reads"
DELETIONS = "deletions"  # findings that no deletion of a topic explains
COLUMNS = ("partition", "offset", "v")
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
    """partition, offset, v: where readers got the records of some findings."""
    wanted = sorted({row.v for finding in findings for row in finding.rows})
    reads = run.reads.where(F.col("v").isin(wanted))
    if evidence == FINAL_READS:
        reads = reads.where("final")
        if run.contract["transactional"] == "true":  # at read_uncommitted also what was aborted, and is nobody's promise
            reads = reads.where(F.col("isolation") == Isolation.COMMITTED.value)
    return reads.select(*COLUMNS).distinct().toPandas()


def got_before(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether somebody got a record that is missing now."""
    return bool(reads["v"].isin({row.v for row in finding.records("missing")}).any())


def two_at_one_offset(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether two records of the finding were read at one of its offsets."""
    at = reads[reads["offset"].isin({row.offset for row in finding.rows}) & reads["v"].isin({row.v for row in finding.rows})]
    return bool((at.groupby(["partition", "offset"])["v"].nunique() > 1).any())


def one_at_two_offsets(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether a record of the finding was read at two offsets."""
    own = reads[reads["v"].isin({row.v for row in finding.rows})]
    return bool((own.groupby(["partition", "v"])["offset"].nunique() > 1).any())


def stored_backwards(finding: Finding, reads: pd.DataFrame) -> bool:
    """Whether the first record of the finding's two, in the order of the calls, was read above the second."""
    first, second = sorted({row.v for row in finding.rows})[:1], sorted({row.v for row in finding.rows})[-1:]
    low, high = (reads.loc[reads["v"].isin(one), "offset"] for one in (second, first))
    return bool(len(low) and len(high) and high.min() > low.min())


SHOWS: Mapping[str, Shows] = {
    "lost-write": got_before,
    "inconsistent-offset": two_at_one_offset,
    "duplicate": one_at_two_offsets,
    "order-inversion": stored_backwards,
}
