"""Strongly connected components against networkx'."""

from random import Random

import networkx as nx

from checkers.graph.components import components


def groups(steps):
    return sorted(sorted(group) for group in components(steps))


def test_what_leads_to_each_other_is_together_and_the_rest_alone():
    assert groups([(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (6, 6)]) == [[1, 2, 3], [4], [5], [6]]


def test_two_rings_that_share_an_operation_are_one():
    assert groups([(1, 2), (2, 1), (2, 3), (3, 2)]) == [[1, 2, 3]]


def test_a_way_longer_than_pythons_stack_is_walked_to_its_end():
    ring = [(at, (at + 1) % 20_000) for at in range(20_000)]
    assert [len(group) for group in components(ring)] == [20_000]


def test_components_of_random_graphs_are_those_of_networkx():
    for seed in range(400):
        rng = Random(seed)
        nodes = rng.randrange(1, 30)
        steps = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randrange(1, 3 * nodes))]
        assert groups(steps) == sorted(sorted(group) for group in nx.strongly_connected_components(nx.DiGraph(steps)))
