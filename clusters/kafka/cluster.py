"""The base class of every running cluster that runs its own brokers: starts Kafka, waits for it, makes topics, heals.

A provider adds how a node is started, its state, and its addresses.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from fencepost.clusters.kafka import broker_config, log_segments, members, node_directory, node_plan, protocol, storage
from fencepost.clusters.kafka.admin import KafkaAdmin
from fencepost.clusters.kafka.client_rights import CONNECTION, ClientRights
from fencepost.clusters.kafka.connect_group import duties
from fencepost.clusters.kafka.instances import RunningInstances
from fencepost.clusters.kafka.options import COMBINED_CONTROLLER, NodeOptions, TwoClusterOptions
from fencepost.clusters.kafka.roles import GROUP_LOG, TRANSACTION_LOG, WireRoles, ask_all
from fencepost.clusters.kafka.transaction_listing import transaction_listing
from fencepost.harness.api import SECOND, ClusterError, ConnectDuties, LogRecord, Right, StoredRow, TopicSpec, TransactionListing
from fencepost.harness.api.run import RunFile

log = structlog.get_logger()
T = TypeVar("T")

CONNECT_GROUP = re.compile(r"-connect\d*$")  # the groups of Connect's workers
_SETTINGS = "server.properties"
_READY_S = 90.0
_HEAL_S = 60.0
_STOPPED = "Terminating process due to signal SIGTERM"  # in a log: the beginning of a controlled shutdown
_RELEASED = "asked us to exit controlled shutdown"  # the controller releases the broker


class KafkaCluster(RunningInstances, ABC):
    """`Cluster` without its processes and its network.

    nodes: as planned, with the addresses of their listeners. Those of a second Kafka cluster are nodes like all others; its
    brokers are those of `second`, and `brokers` are those of the first.
    The run directory gets `logs/<node>/server.properties`, `logs/<node>/server.log` and, while the cluster lives, `data/<node>`.
    """

    def __init__(self, nodes: Sequence[broker_config.PlannedNode], run_dir: Path, options: NodeOptions) -> None:
        RunningInstances.__init__(self)
        self._planned = {node.name: node for node in nodes}
        self._run_dir, self._data = run_dir, run_dir / "data"
        self.kafka_version = options.all_versions()[0]
        self._versions = {node.name: options.version(node.name) for node in nodes}
        self._known_versions = options.all_versions()
        first, others = [n for n in nodes if not n.cluster], [n for n in nodes if n.cluster]
        self.brokers = tuple(n.name for n in first if "broker" in n.roles)
        self.controllers = tuple(n.name for n in first if "controller" in n.roles)
        self.second = (
            members.SecondKafka(others, options.second_settings()) if isinstance(options, TwoClusterOptions) and others else None
        )
        self._settings = options.effective_settings()
        self._features = getattr(options, "features", {})  # not of Redpanda
        self._acls = getattr(options, "acls", False)
        self._topics: tuple[str, ...] = ()
        self._clients: list[str] = []
        self._transactional_ids: tuple[str, ...] = ()
        self._groups: tuple[str, ...] = ()
        self._roles = WireRoles(
            names={node.id: node.name for node in first},
            brokers={name: self._recorded_address(name) for name in self.brokers},
            controllers={name: self._planned[name].listeners[broker_config.CONTROLLER] for name in self.controllers},
        )
        own = ",".join("{}:{}".format(*self.request_address(name)) for name in self.brokers)
        self._admin = KafkaAdmin(own if self._acls else self.bootstrap(), self._roles)
        self._rights = ClientRights(self._roles.brokers, self._admin.ask_to_change)

    # ---- what a provider adds

    @abstractmethod
    def start(self, node: str) -> None: ...

    @abstractmethod
    def pid(self, node: str) -> int | None: ...

    @abstractmethod
    def status(self, node: str) -> int | None:
        """The exit status of a node that ended, else None."""

    # ---- versions

    def version(self, node: str) -> str:
        return self._versions[self._checked_server(node)]

    def use_version(self, node: str, version: str) -> None:
        if version not in self._known_versions:
            known = ", ".join(self._known_versions)
            raise ClusterError(f'{node} cannot run Kafka {version}: here are {known}; name it in `upgrades = ["{version}"]`')
        self._versions[self._checked_server(node)] = version

    def _checked_server(self, node: str) -> str:
        if node not in self._planned:
            raise ClusterError(f"{node} is no broker or controller; there are {', '.join(self._planned)}")
        return node

    # ---- what a provider may do in its own way

    def request_address(self, node: str) -> protocol.Address:
        """The address to which the harness itself sends requests that ask how a node is; behind a proxy."""
        own = self._planned[node].own_listeners
        client = own.get(broker_config.CLIENT) or own[broker_config.CONTROLLER]
        return own.get(broker_config.BROKER, client) if self._acls else client

    def _recorded_address(self, node: str) -> protocol.Address:
        """The address for requests of the harness that change something: before a proxy, whose record must have all of them."""
        planned = self._planned[node]
        if not planned.behind:
            return self.request_address(node)
        return planned.listeners[broker_config.BROKER if self._acls else broker_config.CLIENT]

    def data_directory(self, node: str) -> Path:
        """The directory of the node's data, where the node runs."""
        return self._data / node

    def _run_on_data(self, node: str, function: Callable[[Path], T]) -> T:
        """The result of a function on a node's data directory, called where that directory is."""
        return function(self._data / node)

    def make_storage(self, tool: storage.Format, configs: Mapping[str, Path]) -> None:
        """Make every node's data directory, as these configurations name it."""
        for nodes in self._clusters():
            storage.format_all(self.kafka_version, tool, nodes, configs, self._data, self._features)

    def _clusters(self) -> list[list[broker_config.PlannedNode]]:
        """The nodes of each Kafka cluster: of the first, and of the second if there is one."""
        names = dict.fromkeys(node.cluster for node in self._planned.values())
        return [[node for node in self._planned.values() if node.cluster == name] for name in names]

    # ---- storage

    def wipe(self, node: str) -> None:
        if self.pid(self._checked_server(node)) is not None:
            raise ClusterError(f"{node} lives; its data can be removed while it is down only")
        if "controller" in self._planned[node].roles:
            raise ClusterError(f"{node} votes in the quorum; {COMBINED_CONTROLLER}")
        try:
            self._run_on_data(node, node_directory.wipe)
        except OSError as e:
            raise ClusterError(f"the data of {node} could not be removed: {e}") from e

    def stored_bytes(self, node: str) -> int:
        try:
            return self._run_on_data(self._checked_server(node), node_directory.stored_bytes)
        except OSError as e:
            raise ClusterError(f"the data of {node} could not be counted: {e}") from e

    def stored_records(self, node: str) -> tuple[Sequence[StoredRow], str]:
        try:
            rows, reason = self._run_on_data(self._checked_server(node), log_segments.stored_records)
        except OSError as e:
            raise ClusterError(f"the log segments of {node} could not be read: {e}") from e
        return rows, reason

    def transaction_listing(self, partitions: Iterable[str], within_s: float = 2.0) -> TransactionListing:
        return transaction_listing(self._roles, partitions, within_s)

    def connect_duties(self) -> Mapping[str, ConnectDuties]:
        clusters = [cluster for cluster in (self, self.second) if cluster]
        groups = [(cluster.roles(), name) for cluster in clusters for name in cluster.groups if CONNECT_GROUP.search(name)]
        if not groups:
            raise ClusterError("no worker of Kafka Connect runs here")
        nodes = {path.read_text(): path.parent.name for path in self._data.glob("c*/rest")}
        by_url = {url: worker_duties for roles, group in groups for url, worker_duties in duties(roles, group).items()}
        return {nodes[url]: worker_duties for url, worker_duties in by_url.items() if url in nodes}

    def partitions_of(self, topic: str) -> Sequence[str]:
        return members.partition_names(self._roles, topic)

    def log(self, partition: str) -> Sequence[LogRecord]:
        return members.leaders_log(self._roles, partition)

    # ---- up

    def bring_up(self, topics: Mapping[str, TopicSpec], tool: storage.Format) -> None:
        """Format, start, and wait until the topics and Kafka's own ones are led and in sync. Raises ClusterError."""
        self.make_storage(tool, self._write_configs())
        for name in self._planned:
            self.start(name)
        self._wait(_READY_S, "the brokers to join", self._missing_brokers)
        if self._acls:
            self._wait(_READY_S, "the clients' rights", self._rights.restored)
        self._make_topics({name: node_plan.fitted(spec, len(self.brokers)) for name, spec in topics.items() if not spec.cluster})
        if self.second:
            self._make_second_topics(self.second, {name: spec for name, spec in topics.items() if spec.cluster == SECOND})

    def collect_storage(self, run_dir: Path) -> None:
        """Copy every node's log segments to `storage/<node>/` of `run_dir`."""
        storage.collect(self._data, run_dir / "storage")

    def _write_configs(self) -> dict[str, Path]:
        for nodes in self._clusters():
            voters = [node for node in nodes if "controller" in node.roles]
            settings = self.second.settings if self.second and nodes[0].cluster else self._settings
            for node in nodes:
                values = broker_config.properties(node, voters, settings, self.data_directory(node.name), self._acls)
                broker_config.write_properties(self._run_dir, self._place(node.name, _SETTINGS), values)
        return {name: self._config(name) for name in self._planned}

    def _log(self, node: str) -> Path:
        return self._run_dir / self._place(node, "server.log")

    def _config(self, node: str) -> Path:
        return self._run_dir / self._place(node, _SETTINGS)

    def _place(self, node: str, file: str) -> str:
        """The place of a node's file beneath the run's directory."""
        return f"{RunFile.LOGS}/{node}/{file}"

    def _make_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        self._wait(_READY_S, "the cluster's settings and coordinators", self._setup_problem)
        self._admin.create_topics(topics)
        self._admin.await_leaders({TRANSACTION_LOG: None, GROUP_LOG: None})
        self._topics = tuple(f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions))

    def _make_second_topics(self, second: members.SecondKafka, topics: Mapping[str, TopicSpec]) -> None:
        address, few = self.request_address(second.brokers[0]), len(second.brokers)
        self._wait(
            _READY_S, "the second cluster's settings and coordinators", lambda: members.setup_problem(address, second.settings)
        )
        second.admin().create_topics({name: node_plan.fitted(spec, few) for name, spec in topics.items()})
        second.admin().await_leaders({TRANSACTION_LOG: None, GROUP_LOG: None})
        second.workload_topics = tuple(f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions))

    def _missing_brokers(self) -> str:
        """The brokers that are not in service for all of their cluster, as text; empty when there is none."""
        missing = (members.missing_brokers(cluster.roles()) for cluster in (self, self.second) if cluster)
        return ", ".join(filter(None, missing))

    def _setup_problem(self) -> str:
        """The reason why the cluster-wide settings, or Kafka's internal topics, are not there yet; else empty."""
        return members.setup_problem(self.request_address(self.brokers[0]), self._settings)

    def _wait(self, limit_s: float, what: str, problem: Callable[[], str], once_more: Iterable[str] = ()) -> None:
        """Ask until there is no problem. Raises ClusterError at the deadline, or at once when a started node died.

        once_more: nodes that are started again if they die, the first time.
        """
        deadline, may_die = time.monotonic() + limit_s, set(once_more)
        while last := problem():
            for node in self._planned:
                if self.pid(node) is None:
                    text = f"{node} ended with status {self.status(node)} while waiting for {what}: {self._tail(node)}"
                    if node not in may_die:
                        raise ClusterError(text)
                    log.warning("started once more", reason=text)
                    may_die.discard(node)
                    self.start(node)
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {limit_s:.0f} s for {what}; last seen: {last}. Logs: {self._run_dir / 'logs'}")
            time.sleep(0.05)

    def _tail(self, node: str) -> str:
        return broker_config.error_lines(self._log_text(node))

    def _log_text(self, node: str) -> str:
        """All that a node has logged so far."""
        return self._log(node).read_text(errors="replace")

    def shutdown_line(self, node: str) -> str:
        last_end = self._log_text(self._checked_server(node)).rpartition(_STOPPED)[2]
        return next((line for line in last_end.splitlines() if _RELEASED in line), "")

    # ---- what there is

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self._clients)

    def _started(self, client: str) -> None:
        """Count a client among the nodes, now that its process can be looked at."""
        if client not in self._clients:
            self._clients.append(client)

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        return self._transactional_ids

    @property
    def groups(self) -> tuple[str, ...]:
        return self._groups

    def note_clients(self, *, transactional_ids: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Set which ids and groups the workload uses, for faults on their coordinators; replaces earlier ones."""
        self._transactional_ids, self._groups = tuple(transactional_ids), tuple(groups)

    def bootstrap(self) -> str:
        return ",".join("{}:{}".format(*self._planned[name].address) for name in self.brokers)

    def connection(self) -> Mapping[str, str]:
        return CONNECTION if self._acls else {}

    def admin(self) -> KafkaAdmin:
        return self._admin

    def roles(self) -> WireRoles:
        return self._roles

    # ---- rights of clients

    def rights(self) -> dict[str, tuple[Right, ...]]:
        return self._rights.rights()

    def revoke(self, names: Iterable[str], operation: str, resource: str) -> int:
        return self._rights.revoke(names, operation, resource)

    def regrant(self, number: int) -> None:
        self._rights.regrant(number)

    # ---- healing

    def await_answers(self) -> None:
        """Start what is dead and wait (60 s) until all nodes answer. Raises ClusterError.

        A broker that was starting while links were cut may end by itself, even after healing; it is started once more.
        """
        for name in self._planned:
            self.start(name)
        self._wait(_HEAL_S, "all nodes to answer", self._unanswering_nodes, once_more=self._planned)
        if self._acls:
            self._wait(_HEAL_S, "the clients' rights", self._rights.restored)

    def answers(self, node: str) -> bool:
        """Return whether a broker answers a Kafka request right now (a client: whether it lives)."""
        if self.pid(node) is None:
            return False
        return protocol.answers(self.request_address(node)) if node in self._planned else True

    def _unanswering_nodes(self) -> str:
        addresses = {name: self.request_address(name) for name in self._planned}
        answering = ask_all(protocol.answers, addresses)
        return ", ".join(f"{name} does not answer" for name, answers in answering.items() if not answers)
