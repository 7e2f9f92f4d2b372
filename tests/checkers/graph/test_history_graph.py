"""The graph as columns: its edges are those of the definitions, and what edges of time leave out follows from the others."""

from __future__ import annotations

from random import Random

import networkx as nx
import numpy as np
import pytest
from support import graph_reference
from support.histories import History, write_history
from support.judging import no_session
from support.overlapping_history import overlapping_history
from support.random_pipelines import pipeline_history

from fencepost.checkers.graph import history_graph
from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.checkers.service import SparkJudge
from fencepost.checkers.verdict import opening
from fencepost.checkers.views import run_view
from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import write_json
from fencepost.harness.history.run_directory import open_run

MOST = 1_000
TIME = {"process", "realtime"}


def graph_of(folder, ops, start=None, radius=1, most=MOST, **contract):
    """The operations, and the edges as rows, of some operations."""
    write_json(folder, "plan.json", {"run": "r", "contract": {**CONTRACT, **contract}})
    write_history(folder, ops)
    graph = SparkJudge().graph(open_run(folder), no_session, start, radius, most)
    return graph.operations.tolist(), graph.edges.to_pylist()


def kinds(edges):
    """(source, target) -> kinds, in the words of the reference."""
    known = {}
    for edge in edges:
        dirty = edge["kind"] == "wr" and not edge["judged"]
        known.setdefault((edge["source"], edge["target"]), set()).add("dirty" if dirty else edge["kind"])
    return known


def closed(pairs, size):
    """All pairs that follow from some."""
    graph = nx.DiGraph(list(pairs))
    graph.add_nodes_from(range(size))
    return set(nx.transitive_closure(graph, reflexive=False).edges)


@pytest.mark.parametrize("seed", range(40))
def test_the_edges_are_those_of_the_definitions(tmp_path, seed):
    ops = overlapping_history(Random(f"graph {seed}"))
    operations, edges = graph_of(tmp_path, ops)
    assert operations == list(range(len(ops)))
    wanted, got = graph_reference.edges(ops), kinds(edges)
    data = [{pair: found - TIME - {"lso"} for pair, found in some.items() if found - TIME - {"lso"}} for some in (wanted, got)]
    assert data[0] == data[1]
    wanted_lso, got_lso = ({pair for pair, found in some.items() if "lso" in found} for some in (wanted, got))
    assert got_lso <= wanted_lso
    for writer, reader in wanted_lso - got_lso:
        between = {other for source, other in got_lso if source == writer}
        assert any("realtime" in wanted.get((other, reader), ()) for other in between), (writer, reader)
    for allowed in ({"process"}, TIME):
        listed = [{pair for pair, found in some.items() if found & allowed} for some in (wanted, got)]
        assert listed[1] <= listed[0]
        assert closed(listed[1], len(ops)) == closed(listed[0], len(ops))


def test_edges_of_time_are_as_many_as_operations_and_not_their_square():
    """Five processes, one operation after the other in each."""
    begin = np.arange(1_000)
    source, target = history_graph._reduced(begin, begin + 4, strict=True)
    assert len(source) < 6 * len(begin)
    assert (begin[target] > begin[source] + 4).all()


@pytest.mark.parametrize("strict", [True, False])
def test_what_an_edge_of_time_leaves_out_follows_from_the_others(strict):
    """Instants, and operations that nothing follows, too."""
    rng = Random(7)
    for _ in range(300):
        begin = np.sort(np.array([rng.randrange(12) for _ in range(rng.randrange(1, 12))]))
        over = np.array([time + rng.randrange(5) if rng.random() < 0.7 else history_graph.FOREVER for time in begin.tolist()])
        later = {
            (a, b)
            for a, end in enumerate(over.tolist())
            for b, start in enumerate(begin.tolist())
            if (end < start if strict else end <= start and a < b)
        }
        pairs = set(zip(*(ends.tolist() for ends in history_graph._reduced(begin, over, strict)), strict=True))
        assert pairs <= later
        assert closed(pairs, len(begin)) == closed(later, len(begin))


