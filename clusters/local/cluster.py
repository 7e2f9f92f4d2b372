"""The running cluster: start and stop, faults on processes and network, and the way to ask it anything."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters import wire
from clusters.admin import KafkaAdmin
from clusters.broker_settings import broker_settings
from clusters.kafka import Distribution
from clusters.local import archive, jvm, plan, storage
from clusters.local.init import NETWORK
from clusters.local.network import Network
from clusters.local.processes import Processes
from clusters.roles import GROUP_LOG, TRANSACTION_LOG, WireRoles, ask_all
from harness.api import ClusterError, Pair, Partitionable, TopicSpec

if TYPE_CHECKING:
    from clusters.local.provider import Local

_READY_S = 90.0
_HEAL_S = 60.0


class LocalCluster:
    """`Cluster`, `Killable`, `Pausable` and (in namespaces) `Partitionable`. Safe to use from several threads."""

    def __init__(self, options: Local, run_dir: Path, distribution: Distribution) -> None:
        self._options, self._run_dir, self._distribution = options, run_dir, distribution
        self._network = Network() if os.environ.get(NETWORK) == "namespaces" and not options.loopback else None
        self._processes = Processes()
        self._starting = threading.Lock()
        self._data = run_dir / "data"
        classes = archive.path(distribution)
        self._flags = [f"-XX:SharedArchiveFile={classes}"] if classes.exists() else []
        listen = plan.private if self._network else plan.loopback
        self._planned = {node.name: node for node in plan.nodes(options.brokers, options.controllers, listen)}
        self._topics: tuple[str, ...] = ()
        self._clients: list[str] = []
        self._transactional_ids: tuple[str, ...] = ()
        self._groups: tuple[str, ...] = ()
        self.kafka_version = distribution.version
        self.brokers = tuple(n.name for n in self._planned.values() if "broker" in n.roles)
        self.controllers = tuple(n.name for n in self._planned.values() if "controller" in n.roles)
        self._roles = WireRoles(
            names={node.id: node.name for node in self._planned.values()},
            brokers={name: self._planned[name].front for name in self.brokers},
            controllers={name: self._planned[name].listeners[jvm.CONTROLLER] for name in self.controllers},
        )
        self._admin = KafkaAdmin(self.bootstrap(), self._roles)

    # ---- up and down

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Format, start, and wait until the topics and Kafka's own ones are led and in sync."""
        configs = self._write_configs()
        if self._network:
            for node in self._planned.values():
                self._network.add(node.name, node.front[0])
        storage.format_all(self._distribution, list(self._planned.values()), configs, self._data)
        for name in self._planned:
            self.start(name)
        self._wait(_READY_S, "the brokers to join", self._absent)
        self._make_topics({name: plan.fitted(spec, self._options.brokers) for name, spec in topics.items()})

    def end(self) -> None:
        """Kill every process, keep the log segments if asked, remove the data."""
        with ExitStack() as steps:
            steps.callback(shutil.rmtree, self._data, ignore_errors=True)
            if self._options.keep_storage:
                steps.callback(self.collect_storage, self._run_dir)
            if self._network:
                steps.callback(self._network.close)
            steps.callback(self._processes.kill_all)

    def collect_storage(self, run_dir: Path) -> None:
        """Copy every node's log segments to `storage/<node>/` of `run_dir`."""
        storage.collect(self._data, run_dir / "storage")

    def _write_configs(self) -> dict[str, Path]:
        settings = broker_settings(self._options.brokers, self._options.settings)
        voters = [self._planned[name] for name in self.controllers]
        configs = {name: self._config(name) for name in self._planned}
        for name, path in configs.items():
            jvm.write_properties(path, jvm.properties(self._planned[name], voters, settings, self._data / name))
        return configs

    def _config(self, node: str) -> Path:
        return self._run_dir / "logs" / node / "server.properties"

    def _make_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        self._wait(_READY_S, "the cluster's settings and coordinators", self._unprepared)
        self._admin.create_topics(topics)
        self._admin.await_leaders({TRANSACTION_LOG: None, GROUP_LOG: None})
        self._topics = tuple(f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions))

    def _absent(self) -> str:
        """Which brokers are not in service in everybody's eyes; empty when all are."""
        views = ask_all(lambda address: wire.metadata(address, 1.0), self._roles.brokers)
        silent = sorted(set(self.brokers) - set(views))
        if silent:
            return f"no answer from {', '.join(silent)}"
        seen = set.intersection(*(set(view.brokers) for view in views.values()))
        return ", ".join(name + " is not in service" for i, name in self._roles.names.items() if name in views and i not in seen)

    def _unprepared(self) -> str:
        """Set what must be set on the running cluster, and have Kafka make its internal topics; what was refused, else empty.

        Clusters formatted by 4.1+ (eligible leader replicas, KIP-966) ignore a broker-level min.insync.replicas. Asking for a
        coordinator makes the broker create the internal topic, with the broker's own settings.
        """
        name, asked = "min.insync.replicas", self._planned[self.brokers[0]].front
        try:
            wire.set_cluster_setting(asked, name, broker_settings(self._options.brokers, self._options.settings)[name])
            for kind in (wire.TRANSACTION, wire.GROUP):
                wire.find_coordinator(asked, kind, "fencepost")
        except OSError as e:
            return str(e)
        return ""

    def _wait(self, limit_s: float, what: str, problem: Callable[[], str]) -> None:
        """Ask until there is no problem. Raises ClusterError at the deadline, or at once when a started node died."""
        deadline = time.monotonic() + limit_s
        while last := problem():
            for node in self._planned:
                if self.pid(node) is None:
                    status = self._processes.status(node)
                    raise ClusterError(f"{node} ended with status {status} while waiting for {what}: {self._tail(node)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {limit_s:.0f} s for {what}; last seen: {last}. Logs: {self._run_dir / 'logs'}")
            time.sleep(0.05)

    def _tail(self, node: str) -> str:
        return jvm.telling_lines((self._run_dir / "logs" / node / "server.log").read_text(errors="replace"))

    # ---- what there is

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self._clients)

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
        """Tell which ids and groups the workload uses, for faults that aim at their coordinators; replaces what was told."""
        self._transactional_ids, self._groups = tuple(transactional_ids), tuple(groups)

    def bootstrap(self) -> str:
        return ",".join("{}:{}".format(*self._planned[name].front) for name in self.brokers)

    def admin(self) -> KafkaAdmin:
        return self._admin

    def roles(self) -> WireRoles:
        return self._roles

    def unavailable(self, capability: type) -> str | None:
        if capability is Partitionable and self._network is None:
            return self._options.missing().get(Partitionable, "the cluster was started outside its sandbox, on loopback")
        return None if isinstance(self, capability) else f"a local cluster cannot do this: {capability.__name__}"

    # ---- processes

    def spawn(self, client: str, argv: Sequence[str], **popen: Any) -> subprocess.Popen[Any]:
        if self._network and client not in self._network:
            self._network.add(client, plan.client_address(len(self._clients) + 1))
        if client not in self._clients:
            self._clients.append(client)
        with self._at(client):
            process = subprocess.Popen(argv, **popen)
        self._processes.put(client, process)
        return process

    def start(self, node: str) -> None:
        if node not in self._planned:
            return
        with self._starting:
            if node not in self._processes.names() or self.pid(node) is None:
                self._processes.put(node, self._launch(node))

    def _launch(self, node: str) -> subprocess.Popen[bytes]:
        argv = jvm.command(self._distribution, "kafka.Kafka", [str(self._config(node))], self._options.heap_mb, self._flags)
        with (self._run_dir / "logs" / node / "server.log").open("ab") as log, self._at(node):
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _at(self, node: str) -> Any:
        return self._network.inside(node) if self._network else nullcontext()

    def kill(self, node: str) -> None:
        self._processes.kill(node)

    def pid(self, node: str) -> int | None:
        return self._processes.pid(node)

    def answers(self, node: str) -> bool:
        if self.pid(node) is None:
            return False
        return wire.answers(self._planned[node].front) if node in self._planned else True

    def pause(self, node: str) -> None:
        self._processes.send(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._processes.send(node, signal.SIGCONT)

    def process_state(self, node: str) -> str:
        return self._processes.state(node)

    # ---- network

    def drop(self, pairs: Iterable[Pair]) -> None:
        self._networked().drop(pairs)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        self._networked().undrop(pairs)

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        return self._networked().probe(pairs)

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        return self._networked().dropped_packets(pairs)

    def _networked(self) -> Network:
        if self._network is None:
            raise ClusterError(f"packets cannot be dropped: {self.unavailable(Partitionable)}")
        return self._network

    def heal(self) -> None:
        """Undrop everything, thaw everybody, start dead nodes, and wait (60 s) until all answer. Raises ClusterError."""
        if self._network:
            self._network.undrop_all()
        for name in self._processes.names():
            self.resume(name)
        for name in self._planned:
            self.start(name)
        self._wait(_HEAL_S, "all nodes to answer", self._silent)

    def _silent(self) -> str:
        addresses = {name: node.front for name, node in self._planned.items()}
        answering = ask_all(wire.answers, addresses)
        return ", ".join(f"{name} does not answer" for name, answers in answering.items() if not answers)
