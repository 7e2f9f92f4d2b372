"""The external cluster during a run: the topics made on it, and the clients, which are processes of this machine."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from fencepost.clusters.external.admin import ExternalAdmin
from fencepost.clusters.external.broker_connections import BrokerConnections
from fencepost.clusters.external.connection import Connection, RequestRefused
from fencepost.clusters.external.options import (
    CLIENT_CAPABILITIES,
    NETWORK_CAPABILITIES,
    NOT_OURS,
    SHARED_NETWORK,
    ExternalOptions,
)
from fencepost.clusters.external.proxies import ExternalProxy
from fencepost.clusters.external.roles import ExternalRoles
from fencepost.clusters.kafka.client_process import ClientProcess
from fencepost.clusters.kafka.guarded import guarded_address, no_way_in
from fencepost.clusters.kafka.instances import RunningInstances
from fencepost.clusters.kafka.interception import BehindProxies, Interceptor
from fencepost.clusters.kafka.members import leaders_log, partition_names
from fencepost.clusters.kafka.options import NO_PROXY
from fencepost.clusters.kafka.proxies import Watch
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.clusters.local.processes import NodeProcesses
from fencepost.harness.api import ClusterError, Interceptable, LogRecord, TopicSpec
from fencepost.harness.secrets import mask

_HEAL_S = 60.0

log = structlog.get_logger()


class ExternalCluster(RunningInstances, BehindProxies):
    """`Cluster`, `ReadingLogs`; `Killable` and `Pausable` for clients only. Safe to use from several threads."""

    only_clients = NOT_OURS

    def __init__(self, options: ExternalOptions, run_dir: Path) -> None:
        self._options, self._run_dir = options, run_dir
        super().__init__()
        self._connection = Connection(options.bootstrap, options.settings)
        addresses = self._connection.nodes()
        names = broker_names(addresses)
        self._ids = {name: number for number, name in names.items()}
        self.brokers = tuple(self._ids)
        self.controllers = self.brokers
        self.kafka_version = options.kafka
        self._admin, self._roles = ExternalAdmin(self._connection, names), ExternalRoles(self._connection, names)
        self._processes = NodeProcesses()
        self._proxy, self.interceptor = ExternalProxy(run_dir), Interceptor(between_brokers=False)
        self._proxy_watch = Watch(self._restart_proxy)
        self._bootstrap = options.bootstrap
        self._connections = BrokerConnections({names[number]: address for number, address in addresses.items()})
        self._made: list[str] = []
        self.topics: tuple[str, ...] = ()
        self.clients: tuple[str, ...] = ()
        self.transactional_ids: tuple[str, ...] = ()
        self.groups: tuple[str, ...] = ()

    # ---- up and down

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Make the run's topics. One that exists already is an error, and is left alone."""
        if self._options.proxy:
            self._start_proxy()
        for name, spec in topics.items():
            self._made.append(name)  # before the request: its answer may be lost
            try:
                self._admin.create_topics({name: spec})
            except RequestRefused as error:
                if error.by_the_cluster:
                    self._made.remove(name)  # it is not ours
                raise
        self.topics = tuple(f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions))
        self._admin, self._roles = replace(self._admin, topics=tuple(topics)), replace(self._roles, topics=tuple(topics))

    def _start_proxy(self) -> None:
        """Start the proxy, which clients use from now on."""
        addresses = self._connection.nodes()
        proxy = self._proxy.start({name: addresses[number] for name, number in self._ids.items() if number in addresses})
        self.interceptor.controls = dict.fromkeys(self.brokers, proxy.control)
        self._bootstrap = ",".join(broker["listen"] for broker in proxy.brokers)
        self._proxy_watch.begin()

    def _restart_proxy(self) -> None:
        """Have another proxy in the place of one that has ended: clients reach no broker without it. Raises ClusterError."""
        if proxy := self._proxy.restarted():
            log.warning("proxy had ended", now="started again")
            for node in self.brokers:
                self.interceptor.replace(node, proxy.control)

    def end(self) -> list[str]:
        """Kill the clients, remove the run's topics and groups; what could not be removed, a sentence each with the remedy."""
        self._processes.kill_all()
        self._proxy_watch.end()
        self._proxy.close()
        self._connections.close()
        left = [self._removed(self._admin.delete_group, "groups", "group", name) for name in self.groups]
        left += [self._removed(self._admin.delete_topic, "topics", "topic", name) for name in self._made]
        return [sentence for sentence in left if sentence]

    def _removed(self, remove: Any, tool: str, what: str, name: str) -> str:
        try:
            remove(name)
        except ClusterError as error:
            command = f"kafka-{'consumer-' if tool == 'groups' else ''}{tool}.sh --bootstrap-server {self._options.bootstrap}"
            return f"{error}; remove it with: {command} --command-config YOUR.properties --delete --{what} {name}"
        return ""

    # ---- what there is

    def effective_settings(self) -> dict[str, dict[str, str]]:
        """The settings of the run's topics that are really in effect. Raises ClusterError when we may not ask."""
        return {name: self._admin.settings(name) for name in self._made}

    def note_clients(self, *, transactional_ids: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        self.transactional_ids, self.groups = tuple(transactional_ids), tuple(groups)

    def bootstrap(self) -> str:
        return self._bootstrap

    def connection(self) -> Mapping[str, Any]:
        return self._options.settings

    def admin(self) -> ExternalAdmin:
        return self._admin

    def roles(self) -> ExternalRoles:
        return self._roles

    # ---- the leaders' logs

    def partitions_of(self, topic: str) -> Sequence[str]:
        return partition_names(self._wire_roles(), topic)

    def log(self, partition: str) -> Sequence[LogRecord]:
        return leaders_log(self._wire_roles(), partition)

    def _wire_roles(self) -> WireRoles:
        """The brokers in service, for our own protocol code. Raises ClusterError with the reason when none lets us in."""
        settings, known = self._connection.settings(), {number: name for name, number in self._ids.items()}
        by_name = {known.get(number, str(number)): (number, address) for number, address in self._connection.nodes().items()}
        places = {name: guarded_address(address, settings) for name, (_, address) in by_name.items()}
        if problem := no_way_in(places.values()):
            raise ClusterError(f"the logs of {self.bootstrap()} cannot be read: {mask(problem)}")
        return WireRoles({number: name for name, (number, _) in by_name.items()}, places, {})

    def unavailable(self, capability: type) -> str | None:
        if capability in CLIENT_CAPABILITIES:
            return None  # `only_clients` has the reason for brokers
        if capability is Interceptable:
            return None if self._options.proxy else NO_PROXY
        return SHARED_NETWORK if capability in NETWORK_CAPABILITIES else NOT_OURS

    # ---- clients

    def spawn(self, client: str, argv: Sequence[str], *, reads: Sequence[str] = (), **popen: Any) -> ClientProcess:
        process = ClientProcess(argv, **popen)
        self._processes.add(client, process)
        self.clients = tuple(dict.fromkeys((*self.clients, client)))
        return process

    def kill(self, node: str) -> None:
        self._processes.kill(self._client(node))

    def start(self, node: str) -> None:
        """Do nothing: a dead client is replaced by the harness, and brokers are not ours."""

    def pid(self, node: str) -> int | None:
        return self._processes.pid(self._client(node))

    def answers(self, node: str) -> bool:
        """Return whether a broker is in service as the cluster says itself (a client: whether it lives)."""
        if node not in self._ids:
            return self._processes.pid(node) is not None
        try:
            return self._ids[node] in self._connection.nodes()
        except ClusterError:
            return False

    def unreachable_brokers(self) -> set[str]:
        return self._connections.unreachable()

    def pause(self, node: str) -> None:
        self._processes.send(self._client(node), signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._processes.send(self._client(node), signal.SIGCONT)

    def process_state(self, node: str) -> str:
        return self._processes.state(self._client(node))

    def _client(self, node: str) -> str:
        if node in self._ids:
            raise ClusterError(f"{node}: {NOT_OURS}")
        return node

    # ---- healing

    def heal(self) -> None:
        """Thaw every client, and wait (60 s) until the brokers that were there at the start are in service.

        One that stays away is logged and does not end the run: it may be gone for good, and the final read shows the result.
        """
        self.interceptor.withdraw_all()
        self._restart_proxy()
        for name in self._processes.names():
            self.resume(name)
        deadline = time.monotonic() + _HEAL_S
        while (away := [node for node in self.brokers if not self.answers(node)]) and time.monotonic() < deadline:
            time.sleep(0.5)
        if away:
            log.warning("brokers away", nodes=away, waited_s=_HEAL_S)


def broker_names(nodes: Mapping[int, str]) -> dict[int, str]:
    """Our names of brokers, by Kafka's node ids: n1 has the lowest."""
    return {number: f"n{position}" for position, number in enumerate(sorted(nodes), start=1)}
