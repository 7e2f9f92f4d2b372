"""Strongly connected components, beside networkx."""

from __future__ import annotations

from random import Random

import networkx as nx

from fencepost.checkers.graph.components import strongly_connected


def random_graph(rng: Random) -> list[list[int]]:
    """Up to thirteen nodes, with up to thirty edges; the same edge twice, and from a node to itself, among them."""
    nodes = rng.randrange(14)
    onward: list[list[int]] = [[] for _ in range(nodes)]
    for _ in range(rng.randrange(30) if nodes else 0):
        onward[rng.randrange(nodes)].append(rng.randrange(nodes))
    return onward


def test_random_graphs_have_the_components_that_networkx_finds():
    for seed in range(500):
        onward = random_graph(Random(seed))
        graph = nx.DiGraph((source, target) for source, targets in enumerate(onward) for target in targets)
        graph.add_nodes_from(range(len(onward)))
        expected = sorted(map(sorted, nx.strongly_connected_components(graph)))
        assert sorted(map(sorted, strongly_connected(onward))) == expected, f"seed {seed}"


def test_a_long_chain_needs_no_recursion():
    onward = [[node + 1] for node in range(5_000)] + [[0]]
    assert [len(component) for component in strongly_connected(onward)] == [5_001]
