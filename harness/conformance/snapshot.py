"""Snapshots of a cluster, taken without the fault's help.

A snapshot holds which nodes live, are frozen, answer and reach each other; clocks and disks; replicas of partitions, settings of
topics, features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import Admin, Cluster, HarnessError
from fencepost.harness.api.capabilities import FROZEN as FROZEN
from fencepost.harness.api.declarations import declarations
from fencepost.harness.api.observation import UNKNOWN, Aspect, Subjects, names_of

PROCESS, STATE, ANSWERS, NETWORK = "process", "state", "answers", "network"
CLOCK, DISK, REPLICAS, ORDER, SETTINGS, FEATURES = "clock", "disk", "replicas", "order of replicas", "settings", "level"
LEADER, SERVICE, DATA, EPOCH, TOPIC = "leader", "service", "data", "producer id and epoch", "id of topic"
WATCHED = (PROCESS, STATE, ANSWERS, NETWORK)  # what hurts here has words of its own (`hurt`)


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment. A subject whose state is unknown is left out.

    seen: aspect -> subject (a node, `n1>n2`, a topic, a partition) -> its state.
    aspects: as they are declared.
    """

    seen: Mapping[str, Mapping[str, Any]]
    aspects: Mapping[str, Aspect] = field(default_factory=lambda: declarations().aspects)

    def of(self, what: str) -> Mapping[str, Any]:
        """One aspect; empty when the cluster cannot show it."""
        return self.seen.get(what, {})

    def names(self, wanted: Callable[[Aspect], bool]) -> tuple[str, ...]:
        """The aspects that were looked at, of this kind."""
        return tuple(name for name in self.seen if wanted(self.aspects[name]))

    @property
    def drifting(self) -> tuple[str, ...]:
        """Aspects that may change without a fault, or hurt nobody."""
        return self.names(lambda aspect: aspect.drifts)

    @property
    def restored(self) -> tuple[str, ...]:
        """Aspects that must return to their normal state."""
        return self.names(lambda aspect: aspect.restored)

    @property
    def decisive(self) -> tuple[str, ...]:
        """Aspects that decide whether a cluster is whole."""
        return tuple(dict.fromkeys((*self.restored, *(name for name in WATCHED if name in self.seen))))


def can(cluster: Cluster, capability: type) -> bool:
    """True if the cluster has a capability, and it can be used here."""
    return isinstance(cluster, capability) and cluster.unavailable(capability) is None


def servers(cluster: Cluster) -> tuple[str, ...]:
    """Brokers and controllers, each node once."""
    return tuple(dict.fromkeys((*cluster.brokers, *cluster.controllers)))


def take(cluster: Cluster, *wanted: str, needs: Iterable[type] = ()) -> Snapshot:
    """Look at everything that the cluster can show, or only at what is wanted (a frozen broker takes its time to be silent).

    needs: capabilities that a fault needs; those that a plug-in brings declare aspects of their own.
    """
    aspects = declarations(needs).aspects
    chosen = [aspect for name, aspect in aspects.items() if not wanted or name in wanted]
    visible = [aspect for aspect in chosen if aspect.interface is Admin or can(cluster, aspect.interface)]
    return Snapshot({aspect.name: _look(cluster, aspect) for aspect in visible}, aspects)


def changes(before: Snapshot, now: Snapshot, but: Sequence[str] = ()) -> list[str]:
    """Differences between two snapshots, in words, without the aspects in `but`."""
    return [text for what in before.seen if what not in but for text in _differences(what, before.of(what), now.of(what))]


def extended(normal: Snapshot, now: Snapshot) -> Snapshot:
    """The normal state, with subjects that came into being since (the offsets topic, when a group first commits)."""
    return Snapshot({what: {**now.of(what), **seen} for what, seen in normal.seen.items()}, normal.aspects)


def hurt(now: Snapshot, normal: Snapshot) -> list[str]:
    """Damage: what differs from the normal state and hurts, in words. A node may have come back under another process id."""
    dead = [f"{node} is dead" for node, pid in now.of(PROCESS).items() if pid is None]
    frozen = [f"{node} is frozen" for node, state in now.of(STATE).items() if state == FROZEN]
    silent = [f"{node} does not answer" for node, heard in now.of(ANSWERS).items() if not heard]
    open_once = [pair for pair, arrived in normal.of(NETWORK).items() if arrived]
    closed = [f"{pair} does not get through" for pair in open_once if not now.of(NETWORK).get(pair, True)]
    changed = [text for what in normal.restored for text in _differences(what, normal.of(what), now.of(what))]
    unknown = [
        f"nobody tells {what} of {subject}"
        for what in normal.decisive
        for subject in normal.of(what)
        if subject not in now.of(what)
    ]
    return [*dead, *frozen, *silent, *closed, *changed, *unknown]


def down(now: Snapshot, node: str) -> bool:
    """True if a node is dead or frozen."""
    return now.of(PROCESS).get(node, 0) is None or now.of(STATE).get(node) == FROZEN


def nodes_hurt(before: Snapshot, now: Snapshot) -> set[str]:
    """Nodes that were hurt between two snapshots: they died, came back as another process, froze, got a wrong clock."""
    return {
        node
        for what in before.names(lambda aspect: aspect.hurts_node)
        for node, was in before.of(what).items()
        if now.of(what).get(node, was) != was and was not in (None, FROZEN, "gone")
    }


def _differences(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    both = [subject for subject in before if subject in now]
    return [difference(what, subject, before[subject], now[subject]) for subject in both if now[subject] != before[subject]]


def difference(what: str, subject: str, before: Any, now: Any) -> str:
    """A difference in words: `process of n1: 4001 -> nothing`."""
    return f"{what} of {subject}: {as_text(before)} -> {as_text(now)}"


def as_text(seen: Any) -> str:
    """A state in words."""
    if isinstance(seen, Mapping):
        return ", ".join(f"{name} = {value}" for name, value in seen.items()) or "none"
    if isinstance(seen, tuple):
        return " ".join(seen)
    return "nothing" if seen is None else str(seen).lower() if isinstance(seen, bool) else str(seen)


def _look(cluster: Any, aspect: Aspect) -> Mapping[str, Any]:
    """The state of each subject; empty when nobody answers."""
    try:
        if aspect.look is not None:
            return aspect.look(cluster)
        call = getattr(cluster.admin() if aspect.interface is Admin else cluster, aspect.call)
        if aspect.subjects is Subjects.ALL:
            states: Mapping[str, Any] = aspect.state(call())
            return states
        subjects = aspect.subjects.of(cluster)
        if aspect.subjects is Subjects.LINKS:
            answers = call(subjects)
            return _known(dict(zip(names_of(answers), map(aspect.state, answers.values()), strict=True)))
    except HarnessError:
        return {}
    return _of_each(call, aspect, subjects)


def _of_each(call: Callable[[Any], Any], aspect: Aspect, subjects: Sequence[str]) -> dict[str, Any]:
    """The state of each subject, asked in parallel; subjects are left out that raise, or of which nobody knows."""

    def state_of(subject: str) -> Any:
        try:
            answer = call([subject]).get(subject) if aspect.takes_several else call(subject)
            return aspect.state(answer)
        except (HarnessError, OSError):
            return UNKNOWN

    with ThreadPoolExecutor(max(1, len(subjects))) as pool:
        return _known(dict(zip(subjects, pool.map(state_of, subjects), strict=True)))


def _known(states: Mapping[str, Any]) -> dict[str, Any]:
    return {subject: state for subject, state in states.items() if state is not UNKNOWN}
