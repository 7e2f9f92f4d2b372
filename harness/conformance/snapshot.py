"""What the kit sees of a cluster with its own eyes.

Who lives, who is frozen, who answers, who can talk to whom; clocks and disks; who holds which partition, and topics' settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from harness.api import Cluster, Fillable, HarnessError, Killable, Partitionable, Pausable, Skewable, Upgradable

PROCESS, STATE, ANSWERS, NETWORK = "process", "state", "answers", "network"
CLOCK, DISK, REPLICAS, ORDER, SETTINGS = "clock", "disk", "replicas", "order of replicas", "settings"
KEPT = (CLOCK, DISK, REPLICAS, ORDER, SETTINGS)  # each must be again what it was when all was well
FROZEN = "T"
RIGHT_S = 2.0  # a clock that is read over the network is known to about a second
FULL = 64 << 10  # so few free bytes are none


@dataclass(frozen=True)
class Picture:
    """A cluster at one moment: what was looked at -> subject (a node, `n1>n2`, a topic or partition) -> what was seen.

    A subject that nobody told of is left out.
    """

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
    return Picture(
        {what: look(cluster) for what, (capability, look) in looks.items() if not capability or can(cluster, capability)}
    )


def changes(before: Picture, now: Picture, but: Sequence[str] = ()) -> list[str]:
    """What is different of what was seen both times, in words; `but`: things that are not looked at."""
    return [text for what in before.seen if what not in but for text in _differences(what, before.of(what), now.of(what))]


def grown(normal: Picture, now: Picture) -> Picture:
    """What is normal, with what there was not when it was seen (a group's first offsets are a topic's birth)."""
    return Picture({what: {**now.of(what), **seen} for what, seen in normal.seen.items()})


def hurt(picture: Picture, normal: Picture) -> list[str]:
    """What is not as it was when all was well, in words; a node may have come back under another process id."""
    dead = [f"{node} is dead" for node, pid in picture.of(PROCESS).items() if pid is None]
    frozen = [f"{node} is frozen" for node, state in picture.of(STATE).items() if state == FROZEN]
    silent = [f"{node} does not answer" for node, heard in picture.of(ANSWERS).items() if not heard]
    open_once = [pair for pair, arrived in normal.of(NETWORK).items() if arrived]
    closed = [f"{pair} does not get through" for pair in open_once if not picture.of(NETWORK).get(pair, True)]
    changed = [text for what in KEPT for text in _differences(what, normal.of(what), picture.of(what))]
    untold = [f"nobody tells {what} of {one}" for what in KEPT for one in normal.of(what) if one not in picture.of(what)]
    return [*dead, *frozen, *silent, *closed, *changed, *untold]


def down(picture: Picture, node: str) -> bool:
    """Whether a node is dead or frozen."""
    return picture.of(PROCESS).get(node, 0) is None or picture.of(STATE).get(node) == FROZEN


def nodes_hurt(before: Picture, now: Picture) -> set[str]:
    """Nodes that died, came back as another process, froze, or got a wrong clock or a full disk between two pictures."""
    return {
        node
        for what in (PROCESS, STATE, CLOCK, DISK)
        for node, was in before.of(what).items()
        if now.of(what).get(node, was) != was and was not in (None, FROZEN, "gone")
    }


def _differences(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    both = [subject for subject in before if subject in now]
    return [f"{what} of {one}: {_said(before[one])} -> {_said(now[one])}" for one in both if now[one] != before[one]]


def _said(seen: Any) -> str:
    if isinstance(seen, Mapping):
        return ", ".join(f"{name} = {value}" for name, value in seen.items()) or "none"
    if isinstance(seen, tuple):
        return " ".join(seen)
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


def _clock(cluster: Any, node: str) -> str | None:
    ahead_s = cluster.clock_ahead(node)
    return None if ahead_s is None else "right" if abs(ahead_s) <= RIGHT_S else "ahead" if ahead_s > 0 else "behind"


def _disk(cluster: Any, node: str) -> str:
    return "full" if cluster.disk_free(node) <= FULL else "has room"


def _replicas(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Of the workload's partitions, and of Kafka's own where the cluster is not shared with strangers."""
    shared = getattr(cluster, "only_clients", "")
    try:
        places = cluster.admin().placements(cluster.topics if shared else None)
    except HarnessError:
        return {}
    ours = {name: place.replicas for name, place in places.items() if name in cluster.topics or name.startswith("__")}
    return {name: replicas for name, replicas in ours.items() if all(replicas)}


def _settings(cluster: Cluster) -> dict[str, Any]:
    """What the workload's topics have of their own."""
    return _told(lambda topic: cluster.admin().topic_settings(topic), {name.rpartition("-")[0] for name in cluster.topics})


def _told(look: Callable[[str], Any], subjects: Iterable[str]) -> dict[str, Any]:
    """What is seen of each, all looked at at once; who does not tell is left out."""
    wanted = sorted(subjects)

    def one(subject: str) -> Any:
        try:
            return look(subject)
        except (HarnessError, OSError):
            return None

    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        return {subject: seen for subject, seen in zip(wanted, pool.map(one, wanted), strict=True) if seen is not None}


_LOOKS: dict[str, tuple[type | None, Callable[[Any], Mapping[str, Any]]]] = {
    PROCESS: (Killable, lambda cluster: {node: cluster.pid(node) for node in _nodes(cluster)}),
    STATE: (Pausable, lambda cluster: {node: _state(cluster, node) for node in _nodes(cluster)}),
    ANSWERS: (Killable, _answers),
    NETWORK: (Partitionable, _network),
    CLOCK: (Skewable, lambda cluster: _told(lambda node: _clock(cluster, node), servers(cluster))),
    DISK: (Fillable, lambda cluster: _told(lambda node: _disk(cluster, node), servers(cluster))),
    REPLICAS: (None, lambda cluster: {name: tuple(sorted(held)) for name, held in _replicas(cluster).items()}),
    ORDER: (None, _replicas),
    SETTINGS: (None, _settings),
    "version": (Upgradable, lambda cluster: {node: cluster.version(node) for node in servers(cluster)}),
}
