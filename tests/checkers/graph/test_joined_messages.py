"""Small messages of edges that are joined give the answers that they give alone."""

from random import Random

import numpy as np
import pytest
from support.graph_local import local_cycles
from support.overlapping_history import overlapping_history

from fencepost.checkers.graph import edge_filter, joined_messages
from fencepost.checkers.graph.edges import encode
from fencepost.checkers.graph.joined_messages import columns, joined
from fencepost.checkers.graph.layers import LSO, WR, WW
from fencepost.checkers.model.values import NONE

NUMBERS = {"t-0": 0, "t-1": 1, "t-2": 2}


def message(kind, *rows):
    """Edges (source, target, low, high) of one kind."""
    source, target, low, high = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return encode([source, target, np.full(len(source), kind, dtype=np.int8), low, high])


def rows(placed):
    part = columns(placed)
    return [tuple(int(part[name][at]) for name in ("place", "source", "target", "kind")) for at in range(len(part["kind"]))]


def test_edges_and_lists_are_joined_apart_and_lists_lie_in_the_order_of_partitions():
    edges = [("t-1", message(WW, (1, 2, 5, 6))), ("t-0", message(WR, (3, 4, 7, 7)))]
    lists = [("t-2", message(LSO, (5, NONE, 0, NONE))), ("t-0", message(LSO, (6, NONE, 1, NONE), (NONE, 7, NONE, 9)))]
    plain, passed = joined([edges[0], lists[0], edges[1], lists[1]], NUMBERS)
    assert rows(plain) == [(0, 3, 4, WR), (1, 1, 2, WW)]
    assert rows(passed) == [(0, 6, NONE, LSO), (0, NONE, 7, LSO), (2, 5, NONE, LSO)]


def test_a_large_message_and_one_with_an_offset_beyond_the_key_stay_alone(monkeypatch):
    beyond = ("t-1", message(LSO, (5, NONE, 1 << joined_messages.OFFSET_BITS, NONE)))
    assert [number for number, _ in joined([beyond, ("t-0", message(WW, (1, 2, 3, 4)))], NUMBERS)] == [1, NONE]
    monkeypatch.setattr(joined_messages, "SMALL", 8)
    assert [number for number, _ in joined([("t-2", message(WW, (1, 2, 3, 4)))], NUMBERS)] == [2]


def test_a_joined_message_has_a_bounded_number_of_edges(monkeypatch):
    monkeypatch.setattr(joined_messages, "JOINED", 2)
    made = list(joined([("t-0", message(WW, (at, at + 1, at, at + 1))) for at in range(5)], NUMBERS))
    assert [len(rows(placed)) for placed in made] == [2, 2, 1]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 20))])
@pytest.mark.parametrize("long", [False, True])
def test_the_answers_are_the_same_to_the_edge(tmp_path, monkeypatch, seed, long):
    """A long history: edges are left out."""
    if long:
        monkeypatch.setattr(edge_filter, "LONG", 0)
    rng, cyclic = Random(f"joined {seed}"), 0
    for _ in range(20):
        ops = overlapping_history(rng)
        together, _ = local_cycles(tmp_path, ops, [] if long else None)
        with monkeypatch.context() as alone:
            alone.setattr(joined_messages, "SMALL", -1)
            apart, _ = local_cycles(tmp_path, ops, [] if long else None)
        assert together == apart, ops
        cyclic += any(answer.cycle for answer in together.layers.values())
    assert cyclic > 5, "a seed without cycles proves little"
