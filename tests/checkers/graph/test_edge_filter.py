"""Edges that the partitions of a long history leave out: nothing forbidden is lost by it, and what becomes unknown says so."""

from random import Random

import pytest
from support.graph_local import local_cycles
from support.graph_reference import shortest_cycles
from support.overlapping_history import overlapping_history

from fencepost.checkers.graph import edge_filter

FORBIDDEN = [f"G1c-wr{suffix}" for suffix in ("", "-process", "-realtime")]
SURE = [*FORBIDDEN, "G0", "G0-process", "G0-realtime", "G1c", "G1c-process"]


def with_idle_readers(rng):
    """As `overlapping_history`, but half of the processes only read, and records are returned before their operations end."""
    ops = overlapping_history(rng)
    for op in ops:
        last = op["time"] if op["end"] is None else op["end"]
        op["mops"] = [mop if mop[0] == 0 else (*mop[:5], min(mop[5], last)) for mop in op["mops"]]
        if op["process"] % 2:
            op |= {"f": "poll", "mops": [mop for mop in op["mops"] if mop[0] == 1]}
    return ops


@pytest.fixture(autouse=True)
def everything_is_long(monkeypatch):
    monkeypatch.setattr(edge_filter, "LONG", 0)
    monkeypatch.setattr(edge_filter, "STRETCH", 1)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 20))])
def test_edges_that_are_left_out_close_no_forbidden_cycle(tmp_path, seed):
    """A `G1c-realtime` may lose its read; it is a `G0-realtime` then."""
    rng = Random(seed)
    met = set()
    for _ in range(25):
        ops = with_idle_readers(rng)
        cycles, _ = local_cycles(tmp_path, ops, FORBIDDEN)
        got = {name: len(answer.cycle) for name, answer in cycles.layers.items() if answer.cycle}
        expected = shortest_cycles(ops)
        assert {name: got.get(name) for name in SURE} == {name: expected.get(name) for name in SURE}, ops
        if "G1c-realtime" in expected:
            assert {"G1c-realtime", "G0-realtime"} & set(got), ops
        met |= set(expected) & set(SURE)
    assert {"G0-realtime", "G1c-wr-realtime"} <= met, "a seed without cycles proves little"


def test_rw_cycles_outside_the_stretches_are_unknown_and_named_ones_are_searched(tmp_path):
    """The reason names the key of the contract that has everything searched."""
    rng = Random(1)
    ops = next(ops for ops in iter(lambda: with_idle_readers(rng), None) if "G-single" in shortest_cycles(ops))
    left, _ = local_cycles(tmp_path, ops, FORBIDDEN)
    whole, _ = local_cycles(tmp_path, ops, [*FORBIDDEN, "G-single"])
    assert not left.layers["G-single"].cycle
    assert whole.layers["G-single"].cycle
    assert not left.layers["G-single"].compared or "`cycles`" in left.layers["G-single"].unknown
