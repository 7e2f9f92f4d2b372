"""Progress of a partition: when its records were sent, when some were acknowledged, and when each reader got some.

The first and the last event of a kind (and reader) in a second are enough for `checkers.anomalies.delayed_reads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Ints, true_positions
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.gathering import PartitionMessages, together
from fencepost.checkers.views.log import PartitionLog, Reads, Sends, slices
from fencepost.checkers.views.parts import Parts
from fencepost.checkers.views.run_view import RunView

SECOND_NS = 1_000_000_000
DELAY_S = 10  # for which a reader must not stop
QUIET_S = 5  # for which a partition that goes on may have nothing to show
PROGRESS = "progress"
MOST_OFFSETS = 2**42  # of a partition, to tell those of one series from those of the next
MANY = 2_000  # events, from which on it pays to look for runs of them before they are sorted
CALLED, ACKED, GOT = range(3)  # roles of events
ROLES = 3
Column = Ints | int  # or one value for all
Events = tuple[Column, Column, Ints, Column]  # role, process, time, offset


@together
def progress(log: PartitionLog) -> PartitionMessages:
    """What happened to a partition that the workload sends to, one event of a kind (and reader) a second.

    role: a send was called, was acknowledged, or a read_committed reader of the main phase got something.
    process: the reader (NONE: none).
    time: when (ns).
    offset: the highest one so far, of acknowledgements and of what a reader got; of a call NONE.
    """
    if not len(log.sends):
        return PartitionMessages()
    events = [_ends_of_runs(*some) for some in _events(log)]
    columns = _thinned(*(np.concatenate(parts) for parts in zip(*events, strict=True)))
    if log.parts is not None:
        return PartitionMessages(to_driver=[(PROGRESS, to_message(_of_parts(log.parts, columns)))])
    table = pa.table({**columns, "partition": pa.repeat(log.partition, len(columns["time"]))})
    return PartitionMessages(to_driver=[(PROGRESS, to_message(table))])


def _of_parts(parts: Parts, columns: dict[str, Ints]) -> pa.Table:
    """The events of a joined log, those of each partition together."""
    number, role = np.divmod(columns["role"], ROLES)
    own = np.isin(number, number[role == CALLED])  # of partitions that the workload sends to
    told = {"role": role, "process": parts.processes_of(columns["process"]), "time": parts.times_of(columns["time"])}
    told["offset"] = parts.offsets_of(columns["offset"])
    names = pa.array(parts.names).take(pa.array(number[own]))
    return pa.table({**{name: values[own] for name, values in told.items()}, "partition": names})


def _events(log: PartitionLog) -> Iterator[Events]:
    """All events of a partition, some at a time; of a joined log with roles of each partition's own."""
    sends, reads = log.sends, log.reads
    for part in slices(len(sends)):
        began, ended, offset = sends.began[part], sends.ended[part], sends.offset[part]
        yield _role(log, CALLED, sends, part), NONE, began, NONE
        known = (ended != NONE) & (offset != NONE)
        yield _role(log, ACKED, sends, part, known), NONE, ended[known], offset[known]
    for part in slices(len(reads)):
        ended, offset = reads.ended[part], reads.offset[part]
        own = true_positions(reads.committed[part] & ~reads.final[part] & (ended != NONE) & (offset != NONE))
        yield _role(log, GOT, reads, part, own), reads.process[part][own], ended[own], offset[own]


def _role(log: PartitionLog, role: int, side: Sends | Reads, part: slice, which: Any = slice(None)) -> Any:
    """The role of the events of some records."""
    return role if log.parts is None else log.parts.numbers(side.op[part][which]) * ROLES + role


def _ends_of_runs(role: Column, process: Column, time: Ints, offset: Column) -> tuple[Ints, ...]:
    """Of events that stand one behind the other in order of time, in one second and of one process, the first and the last.

    The last one has the highest offset of all of them. `_thinned` makes the same of these as of all events, and a large partition
    has few of them: its sends stand by process, its reads by offset, and so mostly in order of time.
    """
    if len(time) < MANY:
        return tuple(np.broadcast_to(column, len(time)) for column in (role, process, time, offset))
    second = time // SECOND_NS
    begins = np.ones(len(time), dtype=np.bool_)
    begins[1:] = (second[1:] != second[:-1]) | (time[1:] < time[:-1])
    for column in (process, role):
        if isinstance(column, np.ndarray):
            begins[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(time)) - 1
    several = stops > starts
    at = np.concatenate([starts, stops[several]])
    told = [column[at] if isinstance(column, np.ndarray) else np.full(len(at), column) for column in (role, process)]
    if not isinstance(offset, np.ndarray):
        return *told, time[at], np.full(len(at), offset)
    highest = np.maximum.reduceat(offset, starts)[several]
    return *told, time[at], np.concatenate([offset[starts], highest])


def _thinned(role: Ints, process: Ints, time: Ints, offset: Ints) -> dict[str, Ints]:
    """Of the events of each role and process the first and the last in each second, in order of time, with the highest offset."""
    order = np.lexsort([time, process, role])
    role, process, time, offset = role[order], process[order], time[order], offset[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (role[1:] != role[:-1]) | (process[1:] != process[:-1])
    series = np.cumsum(first) * MOST_OFFSETS
    highest = np.maximum.accumulate(offset + series) - series
    second = time // SECOND_NS
    first[1:] |= second[1:] != second[:-1]
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
        columns = [table[name].to_numpy() for name in ("role", "process", "time", "offset")]
        runs = pc.run_end_encode(table["partition"].combine_chunks())  # the events of a partition stand together
        for name, (start, stop) in zip(runs.values.to_pylist(), pairwise([0, *runs.run_ends.to_pylist()]), strict=True):
            known[name] = _progress(*(values[start:stop] for values in columns))
    return known


def _progress(role: Ints, process: Ints, time: Ints, offset: Ints) -> Progress:
    called, acked, got = (role == one for one in (CALLED, ACKED, GOT))
    readers = {
        int(one): (time[got & (process == one)], offset[got & (process == one)]) for one in np.unique(process[got]).tolist()
    }
    return Progress(time[called], time[acked], offset[acked], readers)
