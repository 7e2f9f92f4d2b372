"""Values of a history of others that contradict one another, or that docs/history.md does not know: what is true is unknown.

Workers of ours write none, and a manifest has the checksums of their files. Of another history nobody attests anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.harness.api import Isolation, Outcome, record_ids
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.words import and_more, form

WRITES = (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS)
HIGHEST_IDENTITY = int(record_ids.of(record_ids.MAX_PROCESS, record_ids.MAX_OP, record_ids.MAX_SEQ))
WORDS = {
    "type": ([outcome.value for outcome in Outcome], False),
    "intent": (["commit", "abort"], True),
    "isolation": ([level.value for level in Isolation], True),
}
"""Columns with the words that each may have, and whether it may have none."""
SENDERS = ("txn", "send")  # functions of operations that send
HARNESS = -1  # its process
NOT_TOLD = -1  # a producer's word for an offset that it was not told (acks=0)
_ABSENT = -1
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


class Contents:
    """What the column `mops` says of its rows, gathered part by part.

    blank: rows without it.
    sending: rows that have a send.
    polling: rows that have a polled record.
    untimely: rows of which a record has a time outside of the operation.
    impossible: rows with a micro-operation that cannot be: of no kind, in no partition, or at a negative offset.
    foreign: rows with a record whose identity is that of another operation, or none that there can be.
    again: rows that send a record which they have sent before.
    placeless: rows that polled a record, and do not say where it lies.
    before_zero: rows of which a record has a time below zero.
    spans: the lowest and the highest offset that final readers polled, by process and partition.
    """

    def __init__(self, table: pa.Table) -> None:
        self._process, self._time, self._end = (numbers(table[name]) for name in ("process", "time", "end"))
        self._keys = record_ids.operation_key(self._process, numbers(table["op"]))
        self._final = np.isin(self._process, self._process[among(table["f"], ("final-read",))])
        self.spans: dict[tuple[int, str], tuple[int, int]] = {}
        self._taken = 0
        rows = [np.zeros(len(table), dtype=np.bool_) for _ in range(9)]
        self.blank, self.sending, self.polling, self.untimely, self.impossible, self.foreign, *others = rows
        self.again, self.placeless, self.before_zero = others

    def through(self, parts: Iterable[pa.Array]) -> Iterator[pa.Array]:
        """The parts of the column, in the order of the rows, as they are taken."""
        for part in parts:
            self._take(part)
            yield part

    def _take(self, part: pa.Array) -> None:
        first, self._taken = self._taken, self._taken + len(part)
        self.blank[first : self._taken] = part.is_null().to_numpy(zero_copy_only=False)
        flat, row = part.flatten(), first + pc.list_parent_indices(part).to_numpy(zero_copy_only=False).astype(np.int64)
        kind, v = (numbers(flat.field(name)) for name in ("kind", "v"))
        self.sending[row[kind == 0]] = True
        self.polling[row[kind == 1]] = True
        for name in ("began", "ended"):
            at = numbers(flat.field(name))
            late = (self._end[row] != _ABSENT) & (at > self._end[row])
            self.untimely[row[(at != _ABSENT) & ((at < self._time[row]) | late)]] = True
            self.before_zero[row[flags(pc.less(flat.field(name), 0))]] = True
        foreign = (kind == 0) & (self._process[row] >= 0) & (record_ids.operation_key_of(v) != self._keys[row])
        nowhere = flags(pc.equal(flat.field("partition"), ""))
        self.impossible[row[nowhere | ((kind != 0) & (kind != 1))]] = True
        self.foreign[row[foreign | (v > HIGHEST_IDENTITY)]] = True
        self._take_places(row, kind, v, flat)

    def _take_places(self, row: Ints, kind: Ints, v: Ints, flat: pa.StructArray) -> None:
        offset = flat.field("offset")
        below = flags(pc.less(offset, np.where(kind == 0, NOT_TOLD, 0)))
        self.impossible[row[below]] = True
        self._take_spans(row[(kind == 1) & self._final[row]], flat.filter(pa.array((kind == 1) & self._final[row])))
        self.placeless[row[(kind == 1) & flags(pc.is_null(offset))]] = True
        sent, its_row = v[kind == 0], row[kind == 0]
        order = np.argsort(sent, kind="stable")
        self.again[its_row[order[1:][np.diff(sent[order]) == 0]]] = True

    def _take_spans(self, row: Ints, reads: pa.StructArray) -> None:
        places = {name: reads.field(name) for name in ("partition", "offset")}
        own = pa.table({"process": self._process[row], **places}).group_by(["process", "partition"])
        for found in own.aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
            where, polled = (found["process"], found["partition"]), (found["offset_min"], found["offset_max"])
            if None not in polled:
                lowest, highest = self.spans.get(where, polled)
                self.spans[where] = (min(lowest, polled[0]), max(highest, polled[1]))

    def beyond(self, table: pa.Table) -> Bools:
        """Final reads that say of a partition that their process read less of it than it did, at its begin or at its end."""
        which = np.zeros(len(table), dtype=np.bool_)
        for row in np.flatnonzero(among(table["f"], ("final-read",))).tolist():
            for partition, first, position in _told(table["detail"][row].as_py()):
                if span := self.spans.get((int(self._process[row]), partition)):
                    which[row] |= span[0] < first or position <= span[1]
        return which


def _told(detail: str | None) -> Iterator[tuple[str, int, int]]:
    """The partitions of a final read, and between which offsets each of them was read; nothing of what is not as documented."""
    try:
        said = json.loads(detail or "{}")
        spans = [(partition, span[0], span[2]) for partition, span in said.items() if len(span) == 3]
    except (ValueError, TypeError, AttributeError, KeyError):
        return
    yield from [span for span in spans if type(span[1]) is int and type(span[2]) is int]


def contradictions(table: pa.Table, contents: Contents, file: str) -> Iterator[Gap]:
    """The gaps of rows that cannot be true as they are. table: as that of `unsaid`."""
    process, op, time, end = (numbers(table[name]) for name in ("process", "op", "time", "end"))
    decided, transaction = numbers(table["decided"]), among(table["f"], ("txn",))

    def gap(which: Bools, verb: str, verbs: str, why: str) -> Iterator[Gap]:
        rows = np.flatnonzero(which & (process != HARNESS))
        if len(rows):
            first = f"operation {op[rows[0]]} of process {process[rows[0]]}{and_more(len(rows) - 1)}"
            why = f"{first} {form(len(rows), verb, verbs)} {why}"
            yield Gap(file=file, why=why, kind=GapKind.UNRELIABLE, evidence=WRITES)

    for name, (words, none) in WORDS.items():
        unknown = ~among(table[name], words) & ~(flags(pc.is_null(table[name])) & none)
        yield from gap(unknown, "has", "have", f"a value of `{name}` that docs/history.md does not know")
    late = (end != _ABSENT) & (decided > end)
    outside = contents.untimely | ((decided != _ABSENT) & ((decided < time) | late))
    yield from gap(outside, "has", "have", "times of its records, or of its commit, from before its beginning or after its end")
    below = [flags(pc.less(table[name], 0)) for name in ("time", "end", "decided")]
    yield from gap(contents.before_zero | np.logical_or.reduce(below), "has", "have", "times below zero")
    yield from gap(contents.impossible, "has", "have", "records of no kind, of no partition, or at a negative offset")
    identity = "`v` is process << 39 | op << 12 | the record's place among the sends of its operation (docs/history.md)"
    yield from gap(contents.foreign, "has", "have", f"records with an identity that is not theirs: {identity}")
    yield from gap(contents.again, "sends", "send", "a record twice: an identity stands for one")
    yield from gap(
        contents.sending & ~among(table["f"], SENDERS), "sends", "send", "records, though `f` is neither `txn` nor `send`"
    )
    decisive = flags(pc.is_valid(table["intent"])) | (decided != _ABSENT)
    yield from gap(decisive & ~transaction, "is", "are", "to commit or to abort, and no transaction")
    calls = among(table["intent"], ("abort",)) & (decided != _ABSENT)
    yield from gap(calls, "is", "are", "to abort, and called commit")
    yield from gap(_overlapping(process, op, time, end), "began", "began", "before the one before in the process had ended")
    yield from gap(process < HARNESS, "has", "have", "a negative process")
    yield from gap(
        _of_two_levels(process, table["isolation"]), "has", "have", "another isolation level than the process elsewhere"
    )


def _overlapping(process: Ints, op: Ints, time: Ints, end: Ints) -> Bools:
    """Operations that began before the one before them, of the same process, had ended."""
    order = np.lexsort((op, process))
    same = process[order][1:] == process[order][:-1]
    which = np.zeros(len(process), dtype=np.bool_)
    which[order[1:][same & (end[order][:-1] > time[order][1:])]] = True
    return which


def _of_two_levels(process: Ints, isolation: pa.ChunkedArray) -> Bools:
    """Rows of processes that read at two isolation levels: a process has one consumer."""
    uncommitted, known = among(isolation, (Isolation.UNCOMMITTED.value,)), flags(pc.is_valid(isolation))
    both = np.intersect1d(process[known & uncommitted], process[known & ~uncommitted])
    return np.isin(process, both)


def numbers(column: pa.ChunkedArray | pa.Array) -> Ints:
    """Whole numbers; -1 for those that are absent."""
    return np.asarray(pc.fill_null(column, _ABSENT).to_numpy(zero_copy_only=False).astype(np.int64))


def among(column: pa.ChunkedArray, words: Sequence[str]) -> Bools:
    """A mask of the rows that have one of some words."""
    return flags(pc.is_in(column, pa.array(list(words), pa.string())))


def flags(column: pa.ChunkedArray | pa.Array) -> Bools:
    """A mask; absent values count as false."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.bool_))
