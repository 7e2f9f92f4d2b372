"""The nodes of one Kafka cluster: whether they are ready, and what the leaders among them have; and a second Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fencepost.clusters.kafka import broker_config, protocol, protocol_admin
from fencepost.clusters.kafka.admin import KafkaAdmin
from fencepost.clusters.kafka.protocol_fetch import read_log
from fencepost.clusters.kafka.roles import WireRoles, ask_all
from fencepost.harness.api import ClusterError, LogRecord

_ASK_S = 1.0


class SecondKafka:
    """`SecondCluster`: the Kafka cluster beside the one that is judged; its nodes are started, hurt and healed as all others."""

    def __init__(self, nodes: Sequence[broker_config.PlannedNode], settings: Mapping[str, str]) -> None:
        self.brokers = tuple(node.name for node in nodes)
        self.controllers = self.brokers
        self.settings = settings
        self.workload_topics: tuple[str, ...] = ()
        self.transactional_ids: tuple[str, ...] = ()
        self.groups: tuple[str, ...] = ()
        self._addresses = {node.name: node.address for node in nodes}
        controllers = {node.name: node.listeners[broker_config.CONTROLLER] for node in nodes}
        self._roles = WireRoles({node.id: node.name for node in nodes}, self._addresses, controllers)
        self._admin = KafkaAdmin(self.bootstrap(), self._roles)

    def note_clients(self, *, transactional_ids: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Set which ids and groups the workload uses here; replaces earlier ones."""
        self.transactional_ids, self.groups = tuple(transactional_ids), tuple(groups)

    @property
    def topics(self) -> tuple[str, ...]:
        """Partitions of the workload's topics; where it has none here, of all that are not Kafka's own. Raises ClusterError."""
        return self.workload_topics or tuple(name for name in self._roles.partitions() if not name.startswith("__"))

    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._addresses.values())

    def admin(self) -> KafkaAdmin:
        return self._admin

    def roles(self) -> WireRoles:
        return self._roles

    def partitions_of(self, topic: str) -> Sequence[str]:
        return partition_names(self._roles, topic)

    def log(self, partition: str) -> Sequence[LogRecord]:
        return leaders_log(self._roles, partition)


def partition_names(roles: WireRoles, topic: str) -> list[str]:
    """The partitions of a topic. Raises ClusterError."""
    return [partition.name for partition in roles.partitions().values() if partition.topic == topic]


def leaders_log(roles: WireRoles, partition: str) -> list[LogRecord]:
    """All of a partition, as its leader has it. Raises ClusterError."""
    described = roles.partitions().get(partition)
    if described is None:
        raise ClusterError(f"{partition} is not there, or may not be seen")
    try:
        address = roles.brokers[roles.leader(described.topic, described.number)]
        (start,) = protocol.list_offsets(address, [described], when=protocol.EARLIEST, committed=False).values()
        return list(read_log(address, described, start))
    except (OSError, ValueError) as e:
        raise ClusterError(f"the log of {partition} could not be read: {e}") from e


def missing_brokers(roles: WireRoles) -> str:
    """The brokers that some broker does not know as in service, as text; empty when there is none."""
    views = ask_all(lambda address: protocol.metadata(address, _ASK_S), roles.brokers)
    if silent := sorted(set(roles.brokers) - set(views)):
        return f"no answer from {', '.join(silent)}"
    in_service = set.intersection(*(set(view.brokers) for view in views.values()))
    return ", ".join(name + " is not in service" for i, name in roles.names.items() if name in views and i not in in_service)


def setup_problem(address: protocol.Address, settings: Mapping[str, str]) -> str:
    """Set the cluster-wide settings, and have Kafka make its internal topics; what was refused, else empty.

    Clusters formatted by 4.1+ (eligible leader replicas, KIP-966) ignore a broker-level min.insync.replicas. Asking for a
    coordinator makes the broker create the internal topic, with the broker's own settings.
    """
    name = "min.insync.replicas"
    try:
        protocol_admin.set_cluster_setting(address, name, settings[name])
        for kind in (protocol.TRANSACTION, protocol.GROUP):
            protocol.find_coordinator(address, kind, "fencepost")
    except OSError as e:
        return str(e)
    return ""
