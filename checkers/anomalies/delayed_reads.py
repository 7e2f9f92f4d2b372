"""Readers that stop although their partition goes on, while another partition takes nothing (KIP-98).

The docstring is the definition of the anomaly. Markers that come late for such a reason are `delayed-marker`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_rules import COMPACTED, RETAINED, TRUNCATED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import OUTCOMES, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.history.lookup import records_of
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.pipeline.stored_logs import ABORT, COMMIT, DATA, StoredLogs, operations_of, stored_logs
from fencepost.checkers.selfcheck.outage_damages import OUTAGE
from fencepost.checkers.views.partition_progress import DELAY_S, QUIET_S, SECOND_NS, Progress, progress, progress_of
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import LIVE

LEAST_POLLS = 10  # of a reader that polls, in `DELAY_S`
NO_OUTAGE = f"no partition took no record for {DELAY_S} s while others went on and were read"
NO_RECEIPTS = "whom the faults struck is not known, for receipts of faults are missing ({count} findings)"


# --------------------------------------------------------------------------------------------------
# What the logs add: when the last stable offset had passed a record
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Visible:
    """The records of one partition that a read_committed reader gets, in order.

    offset, v: where each lies, and which.
    decided: the highest marker of all transactions that have a record at or below it: the last stable offset has passed it once
        that marker is replicated (FOREVER: one has none).
    """

    offset: Ints
    v: Ints
    decided: Ints

    def next(self, position: int) -> tuple[int, int, int]:
        """The first one at or above an offset: offset, v, decided; NONE, NONE, FOREVER for none."""
        at = int(np.searchsorted(self.offset, position))
        return (int(self.offset[at]), int(self.v[at]), int(self.decided[at])) if at < len(self.offset) else (NONE, NONE, FOREVER)


NOTHING = Visible(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def visible_records(run: RunView) -> dict[str, Visible]:
    """Partition -> its visible records by the brokers' logs; empty where there are none."""
    try:
        logs = run.shared(stored_logs)
    except (OSError, pa.ArrowException):
        return {}
    if not isinstance(logs, StoredLogs):
        return {}
    rows, found = logs.of_longest, {}
    for number in np.unique(rows.partition).tolist():
        own = rows.take(rows.partition == number)
        marker = np.full(len(own), FOREVER, dtype=np.int64)
        kind = np.full(len(own), NONE, dtype=np.int64)
        for producer in np.unique(own.producer_id[own.transactional]).tolist():
            mine = np.flatnonzero(own.transactional & (own.producer_id == producer))
            ends = mine[np.isin(own.kind[mine], (COMMIT, ABORT))]
            at = np.searchsorted(ends, mine)
            known = at < len(ends)
            marker[mine[known]], kind[mine[known]] = own.offset[ends[at[known]]], own.kind[ends[at[known]]]
        data = own.kind == DATA
        plain = data & ~own.transactional
        marker[plain] = own.offset[plain]
        decided = np.maximum.accumulate(np.where(data, marker, NONE))
        seen = plain | (data & (kind == COMMIT))
        found[logs.partitions[number]] = Visible(own.offset[seen], own.v[seen], decided[seen])
    return found


# --------------------------------------------------------------------------------------------------
# delayed-read
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Delayed:
    """A reader that stopped: in which partition, at which record (NONE: which one is not known), from when on (ns) it could have
    gone on, its last poll meanwhile (history index), and the partition that took nothing.
    """

    reader: int
    partition: str
    offset: int
    v: int
    since: int
    op: int
    unavailable: str


@dataclass(frozen=True)
class Delays:
    """What was compared, and who was delayed."""

    compared: int
    found: list[Delayed]


