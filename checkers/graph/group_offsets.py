"""The edges of a group's offsets: one committed in a transaction is a write, one that is fetched a read (KIP-98, KIP-447).

    wr  an offset was fetched, or a transaction's inputs begin at it: the transaction that committed it before that one
    ww  a transaction's inputs begin at an offset, and it commits the next one: the one that committed the first before it
    rw  an offset was fetched, and not the next one: before the transaction that committed that

The *next* offset is known only where one committed transaction began at the one before: no number says which of two offsets
was committed first, for a member that was rewound may commit a lower one. An offset that two transactions may have committed is
nobody's. docs/graphs.md says why these edges go forward in time where Kafka keeps its promises.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fencepost.checkers.graph.edges import FIRSTS, encode
from fencepost.checkers.graph.layers import RW, WR, WW
from fencepost.checkers.model.values import ABORTED, COMMITTED, NONE
from fencepost.checkers.pipeline.chains import chains_of, has_members, told_offsets
from fencepost.checkers.views.run_view import RunView

PLACE = "offset of "  # before a partition's name: where an edge through the group's offset lies
FETCHES = ("committed", "group-offsets")


def partition_of(place: str) -> str:
    """The partition of a place, whether its log or the group's offset there."""
    return place.removeprefix(PLACE)


class OffsetEdge(NamedTuple):
    """An edge through a group's offset: operations by history index.

    low: the lower offset of the group behind it.
    high: the higher offset (wr: the same).
    """

    source: int
    target: int
    kind: int
    low: int
    high: int


@dataclass(frozen=True)
class Commit:
    """A transaction's part in a partition: the offset that it commits, the first input that it processed (NONE: none)."""

    op: int
    offset: int
    first: int
    status: int
    began: int
    ended: int


@dataclass(frozen=True)
class GroupPartition:
    """All that was done to a group's offset of one partition.

    commits: transactions that were to commit one.
    fetched: (operation, offset, when it had ended).
    """

    commits: list[Commit] = field(default_factory=list)
    fetched: list[tuple[int, int, int]] = field(default_factory=list)

    @cached_property
    def writers(self) -> dict[int, Commit]:
        """Offset -> the transaction that may have committed it, where there is only one."""
        by_offset: dict[int, list[Commit]] = {}
        for commit in self.commits:
            if commit.status != ABORTED:
                by_offset.setdefault(commit.offset, []).append(commit)
        return {offset: some[0] for offset, some in by_offset.items() if len(some) == 1}

    @cached_property
    def committed(self) -> list[int]:
        """The offsets of transactions that surely committed, rising; also those that are nobody's."""
        return sorted({commit.offset for commit in self.commits if commit.status == COMMITTED})

    @cached_property
    def before(self) -> dict[int, Commit]:
        """Operation -> the committed transaction at whose offset its inputs begin, as far as that may have been."""
        predecessors = {}
        for commit in self.commits:
            at = bisect_right(self.committed, commit.first) - 1
            writer = self.writers.get(self.committed[at]) if at >= 0 and commit.first != NONE else None
            if writer and writer.op != commit.op and (commit.ended == NONE or writer.began < commit.ended):
                predecessors[commit.op] = writer
        return predecessors

    @cached_property
    def after(self) -> dict[int, Commit]:
        """Operation -> the one committed transaction that began at its offset."""
        successors: dict[int, list[Commit]] = {}
        for commit in self.commits:
            if commit.status == COMMITTED and commit.op in self.before:
                successors.setdefault(self.before[commit.op].op, []).append(commit)
        return {op: some[0] for op, some in successors.items() if len(some) == 1}

    def edges(self) -> Iterator[OffsetEdge]:
        for op, writer in self.before.items():
            yield OffsetEdge(writer.op, op, WR, writer.offset, writer.offset)
        for op, commit in self.after.items():
            yield OffsetEdge(op, commit.op, WW, self.before[commit.op].offset, commit.offset)
        for op, offset, ended in self.fetched:
            fetched = self.writers.get(offset)
            if fetched is None or fetched.began >= ended:
                continue
            yield OffsetEdge(fetched.op, op, WR, offset, offset)
            if following := self.after.get(fetched.op):
                yield OffsetEdge(op, following.op, RW, offset, following.offset)

    def first_reads(self) -> dict[int, int]:
        """Operation -> when its offset was first known to somebody."""
        first: dict[int, int] = {}
        began = {commit.op: commit.began for commit in self.commits}
        known = [(writer.op, began[op]) for op, writer in self.before.items()]
        known += [(self.writers[offset].op, ended) for _, offset, ended in self.fetched if offset in self.writers]
        for op, time in known:
            first[op] = min(time, first.get(op, time))
        return first


def group_partitions(run: RunView) -> dict[str, GroupPartition]:
    """Partition -> what was done to the group's offset of it; nothing where the history has no members of groups."""
    if not has_members(run):
        return {}
    partitions: dict[str, GroupPartition] = {}
    for partition, commit in _commits(run):
        partitions.setdefault(partition, GroupPartition()).commits.append(commit)
    for partition, fetched in _fetched(run):
        if partition in partitions:
            partitions[partition].fetched.append(fetched)
    return partitions


def _commits(run: RunView) -> Iterator[tuple[str, Commit]]:
    """Commits of every transaction in every partition. Where records may be gone, no input says where a transaction began."""
    chains, overview = chains_of(run), run.overview
    first = {} if run.deletes else chains.records.groupby(["op", "partition"])["offset"].min().to_dict()
    firsts: Mapping[tuple[int, str], int] = first
    at = overview.at(chains.offsets["op"].to_numpy())
    rows = chains.offsets.assign(status=overview.status[at], began=overview.time[at], ended=overview.end[at])
    for row in rows.itertuples():
        first = firsts.get((row.op, row.partition), NONE)
        yield str(row.partition), Commit(*map(int, (row.op, row.offset, first, row.status, row.began, row.ended)))


def _fetched(run: RunView) -> Iterator[tuple[str, tuple[int, int, int]]]:
    rows = run.history.of_kind(("index", "f", "type", "end", "detail"), *FETCHES)
    for row in rows.sort_by("index").to_pylist():
        if row["type"] == "ok" and row["detail"]:
            disputed = chains_of(run).disputed if row["f"] == "group-offsets" else ()
            for partition, offset in told_offsets(row["detail"]).items():
                if offset is not None and partition not in disputed:
                    yield partition, (row["index"], int(offset), row["end"])


def edge_messages(run: RunView) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """The edges as messages, each with its place; and when operations were first read, as messages for the driver."""
    edges, firsts = [], []
    for partition, group_partition in sorted(run.shared(group_partitions).items()):
        if own := sorted(set(group_partition.edges())):
            edges.append((PLACE + partition, encode(_columns(own).values())))
            reads = group_partition.first_reads()
            firsts.append((FIRSTS, encode([np.array(list(reads)), np.array(list(reads.values()))])))
    return edges, firsts


def _columns(edges: Sequence[OffsetEdge]) -> dict[str, Any]:
    columns = dict(zip(OffsetEdge._fields, np.array(edges, dtype=np.int64).T, strict=True))
    return {**columns, "kind": columns["kind"].astype(np.int8)}
