"""The work of a search on graphs that are hard on it: counted in steps, edges and nodes, never in seconds."""

from random import Random

import networkx as nx
import pytest
from support.tangled_graphs import SHAPES, TIMES, OperationInterval, intervals, layered, ring, searchable, span

from fencepost.checkers.graph import walks
from fencepost.checkers.graph.layers import LAYERS, LSO, REALTIME, RW, WR, WW
from fencepost.checkers.graph.passing import PassingReaders
from fencepost.checkers.graph.reachability import Reachability
from fencepost.checkers.graph.span_rows import Edge
from fencepost.checkers.graph.span_search import search_span
from fencepost.checkers.graph.walks import BestCycle
from fencepost.checkers.model.values import NONE

N = 200
PER_SIZE = 40  # work for each operation and edge, at most, beside what does not grow
BY_NAME = {layer.name: layer for layer in LAYERS}


def searched(name, rows, times="together"):
    best = BestCycle()
    search_span(BY_NAME[name], *span(rows, times), best)
    return best


@pytest.fixture
def small_allowances(monkeypatch):
    """What a search may cost besides what its size allows, so small that growth with the size shows."""
    for name in ("STEPS", "DETOURS", "ENOUGH", "DETOUR_BUDGET"):
        monkeypatch.setattr(walks, name, 100)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_linear_in_the_size_of_what_is_searched(small_allowances, shape, times):
    """A search of the square of the size would need a hundred times as much at the larger size."""
    for n in (N, 10 * N):
        rows, operations = span(SHAPES[shape](n), times)
        for layer in LAYERS if n == N else LAYERS[::2]:
            best = BestCycle()
            search_span(layer, rows, operations, best)
            assert best.work <= PER_SIZE * (len(rows) + len(operations)) + 2_000, (layer.name, best)


@pytest.mark.parametrize("n", [10, 3000])
def test_a_ring_of_any_length_is_shown_as_the_cycle_that_it_is(n):
    for name, kinds in (("G1c-wr", (WR,)), ("G0", (WW,)), ("G1c", (WW, WR)), ("G2", (RW,)), ("G-single", (RW, *[WW] * (n - 1)))):
        best = searched(name, ring(n, kinds))
        assert (len(best.cycle), best.unfinished) == (n, 0)


@pytest.mark.parametrize("n", [10, 3000])
def test_a_ring_that_is_not_closed_has_no_cycle_and_nothing_is_left_unknown(n):
    for layer in LAYERS:
        best = searched(layer.name, ring(n, (WR, WW, RW))[:-1])
        assert (best.cycle, best.unfinished) == ((), 0)


@pytest.mark.parametrize("n", [50, 3000])
def test_where_no_way_back_avoids_a_second_rw_edge_g_single_is_surely_absent_and_g2_surely_there(n):
    rows = layered(n, Random(2))
    assert not (best := searched("G-single", rows)).cycle
    assert best.unfinished == 0
    assert searched("G2", rows).cycle


def test_a_long_ring_of_reads_with_one_step_of_time_is_found_however_little_may_be_spent(small_allowances):
    """No way back avoids the step, and the reads cannot be avoided either."""
    rows = ring(2000)[:-1]
    when = intervals(rows, "together") | {1999: OperationInterval(1, 2, 1999), 0: OperationInterval(5, 9999, 0)}
    for name in ("G1c-wr-realtime", "G1c-realtime"):
        best = BestCycle()
        search_span(BY_NAME[name], *searchable(rows, when), best)
        assert best.cycle, name
        assert REALTIME in {edge.kind for edge in best.cycle}


def test_what_was_given_up_is_counted_and_put_into_words(small_allowances):
    best = searched("G2", SHAPES["rings that share an operation, rw"](2000))
    assert not best.cycle
    assert 0 < best.unfinished <= best.starts
    assert f"up to {best.largest} all lead to each other, {best.unfinished} of {best.starts} edges" in best.given_up


@pytest.mark.parametrize("seed", range(30))
def test_blocks_of_readers_reach_exactly_those_that_read_past_a_record_before_its_transaction_was_over(seed):
    rng = Random(seed)
    highest = {op: rng.randrange(30) for op in range(rng.randrange(1, 80))}
    begins = {op: rng.randrange(30) for op in highest}
    readers = PassingReaders(highest, begins)
    ends = [rng.randrange(30) for _ in range(30)]
    for low, nodes in enumerate(readers.past(range(30), ends)):
        reached = set()
        for node in nodes:
            while node != NONE:
                reader, node = readers.nodes[node]
                assert reader not in reached, "blocks do not overlap"
                reached.add(reader)
        assert reached == {op for op in highest if highest[op] > low and begins[op] <= ends[low]}


def test_a_reader_past_a_transaction_that_was_over_closes_no_cycle_without_time():
    """The edge of time does."""
    rows = [Edge(0, NONE, LSO, 0, 5, NONE), Edge(NONE, 1, LSO, 0, NONE, 9), Edge(1, 0, WR, 1, 1, 1)]
    when = {0: OperationInterval(0, 3, 0), 1: OperationInterval(4, 9, 1)}
    lengths = {}
    for name in ("G1c-wr", "G1c-wr-realtime"):
        best = BestCycle()
        search_span(BY_NAME[name], *searchable(rows, when), best)
        lengths[name] = len(best.cycle)
    assert lengths == {"G1c-wr": 0, "G1c-wr-realtime": 2}
    when[0] = OperationInterval(0, 5, 0)
    best = BestCycle()
    search_span(BY_NAME["G1c-wr"], *searchable(rows, when), best)
    assert [edge.kind for edge in best.cycle] == [LSO, WR]


@pytest.mark.parametrize("seed", range(50))
def test_reachability_of_pairs_is_that_of_networkx(seed):
    rng = Random(seed)
    count = rng.randrange(2, 15)
    onward = [[rng.randrange(count) for _ in range(rng.randrange(3))] for _ in range(count)]
    graph = nx.DiGraph([(source, target) for source, targets in enumerate(onward) for target in targets])
    graph.add_nodes_from(range(count))
    pairs = [(rng.randrange(count), rng.randrange(count)) for _ in range(20)]
    assert Reachability(onward).answers(pairs) == [nx.has_path(graph, *pair) for pair in pairs]
