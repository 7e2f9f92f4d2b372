"""Strongly connected components (Tarjan 1972, "Depth-first search and linear graph algorithms")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def strongly_connected(onward: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The components of a graph: nodes are numbered, and each has the list of nodes to which it leads.

    A node's number in the order of visits is taken, and lowered to the lowest that it reaches. A node that reaches none before
    itself closes a component: all that was visited since and is in no component yet. `path` stands in for recursion.
    """
    lowest, visits, done = [0] * len(onward), 0, len(onward) + 1  # 0: not visited yet; done: in a component
    for start in range(len(onward)):
        if lowest[start]:
            continue
        visits += 1
        lowest[start] = visits
        path, pending = [(start, visits, iter(onward[start]))], [start]
        while path:
            node, number, rest = path[-1]
            for other in rest:
                if not lowest[other]:
                    visits += 1
                    lowest[other] = visits
                    pending.append(other)
                    path.append((other, visits, iter(onward[other])))
                    break
                if lowest[other] < lowest[node]:
                    lowest[node] = lowest[other]
            else:
                path.pop()
                if lowest[node] == number:
                    component = [pending.pop()]
                    while component[-1] != node:
                        component.append(pending.pop())
                    for member in component:
                        lowest[member] = done
                    yield component
                elif lowest[node] < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = lowest[node]
