"""The edges of a group's offsets: one committed in a transaction is a write, one that is fetched a read (KIP-98, KIP-447).

    wr  an offset was fetched, or a transaction's inputs begin at it: the transaction that committed it before that one
    ww  a transaction's inputs begin at an offset, and it commits the next one: the one that committed the first before it
    rw  an offset was fetched, and not the next one: before the transaction that committed that

The *next* offset is known only where one committed transaction began at the one before: no number says which of two offsets
was committed first, for a member that was rewound may commit a lower one. An offset that two transactions may have committed is
nobody's. docs/graphs.md says why these edges go forward in time where Kafka keeps its promises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fencepost.checkers.graph.edges import FIRSTS, encode
from fencepost.checkers.graph.layers import RW, WR, WW
from fencepost.checkers.model.values import ABORTED, COMMITTED, NONE
from fencepost.checkers.pipeline.chains import chains_of, has_members
from fencepost.checkers.views.run_view import RunView

PLACE = "offset of "  # before a partition's name: where an edge through the group's offset lies
FETCHES = ("committed", "group-offsets")


def partition_of(place: str) -> str:
    """The partition of a place, whether its log or the group's offset there."""
    return place.removeprefix(PLACE)


class OffsetEdge(NamedTuple):
    """An edge by history indices; low, high: the offsets of the group behind it (wr: one)."""

    source: int
    target: int
    kind: int
    low: int
    high: int


@dataclass(frozen=True)
class Commit:
    """What a transaction did in a partition: the offset that it commits, the first input that it processed (NONE: none)."""

    op: int
    offset: int
    first: int
    status: int
    began: int
    ended: int


@dataclass(frozen=True)
class GroupPartition:
    """All that was done to a group's offset of one partition. fetched: (operation, offset, when it had ended)."""

    commits: list[Commit] = field(default_factory=list)
    fetched: list[tuple[int, int, int]] = field(default_factory=list)

    @cached_property
    def writers(self) -> dict[int, Commit]:
        """Offset -> the transaction that may have committed it, where there is only one."""
        found: dict[int, list[Commit]] = {}
        for one in self.commits:
            if one.status != ABORTED:
                found.setdefault(one.offset, []).append(one)
        return {offset: some[0] for offset, some in found.items() if len(some) == 1}

    @cached_property
    def committed(self) -> list[int]:
        """The offsets of transactions that surely committed, rising; also those that are nobody's."""
        return sorted({one.offset for one in self.commits if one.status == COMMITTED})

    @cached_property
    def before(self) -> dict[int, Commit]:
        """Operation -> the committed transaction at whose offset its inputs begin, as far as that may have been."""
        found = {}
        for one in self.commits:
            at = int(np.searchsorted(self.committed, one.first, side="right")) - 1
            writer = self.writers.get(self.committed[at]) if at >= 0 and one.first != NONE else None
            if writer and writer.op != one.op and (one.ended == NONE or writer.began < one.ended):
                found[one.op] = writer
        return found

    @cached_property
    def after(self) -> dict[int, Commit]:
        """Operation -> the one committed transaction that began at its offset."""
        found: dict[int, list[Commit]] = {}
        for one in self.commits:
            if one.status == COMMITTED and one.op in self.before:
                found.setdefault(self.before[one.op].op, []).append(one)
        return {op: some[0] for op, some in found.items() if len(some) == 1}

    def edges(self) -> Iterator[OffsetEdge]:
        for op, writer in self.before.items():
            yield OffsetEdge(writer.op, op, WR, writer.offset, writer.offset)
        for op, one in self.after.items():
            yield OffsetEdge(op, one.op, WW, self.before[one.op].offset, one.offset)
        for op, offset, ended in self.fetched:
            fetched = self.writers.get(offset)
            if fetched is None or fetched.began >= ended:
                continue
            yield OffsetEdge(fetched.op, op, WR, offset, offset)
            if following := self.after.get(fetched.op):
                yield OffsetEdge(op, following.op, RW, offset, following.offset)

    def first_reads(self) -> dict[int, int]:
        """Operation -> when its offset was first known to somebody."""
        found: dict[int, int] = {}
        began = {one.op: one.began for one in self.commits}
        known = [(writer.op, began[op]) for op, writer in self.before.items()]
        known += [(self.writers[offset].op, ended) for _, offset, ended in self.fetched if offset in self.writers]
        for op, time in known:
            found[op] = min(time, found.get(op, time))
        return found


def group_partitions(run: RunView) -> dict[str, GroupPartition]:
    """Partition -> what was done to the group's offset of it; nothing where the history has no members of groups."""
    if not has_members(run):
        return {}
    found: dict[str, GroupPartition] = {}
    for partition, one in _commits(run):
        found.setdefault(partition, GroupPartition()).commits.append(one)
    for partition, fetched in _fetched(run):
        if partition in found:
            found[partition].fetched.append(fetched)
    return found


def _commits(run: RunView) -> Iterator[tuple[str, Commit]]:
    """Where records may be gone, no input says where its transaction began."""
    chains, overview = chains_of(run), run.overview
    first = {} if run.deletes else chains.records.groupby(["op", "partition"])["offset"].min().to_dict()
    firsts: Mapping[tuple[int, str], int] = first
    at = overview.at(chains.offsets["op"].to_numpy())
    rows = chains.offsets.assign(status=overview.status[at], began=overview.time[at], ended=overview.end[at])
    for row in rows.itertuples():
        first = firsts.get((row.op, row.partition), NONE)
        yield str(row.partition), Commit(*map(int, (row.op, row.offset, first, row.status, row.began, row.ended)))


def _fetched(run: RunView) -> Iterator[tuple[str, tuple[int, int, int]]]:
    asked = run.history.of_kind(("index", "f", "type", "end", "detail"), *FETCHES)
    for row in asked.sort_by("index").to_pylist():
        if row["type"] == "ok" and row["detail"]:
            for partition, offset in json.loads(row["detail"])["offsets"].items():
                if offset is not None:
                    yield partition, (row["index"], int(offset), row["end"])


def edge_messages(run: RunView) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """The edges as messages, each with its place; and when operations were first read, as messages for the driver."""
    edges, firsts = [], []
    for partition, one in sorted(run.shared(group_partitions).items()):
        if found := sorted(set(one.edges())):
            edges.append((PLACE + partition, encode(_columns(found).values())))
            reads = one.first_reads()
            firsts.append((FIRSTS, encode([np.array(list(reads)), np.array(list(reads.values()))])))
    return edges, firsts


def _columns(edges: Sequence[OffsetEdge]) -> dict[str, Any]:
    columns = dict(zip(OffsetEdge._fields, np.array(edges, dtype=np.int64).T, strict=True))
    return {**columns, "kind": columns["kind"].astype(np.int8)}
