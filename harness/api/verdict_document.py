"""The shapes of `verdict.json` (docs/run-directory.md) and of the receipts. A document from elsewhere may lack any key.

What is written in other shapes is refused where a run is opened (`history.run_directory`), so that no other code has to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.values import Property

Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class TableRowDocument(TypedDict, total=False):
    """A row of a table with which a check compares (KIP-98's errors).

    situation: the situation.
    calls: the calls that are made in it.
    demanded: the error that is demanded.
    source: the source of the demand.
    doubt: the reason why another error is not forbidden by default; empty: none.
    met: number of times that the situation occurred.
    violated: number of times that another error came.
    """

    situation: str
    calls: str
    demanded: str
    source: str
    doubt: str
    met: Count
    violated: Count


class PropertyDocument(TypedDict, total=False):
    """An anomaly's answer.

    name: the anomaly.
    verdict: the answer: `violated`, `held`, `held without occasion` (compared, and nothing occurred that could have broken it),
        `not exercised` (nothing was compared), `unknown`.
    count: number of findings.
    compared: number of comparisons on which the answer rests.
    reason: why it is not exercised, unknown or held without occasion, or what else there is to know.
    contract: why it is forbidden, or allowed.
    definition: what its check looks for.
    promise: the promise that it breaks.
    table: the table with which its check compares, where it has one (`wrong-error`).
    occasions: how often each kind of event occurred of which one has to occur before the promise can be broken
        (docs/occasions.md); null: not known. Absent where its check needs none.
    """

    name: str
    verdict: str
    count: Count
    compared: Count
    reason: str
    contract: str
    definition: str
    promise: str
    table: Sequence[TableRowDocument]
    occasions: Mapping[str, Count | None]


class RecordDocument(TypedDict, total=False):
    """A record of a finding.

    partition: `topic-number`.
    offset: its offset; null: not known.
    v: its identity; null: none of this run.
    operation: history index of the operation that sent or read it.
    role: its part in the finding: `sent`, `read`, `missing`, ...
    value: its original value, of a history from elsewhere.
    """

    partition: str
    offset: Int64 | None
    v: Int64 | None
    operation: Int64 | None
    role: str
    value: str


CycleStep = TypedDict("CycleStep", {"from": Int64, "to": Int64, "kind": str, "why": str}, total=False)


class CycleDocument(TypedDict, total=False):
    """The operations of a cycle, and the steps between them.

    vertices: history indices.
    edges: each `from` comes before its `to`; `kind` and `why` say why (docs/graphs.md).
    """

    vertices: Sequence[Int64]
    edges: Sequence[CycleStep]


class UnexpectedDocument(TypedDict, total=False):
    """Forbidden findings of one anomaly that the test did not expect: how many, and the ids of the first."""

    name: str
    count: Count
    findings: Sequence[Count]


class AcknowledgedDocument(TypedDict, total=False):
    """An unexpected finding that `known.toml` acknowledges, or did until it expired.

    fingerprint: of the finding.
    anomaly: its anomaly.
    reason: the reason why it is acceptable for now.
    link: the address of what is known of it; may be empty.
    expires: the last day on which it counts (ISO 8601).
    expired: whether that day was over when the run was judged.
    """

    fingerprint: str
    anomaly: str
    reason: str
    link: str
    expires: str
    expired: bool


class StoredRowDocument(TypedDict, total=False):
    """A stored record at an offset (`harness.api.history.STORED`), and the nodes whose logs agree on it."""

    partition: str
    offset: Int64
    leader_epoch: Int64
    producer_id: Int64
    producer_epoch: Int64
    sequence: Int64
    timestamp: Int64
    kind: str
    v: Int64 | None
    nodes: Sequence[str]


class FateDocument(TypedDict, total=False):
    """What brokers' logs make of a record of a finding.

    partition: the partition.
    v: the record.
    fate: `committed` or `aborted` by the marker behind it, `open` (no marker ends its transaction), `plain` (outside
        transactions), `absent`, or `unknown` (a table that does not say what is transactional).
    offset: where it lies; null: nowhere.
    marker: the marker's offset; null: there is none.
    nodes: the brokers whose logs say so.
    """

    partition: str
    v: Int64
    fate: str
    offset: Int64 | None
    marker: Int64 | None
    nodes: Sequence[str]


class StoredDocument(TypedDict, total=False):
    """The log segments of all brokers that were read, around a finding.

    nodes: the brokers whose log segments were read.
    rows: the stored records.
    absent: missing records (`v`) that no log segment holds.
    fates: what the logs make of its records.
    """

    nodes: Sequence[str]
    rows: Sequence[StoredRowDocument]
    absent: Sequence[Int64]
    fates: Sequence[FateDocument]


class FindingDocument(TypedDict, total=False):
    """A finding; a check may add keys of its own.

    id: its number in this document.
    anomaly: the anomaly.
    forbidden: whether the contract forbids it.
    sentence: what happened, in words.
    operations: history indices, up to 200.
    records: up to 200.
    size: how many records there are.
    time: when its first operation began (ns of CLOCK_MONOTONIC, as in the history).
    faults: ids of the faults that were active around it.
    cycle: of cycles.
    includes: anomalies of which the same records would be findings if this cause were not known.
    errors: names of the definite errors of its only operation, up to 20: part of its fingerprint, and decide nothing.
    stored: the brokers' log segments around it; shown, and decides nothing.
    """

    id: Count
    anomaly: str
    forbidden: bool
    sentence: str
    operations: Sequence[Int64]
    records: Sequence[RecordDocument]
    size: Count
    time: Int64 | None
    faults: Sequence[Int64]
    cycle: CycleDocument | None
    includes: Sequence[str]
    errors: Sequence[str]
    stored: StoredDocument


class FaultProgress(TypedDict, total=False):
    """The effect of a fault on progress, in seconds.

    gap_s: the longest gap that overlaps it.
    recovery_s: from its healing to the first success after it; None: there was none.
    """

    id: Int64
    gap_s: float
    recovery_s: float | None


class ProgressDocument(TypedDict, total=False):
    """Gaps without a successful operation, in seconds.

    longest_gap_s: the longest gap.
    recovery_s: from the last healing to the first success after it; None: there was none.
    faults: the same for each fault.
    """

    longest_gap_s: float | None
    recovery_s: float | None
    faults: Sequence[FaultProgress]


class JudgedBy(TypedDict, total=False):
    """The options of another judgement than the run's own."""

    contract: Mapping[str, str]
    checkers: Sequence[str]


class CountsDocument(TypedDict, total=False):
    """Counts on which the verdict rests; the faults are null where receipts are missing."""

    operations: Count
    ok: Count
    fail: Count
    info: Count
    transactions: Count
    committed: Count
    aborted: Count
    sent: Count
    read: Count
    final_read: Count
    partitions: Count
    processes: Count
    faults: Count | None
    faults_without_effect: Count | None


class VerdictDocument(TypedDict, total=False):
    """`verdict.json`: the verdict of fencepost on a run (docs/run-directory.md).

    schema: version of this document's form.
    verdict: `invalid`: a forbidden anomaly was found; `unknown`: none was found, and something could not be judged.
    reason: the reason, in words.
    run: id of the run.
    campaign: name of its campaign; may be empty.
    test: name of its test; may be empty.
    expect: what the test expects: `valid`, or anomalies.
    expectation_met: whether that came; null: not known.
    expectation: why it did not come, or what came along.
    unexpected: forbidden anomalies that the test neither expects nor tolerates.
    met_without_unexpected: whether the expectation would have come without those; null: not known.
    unexpected_known: whether each of those is acknowledged in `known.toml`; absent: none is.
    known: what is acknowledged, and what was until it expired, in words.
    acknowledged: the same as a list.
    judged_by: of another judgement than the run's own: its options.
    shortfalls: what was planned and not performed, a sentence each.
    weakened: what makes `valid` weaker than it looks, a sentence each.
    gaps: what the history lacks, up to 100.
    properties: the answer on each anomaly that the contract forbids.
    allowed: the answer on each anomaly that it permits.
    findings: up to 100 of each anomaly; forbidden ones first, each by time.
    counts: what the verdict rests on.
    occasions: how often each kind of event occurred that may break a promise (docs/occasions.md); null: not known.
    progress: gaps without a successful operation; null: not known.
    unseen: (ns, how many committed records no reader of the main phase had read yet).
    timing: seconds that merging and checking took.
    checker: what judged.
    """

    schema: int
    verdict: str
    reason: str
    run: str
    campaign: str
    test: str
    expect: Sequence[str]
    expectation_met: bool | None
    expectation: str
    unexpected: Sequence[UnexpectedDocument]
    met_without_unexpected: bool | None
    unexpected_known: bool
    known: str
    acknowledged: Sequence[AcknowledgedDocument]
    judged_by: JudgedBy
    shortfalls: Sequence[str]
    weakened: Sequence[str]
    gaps: Sequence[Gap]
    properties: Sequence[PropertyDocument]
    allowed: Sequence[PropertyDocument]
    findings: Sequence[FindingDocument]
    counts: CountsDocument
    occasions: Mapping[str, Count | None]
    progress: ProgressDocument | None
    unseen: Sequence[tuple[Int64, Count]] | None
    timing: Mapping[str, Any]
    checker: Mapping[str, Any]


def judgement_terms(verdict: Mapping[str, Any]) -> str:
    """The options of another judgement than the run's own, in words: `acks=1, my_checks:Gap`; empty for the run's own."""
    by = verdict.get("judged_by") or {}
    return ", ".join([*(f"{key}={value}" for key, value in by.get("contract", {}).items()), *by.get("checkers", ())])


def without_occasion(verdict: Mapping[str, Any]) -> str:
    """How many of the properties that held had no occasion, in words: `3 of 28 held without occasion`; empty for none."""
    words = [answer.get("verdict") for answer in verdict.get("properties") or ()]
    idle, kept = words.count(Property.WITHOUT_OCCASION.value), words.count(Property.HELD.value)
    return f"{idle} of {idle + kept} held without occasion" if idle else ""


class Reach(TypedDict, total=False):
    """The harness's own probes around a fault.

    nodes: all nodes that were probed.
    before: pairs that nothing crossed before the fault.
    during: pairs that nothing crossed during the fault.
    after: pairs that nothing crossed after healing.
    """

    nodes: Sequence[str] | None
    before: Sequence[str] | None
    during: Sequence[str] | None
    after: Sequence[str] | None


class ReceiptDocument(TypedDict):
    """A row of `faults.parquet`, as far as its values are more than their column's type says."""

    id: Int64
    targets: Sequence[str] | None
    pairs: Sequence[str] | None
    reach: Reach | None
