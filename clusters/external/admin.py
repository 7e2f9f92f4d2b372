"""`Admin` of an external cluster, through librdkafka's admin client, which supports TLS and SASL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout  # a class of its own before Python 3.11
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import NewTopic, OffsetSpec

from fencepost.clusters.external.connection import REQUEST_S, RequestRefused
from fencepost.clusters.external.metadata import has_leader, topic_and_number
from fencepost.clusters.external.placement_admin import ExternalPlacementAdmin
from fencepost.clusters.kafka.group_offsets import committed_offsets
from fencepost.harness.api import ActiveProducer, ClusterError, Isolation, TopicSpec, TransactionState

_READY_S = 60.0
_ACLS = "the user needs Create, Describe, DescribeConfigs, Read, Write and Delete on topics that begin with `prefix`"
_FORBIDDEN = (ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_LEVELS = {
    Isolation.COMMITTED: ck.IsolationLevel.READ_COMMITTED,
    Isolation.UNCOMMITTED: ck.IsolationLevel.READ_UNCOMMITTED,
}


@dataclass(frozen=True)
class ExternalAdmin(ExternalPlacementAdmin):
    """`Admin`. What changes something is for the run's own topics and groups only."""

    # ---- topics

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create topics that are not there yet, and wait (60 s) until every partition is led, in sync and served."""
        for name, spec in topics.items():
            try:
                self._create(name, spec)
            except RequestRefused as error:
                why = f"; {_ACLS}" if error.code in _FORBIDDEN else ""
                raise RequestRefused(f"{error}{why}", error.code) from None
        deadline = time.monotonic() + _READY_S
        while problem := self._unready(topics):
            if time.monotonic() > deadline:
                raise ClusterError(f"topics not ready after {_READY_S:.0f} s: {problem}")
            time.sleep(0.1)

    def _create(self, name: str, spec: TopicSpec) -> None:
        topic = NewTopic(name, spec.partitions, spec.replication, config=dict(spec.settings))
        how = {"operation_timeout": REQUEST_S, "request_timeout": REQUEST_S}
        self.connection.ask(f"create the topic {name}", lambda client: client.create_topics([topic], **how)[name])

    def _unready(self, topics: Mapping[str, TopicSpec]) -> str:
        """The reason why topics cannot be used yet; empty when they can."""
        if behind := self.lagging(topics):  # also while the broker does not know the new topic yet
            return "; ".join(f"{name} {what}" for name, what in behind.items())
        partitions = [f"{name}-{number}" for name, spec in topics.items() for number in range(spec.partitions)]
        silent = set(partitions) - set(self.end_offsets(partitions, Isolation.COMMITTED))
        return f"no leader serves {', '.join(sorted(silent))}" if silent else ""

    def settings(self, topic: str) -> dict[str, str]:
        """Every setting of a topic that is in effect, the brokers' defaults included. Raises ClusterError."""
        return {name: entry.value for name, entry in self.described(topic).items() if entry.value is not None}

    def delete_topic(self, name: str) -> None:
        """Raises ClusterError; a topic that is not there is no error."""
        how = {"operation_timeout": REQUEST_S, "request_timeout": REQUEST_S}
        self._unless_gone(f"remove the topic {name}", lambda client: client.delete_topics([name], **how)[name])

    def delete_group(self, name: str) -> None:
        """Raises ClusterError; a group that is not there is no error."""
        self._unless_gone(
            f"remove the group {name}", lambda client: client.delete_consumer_groups([name], request_timeout=REQUEST_S)[name]
        )

    def _unless_gone(self, what: str, request: Callable[[Any], Future[Any]]) -> None:
        try:
            self.connection.ask(what, request)
        except RequestRefused as error:
            if error.code not in (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError.GROUP_ID_NOT_FOUND):
                raise

    # ---- state

    def lagging(self, topics: Iterable[str]) -> dict[str, str]:
        lagging = {}
        for topic in topics:
            try:
                partitions = self.partitions(topic)
            except ClusterError as error:  # temporarily no answer; the caller asks again
                lagging[topic] = str(error)
                continue
            for p in partitions:
                missing = sorted({node.id for node in p.replicas} - {node.id for node in p.isr})
                if missing or not has_leader(p):
                    nodes = ", ".join(self.name(number) for number in missing)
                    lagging[f"{topic}-{p.id}"] = f"not in sync: {nodes or 'nobody'}" + ("" if has_leader(p) else "; no leader")
        return lagging

    def end_offsets(self, partitions: Iterable[str], isolation: Isolation) -> dict[str, int]:
        return self._offsets(partitions, OffsetSpec.latest(), isolation)

    def log_start_offsets(self, partitions: Iterable[str]) -> dict[str, int]:
        return self._offsets(partitions, OffsetSpec.earliest(), Isolation.UNCOMMITTED)

    def group_offsets(self, group: str, partitions: Iterable[str]) -> dict[str, int | None]:
        return committed_offsets(self.connection.settings(), group, partitions, REQUEST_S)

    # ---- transactions

    def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        """Fence by a librdkafka producer with this id; its producer id and epoch are not known: -1."""
        try:
            ck.Producer({**self.connection.settings(), "transactional.id": transactional_id}).init_transactions(REQUEST_S)
        except ck.KafkaException as error:
            raise ClusterError(f"{transactional_id} may not be fenced: {error}") from None
        return -1, -1

    def transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionState]:
        raise ClusterError("transactions are not told here: librdkafka has no call for it")

    def producers(self, partitions: Iterable[str]) -> dict[str, tuple[ActiveProducer, ...]]:
        raise ClusterError("producers are not told here: librdkafka has no call for it")

    def raise_epoch(self, transactional_id: str, epoch: int) -> None:
        raise ClusterError("epochs are not told here: librdkafka has no call for it")

    def end_transaction(self, transactional_id: str, producer_id: int, epoch: int, commit: bool) -> None:
        raise ClusterError("a transaction cannot be ended from here: librdkafka has no call for it")

    def abort_on_partition(self, partition: str, producer: ActiveProducer) -> None:
        raise ClusterError("markers cannot be written from here: librdkafka has no call for it")

    def _offsets(self, partitions: Iterable[str], spec: Any, isolation: Isolation) -> dict[str, int]:
        """Ask each partition's leader once; without those that do not answer."""
        wanted = {ck.TopicPartition(*topic_and_number(partition)): spec for partition in partitions}
        replies = self.connection.client.list_offsets(wanted, isolation_level=_LEVELS[isolation], request_timeout=REQUEST_S)
        offsets = {}
        for partition, future in replies.items():
            with suppress(ck.KafkaException, FutureTimeout):
                offsets[f"{partition.topic}-{partition.partition}"] = int(future.result(timeout=2 * REQUEST_S).offset)
        return offsets
