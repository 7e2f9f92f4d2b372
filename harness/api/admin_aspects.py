"""States of a cluster as calls of `Admin` show them: of partitions, topics, brokers, features and transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def leaders(cluster: Any) -> dict[str, str]:
    return {name: place.leader for name, place in _placements(cluster).items()}


def replicas(cluster: Any) -> dict[str, tuple[str, ...]]:
    """The nodes that hold each partition, sorted."""
    return {name: tuple(sorted(nodes)) for name, nodes in order_of_replicas(cluster).items()}


def order_of_replicas(cluster: Any) -> dict[str, tuple[str, ...]]:
    """The nodes that hold each partition, the preferred leader first; without partitions on unknown nodes."""
    return {name: place.replicas for name, place in _placements(cluster).items() if all(place.replicas)}


def _placements(cluster: Any) -> dict[str, Any]:
    """Placements of the workload's partitions, and of Kafka's own where the cluster is not shared with strangers."""
    shared = getattr(cluster, "only_clients", "")
    places = cluster.admin().placements(cluster.topics if shared else None)
    return {name: place for name, place in places.items() if name in cluster.topics or name.startswith("__")}


def service(cluster: Any) -> dict[str, str]:
    """Brokers that are part of the cluster (`in`), and others (`out`), by the word of those that answer."""
    there = cluster.admin().in_service()
    return {node: "in" if node in there else "out" for node in cluster.brokers}


def levels(features: Iterable[Mapping[str, int]]) -> dict[str, str]:
    """Feature -> its level; all levels where brokers differ. features: what each broker has."""
    brokers = list(features)
    different = {name: {known.get(name, 0) for known in brokers} for name in {name for known in brokers for name in known}}
    return {name: " ".join(map(str, sorted(some))) for name, some in different.items()}


def features(answer: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    return levels(answer.values())


def producer_epoch(state: Any) -> tuple[str, str]:
    """Producer id and epoch of a transactional id; -1 where the coordinator does not know it."""
    return (str(state.producer_id), str(state.epoch)) if state else ("-1", "-1")


def topic_id(ids: Mapping[str, str]) -> str:
    """`gone` where a broker that answers has no such topic; all ids where brokers differ."""
    return " ".join(sorted(set(ids.values()))) if all(ids.values()) else "gone"
