"""The present roles of nodes (leader, coordinator, controller), asked of every broker at once, without a cache.

Brokers may disagree while a fault is on. Of two views of a partition the one with the higher leader epoch (KIP-320) is the
newer; at equal epochs the one with fewer in-sync replicas counts, so that no replica counts as in sync too early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.protocol import Metadata, Partition, Place
from fencepost.harness.api import ClusterError

T = TypeVar("T")

TRANSACTION_LOG, GROUP_LOG = "__transaction_state", "__consumer_offsets"
_ASK_S, _ASK_AGAIN_S = 1.0, 5.0


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def coordinator_partition(key: str, partitions: int) -> int:
    """The partition of the coordinators' log that holds `key`: Kafka's `Utils.abs(key.hashCode) % partitions`.

    Its `abs` maps the one number without a positive counterpart to 0.
    """
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def ask_all(call: Callable[[Place], T], addresses: Mapping[str, Place]) -> dict[str, T]:
    """The answer of every node that gives one, all asked at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as pool:
        answers = {node: pool.submit(call, address) for node, address in addresses.items()}
        return {node: answer.result() for node, answer in answers.items() if not isinstance(answer.exception(), OSError)}


def ask_again(call: Callable[[Place, float], T], addresses: Mapping[str, Place]) -> dict[str, T]:
    """The answer of every node that gives one within a second; where none does, since the machine is busy, within some more."""
    return ask_all(lambda address: call(address, _ASK_S), addresses) or ask_all(
        lambda address: call(address, _ASK_AGAIN_S), addresses
    )


def newest(views: list[Metadata]) -> dict[str, Partition]:
    """Every partition (`topic-number`), each from the newest view of it."""
    best: dict[str, Partition] = {}
    for partition in (p for view in views for p in view.partitions):
        known = best.get(partition.name)
        if known is None or _age(partition) > _age(known):
            best[partition.name] = partition
    return best


def _age(partition: Partition) -> tuple[int, int]:
    return partition.epoch, -len(partition.in_sync)


@dataclass(frozen=True)
class WireRoles:
    """`Roles` over the wire.

    names: Kafka's node id -> node.
    brokers: node -> address of the broker.
    controllers: node -> address of the controller.
    """

    names: Mapping[int, str]
    brokers: Mapping[str, Place]
    controllers: Mapping[str, Place]

    def partitions(self) -> dict[str, Partition]:
        """The newest known state of every partition. Raises ClusterError when no broker answers."""
        return newest(self._views())

    def in_service(self) -> tuple[int, ...]:
        """Ids of the brokers that every broker that answers has for a part of the cluster. Raises ClusterError."""
        known = [set(view.brokers) for view in self._views()]
        return tuple(sorted(set.intersection(*known)))

    def _views(self) -> list[Metadata]:
        views = ask_again(protocol.metadata, self.brokers)
        if not views:
            raise ClusterError(f"none of {', '.join(self.brokers)} told about its partitions within {_ASK_AGAIN_S:g} s")
        return list(views.values())

    def leader(self, topic: str, partition: int) -> str:
        return self._leader(self.partitions(), topic, partition)

    def transaction_coordinator(self, transactional_id: str) -> str:
        return self._coordinator(TRANSACTION_LOG, transactional_id)

    def transaction_partition(self, transactional_id: str) -> str:
        return self._partition_of(self.partitions(), TRANSACTION_LOG, transactional_id)

    def group_coordinator(self, group: str) -> str:
        return self._coordinator(GROUP_LOG, group)

    def group_partition(self, group: str) -> str:
        return self._partition_of(self.partitions(), GROUP_LOG, group)

    def controller(self) -> str:
        """The leader of the KRaft quorum: the controller that says so itself, in the highest epoch."""
        claims = ask_again(protocol.quorum_leader, self.controllers)
        leaders = {epoch: node for claim in claims.values() if claim for node, epoch in [claim]}
        if not leaders:
            raise ClusterError(f"no controller leads: {len(claims)} of {len(self.controllers)} answered, none as leader")
        return self.names[leaders[max(leaders)]]

    def _coordinator(self, log: str, key: str) -> str:
        partitions = self.partitions()
        topic, _, number = self._partition_of(partitions, log, key).rpartition("-")
        return self._leader(partitions, topic, int(number))

    def _partition_of(self, partitions: Mapping[str, Partition], log: str, key: str) -> str:
        count = sum(1 for p in partitions.values() if p.topic == log)
        if count == 0:
            raise ClusterError(f"no coordinator for {key}: the topic {log} does not exist yet")
        return f"{log}-{coordinator_partition(key, count)}"

    def _leader(self, partitions: Mapping[str, Partition], topic: str, number: int) -> str:
        partition = partitions.get(f"{topic}-{number}")
        if partition is None or partition.leader not in self.names:
            raise ClusterError(f"{topic}-{number} {'has no leader' if partition else 'does not exist'}")
        return self.names[partition.leader]