def delays(run: RunView) -> Delays:
    """All of a run."""
    known = run.shared(progress_of)
    outages = [(name, *span) for name, one in known.items() for span in one.outages]
    if not outages:
        return Delays(0, [])
    visible = run.shared(visible_records)
    nodes = _nodes(run, {reader for one in known.values() for reader in one.got})
    moved = set(run.overview.resets.process.tolist())  # what else these had assigned, and when, is not known
    compared, found = 0, []
    for other, begin, end in outages:
        for name, one in known.items():
            for reader in sorted(one.got.keys() - moved) if name != other else ():
                delayed = _delayed(run, one, visible.get(name, NOTHING), reader, (begin, end), nodes)
                found += [Delayed(reader, name, *delayed, other)] if delayed else []
                compared += delayed is not None or _went_on(run, one, reader, (begin, end), nodes)
    return Delays(compared, found)


def _went_on(run: RunView, one: Progress, reader: int, span: tuple[int, int], nodes: dict[int, str]) -> bool:
    """True if a reader got records during the first `DELAY_S` of an outage elsewhere, untouched by faults, as others did."""
    begin, end = span[0], span[0] + DELAY_S * SECOND_NS
    times, _ = one.got[reader]
    return bool(((times >= begin) & (times <= end)).any()) and _undisturbed(run, one, reader, begin, nodes)


def _undisturbed(run: RunView, one: Progress, reader: int, begin: int, nodes: dict[int, str]) -> bool:
    """True if the partition went on for `DELAY_S`, and no fault was about the reader, then or shortly before."""
    end, before = begin + DELAY_S * SECOND_NS, begin - DELAY_S * SECOND_NS
    around = [strike for strike in run.strikes or () if strike.began <= end and (strike.ended is None or strike.ended >= before)]
    harmless = len(around) <= 1 and all(strike.nodes and nodes.get(reader) not in strike.nodes for strike in around)
    return harmless and one.goes_on(begin, end, reader)


def _delayed(
    run: RunView, one: Progress, visible: Visible, reader: int, span: tuple[int, int], nodes: dict[int, str]
) -> tuple[int, int, int, int] | None:
    """Offset, identity, since when, and last poll of the first stop of a reader in an outage elsewhere; None: it did not stop."""
    times, offsets = one.got[reader]
    following = np.append(times[1:], FOREVER)
    for at in np.flatnonzero(following - times > DELAY_S * SECOND_NS).tolist():
        position = int(offsets[at]) + 1
        offset, v, decided = visible.next(position)
        shown = min(one.others_beyond(reader, position), one.acked_beyond(decided) if decided != FOREVER else FOREVER)
        since = max(int(times[at]), shown, span[0])
        end = since + DELAY_S * SECOND_NS
        if end <= min(int(following[at]), span[1]) and _undisturbed(run, one, reader, since, nodes):
            op = _last_poll(run, reader, since, end)
            if op != NONE:
                return offset, v, since, op
    return None


def _last_poll(run: RunView, reader: int, since: int, end: int) -> int:
    """The last poll (history index) of a reader in a span in which it polled all the time and had nothing older before it; NONE:
    it did not poll enough, or had.
    """
    overview = run.overview
    own = (overview.process == reader) & overview.main & ~overview.txn & ~overview.send & overview.ok
    inside = overview.index[own & (overview.time >= since) & (overview.end <= end)]
    polls = np.sort(inside[_is_poll(run, inside)])
    if len(polls) < LEAST_POLLS or overview.end[overview.at(polls[-1])] < end - QUIET_S * SECOND_NS:
        return NONE
    late = polls[overview.time[overview.at(polls)] >= end - QUIET_S * SECOND_NS]
    records = records_of(run.history, late)
    records = records.filter(pc.equal(records["kind"], 1))
    idle = np.setdiff1d(late, records["op"].to_numpy())
    writers = operations_of(run, records["v"].to_numpy())
    fresh = overview.time[overview.at(writers[writers != NONE])] > since
    return int(polls[-1]) if len(idle) or fresh.any() else NONE


def _is_poll(run: RunView, ops: Ints) -> Bools:
    """True for each operation that is a poll. ops: rising."""
    rows = (row for batch in _operations(run, ops, ("index", "f")) for row in batch.to_pylist())
    return np.isin(ops, [row["index"] for row in rows if row["f"] == "poll"])


