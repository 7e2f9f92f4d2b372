"""`Admin` of Redpanda: what Kafka's requests cannot ask of it is asked of its Admin API (HTTP, port 9644).

Read in its source (src/v/redpanda/admin/api-doc/partition.json): leadership of a partition is transferred by
POST /v1/partitions/kafka/TOPIC/NUMBER/transfer_leadership?target=ID, at any broker. ElectLeaders, UnregisterBroker,
UpdateFeatures and WriteTxnMarkers are no requests of Redpanda, and its Metadata ends at version 8, so that topics have no ids.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from fencepost.clusters.kafka.admin import KafkaAdmin
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.harness.api import ActiveProducer, ClusterError, Placement

PORT = 9644
_ASK_S = 5.0
_NO_REQUEST = "Redpanda has no request for it"


class RedpandaAdmin(KafkaAdmin):
    """`Admin` with leaders transferred by the Admin API.

    places: node -> base of its Admin API (`http://10.0.0.2:9644`).
    """

    def __init__(self, bootstrap: str, roles: WireRoles, places: Mapping[str, str]) -> None:
        super().__init__(bootstrap, roles)
        self._places = places
        self._orders: dict[str, tuple[str, ...]] = {}  # partition -> its replicas, the preferred one first

    def placements(self, partitions: Iterable[str] | None = None) -> dict[str, Placement]:
        """As of Kafka. Redpanda prefers no replica, so the order that `reassign` asked for is kept here."""
        return {name: self._ordered(name, placement) for name, placement in super().placements(partitions).items()}

    def _ordered(self, name: str, placement: Placement) -> Placement:
        order = self._orders.get(name, ())
        return replace(placement, replicas=order) if set(order) == set(placement.replicas) else placement

    def reassign(self, replicas: Mapping[str, Sequence[str]]) -> None:
        """Move partitions to other nodes; another order of the same nodes is no request of Redpanda."""
        present = super().placements(replicas)
        moved = {name: nodes for name, nodes in replicas.items() if name in present and {*nodes} != {*present[name].replicas}}
        if moved:
            super().reassign(moved)
        self._orders.update({name: tuple(nodes) for name, nodes in replicas.items()})

    def elect(self, partitions: Iterable[str]) -> None:
        """Transfer each partition's leadership to its first replica. Raises ClusterError."""
        ids = {node: number for number, node in self._roles.names.items()}
        problems: list[str] = []
        for name, placement in self.placements(partitions).items():
            preferred = placement.replicas[0]
            if placement.leader != preferred:
                problems += self._transfer(name, placement.leader or preferred, ids[preferred])
        if problems:
            raise ClusterError(f"leaders were not elected: {'; '.join(problems)}")

    def _transfer(self, partition: str, node: str, target: int) -> Sequence[str]:
        topic, _, number = partition.rpartition("-")
        path = f"/v1/partitions/kafka/{quote(topic, safe='')}/{number}/transfer_leadership?target={target}"
        try:
            with urllib.request.urlopen(urllib.request.Request(self._places[node] + path, method="POST"), timeout=_ASK_S):
                return []
        except urllib.error.HTTPError as error:
            return [f"{partition}: {node} answers {error.code} {error.read(500).decode(errors='replace')}"]
        except (OSError, http.client.HTTPException) as error:
            return [f"{partition}: the Admin API of {node} does not answer: {error}"]

    def unregister(self, node: str) -> None:
        raise ClusterError(f"{node} was not unregistered: {_NO_REQUEST}")

    def features(self) -> dict[str, dict[str, int]]:
        raise ClusterError(f"features are not told: {_NO_REQUEST}")

    def set_feature(self, name: str, level: int) -> None:
        raise ClusterError(f"{name} was not set: {_NO_REQUEST}")

    def topic_ids(self, topic: str) -> dict[str, str]:
        raise ClusterError(f"the id of {topic} is not told: Redpanda's Metadata has none")

    def abort_on_partition(self, partition: str, producer: ActiveProducer) -> None:
        raise ClusterError(f"no marker was written to {partition}: {_NO_REQUEST}")
