"""`Admin` of a cluster: topics are made by librdkafka's admin client; the state is read by requests of our own.

librdkafka caches leaders and would go on asking a dead one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout  # a class of its own before Python 3.11
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError, NewPartitions, NewTopic

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.group_offsets import committed_offsets
from fencepost.clusters.kafka.placement_admin import PlacementAdmin
from fencepost.clusters.kafka.protocol import Partition, Place
from fencepost.clusters.kafka.roles import WireRoles, ask_all
from fencepost.clusters.kafka.transaction_admin import TransactionAdmin
from fencepost.harness.api import ClusterError, Isolation, TopicSpec
from fencepost.harness.api.wire import OPERATORS_CLIENT
from fencepost.harness.api.words import plural

_REQUEST_S = 5.0
_DEADLINE_S = 60.0


class KafkaAdmin(PlacementAdmin, TransactionAdmin):
    """`Admin` of a cluster. Offsets are read once; changes are retried until a deadline of 60 s."""

    def __init__(self, bootstrap: str, roles: WireRoles) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "client.id": OPERATORS_CLIENT,
            "log_level": 0,
            "socket.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 500,
        }
        self._client = AdminClient(self._settings)
        super().__init__(roles)

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        new = [NewTopic(name, s.partitions, s.replication, config=dict(s.settings)) for name, s in topics.items()]
        for topic in new:
            self._change(f"create topic {topic.topic}", partial(self._client.create_topics, [topic], request_timeout=_REQUEST_S))
        self.await_leaders({name: spec.partitions for name, spec in topics.items()})
        self._await_service([f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions)])

    def delete_topic(self, name: str) -> None:
        self._change(f"delete topic {name}", partial(self._client.delete_topics, [name], request_timeout=_REQUEST_S))

    def create_placed_topic(self, topic: str, replicas: Sequence[Sequence[str]], settings: Mapping[str, str]) -> None:
        ids = {node: number for number, node in self._roles.names.items()}
        nodes = [[ids[node] for node in some] for some in replicas]
        new = NewTopic(topic, len(nodes), replica_assignment=nodes, config=dict(settings))
        try:
            self._client.create_topics([new], request_timeout=_REQUEST_S)[topic].result(timeout=2 * _REQUEST_S)
        except (KafkaException, FutureTimeout) as error:
            raise ClusterError(f"could not create topic {topic}: {error}") from error

    def add_partitions(self, topic: str, count: int) -> None:
        try:
            self._client.create_partitions([NewPartitions(topic, count)], request_timeout=_REQUEST_S)[topic].result(
                2 * _REQUEST_S
            )
        except (KafkaException, FutureTimeout) as error:
            raise ClusterError(f"could not give {topic} {count} partitions: {error}") from error

    def await_leaders(self, topics: Mapping[str, int | None]) -> None:
        """Wait until each topic has its partitions (None: any number), all led and in sync. Raises ClusterError."""
        deadline = time.monotonic() + _DEADLINE_S
        while problems := self._unready(topics):
            if time.monotonic() > deadline:
                raise ClusterError(f"topics not ready after {_DEADLINE_S:.0f} s: {'; '.join(problems[:5])}")
            time.sleep(0.05)

    def _await_service(self, partitions: list[str]) -> None:
        """Wait until the leader of every partition serves it (it learns that it leads a little after the controller)."""
        deadline = time.monotonic() + _DEADLINE_S
        while silent := set(partitions) - set(self.end_offsets(partitions, Isolation.COMMITTED)):
            if time.monotonic() > deadline:
                raise ClusterError(f"no leader serves {', '.join(sorted(silent)[:5])} after {_DEADLINE_S:.0f} s")
            time.sleep(0.05)

    def lagging(self, topics: Iterable[str]) -> dict[str, str]:
        wanted = set(topics)
        lagging = {}
        for name, p in self._roles.partitions().items():
            missing = sorted(set(p.replicas) - set(p.in_sync))
            if p.topic in wanted and (missing or p.leader < 0):
                nodes = ", ".join(self._roles.names[i] for i in missing)
                lagging[name] = f"not in sync: {nodes or 'nobody'}" + ("; no leader" if p.leader < 0 else "")
        return lagging

    def end_offsets(self, partitions: Iterable[str], isolation: Isolation) -> dict[str, int]:
        return self._offsets(partitions, protocol.LATEST, committed=isolation is Isolation.COMMITTED)

    def log_start_offsets(self, partitions: Iterable[str]) -> dict[str, int]:
        return self._offsets(partitions, protocol.EARLIEST, committed=False)

    def group_offsets(self, group: str, partitions: Iterable[str]) -> dict[str, int | None]:
        return committed_offsets(self._settings, group, partitions, _REQUEST_S)

    def _offsets(self, partitions: Iterable[str], when: int, *, committed: bool) -> dict[str, int]:
        """Ask each partition's present leader, all at once; without those that do not answer or no longer lead."""
        wanted = set(partitions)
        try:
            known = [p for p in self._roles.partitions().values() if p.name in wanted and p.leader in self._roles.names]
        except ClusterError:
            return {}
        led: dict[Place, list[Partition]] = {}
        for p in known:
            led.setdefault(self._roles.brokers[self._roles.names[p.leader]], []).append(p)
        leaders = {str(address): address for address in led}
        answers = ask_all(lambda address: protocol.list_offsets(address, led[address], when=when, committed=committed), leaders)
        return {name: offset for answer in answers.values() for name, offset in answer.items()}

    def _change(self, what: str, request: Callable[[], Mapping[Any, Future[Any]]]) -> None:
        """Make a change, again and again until it is accepted or the deadline passes."""
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                for future in request().values():
                    future.result(timeout=2 * _REQUEST_S)
                return
            except (KafkaException, FutureTimeout) as e:
                code = e.args[0].code() if isinstance(e, KafkaException) else None
                if code in _DONE:
                    return
                if code in _HOPELESS or time.monotonic() > deadline:
                    raise ClusterError(f"could not {what}: {e}") from e
            time.sleep(0.1)

    def _unready(self, topics: Mapping[str, int | None]) -> list[str]:
        try:
            known = self._roles.partitions()
        except ClusterError as e:
            return [str(e)]
        problems = []
        for topic, count in topics.items():
            mine = [p for p in known.values() if p.topic == topic]
            if not mine or (count is not None and len(mine) != count):
                problems.append(f"{topic} has {plural(len(mine), 'partition')}, {count or 'some'} wanted")
            problems += [f"{p.name} has leader {p.leader}, in sync {p.in_sync} of {p.replicas}" for p in mine if not _ready(p)]
        return problems


def _ready(partition: Partition) -> bool:
    return partition.leader >= 0 and set(partition.in_sync) == set(partition.replicas)


_DONE = (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART)  # of the request before, whose answer was lost
_HOPELESS = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
}
