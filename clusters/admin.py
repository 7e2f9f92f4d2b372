"""What the harness asks of a cluster: topics and offsets by librdkafka's admin client, replicas over the wire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import KafkaError, NewTopic

from clusters.roles import WireRoles
from harness.api import ClusterError, Isolation, TopicSpec

_REQUEST_S = 5.0
_DEADLINE_S = 60.0
_ISOLATION = {Isolation.COMMITTED: IsolationLevel.READ_COMMITTED, Isolation.UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED}


class KafkaAdmin:
    """`Admin` of a cluster. Offsets are asked once; what changes the cluster is retried until a deadline of 60 s."""

    def __init__(self, bootstrap: str, roles: WireRoles) -> None:
        self._client = AdminClient(
            {"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 5000, "reconnect.backoff.max.ms": 500}
        )
        self._roles = roles

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        new = [NewTopic(name, s.partitions, s.replication, config=dict(s.settings)) for name, s in topics.items()]
        for topic in new:
            self._change(f"create topic {topic.topic}", partial(self._client.create_topics, [topic], request_timeout=_REQUEST_S))
        self.await_leaders({name: spec.partitions for name, spec in topics.items()})
        self._await_service([f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions)])

    def await_leaders(self, topics: Mapping[str, int | None]) -> None:
        """Wait until each topic has its partitions (None: any number), all led and in sync. Raises ClusterError."""
        deadline = time.monotonic() + _DEADLINE_S
        while problems := self._unready(topics):
            if time.monotonic() > deadline:
                raise ClusterError(f"topics not ready after {_DEADLINE_S:.0f} s: {'; '.join(problems[:5])}")
            time.sleep(0.05)

    def _await_service(self, partitions: list[str]) -> None:
        """Wait until the leader of every partition serves it (it learns of its office a little after the controller)."""
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
        return self._offsets(partitions, OffsetSpec.latest(), _ISOLATION[isolation])

    def log_start_offsets(self, partitions: Iterable[str]) -> dict[str, int]:
        return self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)

    def _offsets(self, partitions: Iterable[str], spec: OffsetSpec, isolation: IsolationLevel) -> dict[str, int]:
        asked = {TopicPartition(topic, int(number)): spec for topic, _, number in (p.rpartition("-") for p in partitions)}
        if not asked:
            return {}
        try:
            self._client.list_topics(
                timeout=_REQUEST_S
            )  # list_offsets asks the leaders it knows, and never forgets one by itself
        except KafkaException:
            return {}  # nobody answered
        futures = self._client.list_offsets(asked, isolation_level=isolation, request_timeout=_REQUEST_S)
        offsets = {}
        for where, future in futures.items():
            try:
                offsets[f"{where.topic}-{where.partition}"] = int(future.result(timeout=2 * _REQUEST_S).offset)
            except (KafkaException, TimeoutError):
                continue  # absent from the answer: it did not answer
        return offsets

    def _change(self, what: str, request: Callable[[], Mapping[Any, Future[Any]]]) -> None:
        """Make a change, again and again until it is accepted or the deadline passes."""
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                for future in request().values():
                    future.result(timeout=2 * _REQUEST_S)
                return
            except (KafkaException, TimeoutError) as e:
                code = e.args[0].code() if isinstance(e, KafkaException) else None
                if code == KafkaError.TOPIC_ALREADY_EXISTS:
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
                problems.append(f"{topic} has {len(mine)} partitions, {count or 'some'} wanted")
            problems += [f"{p.name} has leader {p.leader}, in sync {p.in_sync} of {p.replicas}" for p in mine if not _ready(p)]
        return problems


def _ready(partition: Any) -> bool:
    return partition.leader >= 0 and set(partition.in_sync) == set(partition.replicas)


_HOPELESS = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
}
