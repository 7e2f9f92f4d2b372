"""Placement of partitions, and its changes: replicas and leaders, settings of topics, membership of brokers, features.

Each request goes to one broker after the other until one accepts it; placements are asked of all brokers (`roles.py`). A request
that changes something goes only to brokers that answer: a frozen one would carry it out when it thaws, long after the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from fencepost.clusters.kafka import protocol, protocol_admin
from fencepost.clusters.kafka.protocol import Partition, Place, WireError
from fencepost.clusters.kafka.roles import WireRoles, ask_all
from fencepost.harness.api import ClusterError, Placement

T = TypeVar("T")

_ASK_S = 3.0


class PlacementAdmin:
    """The part of `Admin` that reads and changes the placement of partitions, settings of topics, membership, and features."""

    def __init__(self, roles: WireRoles) -> None:
        self._roles = roles

    def placements(self, partitions: Iterable[str] | None = None) -> dict[str, Placement]:
        known = self._roles.partitions()
        return {name: self._placement(known[name]) for name in (known if partitions is None else partitions) if name in known}

    def in_service(self) -> tuple[str, ...]:
        return tuple(self._roles.names[i] for i in self._roles.in_service() if i in self._roles.names)

    def reassign(self, replicas: Mapping[str, Sequence[str]]) -> None:
        ids = {node: i for i, node in self._roles.names.items()}
        wanted = {_topic_and_number(name): [ids[node] for node in nodes] for name, nodes in replicas.items()}
        self.ask_to_change("replicas were not reassigned", lambda address: protocol_admin.reassign(address, wanted, _ASK_S))

    def elect(self, partitions: Iterable[str]) -> None:
        wanted = [_topic_and_number(name) for name in partitions]
        self.ask_to_change("leaders were not elected", lambda address: protocol_admin.elect_preferred(address, wanted, _ASK_S))

    def unregister(self, node: str) -> None:
        (number,) = [i for i, name in self._roles.names.items() if name == node]
        self.ask_to_change(f"{node} was not unregistered", lambda address: protocol_admin.unregister(address, number, _ASK_S))

    def topic_settings(self, topic: str) -> dict[str, str]:
        return self._ask(f"settings of {topic} not told", lambda address: protocol_admin.topic_settings(address, topic, _ASK_S))

    def set_topic_settings(self, topic: str, settings: Mapping[str, str | None]) -> None:
        self.ask_to_change(
            f"settings of {topic} not changed",
            lambda address: protocol_admin.set_topic_settings(address, topic, settings, _ASK_S),
        )

    def topic_ids(self, topic: str) -> dict[str, str]:
        if ids := ask_all(lambda address: protocol.topic_ids(address, [topic], _ASK_S).get(topic, ""), self._roles.brokers):
            return ids
        raise ClusterError(f"the id of {topic} is not told: no broker answers")

    def features(self) -> dict[str, dict[str, int]]:
        if levels := ask_all(protocol.features, self._roles.brokers):
            return levels
        raise ClusterError("features not told: no broker answers")

    def set_feature(self, name: str, level: int) -> None:
        self.ask_to_change(f"{name} not changed", lambda address: protocol_admin.set_feature(address, name, level, _ASK_S))

    def ask_to_change(self, what: str, call: Callable[[Place], None]) -> None:
        """Ask one broker after the other that answers at all, until one accepts it. Raises ClusterError."""

        def if_it_answers(address: Place) -> None:
            if not protocol.answers(address):
                raise OSError("it does not answer")
            call(address)

        self._ask(what, if_it_answers)

    def _ask(self, what: str, call: Callable[[Place], T]) -> T:
        """The first answer. A refusal (`WireError`) counts as none, because a broker may have no controller."""
        failures = []
        for node, address in self._roles.brokers.items():
            try:
                return call(address)
            except OSError as error:
                failures.append(f"{node}: {error}" if isinstance(error, WireError) else f"{node} does not answer")
        raise ClusterError(f"{what}: {'; '.join(dict.fromkeys(failures))}")

    def _placement(self, partition: Partition) -> Placement:
        replicas, in_sync = (tuple(self._name(i) for i in ids) for ids in (partition.replicas, partition.in_sync))
        return Placement(leader=self._name(partition.leader), replicas=replicas, in_sync=in_sync)

    def _name(self, number: int) -> str:
        return self._roles.names.get(number, "")


def _topic_and_number(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)
