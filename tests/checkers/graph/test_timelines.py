"""Who follows whom in time, against the definition, for every pair."""

from random import Random

import numpy as np
import pytest

from fencepost.checkers.graph.layers import BY_PROCESS, BY_TIME
from fencepost.checkers.graph.span_rows import Edge, SpanOperations, SpanRows, ends_of
from fencepost.checkers.graph.timelines import Timelines
from fencepost.checkers.model.values import FOREVER, NONE


def operations(rng):
    """Operations of a few processes that run one after the other in each, sometimes from the very end of the one before."""
    free, rows = [0] * 3, []
    for op in sorted(rng.sample(range(100), rng.randrange(1, 12))):
        process = rng.randrange(3)
        begin = free[process] + rng.randrange(3)
        free[process] = begin + rng.randrange(1, 4)
        rows.append((op, op, begin, rng.choice([free[process]] * 3 + [FOREVER]), process))
    return SpanOperations(*np.array(rows, dtype=np.int64).T)


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("order", [BY_PROCESS, BY_TIME])
def test_followers_are_those_that_began_after_the_end(seed, order):
    some = operations(Random(seed))
    lines = Timelines(order, some)
    for a in range(len(some)):
        later = {
            b
            for b in range(len(some))
            if a != b
            and some.end[a] != FOREVER
            and (
                some.end[a] < some.begin[b]
                if order == BY_TIME
                else (some.process[a] == some.process[b] and some.end[a] <= some.begin[b])
            )
        }
        assert set(lines.followers(a)) == later
        assert {end for start, end in lines.ends() if start == a} <= later
        assert (a in {start for start, _ in lines.ends()}) == bool(later)


def test_of_edges_of_one_kind_between_two_operations_the_first_stays_and_rows_of_lists_all():
    lists = [Edge(3, NONE, 3, 0, 5, NONE), Edge(3, NONE, 3, 1, 7, NONE)]
    edges = [Edge(1, 2, 0, 1, 8, 9), Edge(1, 2, 0, 0, 3, 4), Edge(1, 2, 1, 0, 1, 1)]
    rows = SpanRows.of_edges([*edges, *lists])
    assert [rows.edge(at) for at in range(len(rows))] == [edges[1], edges[2], *lists]
    assert ends_of(rows).tolist() == [1, 2, 3]


def test_operations_far_apart_are_found_without_a_table_of_all_between():
    assert ends_of(SpanRows.of_edges([Edge(1 << 50, 7, 0), Edge(7, 1 << 50, 0)])).tolist() == [7, 1 << 50]
