"""Curves over the run's time: rate by outcome, latency, how far readers lag, transactions under way.

Each has a few hundred points, computed from every operation, and beside them its maximum exactly. Times are microseconds since
the start of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.harness.page_text import duration, number
from fencepost.harness.report import unseen
from fencepost.harness.report.documents import NEVER, Ints, Ops, ReportData, slices, writes
from fencepost.harness.report.records import READ, SENT, Records, by_partition

OUTCOMES = ("ok", "fail", "info")
_BINS = 300
_WIDTHS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_MS, _SECOND = 1e6, 1e9


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve of a chart. style: `solid`, `dashed` or `dotted`, so that it is told apart without colours.

    peak: its exact maximum in words.
    """

    key: str
    label: str
    style: str
    values: list[float | None]
    peak: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves over the same moments. step: each value holds for the bin that begins at its moment."""

    key: str
    title: str
    unit: str
    note: str
    moments: list[int]
    lines: tuple[Line, ...]
    step: bool = False

    def drawn(self) -> dict[str, Any]:
        """The part that the page's script needs."""
        lines = [{"key": line.key, "style": line.style, "values": line.values} for line in self.lines]
        return {"key": self.key, "unit": self.unit, "moments": self.moments, "lines": lines, "step": self.step}


@dataclass(frozen=True)
class Bins:
    """Equal spans of time from the run's start to its end (ns)."""

    origin: int
    width: int
    count: int

    def of(self, moments: Ints) -> Ints:
        """The bin of each moment."""
        return np.clip((moments - self.origin) // self.width, 0, self.count - 1)

    @property
    def begins(self) -> list[int]:
        return [place * self.width // 1000 for place in range(self.count)]

    @property
    def ends(self) -> Ints:
        return self.origin + self.width * np.arange(1, self.count + 1)


def bins(origin_ns: int, end_ns: int) -> Bins:
    """At most a few hundred bins of a round width."""
    span_s = max(1e-3, (end_ns - origin_ns) / _SECOND)
    width_s = next((width for width in _WIDTHS_S if span_s / width <= _BINS), float(np.ceil(span_s / _BINS)))
    return Bins(origin_ns, int(width_s * _SECOND), int(span_s // width_s) + 1)


def charts(run: ReportData, ops: Ops, table: Records, row_of: Ints) -> tuple[Chart, ...]:
    """Every chart for which the history has something to show."""
    over = bins(run.origin_ns, run.end_ns)
    made = (rate(ops, over), latency(ops, over), _behind(run, ops, table, row_of, over), open_transactions(ops, row_of, over))
    return tuple(chart for chart in made if chart)


# --------------------------------------------------------------------------------------------------
# Rate and latency
# --------------------------------------------------------------------------------------------------
def rate(ops: Ops, over: Bins) -> Chart:
    """Writes that ended per second by outcome (an operation without completion counts when it began)."""
    chosen = writes(ops)
    ended = {name: np.zeros(over.count, dtype=np.int64) for name in OUTCOMES}
    for part in slices(len(ops)):
        place = over.of(np.where(ops.end[part] == NEVER, ops.time[part], ops.end[part]))
        for name, count in ended.items():
            count += np.bincount(place[chosen[part] & ops.type.among(name, part=part)], minlength=over.count)
    per_s = _SECOND / over.width
    lines = []
    for name, style in zip(OUTCOMES, ("solid", "dashed", "dotted"), strict=True):
        counts = ended[name] * per_s
        peak = (
            f"at most {number(round(float(counts.max())))}/s, {number(round(counts.sum() / per_s))} in all"
            if counts.any()
            else "none"
        )
        lines.append(Line(key=name, label=name, style=style, values=rounded(counts), peak=peak))
    note = f"Transactions and sends that ended, per second, in bins of {duration(over.width)}."
    return Chart(key="rate", title="Rate", unit="/s", note=note, moments=over.begins, lines=tuple(lines), step=True)


def latency(ops: Ops, over: Bins) -> Chart | None:
    """Percentiles of how long successful writes took, by the bin in which they ended."""
    chosen = writes(ops) & ops.type.among("ok") & (ops.end != NEVER)
    count = int(chosen.sum())
    if not count:
        return None
    took, place = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32)
    begin, slowest, when = 0, np.iinfo(np.int64).min, NEVER
    for part in slices(len(ops)):
        end = ops.end[part][chosen[part]]
        mine = slice(begin, begin + len(end))
        took[mine], place[mine] = end - ops.time[part][chosen[part]], over.of(end)
        if len(end) and took[mine].max() > slowest:
            at = int(np.argmax(took[mine]))
            slowest, when = int(took[mine][at]), int(end[at])
        begin = mine.stop
    sizes = np.bincount(place, minlength=over.count)
    first = np.r_[0, np.cumsum(sizes)[:-1]]
    shares = (("p50", 0.5, "solid"), ("p99", 0.99, "dashed"))
    ranks = [np.minimum(first + np.ceil(sizes * share).astype(np.int64) - (sizes > 0), count - 1) for _, share, _ in shares]
    lines = []
    for (key, share, style), values in zip(shares, _ranked(place, took, np.array(ranks)), strict=True):
        rank = int(np.ceil(count * share)) - 1
        took.partition(rank)
        peak = f"{duration(float(took[rank]))} over the whole run"
        lines.append(Line(key=key, label=key, style=style, values=rounded(np.where(sizes > 0, values / _MS, np.nan)), peak=peak))
    ended = (when - over.origin) / _SECOND
    note = f"Of successful writes, by the time they ended. The slowest took {duration(slowest)}, ended at {ended:,.3f} s."
    return Chart(key="latency", title="Latency", unit="ms", note=note, moments=over.begins, lines=tuple(lines))


def _ranked(place: Any, took: Ints, ranks: Ints) -> Ints:
    """The times at some ranks in the order of places, those of one place rising: sorted as one number for both, many times as
    fast.
    """
    least = int(took.min())
    span = int(took.max()) - least + 1
    if (int(place.max()) + 1) * span > np.iinfo(np.int64).max:
        return np.asarray(took[np.lexsort((took, place))[ranks]])
    both = place * np.int64(span)
    both += took
    both -= least
    both.sort()
    return np.asarray(both[ranks] % span + least)


def longest_gap(ops: Ops) -> tuple[int, int] | None:
    """The longest time (ns, from and to) without a successful commit or send in the main phase."""
    chosen = writes(ops)
    done = ops.end[chosen & ops.type.among("ok") & ~ops.intent.among("abort") & (ops.end != NEVER)]
    if not chosen.any():
        return None
    edges = [ops.time[chosen].min(), max(int(ops.end[chosen].max()), int(ops.time[chosen].max()))]
    moments = np.concatenate([edges, done])
    del done
    moments.sort()
    widest = int(np.argmax(np.diff(moments)))
    return int(moments[widest]), int(moments[widest + 1])


def rounded(values: npt.NDArray[np.floating[Any]]) -> list[float | None]:
    """Three digits are enough for a curve; None where there is no value."""
    return [None if np.isnan(value) else float(f"{value:.4g}") for value in values.tolist()]


# --------------------------------------------------------------------------------------------------
# Readers
# --------------------------------------------------------------------------------------------------
def _behind(run: ReportData, ops: Ops, table: Records, row_of: Ints, over: Bins) -> Chart | None:
    """How far readers are behind: records that none of them has read, and offsets that the slowest has yet to pass."""
    counted = unseen.points(run)
    moments = over.origin + np.array([time for time, _ in counted], dtype=np.int64) * 1000 if counted else over.ends
    behind = lag(ops, table, row_of, moments) if table.whole else None
    lines, notes = [], []
    if counted:
        most = max(counted, key=lambda point: point[1])
        peak = f"at most {number(most[1])} at {most[0] / 1e6:,.3f} s"
        lines.append(Line(key="unseen", label="unseen", style="solid", values=[float(count) for _, count in counted], peak=peak))
        notes.append("Unseen: committed records that no reader had got yet.")
    if behind is not None:
        at = int(np.argmax(behind))
        peak = f"at most {number(int(behind[at]))} at {(int(moments[at]) - over.origin) / _SECOND:,.3f} s"
        lines.append(Line(key="lag", label="lag", style="dashed", values=rounded(behind.astype(float)), peak=peak))
        notes.append("Lag: acknowledged offsets that the slowest reader, or the members of groups together, had not read up to.")
    elif not table.whole:
        notes.append("Lag is not computed for so many records.")
    if not lines:
        return None
    begins = ((moments - over.origin) // 1000).tolist()
    return Chart(key="readers", title="Readers behind", unit="", note=" ".join(notes), moments=begins, lines=tuple(lines))


def lag(ops: Ops, table: Records, row_of: Ints, moments: Ints) -> Ints | None:
    """Of the slowest reader, at each moment: acknowledged offsets beyond its position, over the partitions that it reads.

    The members of groups count as one reader, since they share partitions. None when nobody read in the main phase.
    """
    reading = ops.role.among("reader", "member") & ~ops.final
    reader = np.where(ops.role.among("member"), NEVER, row_of)  # a reader that takes over where another ended shares its row
    ends: dict[int, Ints] = {}
    positions: dict[tuple[int, int], Ints] = {}
    for partition, inside in by_partition(table).items():
        sent = inside[(table.kind[inside] == SENT) & (table.offset[inside] >= 0) & (table.ended[inside] != NEVER)]
        ends[partition] = _highest(table, sent, moments)
        read = inside[(table.kind[inside] == READ) & (table.offset[inside] >= 0) & reading[table.op[inside]]]
        for each in np.unique(reader[table.op[read]]).tolist():
            positions[each, partition] = _highest(table, read[reader[table.op[read]] == each], moments)
    behind = [
        sum(np.maximum(0, ends[partition] - position) for (other, partition), position in positions.items() if other == each)
        for each in {each for each, _ in positions}
    ]
    return np.asarray(np.max(behind, axis=0)) if behind else None


def _highest(table: Records, chosen: Ints, moments: Ints) -> Ints:
    """The offset after the highest one of these records that was acknowledged, or returned, by each moment."""
    order = chosen[np.argsort(table.ended[chosen], kind="stable")]
    reached = np.r_[0, np.maximum.accumulate(table.offset[order] + 1)]
    at: Ints = reached[np.searchsorted(table.ended[order], moments, side="right")]
    return at


# --------------------------------------------------------------------------------------------------
# Transactions under way
# --------------------------------------------------------------------------------------------------
def open_transactions(ops: Ops, row_of: Ints, over: Bins) -> Chart | None:
    """The most transactions that were under way at once in each bin, as their clients saw it."""
    chosen = ops.f.among("txn") & ~ops.final
    if not chosen.any():
        return None
    unfinished = np.flatnonzero(chosen & (ops.end == NEVER))
    begins, ends = ops.time[chosen], ops.end[chosen]
    if len(unfinished):
        ends = np.concatenate([ends[ends != NEVER], _following(ops, row_of, unfinished)])
    begins.sort()
    ends.sort()
    levels = [_most_at_once(begins, ends, over.origin + place * over.width, over.width) for place in range(over.count)]
    most, when = max(levels, key=lambda level: level[0])
    peak = f"at most {number(most)} at {(when - over.origin) / _SECOND:,.3f} s"
    line = Line(key="open", label="open", style="solid", values=[float(level) for level, _ in levels], peak=peak)
    note = "The most transactions at once in each bin, from begin to the end of commit or abort, as their clients saw it."
    if len(unfinished):
        note += f" {number(len(unfinished))} that never completed count until their worker's next operation."
    return Chart(key="open", title="Open transactions", unit="", note=note, moments=over.begins, lines=(line,), step=True)


def _most_at_once(begins: Ints, ends: Ints, moment: int, width: int) -> tuple[int, int]:
    """The most intervals that overlap in a stretch of time, and when. Both lists are sorted; ends are not part of intervals."""
    first, last = np.searchsorted(begins, [moment, moment + width])
    over, gone = np.searchsorted(ends, [moment, moment + width], side="right")
    moments = np.concatenate([begins[first:last], ends[over:gone]])
    change = np.repeat([1, -1], [last - first, gone - over])
    order = np.lexsort((change, moments))  # what ends when another begins was not under way with it
    level = int(first - over) + np.r_[0, np.cumsum(change[order])]
    highest = int(np.argmax(level))
    return int(level[highest]), moment if highest == 0 else int(moments[order[highest - 1]])


def _following(ops: Ops, row_of: Any, positions: Ints) -> Ints:
    """When the next operation of the same row began, of some operations; where there is none, when the history ended."""
    last = int(max(ops.end.max(), ops.time.max()))
    follows = np.full(len(positions), last)
    rows = int(row_of.max()) + 1
    kind = np.uint16 if rows <= 1 << 16 else np.int32  # numpy sorts numbers of 16 bits without comparing them
    later = np.full(rows, NEVER)  # the position of the first operation of each row in what has been looked at, from the end
    for part in reversed(list(slices(len(ops)))):
        row = row_of[part].astype(kind)
        order = np.argsort(row, kind="stable")  # the history is in order of time
        begins = np.flatnonzero(np.r_[True, row[order][1:] != row[order][:-1]])
        following = np.r_[order[1:], NEVER]
        following[np.r_[begins[1:], len(order)] - 1] = NEVER
        begin, end = np.searchsorted(positions, [part.start, part.stop])
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        mine = positions[begin:end] - part.start
        near = following[place[mine]]
        at = np.where(near == NEVER, later[row[mine]], near + part.start)
        follows[begin:end] = np.where(at == NEVER, last, ops.time[at])
        later[row[order[begins]]] = order[begins] + part.start
    return follows