def _operations(run: RunView, ops: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return run.history.operations(np.asarray(ops, dtype=np.int64), columns) if len(ops) else iter(())


def _nodes(run: RunView, readers: set[int]) -> dict[int, str]:
    """The node of each reader."""
    overview = run.overview
    mine = np.flatnonzero(np.isin(overview.process, sorted(readers)))
    _, first = np.unique(overview.process[mine], return_index=True)
    batches = _operations(run, overview.index[mine[first]], ("index", "process", "node"))
    return {row["process"]: row["node"] for batch in batches for row in batch.to_pylist()}


def _explain(finding: Finding, text: FindingText) -> str:
    row = finding.rows[0]
    one = next(d for d in text.run.shared(delays).found if (d.op, d.partition, d.since) == (row.op, row.partition, row.time))
    where = one.partition if one.offset == NONE else f"{one.partition}@{one.offset}"
    return (
        f"Process {one.reader} got nothing of {one.partition} for {DELAY_S} s, although it polled, {where} could be read at "
        f"read_committed, and {one.partition} went on: only {one.unavailable} took no records meanwhile."
    )


@run_check(
    "delayed-read",
    promise=LIVE,
    attribution=Attribution.PARTITION,
    rules=(
        UNLESS_PRODUCER,
        Rule(INAPPLICABLE, "members of a group wait for their coordinator, and for one another", {"consumption": "!assigned"}),
        Rule(ALLOWED, "with acks=0 or 1 an acknowledged record may lie above the high watermark", {"acks": "!all"}),
        COMPACTED,
        RETAINED,
        *TRUNCATED,
        Rule(ALLOWED, "who reads a topic that is deleted begins anew", {"topic_deletions": "has:records"}),
        Rule(FORBIDDEN, "a partition that cannot be reached delays its own readers only (KIP-98)"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, POLLS},
        "what is missing may have shown it",
        {SENDS, OUTCOMES, POLLS},
        "the reader may have got records in a missing line, or the other partition may have taken some",
    ),
    damages=(OUTAGE,),
    explain=_explain,
    gather=progress,
    needs=NO_OUTAGE,
)
def delayed_read(run: RunView) -> CheckResult:
    """A read_committed reader got nothing of a partition for 10 s although it could have, while another one took no records.

    Unavailable is a partition to which a record was sent, and none was acknowledged for 10 s and more. In that time the reader

    1. could have gone on: another read_committed reader had got a record above its position; or, by the brokers' logs, a record
       had been acknowledged above the markers of all transactions with a record up to the next one that it had to get, so that
       the last stable offset had passed that;
    2. polled, ten times at least, and in the end got nothing at all, or what was sent only after it had stopped: so nothing
       older lay before it;
    3. was struck by no fault, then or in the 10 s before, and at most one fault was active.

    Readers that were assigned partitions anew are not compared.

    The partition that it read went on: every 5 s at least a record was acknowledged, or given to another reader. Times are those
    of the clients, which no fault changes.

    compared: readers of a partition that went on, for each time in which another one was unavailable. One cause: the reader, in
    one partition and time.

    Slow twin: `delayed_reads` in tests/support/delay_reference.py.
    """
    answer = run.shared(delays)
    if answer.found and run.strikes is None:
        return CheckResult(answer.compared, unknown=NO_RECEIPTS.format(count=len(answer.found)))
    found = answer.found
    rows = {
        "partition": np.array([one.partition for one in found], dtype=object),
        "cause": np.arange(len(found)),
        "op": np.array([one.op for one in found], dtype=np.int64),
        "v": np.array([one.v for one in found], dtype=np.int64),
        "offset": np.array([one.offset for one in found], dtype=np.int64),
        "time": np.array([one.since for one in found], dtype=np.int64),
        "role": np.full(len(found), "missing", dtype=object),
    }
    return CheckResult(answer.compared, rows if found else {})
