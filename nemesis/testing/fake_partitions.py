"""The arrangement of a fake cluster: who holds and leads partitions, the settings of topics, and features, all in memory."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from fencepost.harness.api import ClusterError, Placement

REPLICAS = 3
LOGS = ("__transaction_state", "__consumer_offsets")


class FakePartitions:
    """`Admin`'s arrangement of a fake cluster. A moved replica is there, and in sync, at once.

    The leader is the one elected last, while it is awake and a replica; else the first replica that is awake.
    unregistered: brokers that were unregistered and have not started since. levels: of the cluster's features. deleted: how often
    each topic was deleted; gone: those that were not created again.
    """

    def __init__(
        self,
        brokers: Sequence[str],
        topics: Callable[[], Sequence[str]],
        awake: Callable[[str], bool],
        done: Callable[[str, object], None],
    ) -> None:
        self._brokers, self._topics, self._awake, self._done = tuple(brokers), topics, awake, done
        self._replicas: dict[str, tuple[str, ...]] = {}
        self._leaders: dict[str, str] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self.levels = {"transaction.version": 2}
        self.unregistered: set[str] = set()
        self.deleted: Counter[str] = Counter()
        self.gone: set[str] = set()
        self.counts: dict[str, int] = {}  # of partitions, of topics that were created again

    def replicas(self, partition: str) -> tuple[str, ...]:
        """As reassigned last; at first the brokers from the partition's number on, at most three."""
        number = int(partition.rpartition("-")[2])
        turned = [self._brokers[(number + step) % len(self._brokers)] for step in range(len(self._brokers))]
        return self._replicas.get(partition, tuple(turned[:REPLICAS]))

    def leader(self, partition: str) -> str:
        """Empty when no replica is awake."""
        awake = [node for node in self.replicas(partition) if self._awake(node)]
        elected = self._leaders.get(partition, "")
        return elected if elected in awake else next(iter(awake), "")

    def log_partition(self, log: str, key: str) -> str:
        """The partition of a coordinators' log that an id or a group falls on."""
        return f"{log}-{zlib.crc32(key.encode()) % len(self._brokers)}"

    def placements(self, partitions: Iterable[str] | None = None) -> dict[str, Placement]:
        logs = [f"{log}-{number}" for log in LOGS for number in range(len(self._brokers))]
        there = [name for name in self._topics() if self._is_there(name)]
        known = dict.fromkeys([*there, *logs])
        return {name: self._placement(name) for name in (known if partitions is None else partitions) if name in known}

    def in_service(self) -> tuple[str, ...]:
        return tuple(node for node in self._brokers if self._awake(node) and node not in self.unregistered)

    def reassign(self, replicas: Mapping[str, Sequence[str]]) -> None:
        self._done("reassign", {name: tuple(nodes) for name, nodes in replicas.items()})
        for name, nodes in replicas.items():
            self._leaders[name] = self.leader(name)
            self._replicas[name] = tuple(nodes)

    def elect(self, partitions: Iterable[str]) -> None:
        """Raises ClusterError when a preferred replica is not awake."""
        wanted = list(partitions)
        self._done("elect", tuple(wanted))
        for name in wanted:
            preferred = self.replicas(name)[0]
            if not self._awake(preferred):
                raise ClusterError(f"{name}: the preferred leader {preferred} is not available")
            self._leaders[name] = preferred

    def unregister(self, node: str) -> None:
        self._done("unregister", node)
        self.unregistered.add(node)

    def delete_topic(self, name: str) -> None:
        """It is gone at once, with its settings and the order of its replicas."""
        self._done("delete_topic", name)
        self.deleted[name] += 1
        self.gone.add(name)
        self._settings.pop(name, None)
        for partition in [replica for replica in self._replicas if replica.rpartition("-")[0] == name]:
            del self._replicas[partition]

    def topic_ids(self, topic: str) -> dict[str, str]:
        """Of the brokers that are awake, at once the same. Raises ClusterError when none is."""
        there = any(name.rpartition("-")[0] == topic for name in self._topics()) and topic not in self.gone
        if ids := {node: f"{topic}#{self.deleted[topic]}" * there for node in self._brokers if self._awake(node)}:
            return ids
        raise ClusterError("no broker answers")

    def create_placed_topic(self, topic: str, replicas: Sequence[Sequence[str]], settings: Mapping[str, str]) -> None:
        """Only one that was there before. Raises ClusterError for any other, and for one that is there."""
        self._done("create_placed_topic", topic)
        if topic not in self.gone:
            raise ClusterError(f"could not create topic {topic}")
        self.gone.remove(topic)
        self.counts[topic] = len(replicas)
        self._replicas |= {f"{topic}-{number}": tuple(nodes) for number, nodes in enumerate(replicas)}
        self._settings[topic] = dict(settings)

    def add_partitions(self, topic: str, count: int) -> None:
        self._done("add_partitions", (topic, count))
        self.counts[topic] = count

    def topic_settings(self, topic: str) -> dict[str, str]:
        if topic in self.gone:
            raise ClusterError(f"there is no topic {topic}")
        return dict(self._settings.get(topic, {}))

    def set_topic_settings(self, topic: str, settings: Mapping[str, str | None]) -> None:
        self._done("set_topic_settings", (topic, dict(settings)))
        own = {**self._settings.get(topic, {}), **settings}
        self._settings[topic] = {name: value for name, value in own.items() if value is not None}

    def features(self) -> dict[str, dict[str, int]]:
        """Of the brokers that are awake, at once the same."""
        return {node: dict(self.levels) for node in self._brokers if self._awake(node)}

    def set_feature(self, name: str, level: int) -> None:
        """Raises ClusterError when there is no such feature, and when it has that level."""
        self._done("set_feature", (name, level))
        if self.levels.get(name, level) == level:
            raise ClusterError(f"{name} = {level} refused")
        self.levels[name] = level

    def _is_there(self, name: str) -> bool:
        topic, _, number = name.rpartition("-")
        return topic not in self.gone and int(number) < self.counts.get(topic, int(number) + 1)

    def _placement(self, name: str) -> Placement:
        in_sync = tuple(node for node in self.replicas(name) if self._awake(node))
        return Placement(leader=self.leader(name), replicas=self.replicas(name), in_sync=in_sync)
