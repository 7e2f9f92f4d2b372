"""Snapshots of a cluster, taken without the fault's help.

Which nodes live, are frozen, answer and reach each other; clocks and disks; replicas of partitions, settings of topics, features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api import (
    Authorizing,
    Cluster,
    Fillable,
    HarnessError,
    Killable,
    Partitionable,
    Pausable,
    Placement,
    Skewable,
    Upgradable,
    Wipeable,
)

PROCESS, STATE, ANSWERS, NETWORK = "process", "state", "answers", "network"
CLOCK, DISK, REPLICAS, ORDER, SETTINGS, FEATURES = "clock", "disk", "replicas", "order of replicas", "settings", "level"
RIGHTS = "rights"
LEADER, SERVICE, DATA, VERSION, EPOCH = "leader", "service", "data", "version", "producer id and epoch"
TOPIC = "id of topic"
RESTORED = (CLOCK, DISK, REPLICAS, ORDER, SETTINGS, FEATURES, SERVICE, RIGHTS)  # each must be again what it was when all was well
BY_THEMSELVES = (ANSWERS, LEADER, SERVICE, ORDER, VERSION, EPOCH)  # may change without a fault, or hurt nobody
SHOWN_ONLY = (LEADER, DATA, EPOCH, TOPIC)  # nothing must be restored of them
FROZEN = "T"
CLOCK_TOLERANCE_S = 2.0  # a clock that is read over the network is known to about a second
FULL_BYTES = 64 << 10  # so few free bytes are none
EMPTY_BYTES = 64 << 10  # so few stored bytes are none


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment: aspect -> subject (a node, `n1>n2`, a topic, a partition) -> its state.

    A subject whose state is unknown is left out.
    """

    seen: Mapping[str, Mapping[str, Any]]

    def of(self, what: str) -> Mapping[str, Any]:
        """One aspect; empty when the cluster cannot show it."""
        return self.seen.get(what, {})


def can(cluster: Cluster, capability: type) -> bool:
    """Whether the cluster has a capability, and it can be used here."""
    return isinstance(cluster, capability) and cluster.unavailable(capability) is None


def servers(cluster: Cluster) -> tuple[str, ...]:
    """Brokers and controllers, each node once."""
    return tuple(dict.fromkeys((*cluster.brokers, *cluster.controllers)))


def take(cluster: Cluster, *wanted: str) -> Snapshot:
    """Look at everything that the cluster can show, or only at what is wanted (a frozen broker takes its time to be silent)."""
    looks = {what: one for what, one in _LOOKS.items() if not wanted or what in wanted}
    return Snapshot(
        {what: look(cluster) for what, (capability, look) in looks.items() if not capability or can(cluster, capability)}
    )


def changes(before: Snapshot, now: Snapshot, but: Sequence[str] = ()) -> list[str]:
    """Differences between two snapshots, in words. but: aspects to leave out."""
    return [text for what in before.seen if what not in but for text in _differences(what, before.of(what), now.of(what))]


def extended(normal: Snapshot, now: Snapshot) -> Snapshot:
    """The normal state, with subjects that came into being since (the offsets topic, when a group first commits)."""
    return Snapshot({what: {**now.of(what), **seen} for what, seen in normal.seen.items()})


def hurt(now: Snapshot, normal: Snapshot) -> list[str]:
    """What differs from the normal state and hurts, in words. A node may have come back under another process id."""
    dead = [f"{node} is dead" for node, pid in now.of(PROCESS).items() if pid is None]
    frozen = [f"{node} is frozen" for node, state in now.of(STATE).items() if state == FROZEN]
    silent = [f"{node} does not answer" for node, heard in now.of(ANSWERS).items() if not heard]
    open_once = [pair for pair, arrived in normal.of(NETWORK).items() if arrived]
    closed = [f"{pair} does not get through" for pair in open_once if not now.of(NETWORK).get(pair, True)]
    changed = [text for what in RESTORED for text in _differences(what, normal.of(what), now.of(what))]
    unknown = [f"nobody tells {what} of {one}" for what in RESTORED for one in normal.of(what) if one not in now.of(what)]
    return [*dead, *frozen, *silent, *closed, *changed, *unknown]


def down(now: Snapshot, node: str) -> bool:
    """Whether a node is dead or frozen."""
    return now.of(PROCESS).get(node, 0) is None or now.of(STATE).get(node) == FROZEN


def nodes_hurt(before: Snapshot, now: Snapshot) -> set[str]:
    """Nodes that died, came back as another process, froze, or got a wrong clock or a full disk between two snapshots."""
    return {
        node
        for what in (PROCESS, STATE, CLOCK, DISK)
        for node, was in before.of(what).items()
        if now.of(what).get(node, was) != was and was not in (None, FROZEN, "gone")
    }


