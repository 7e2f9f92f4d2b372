"""The search by spans and the slow, obvious one over the whole graph agree on every class, to the length of the cycle."""

from random import Random

import pytest
from support.graph_local import local_cycles
from support.graph_reference import CLASSES, shortest_cycles
from support.overlapping_history import overlapping_history

from fencepost.checkers.graph import span_search, walks

EXACT = {"G-single", "G1c", *(base + suffix for base in ("G1c-wr", "G0") for suffix in ("", "-process", "-realtime"))}


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 40))])
def test_the_search_by_spans_finds_the_same_cycles_as_an_enumeration_of_the_whole_graph(tmp_path, seed):
    rng = Random(seed)
    met = set()
    for _ in range(20):
        ops = overlapping_history(rng)
        cycles, _ = local_cycles(tmp_path, ops)
        got = {name: len(answer.cycle) for name, answer in cycles.layers.items() if answer.cycle}
        expected = shortest_cycles(ops)
        assert got == expected, ops
        assert not any(answer.unknown for answer in cycles.layers.values())
        met |= set(expected)
    assert len(met) > len(CLASSES) // 2, "a seed without cycles proves little"


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 40))])
def test_with_next_to_no_steps_every_answer_is_right_or_unknown_and_that_of_exact_classes_right(tmp_path, monkeypatch, seed):
    """Edges that lie on a cycle for certain decide it: no search is made before, and none is gone on with."""
    monkeypatch.setattr(span_search, "FEW", 0)
    for name in ("STEPS", "DETOURS", "DETOUR_BUDGET"):
        monkeypatch.setattr(walks, name, 0)
    rng = Random(f"few steps {seed}")
    for _ in range(20):
        ops = overlapping_history(rng)
        cycles, _ = local_cycles(tmp_path, ops)
        expected = shortest_cycles(ops)
        for name, answer in cycles.layers.items():
            if not answer.unknown:
                assert bool(answer.cycle) == (name in expected), (name, ops)
            assert not (answer.unknown and name in EXACT), (name, ops)