def test_edges_of_one_kind_and_partition_between_two_operations_are_one(tmp_path):
    ops = overlapping_history(Random("graph 3"))
    _, edges = graph_of(tmp_path, ops)
    keys = [(edge["source"], edge["target"], edge["kind"], edge["partition"]) for edge in edges]
    assert len(keys) == len(set(keys))
    assert all(edge["records"] >= 1 and edge["low"] <= edge["high"] for edge in edges if edge["kind"] not in TIME)


def test_edges_through_a_groups_offset_name_the_partition_and_say_so(tmp_path):
    _, edges = graph_of(tmp_path, pipeline_history(Random(3)), consumption="recorded")
    through = [edge for edge in edges if edge["group_offset"]]
    assert {edge["kind"] for edge in through} >= {"wr"}
    assert not any(edge["partition"].startswith("offset of") for edge in through)


@pytest.mark.parametrize("seed", range(6))
def test_the_neighbourhood_is_what_lies_so_many_edges_away_with_all_edges_between(tmp_path, seed):
    ops = overlapping_history(Random(f"near {seed}"))
    _, whole = graph_of(tmp_path, ops)
    steps = nx.Graph([(edge["source"], edge["target"]) for edge in whole if edge["kind"] != "realtime"])
    steps.add_nodes_from(range(len(ops)))
    for radius in range(3):
        operations, edges = graph_of(tmp_path, ops, start=[0], radius=radius)
        assert set(operations) == set(nx.ego_graph(steps, 0, radius))
        some = [edge for edge in whole if edge["kind"] not in TIME and {edge["source"], edge["target"]} <= set(operations)]
        assert [edge for edge in some if edge not in edges] == []
        assert {edge["kind"] for edge in edges if edge not in whole} <= {"lso", *TIME}


def test_in_a_neighbourhood_time_passes_over_what_is_left_out(tmp_path):
    """The first and the third operation of a process, and a neighbourhood without the second."""
    ops = [
        {"process": 0, "slot": 0, "op": n, "f": "txn", "type": "ok", "role": "writer", "intent": "commit", "final": False}
        | {"time": 10 * n, "end": 10 * n + 5, "mops": [], "errors": [], "strange": [], "isolation": "read_committed"}
        for n in range(3)
    ]
    _, edges = graph_of(tmp_path, ops, start=[0, 2], radius=0)
    assert [(edge["source"], edge["target"], edge["kind"]) for edge in edges] == [(0, 2, "process")]


def test_a_transaction_that_was_never_over_has_edges_to_the_first_that_passed_it_and_not_to_all_that_came_later(tmp_path):
    history = History()
    history.txn(0, {"t-0": 0}, "info", time=10, end=None)
    history.txn(1, {"t-0": 2}, time=20)
    for number in range(5):
        history.poll(2, {"t-0": [(2, history.v("t-0", 2))] if number else [(0, history.v("t-0", 0)), (2, history.v("t-0", 2))]})
    _, edges = graph_of(tmp_path, history.ops)
    assert [(edge["source"], edge["target"]) for edge in edges if edge["kind"] == "lso" and edge["source"] == 0] == [(0, 2)]


def test_too_large_a_neighbourhood_and_unknown_operations_are_sentences(tmp_path):
    ops = overlapping_history(Random("near 1"))
    with pytest.raises(CampaignError, match="operation 99 is none of the history"):
        graph_of(tmp_path, ops, start=[99])
    with pytest.raises(CampaignError, match="operations lie within 3 edges, more than 1: ask for a smaller radius"):
        graph_of(tmp_path, ops, start=[0], radius=3, most=1)


def test_the_graph_is_the_same_where_the_edges_stay_on_sparks_executors(tmp_path, spark, monkeypatch):
    ops = overlapping_history(Random("graph 5"))
    here = [graph_of(tmp_path, ops, start=start) for start in (None, [0])]
    monkeypatch.setattr(opening, "fits_here", lambda _: False)
    monkeypatch.setattr(run_view, "SHORT_HISTORY", 0)
    run = open_run(tmp_path)
    there = [SparkJudge().graph(run, lambda: spark, start, 1, MOST) for start in (None, [0])]
    assert [(graph.operations.tolist(), graph.edges.to_pylist()) for graph in there] == here
