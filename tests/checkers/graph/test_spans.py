"""Points, ranks and spans by themselves, and what happens when a span is too large."""

from random import Random

import numpy as np
from support.graph_local import local_cycles
from support.histories import History

from fencepost.checkers.graph import search_tasks
from fencepost.checkers.graph.spans import FOREVER, SpanSet, ends, merge, points, rank


def spans(*ranges):
    return SpanSet(np.array([low for low, _ in ranges], dtype=np.int64), np.array([high for _, high in ranges], dtype=np.int64))


def pairs(some):
    return list(zip(some.low.tolist(), some.high.tolist(), strict=True))


def test_ranges_that_share_an_operation_become_one_span():
    """A cycle may pass from one to the other there."""
    some = spans((7, 9), (0, 3), (3, 5), (12, 14), (13, 13))
    assert pairs(merge(some.low, some.high)) == [(0, 5), (7, 9), (12, 14)]


def test_a_rank_is_in_the_span_that_includes_it():
    """Ends are included, gaps are not."""
    assert spans((2, 4), (8, 9)).of(np.array([1, 2, 4, 5, 8, 10])).tolist() == [-1, 0, 0, -1, 1, -1]


def test_pairs_of_ranks_lie_in_one_span_or_apart():
    """Both in the first, in two spans, one or both in a gap, both in the second."""
    which, span = spans((2, 4), (8, 9)).around(np.array([2, 4, 3, 5, 6, 9]), np.array([4, 8, 5, 9, 7, 8]))
    assert (which.tolist(), span.tolist()) == ([0, 5], [0, 1])


def test_every_point_lies_in_its_interval_and_time_goes_forward(tmp_path):
    """The proof of docs/graphs.md rests on this."""
    rng = Random(1)
    h = History()
    for number in range(60):
        h.txn(number % 5, {"t-0": number}, rng.choice(["ok", "ok", "info", "fail"]))
    for op in h.ops:
        op["time"] -= rng.randrange(5) * 1_000_000
        op["end"] += rng.randrange(5) * 1_000_000
    _, view = local_cycles(tmp_path, sorted(h.ops, key=lambda op: op["time"]))
    firsts = np.array([rng.choice([FOREVER, int(t) + rng.randrange(9_000_000)]) for t in view.time])
    placed = points(view, firsts)
    over = ends(view)
    ranks = rank(placed, view.time)
    assert (placed >= view.time).all()
    assert (placed <= over).all()
    assert all(ranks[a] < ranks[b] for a in range(60) for b in range(60) if over[a] < view.time[b])


def wide():
    """A transaction that hangs while 40 others come and go, each above the one before, and ends below none of them."""
    h = History()
    h.txn(0, {"t-0": 99, "t-1": 1})
    for number in range(40):
        h.txn(1, {"t-0": number, "t-1": number + 2})
    h.ops[0]["end"] = h.now
    return h.ops


def test_a_span_too_large_is_searched_in_pieces_and_unknown_if_they_show_no_cycle(tmp_path, monkeypatch):
    """A cycle in a piece is reported; without any the answer is unknown, with the size."""
    monkeypatch.setattr(search_tasks, "LARGEST", dict.fromkeys(search_tasks.LARGEST, 5))
    monkeypatch.setattr(search_tasks, "PIECE", 4)
    cycles, _ = local_cycles(tmp_path, wide())
    assert not cycles.layers["G0"].cycle
    assert "too large" in cycles.layers["G0"].unknown
    assert not cycles.layers["G1c"].unknown, "nothing was read: there is nothing that a larger search could find"
    assert not cycles.layers["G1c-wr"].unknown, "its own spans are small: another layer's size is not its affair"


def test_the_same_span_searched_whole_shows_its_cycle(tmp_path):
    """It lies below the first of the others and above the last; only neighbours have edges, so the way back takes them all."""
    cycles, _ = local_cycles(tmp_path, wide())
    assert len(cycles.layers["G0"].cycle) == 41
    assert len(cycles.layers["G0-realtime"].cycle) == 3
    assert not cycles.layers["G1c"].unknown
