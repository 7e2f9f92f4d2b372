"""Strongly connected components (Gabow 2000), without recursion: a long run's ways are longer than Python's stack is deep."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(steps: Iterable[tuple[Node, Node]]) -> Iterator[list[Node]]:
    """The nodes of a directed graph, those that lead to each other together."""
    following: dict[Node, list[Node]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    numbers: dict[Node, int] = {}  # in the order of meeting
    done: set[Node] = set()
    open_: list[Node] = []  # met, and in no component yet
    heads: list[Node] = []  # of those the first of each component, as far as is known
    path: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
        numbers[node] = len(numbers)
        open_.append(node)
        heads.append(node)
        path.append((node, iter(following.get(node, ()))))

    for root in following:
        if root not in numbers:
            enter(root)
        while path:
            node, rest = path[-1]
            for target in rest:
                if target not in numbers:
                    enter(target)
                    break
                if target not in done:
                    while numbers[heads[-1]] > numbers[target]:
                        heads.pop()
            else:
                path.pop()
                if heads[-1] == node:
                    group = [heads.pop()]
                    while (other := open_.pop()) != node:
                        group.append(other)
                    done.update(group)
                    yield group
