"""Records that are lost, doubled, misplaced, out of order, or nobody's (Jepsen's Kafka workload; KIP-98).

Each docstring is the definition of its anomaly. What is forbidden under which settings: `checkers.verdict.rules`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import functions as F

from checkers.api import CheckResult, join_rows, partition_check
from checkers.arrays import Bools, Ints
from checkers.partition.log import ABORTED, COMMITTED, INFO, NONE, PartitionLog, slices
from checkers.partition.passed_over import passed_over
from checkers.partition.positions import Positions
from checkers.partition.rows import read_rows, send_rows
from checkers.run_view import RunView
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText
from harness.api import Isolation, record_ids

NO_FINAL = "no final read was complete, and nobody read a promised record or past one"
NO_PASSING = (
    "no final read was complete, polls are missing in the history that may have returned anything, and nobody is known to have "
    "read a promised record or on past one"
)


# --------------------------------------------------------------------------------------------------
# lost-write
# --------------------------------------------------------------------------------------------------
def _explain_lost(finding: Finding, text: FindingText) -> str:
    lost = finding.records("missing")
    writers = sorted({record.op for record in lost})
    places = text.places(lost)
    how = text.how_missing(lost[0].partition, len(lost))
    if len(writers) > 1:
        return (
            f"{len(lost)} records of {len(writers)} operations, next to each other in {lost[0].partition} ({places}), "
            f"were acknowledged, and {how}."
        )
    writer, elsewhere = text.name(writers[0]), text.read_elsewhere(finding)
    record = "the record" if len(lost) == 1 else f"the {len(lost)} records"
    return f"{writer} {text.outcome(writers[0])}{elsewhere}, but {record} it wrote to {places} {how}."


def _resolve_lost(rows: pd.DataFrame, run: RunView) -> pd.DataFrame:
    """Keep what is surely lost: promises, and the missing records of undecided transactions that prove to be committed.

    An undecided transaction emits a row for each of its records in every partition, so that its proof (one record that a
    read_committed reader got, role `read`) is found wherever it is. Misplaced records are not lost: `wrong-partition` has them.
    """
    undecided = run.status(rows["op"].to_numpy()) == INFO
    undecided &= run.transactional(rows["op"].to_numpy())
    proven = set(rows.loc[undecided & (rows["role"] == "read"), "op"])
    committed = ~undecided | rows["op"].isin(proven)
    kept = rows[committed & (rows["role"] == "missing") & ~rows["v"].isin(run.misplaced)]
    kept.attrs["compared"] = int((undecided & committed).sum())
    return kept


@partition_check(
    "lost-write", resolve=_resolve_lost, explain=_explain_lost, needs="no record was promised (acknowledged or committed)"
)
def lost_write(log: PartitionLog) -> CheckResult:
    """A promised record that a completed final read did not return.

    Promised: every record of a transaction whose commit returned ok; an acknowledged record outside transactions; an
    acknowledged record of an undecided transaction of which a read_committed reader got some record (any record when the
    operation has no completion at all: commit follows only after every acknowledgement). The final read is the completed
    read_committed one, else the completed read_uncommitted one (which sees more). Without either, only what lies below an
    offset that was later read at the same isolation level, and was read by nobody at all, is lost: the tail may simply be
    unpolled. Where the history does not tell what some poll returned, it must also lie between two consecutive reads of one
    consumer, or between the partition's start and the first read after it: that poll may have got the record, and no other.
    In a partition whose last stable offset is stuck, a record above it is hidden: lost only if read_uncommitted misses it too.

    compared: promised records that were returned, or had to be. One cause: neighbours in the version order, no survivor between.
    """
    judged, found, lacking = final_witness(log)
    undecided = log.sends.txn & (log.sends.status == INFO)
    missing = judged & ~found
    lost = log.promised & missing
    doubtful = undecided & missing & (log.acked | ~log.sends.finished)
    proof = undecided & log.seen_committed
    cause = _runs(log, lost, found)
    rows = [
        send_rows(log, lost, cause, "missing"),
        send_rows(log, doubtful & ~lost, -2 - log.sends.op, "missing"),
        send_rows(log, proof, -2 - log.sends.op, "read"),
    ]
    return CheckResult(int((log.promised & judged).sum()), join_rows(*rows), lacking)


def final_witness(log: PartitionLog) -> tuple[Bools, Bools, str]:
    """Which sends had to be returned if they are promises, which of them were, and what is lacking."""
    if log.final.committed:
        hidden = ~log.covered & ~(log.seen_witness if log.final.uncommitted else np.ones(len(log.sends), np.bool_))
        return log.covered | hidden, log.seen_final, ""
    if log.final.uncommitted:
        return np.ones(len(log.sends), np.bool_), log.seen_witness, ""
    reads = log.reads
    passed = np.where(log.sends.txn, _highest(reads.offset[reads.committed]), _highest(reads.offset))
    below = np.asarray((log.place != NONE) & (log.place < passed))
    if isinstance(log.resets, Positions) and log.resets.may_lack_reads(log.partition):
        return log.seen | (below & log.shared(passed_over)), log.seen, NO_PASSING
    return log.seen | below, log.seen, NO_FINAL


def _highest(offsets: Ints) -> int:
    return int(offsets[-1]) if len(offsets) else NONE


def _runs(log: PartitionLog, lost: Bools, survivors: Bools) -> Ints:
    """Lost sends with no survivor between them in the version order share a number; those of unknown place go by operation.

    A survivor *at* the place of a lost record parts nothing: after a truncation the offsets are given away again.
    """
    known = np.sort(log.place[survivors & (log.place != NONE)])
    places = np.unique(log.place[lost & (log.place != NONE)])
    return np.where(log.place == NONE, -2 - log.sends.op, _stretch(places, known, log.place))


def _stretch(places: Ints, between: Ints, wanted: Ints) -> Ints:
    """Number the stretches of sorted places that no sorted value of `between` parts; the stretch of each wanted place."""
    if not len(places):
        return np.zeros(len(wanted), dtype=np.int64)
    parted = np.searchsorted(between, places[1:], "left") > np.searchsorted(between, places[:-1], "right")
    return np.cumsum(np.r_[0, parted])[np.minimum(np.searchsorted(places, wanted), len(places) - 1)]


# --------------------------------------------------------------------------------------------------
# duplicate
# --------------------------------------------------------------------------------------------------
def _explain_duplicate(finding: Finding, text: FindingText) -> str:
    sent, read = finding.records("sent"), finding.records("read")
    offsets = sorted({record.offset for record in read})
    if len(sent) == 1 and len(offsets) == 1:
        acknowledged = f"it was acknowledged at offset {sent[0].offset}, and readers got it at {offsets[0]}"
        return f"{text.name(sent[0].op)} sent one record{sent[0].value_note} to {sent[0].partition}: {acknowledged}."
    if len(sent) > 1:
        return (
            f"{len(sent)} records that {text.name(sent[0].op)} sent once each to {sent[0].partition} "
            f"are in the log more than once (offsets {offsets[0]} to {offsets[-1]})."
        )
    places = " and ".join(str(offset) for offset in offsets)
    record = f"one record{sent[0].value_note}"
    return f"{text.name(sent[0].op)} sent {record} to {sent[0].partition}, and readers got it at offsets {places}."


@partition_check("duplicate", explain=_explain_duplicate, needs="no record was read")
def duplicate(log: PartitionLog) -> CheckResult:
    """One sent record at two or more offsets of its partition, both visible at the isolation level in use.

    A record sent in a transaction counts where read_committed returned it; one sent outside transactions where anybody got it.
    The same offset read by many readers is one place. An acknowledgement tells of a place too, when the operation did not
    fail and nobody read another record there (`inconsistent-offset` has that).

    compared: records read at least once. One cause: the operation that sent them.
    """
    visible = log.reads.send >= 0
    visible[visible] &= log.reads.judged[visible] | ~log.sends.txn[log.reads.send[visible]]
    low, high = log.span(visible)
    told = (log.sends.offset != NONE) & (log.sends.status != ABORTED) & (low != NONE) & (log.sends.offset != low)
    told[told] = ~np.isin(log.sends.offset[told], log.reads.offset)
    twice = (low != high) | told
    if not twice.any():
        return CheckResult(int((low != NONE).sum()))
    again = visible.copy()
    again[visible] &= twice[log.reads.send[visible]]
    again[again] &= _first_of_each(log.reads.send[again], log.reads.offset[again])
    writer = log.sends.op[log.reads.send]
    acknowledged = send_rows(log, twice, log.sends.op, "sent")
    acknowledged["offset"] = np.where(told, log.sends.offset, log.place)[twice]
    rows = join_rows(read_rows(log, again, writer), acknowledged)
    return CheckResult(int((low != NONE).sum()), rows)


def _first_of_each(*keys: Ints | Any) -> Bools:
    """The first row of every distinct combination of keys."""
    first = np.zeros(len(keys[0]), dtype=np.bool_)
    first[np.unique(np.stack(keys), axis=1, return_index=True)[1]] = True
    return first


# --------------------------------------------------------------------------------------------------
# inconsistent-offset
# --------------------------------------------------------------------------------------------------
def _explain_inconsistent(finding: Finding, text: FindingText) -> str:
    first = min(row.offset for row in finding.rows)
    last = max(row.offset for row in finding.rows)
    where = f"{finding.rows[0].partition}@{first}"
    writers = sorted({text.writer(record) for record in finding.rows if record.offset == first})
    if last > first:
        count = len({row.offset for row in finding.rows})
        pair = " and ".join(writers)
        return f"{count} neighbouring offsets from {where} to {last} hold different records each; at {first}: {pair}."
    return f"Two different records are at {where}: one is {'; another is '.join(writers)}."


def _resolve_inconsistent(rows: pd.DataFrame, run: RunView) -> pd.DataFrame:
    """Of offsets that nobody read, keep those of two records that surely are in the log."""
    place = [rows["partition"], rows["offset"]]
    read = rows["role"].eq("read").groupby(place).transform("any")
    sent = rows["op"].to_numpy()
    sure = read | (run.status(sent) == COMMITTED) | ~run.transactional(sent)
    if not sure.all():
        sure |= rows["op"].isin(_proven(rows.loc[~sure & (run.status(sent) == INFO), "op"].unique(), run))
    rows = rows[sure]
    return rows[rows["v"].groupby([rows["partition"], rows["offset"]]).transform("nunique") > 1]


def _proven(ops: Any, run: RunView) -> set[int]:
    """Transactions of which a read_committed reader got some record."""
    if not len(ops):
        return set()
    wanted = run.sends_of(ops)
    got = run.reads.where(F.col("v").isin(wanted["v"].tolist()) & (F.col("isolation") == Isolation.COMMITTED.value))
    got = got.select("partition", "v").distinct().toPandas()
    return set(wanted.merge(got, on=["partition", "v"])["op"])


@partition_check("inconsistent-offset", resolve=_resolve_inconsistent, explain=_explain_inconsistent, needs="no record was read")
def inconsistent_offset(log: PartitionLog) -> CheckResult:
    """Two different records at one offset of one partition.

    Reads and acknowledgements are both evidence, except the acknowledgement of a lost write, whose offset was naturally given
    away again. Where there are only acknowledgements, those of transactions that are not known to have committed prove nothing.

    compared: offsets with at least one read. One cause: neighbouring offsets, as after a truncation.
    """
    judged, found, _ = final_witness(log)
    believed = (log.sends.offset != NONE) & ~(log.promised & judged & ~found)
    distinct = np.flatnonzero(np.diff(log.reads.offset, prepend=-2))
    bad = _disputed(log, np.flatnonzero(believed))
    if not len(bad):
        return CheckResult(len(distinct))
    clean = np.setdiff1d(np.concatenate([log.reads.offset[distinct], log.sends.offset[believed]]), bad)
    read = np.isin(log.reads.offset, bad)
    read[read] &= _first_of_each(log.reads.offset[read], log.reads.v[read])
    sent = believed & np.isin(log.sends.offset, bad)
    acknowledged = send_rows(log, sent, _stretch(bad, clean, log.sends.offset), "sent")
    acknowledged["offset"] = log.sends.offset[sent]
    return CheckResult(len(distinct), join_rows(read_rows(log, read, _stretch(bad, clean, log.reads.offset)), acknowledged))


def _disputed(log: PartitionLog, believed: Ints) -> Ints:
    """Offsets at which reads (sorted by offset) or believed acknowledgements name different records."""
    reads = log.reads
    order = np.argsort(log.sends.offset[believed], kind="stable")
    offset, v = (values[believed][order] for values in (log.sends.offset, log.sends.v))
    parts = []
    for part in slices(len(reads) - 1):
        here, there = slice(part.start, part.stop), slice(part.start + 1, part.stop + 1)
        differ = (reads.offset[here] == reads.offset[there]) & (reads.v[here] != reads.v[there])
        parts.append(reads.offset[here][differ])
    for part in slices(len(believed) if len(reads) else 0):
        at = np.minimum(np.searchsorted(reads.offset, offset[part]), len(reads) - 1)
        parts.append(offset[part][(reads.offset[at] == offset[part]) & (reads.v[at] != v[part])])
    parts.append(offset[1:][(offset[1:] == offset[:-1]) & (v[1:] != v[:-1])])
    return np.unique(np.concatenate(parts))


# --------------------------------------------------------------------------------------------------
# phantom, wrong-partition
# --------------------------------------------------------------------------------------------------
def _strangers(log: PartitionLog) -> CheckResult:
    """Every distinct record read here that nobody sent here; which of them are phantoms is decided over all partitions."""
    which = log.unsent_reads.copy()
    if which.any():
        which[which] &= _first_of_each(log.reads.offset[which], log.reads.v[which])
    return CheckResult(len(log.reads), read_rows(log, which, log.reads.offset))


def _explain_phantom(finding: Finding, text: FindingText) -> str:
    row = finding.rows[0]
    why = text.unreadable(row) if row.v < 0 else "its identity was sent by no operation of this run"
    return f"{text.name(row.op)} read a record at {row.partition}@{row.offset} that nobody in this run sent: {why}."


@partition_check(
    "phantom",
    resolve=lambda rows, run: rows[~rows["v"].isin(run.misplaced)],
    explain=_explain_phantom,
    needs="no record was read",
)
def phantom(log: PartitionLog) -> CheckResult:
    """A record that nobody in this run sent to any partition, or whose content does not match what was sent.

    compared: reads. One cause: the offset.
    """
    return _strangers(log)


def _explain_wrong(finding: Finding, text: FindingText) -> str:
    row = finding.rows[0]
    reader = text.name(row.op, capital=False)
    sent = f"{text.writer(row, capital=True)} was sent to {text.destination(row.v)}"
    return f"{sent}, but {reader} read it at {row.partition}@{row.offset}."


@partition_check(
    "wrong-partition",
    resolve=lambda rows, run: rows[rows["v"].isin(run.misplaced)],
    explain=_explain_wrong,
    needs="no record was read",
)
def wrong_partition(log: PartitionLog) -> CheckResult:
    """A record read from a topic or partition to which it was not sent, though it was sent to another.

    compared: reads. One cause: the offset.
    """
    return _strangers(log)


# --------------------------------------------------------------------------------------------------
# order-inversion
# --------------------------------------------------------------------------------------------------
def _explain_inversion(finding: Finding, text: FindingText) -> str:
    first, second = sorted(finding.rows[:2], key=lambda row: row.v)
    return (
        f"{text.writer(first, capital=True)} was sent to {first.partition} before {text.writer(second)}, "
        f"but lies after it (offsets {first.offset} and {second.offset})."
    )


@partition_check(
    "order-inversion", explain=_explain_inversion, needs="no process sent two records of known place to one partition"
)
def order_inversion(log: PartitionLog) -> CheckResult:
    """Two sends of one process to one partition that are stored the other way round.

    Under idempotence (so in transactions too) sends keep the order of their calls even when in flight together (KIP-98:
    sequence numbers); else only a send that was acknowledged before the other began has a claim. A process is one producer
    instance: its successor after a crash is another process and is not compared with it. Places come from acknowledgements
    and from reads; a record at several places counts at the lowest. A lost record has no place (`lost-write` has it).

    compared: sends with a predecessor of known place. One cause: the send that lies too low, with the highest predecessor.
    """
    judged, found, _ = final_witness(log)
    known = np.flatnonzero((log.place != NONE) & ~(log.promised & judged & ~found))
    process = record_ids.process_of(log.sends.v[known])
    starts = np.flatnonzero(np.r_[True, process[1:] != process[:-1]]) if len(known) else np.empty(0, np.int64)
    pairs = [_inverted(log, group) for group in np.split(known, starts[1:]) if len(group) > 1]
    compared = sum(count for _, _, count in pairs)
    later = np.concatenate([low for low, _, _ in pairs]) if pairs else np.empty(0, np.int64)
    if not len(later):
        return CheckResult(compared)
    earlier = np.concatenate([high for _, high, _ in pairs])
    return CheckResult(compared, join_rows(_pick(log, later, later), _pick(log, earlier, later)))


def _inverted(log: PartitionLog, group: Ints) -> tuple[Ints, Ints, int]:
    """Sends of one process that lie below a predecessor, the highest such predecessor of each, and how many had one."""
    place = log.place[group]
    if log.settings.pipelined_order:
        order = np.arange(len(group))
        before = order  # how many sends each one must lie above
    else:
        acked = np.flatnonzero(log.acked[group])
        order = acked[np.argsort(log.sends.ended[group][acked], kind="stable")]
        before = np.searchsorted(log.sends.ended[group][order], log.sends.began[group], side="left")
    candidates = np.flatnonzero(before > 0)
    highest = _running_highest(place[order])
    highest = order[highest[before[candidates] - 1]]
    bad = place[highest] > place[candidates]
    return group[candidates[bad]], group[highest[bad]], len(candidates)


def _running_highest(values: Ints) -> Ints:
    """For each position, where the highest value so far stands (the first of equal ones)."""
    if not len(values):
        return values
    rises = np.r_[True, values[1:] > np.maximum.accumulate(values)[:-1]]
    return np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))


def _pick(log: PartitionLog, which: Ints, cause: Ints) -> dict[str, Any]:
    """Rows of sends by position, each with the cause given for it."""
    everything = {"op": log.sends.op, "v": log.sends.v, "offset": log.place, "time": log.sends.began}
    rows = {name: values[which] for name, values in everything.items()}
    return {"cause": cause.astype(np.int64), **rows, "role": np.full(len(which), "sent", dtype=object)}
