"""Graphs that are hard on a search for cycles, at any size: rings, rings that share an operation, chords, cliques, tangles.

Each is given as the search of a span gets it: rows, ranks and intervals. `n` is about the number of edges.
"""

from math import isqrt
from random import Random
from typing import NamedTuple

import numpy as np

from fencepost.checkers.graph.layers import LSO, RW, WR, WW
from fencepost.checkers.graph.span_rows import Edge, SpanOperations, SpanRows
from fencepost.checkers.model.values import NONE


class OperationInterval(NamedTuple):
    """When an operation began and was over, and its process."""

    begin: int
    end: int
    process: int


def ring(n, kinds=(WR,), first=0):
    """A ring of operations, each before the next one; kinds in turn."""
    return [Edge(first + at, first + (at + 1) % n, kinds[at % len(kinds)], 0, at, at) for at in range(n)]


def chords(n, rng):
    """A ring of half of the edges, and as many across it."""
    across = ((rng.randrange(n // 2), rng.randrange(n // 2), rng.choice([WW, WR, RW])) for _ in range(n // 2))
    return [*ring(n // 2, (WW, WR)), *(Edge(a, b, kind, 1, at, at) for at, (a, b, kind) in enumerate(across) if a != b)]


def flower(n, kinds, petal=10):
    """Rings that share operation 0; each has one edge of some kind, the others are ww; kinds in turn."""
    rows = []
    for number in range(n // petal):
        ops = [0, *range(1 + number * (petal - 1), 1 + (number + 1) * (petal - 1))]
        steps = [kinds[number % len(kinds)], *([WW] * (petal - 1))]
        rows += [Edge(a, b, kind, 0, a, b) for a, b, kind in zip(ops, [*ops[1:], 0], steps, strict=True)]
    return rows


def clique(n, kinds):
    count = isqrt(n)
    pairs = ((a, b) for a in range(count) for b in range(count) if a != b)
    return [Edge(a, b, kinds[at % len(kinds)], 0, at, at) for at, (a, b) in enumerate(pairs)]


def layered(n, rng):
    """Three layers: wr edges from the first to the second and on to the third, and rw edges back to where none of them came from:
    no cycle has one rw edge only.
    """
    size = n // 5
    rows = []
    for at in range(size):
        middle, top = size + at, 2 * size + at
        pairs = ((at, middle), (at, size + (at + 1) % size), (middle, top))
        rows += [Edge(source, target, WR, 0, at, at) for source, target in pairs]
        back = {rng.randrange(size), rng.randrange(size)} - {at, (at - 1) % size}
        rows += [Edge(top, other, RW, 1, at, other) for other in sorted(back)]
    return rows


def passing(n, rng):
    """One partition's lists: half of the operations wrote to it, half read it, and each writer reads what a reader wrote."""
    half = n // 4
    lists = [Edge(op, NONE, LSO, 0, at, NONE) for op, at in enumerate(rng.sample(range(n), half))]
    lists += [Edge(NONE, half + op, LSO, 0, NONE, at) for op, at in enumerate(rng.sample(range(n), half))]
    return [*lists, *(Edge(half + at, rng.randrange(half), WR, 1, at, at) for at in range(half))]


def tangle(n, rng):
    ops = n // 3
    pairs = ((rng.randrange(ops), rng.randrange(ops)) for _ in range(n))
    return [Edge(a, b, rng.choice([WW, WW, WR, RW]), 0, at, at) for at, (a, b) in enumerate(pairs) if a != b]


SHAPES = {
    "ring of reads": lambda n: ring(n),
    "ring of writes": lambda n: ring(n, (WW,)),
    "ring of writes and reads": lambda n: ring(n, (WW, WR)),
    "ring of rw": lambda n: ring(n, (RW,)),
    "ring with an rw edge": lambda n: [ring(n)[0]._replace(kind=RW), *ring(n, (WW, WR))[1:]],
    "open chain": lambda n: ring(n, (WR, WW))[:-1],
    "chords": lambda n: chords(n, Random(1)),
    "rings that share an operation, reads": lambda n: flower(n, (WW, WR)),
    "rings that share an operation, rw": lambda n: flower(n, (RW,)),
    "rings that share an operation, all kinds": lambda n: flower(n, (WW, WR, RW)),
    "clique of writes": lambda n: clique(n, (WW,)),
    "clique of all kinds": lambda n: clique(n, (WW, WR, RW)),
    "clique of rw": lambda n: clique(n, (RW,)),
    "layers": lambda n: layered(n, Random(2)),
    "passing": lambda n: passing(n, Random(3)),
    "tangle": lambda n: tangle(n, Random(4)),
    "tangles": lambda n: [
        row._replace(source=row.source + 100 * part, target=row.target + 100 * part)
        for part in range(n // 100)
        for row in tangle(100, Random(part))
    ],
}
TIMES = ("together", "one after the other", "by few processes", "by many processes")


def intervals(rows, times):
    """When the operations of some rows ran."""
    ops = sorted({op for row in rows for op in (row.source, row.target)} - {NONE})
    if times == "together":
        return {op: OperationInterval(at, len(ops) + at, op) for at, op in enumerate(ops)}
    if times == "one after the other":
        return {op: OperationInterval(2 * at, 2 * at + 1, at % 7) for at, op in enumerate(ops)}
    rng, count = Random(7), 4 if times == "by few processes" else max(4, len(ops) // 10)
    free, result = [0] * count, {}
    for op in ops:
        process = min(range(count), key=free.__getitem__) if count < 10 else rng.randrange(count)
        begin, end = free[process], free[process] + rng.randrange(100)
        free[process], result[op] = end + 1, OperationInterval(begin, end, process)
    return result


def searchable(rows, when):
    """What `search_span` gets: rows, and operations in the order of their ends."""
    order = sorted(when, key=lambda op: (when[op].end, when[op].begin, op))
    rank = {op: rank for rank, op in enumerate(order)}
    columns = np.array([(op, rank[op], *when[op]) for op in sorted(when)]).reshape(-1, 5).T
    return SpanRows.of_edges(rows), SpanOperations(*columns)


def span(rows, times):
    return searchable(rows, intervals(rows, times))
