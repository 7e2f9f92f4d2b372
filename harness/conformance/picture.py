"""What the kit sees of a cluster with its own eyes: who lives, who is frozen, who answers, who can talk to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from harness.api import Cluster, Killable, Partitionable, Pausable, Upgradable

PROCESS, STATE, ANSWERS, NETWORK = "process", "state", "answers", "network"
FROZEN = "T"


@dataclass(frozen=True)
class Picture:
    """A cluster at one moment: what was looked at -> subject (a node, or `n1>n2`) -> what was seen."""

    seen: Mapping[str, Mapping[str, Any]]

    def of(self, what: str) -> Mapping[str, Any]:
        """What was seen of one thing; empty when the cluster cannot show it."""
        return self.seen.get(what, {})


def can(cluster: Cluster, capability: type) -> bool:
    """Whether the cluster has a capability, and it can be used here."""
    return isinstance(cluster, capability) and cluster.unavailable(capability) is None


def servers(cluster: Cluster) -> tuple[str, ...]:
    """Brokers and controllers, each node once."""
    return tuple(dict.fromkeys((*cluster.brokers, *cluster.controllers)))


def take(cluster: Cluster, *wanted: str) -> Picture:
    """Look at everything that the cluster can show, or only at what is wanted (a frozen broker takes its time to be silent)."""
    looks = {what: one for what, one in _LOOKS.items() if not wanted or what in wanted}
    return Picture({what: look(cluster) for what, (capability, look) in looks.items() if can(cluster, capability)})


def changes(before: Picture, now: Picture, but: Sequence[str] = ()) -> list[str]:
    """What is different, in words; `but`: things that are not looked at."""
    return [
        f"{what} of {subject}: {_said(was)} -> {_said(now.of(what).get(subject))}"
        for what, subjects in before.seen.items()
        for subject, was in subjects.items()
        if what not in but and now.of(what).get(subject) != was
    ]


def hurt(picture: Picture, normal: Picture) -> list[str]:
    """What is not as it was when all was well, in words; a node may have come back under another process id."""
    dead = [f"{node} is dead" for node, pid in picture.of(PROCESS).items() if pid is None]
    frozen = [f"{node} is frozen" for node, state in picture.of(STATE).items() if state == FROZEN]
    silent = [f"{node} does not answer" for node, heard in picture.of(ANSWERS).items() if not heard]
    open_once = [pair for pair, arrived in normal.of(NETWORK).items() if arrived]
    closed = [f"{pair} does not get through" for pair in open_once if not picture.of(NETWORK).get(pair, True)]
    return [*dead, *frozen, *silent, *closed]


def down(picture: Picture, node: str) -> bool:
    """Whether a node is dead or frozen."""
    return picture.of(PROCESS).get(node, 0) is None or picture.of(STATE).get(node) == FROZEN


def nodes_hurt(before: Picture, now: Picture) -> set[str]:
    """Nodes that died, came back as another process, or froze between two pictures."""
    return {
        node
        for what in (PROCESS, STATE)
        for node, was in before.of(what).items()
        if now.of(what).get(node) != was and was not in (None, FROZEN, "gone")
    }


def _said(seen: Any) -> str:
    return "nothing" if seen is None else str(seen).lower() if isinstance(seen, bool) else str(seen)


def _nodes(cluster: Cluster) -> tuple[str, ...]:
    return (*servers(cluster), *cluster.clients)


def _state(cluster: Any, node: str) -> str:
    """`T` frozen, `gone`, or `awake`: a process that runs and one that waits are the same to us."""
    letter = cluster.process_state(node)
    return FROZEN if letter == FROZEN else "awake" if letter else "gone"


def _answers(cluster: Any) -> dict[str, bool]:
    nodes = servers(cluster)
    with ThreadPoolExecutor(len(nodes)) as pool:
        return dict(zip(nodes, pool.map(cluster.answers, nodes), strict=True))


def _network(cluster: Any) -> dict[str, bool]:
    nodes = _nodes(cluster)
    pairs = [(source, destination) for source in nodes for destination in nodes if source != destination]
    return {f"{source}>{destination}": arrived for (source, destination), arrived in cluster.probe(pairs).items()}


_LOOKS: dict[str, tuple[type, Callable[[Any], Mapping[str, Any]]]] = {
    PROCESS: (Killable, lambda cluster: {node: cluster.pid(node) for node in _nodes(cluster)}),
    STATE: (Pausable, lambda cluster: {node: _state(cluster, node) for node in _nodes(cluster)}),
    ANSWERS: (Killable, _answers),
    NETWORK: (Partitionable, _network),
    "version": (Upgradable, lambda cluster: {node: cluster.version(node) for node in servers(cluster)}),
}