def _differences(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    both = [subject for subject in before if subject in now]
    return [difference(what, one, before[one], now[one]) for one in both if now[one] != before[one]]


def difference(what: str, subject: str, before: Any, now: Any) -> str:
    """`process of n1: 4001 -> nothing`."""
    return f"{what} of {subject}: {as_text(before)} -> {as_text(now)}"


def as_text(seen: Any) -> str:
    """A state in words."""
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
    return None if ahead_s is None else "right" if abs(ahead_s) <= CLOCK_TOLERANCE_S else "ahead" if ahead_s > 0 else "behind"


def _disk(cluster: Any, node: str) -> str:
    return "full" if cluster.disk_free(node) <= FULL_BYTES else "has room"


def _data(cluster: Any, node: str) -> str:
    return "none" if cluster.stored_bytes(node) <= EMPTY_BYTES else "there"


def _service(cluster: Cluster) -> dict[str, str]:
    """Whether a broker is a part of the cluster, by the word of those that answer; empty when nobody does."""
    try:
        there = cluster.admin().in_service()
    except HarnessError:
        return {}
    return {node: "in" if node in there else "out" for node in cluster.brokers}


def _leaders(cluster: Cluster) -> dict[str, str]:
    return {name: place.leader for name, place in _placements(cluster).items()}


def _placements(cluster: Cluster) -> dict[str, Placement]:
    """Of the workload's partitions, and of Kafka's own where the cluster is not shared with strangers."""
    shared = getattr(cluster, "only_clients", "")
    try:
        places = cluster.admin().placements(cluster.topics if shared else None)
    except HarnessError:
        return {}
    return {name: place for name, place in places.items() if name in cluster.topics or name.startswith("__")}


def _replicas(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    ours = {name: place.replicas for name, place in _placements(cluster).items()}
    return {name: replicas for name, replicas in ours.items() if all(replicas)}


def _settings(cluster: Cluster) -> dict[str, Any]:
    """What the workload's topics have of their own."""
    return _of_each(lambda topic: cluster.admin().topic_settings(topic), _topics(cluster))


def _topics(cluster: Cluster) -> set[str]:
    """The workload's."""
    return {name.rpartition("-")[0] for name in cluster.topics}


def features(levels: Iterable[Mapping[str, int]]) -> dict[str, str]:
    """Feature -> its level; all levels when brokers differ. levels: what each broker has."""
    found: dict[str, set[int]] = {}
    known = list(levels)
    for name in {name for one in known for name in one}:
        found[name] = {one.get(name, 0) for one in known}
    return {name: " ".join(map(str, sorted(different))) for name, different in found.items()}


def _features(cluster: Cluster) -> dict[str, str]:
    try:
        return features(cluster.admin().features().values())
    except HarnessError:
        return {}


def _rights(cluster: Any) -> dict[str, tuple[str, ...]]:
    """What clients may do and may not, of each name and of every one (`*`), by all brokers that answer."""
    topics = _topics(cluster)
    known = {right for rights in cluster.rights().values() for right in rights}
    names = sorted({"*", *topics, *cluster.transactional_ids, *cluster.groups})
    return {name: tuple(str(right) for right in sorted(known) if right.name == name) for name in names}


def _epoch(cluster: Cluster, transactional_id: str) -> tuple[str, str]:
    """-1 for an id of which the coordinator knows nothing."""
    state = cluster.admin().transactions([transactional_id]).get(transactional_id)
    return (str(state.producer_id), str(state.epoch)) if state else ("-1", "-1")


def _topic_id(cluster: Cluster, topic: str) -> str:
    """`gone` when a broker that answers has no such topic; all ids when brokers differ."""
    ids = set(cluster.admin().topic_ids(topic).values())
    return " ".join(sorted(ids)) if all(ids) else "gone"


def _of_each(look: Callable[[str], Any], subjects: Iterable[str]) -> dict[str, Any]:
    """The state of each subject, asked in parallel; subjects that raise or return None are left out."""
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
    CLOCK: (Skewable, lambda cluster: _of_each(lambda node: _clock(cluster, node), servers(cluster))),
    DISK: (Fillable, lambda cluster: _of_each(lambda node: _disk(cluster, node), servers(cluster))),
    REPLICAS: (None, lambda cluster: {name: tuple(sorted(held)) for name, held in _replicas(cluster).items()}),
    ORDER: (None, _replicas),
    SETTINGS: (None, _settings),
    FEATURES: (None, _features),
    LEADER: (None, _leaders),
    SERVICE: (None, _service),
    DATA: (Wipeable, lambda cluster: _of_each(lambda node: _data(cluster, node), cluster.brokers)),
    EPOCH: (None, lambda cluster: _of_each(lambda name: _epoch(cluster, name), cluster.transactional_ids)),
    TOPIC: (None, lambda cluster: _of_each(lambda topic: _topic_id(cluster, topic), _topics(cluster))),
    RIGHTS: (Authorizing, _rights),
    VERSION: (Upgradable, lambda cluster: {node: cluster.version(node) for node in servers(cluster)}),
}
