"""Reachability of many pairs of nodes at once: strongly connected components, and then sets of targets as bits of one number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.checkers.graph.components import strongly_connected


class Reachability:
    """A graph whose nodes are numbered (each with the list of nodes to which it leads), as the components that it has.

    component: of each node; a component leads only to those of lower numbers.
    onward: the components to which each component leads.
    """

    def __init__(self, onward: Sequence[Sequence[int]]) -> None:
        self.component = [0] * len(onward)
        self.onward: list[set[int]] = []
        for number, nodes in enumerate(strongly_connected(onward)):
            for node in nodes:
                self.component[node] = number
            self.onward.append({self.component[other] for node in nodes for other in onward[node]} - {number})

    @property
    def size(self) -> int:
        """Work of one call of `answers`."""
        return len(self.onward) + sum(map(len, self.onward))

    def answers(self, pairs: Iterable[tuple[int, int]]) -> list[bool]:
        """True for each pair of nodes of which the first leads to the second, over any number of edges."""
        ends = [(self.component[source], self.component[target]) for source, target in pairs]
        bits = {target: 1 << place for place, target in enumerate(dict.fromkeys(target for _, target in ends))}
        reached: list[int] = []
        for number, others in enumerate(self.onward):
            reached.append(bits.get(number, 0))
            for other in others:
                reached[number] |= reached[other]
        return [bool(reached[source] & bits[target]) for source, target in ends]
