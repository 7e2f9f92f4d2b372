"""Readers that stop although their partition goes on, while another partition takes nothing (KIP-98).

The docstring is the definition of the anomaly. Markers that come late for such a reason are `delayed-marker`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_rules import COMPACTED, RETAINED, TRUNCATED, UNLESS_PRODUCER
from fencepost.checkers.contract.needs import OUTCOMES, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.history.lookup import records_of
from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.pipeline.stored_logs import ABORT, COMMIT, DATA, StoredLogs, operations_of, stored_logs
from fencepost.checkers.selfcheck.outage_damages import OUTAGE
from fencepost.checkers.views.gathering import PartitionMessages
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import LIVE

SECOND_NS = 1_000_000_000
DELAY_S = 10  # for which a reader must not stop
QUIET_S = 5  # for which a partition that goes on may have nothing to show
LEAST_POLLS = 10  # of a reader that polls, in `DELAY_S`
PROGRESS = "progress"
MOST_OFFSETS = 2**42  # of a partition, to tell those of one series from those of the next
CALLED, ACKED, GOT = range(3)  # roles of events
NO_OUTAGE = f"no partition took no record for {DELAY_S} s while others went on and were read"
NO_RECEIPTS = "whom the faults struck is not known, for receipts of faults are missing ({count} findings)"


# --------------------------------------------------------------------------------------------------
# What is known of each partition
# --------------------------------------------------------------------------------------------------
def progress(log: PartitionLog) -> PartitionMessages:
    """What happened to a partition that the workload sends to, one event of a kind (and reader) a second.

    role: a send was called, was acknowledged, or a read_committed reader of the main phase got something.
    process: the reader (NONE: none).
    time: when (ns).
    offset: the highest one so far, of acknowledgements and of what a reader got; of a call NONE.
    """
    sends, reads = log.sends, log.reads
    if not len(sends):
        return PartitionMessages()
    known = (sends.ended != NONE) & (sends.offset != NONE)
    own = reads.committed & ~reads.final & (reads.ended != NONE) & (reads.offset != NONE)
    counts = [len(sends), int(known.sum()), int(own.sum())]
    role = np.repeat([CALLED, ACKED, GOT], counts)
    process = np.concatenate([np.full(counts[0] + counts[1], NONE), reads.process[own]])
    time = np.concatenate([sends.began, sends.ended[known], reads.ended[own]])
    offset = np.concatenate([np.full(counts[0], NONE), sends.offset[known], reads.offset[own]])
    columns = _thinned(role, process, time.astype(np.int64), offset.astype(np.int64))
    table = pa.table({**columns, "partition": pa.repeat(log.partition, len(columns["time"]))})
    return PartitionMessages(to_driver=[(PROGRESS, to_message(table))])


def _thinned(role: Ints, process: Ints, time: Ints, offset: Ints) -> dict[str, Ints]:
    """Of the events of each role and process the first and the last in each second, in order of time, with the highest offset."""
    order = np.lexsort([time, process, role])
    role, process, time, offset = role[order], process[order], time[order], offset[order]
    series = np.cumsum((np.diff(role, prepend=role[:1]) != 0) | (np.diff(process, prepend=process[:1]) != 0))
    highest = np.maximum.accumulate(offset + series * MOST_OFFSETS) - series * MOST_OFFSETS
    first = (np.diff(time // SECOND_NS, prepend=NONE) != 0) | (np.diff(series, prepend=NONE) != 0)
    kept = np.flatnonzero(first | np.append(first[1:], True))
    return {"role": role[kept], "process": process[kept], "time": time[kept], "offset": highest[kept]}


@dataclass(frozen=True)
class Progress:
    """The events of one partition.

    called: when records were sent (ns), rising.
    acked: when some were acknowledged.
    highest: the highest offset acknowledged by then.
    got: of each reader, when it got something, and the highest offset that it had got by then.
    """

    called: Ints
    acked: Ints
    highest: Ints
    got: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    @cached_property
    def outages(self) -> list[tuple[int, int]]:
        """Spans (ns) in which a record was sent, and none was acknowledged for `DELAY_S` and more."""
        if not len(self.called):
            return []
        starts = np.concatenate([[NONE], self.acked])
        ends = np.append(self.acked, max(int(self.called[-1]), int(self.acked.max(initial=NONE))))
        first = np.searchsorted(self.called, starts, side="right")
        begun = np.where(first < len(self.called), self.called[np.minimum(first, len(self.called) - 1)], FOREVER)
        long = ends - begun >= DELAY_S * SECOND_NS
        return list(zip(begun[long].tolist(), ends[long].tolist(), strict=True))

    def goes_on(self, begin: int, end: int, reader: int) -> bool:
        """True if from one time to another its leader acknowledged records, or gave some to other readers, all the time."""
        others = [times for process, (times, _) in self.got.items() if process != reader]
        times = np.sort(np.concatenate([self.acked, *others]))
        inside = times[(times >= begin) & (times <= end)]
        return bool((np.diff(np.concatenate([[begin], inside, [end]])) <= QUIET_S * SECOND_NS).all())

    def others_beyond(self, reader: int, position: int) -> int:
        """When another reader first had something at or above an offset (ns; FOREVER: never)."""
        first = FOREVER
        for process, (times, offsets) in self.got.items():
            at = int(np.searchsorted(offsets, position))
            if process != reader and at < len(times):
                first = min(first, int(times[at]))
        return first

    def acked_beyond(self, offset: int) -> int:
        """When a record above an offset was first acknowledged (ns; FOREVER: never)."""
        at = int(np.searchsorted(self.highest, offset, side="right"))
        return int(self.acked[at]) if at < len(self.acked) else FOREVER


def progress_of(run: RunView) -> dict[str, Progress]:
    """The events of all partitions that the workload sends to. Raises RuntimeError when they could not be gathered."""
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)
    known = {}
    for table in [from_message(message) for name, message in run.gathered.to_driver if name == PROGRESS]:
        role, process, time, offset = (table[name].to_numpy() for name in ("role", "process", "time", "offset"))
        called, acked, got = (role == one for one in (CALLED, ACKED, GOT))
        readers = {
            int(one): (time[got & (process == one)], offset[got & (process == one)]) for one in np.unique(process[got]).tolist()
        }
        known[table["partition"][0].as_py()] = Progress(time[called], time[acked], offset[acked], readers)
    return known


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
