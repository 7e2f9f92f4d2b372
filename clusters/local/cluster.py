"""The running `local` cluster: its processes, and its network and data from start to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from fencepost.clusters.kafka import node_plan, storage
from fencepost.clusters.kafka.client_process import ClientProcess
from fencepost.clusters.kafka.distribution import Distribution
from fencepost.clusters.local import services
from fencepost.clusters.local.environment import LocalEnvironment
from fencepost.clusters.local.init import NETWORK
from fencepost.clusters.local.network import Network
from fencepost.clusters.local.options import LocalOptions
from fencepost.clusters.local.processes import NodeProcess, NodeProcesses
from fencepost.harness.api import TopicSpec
from fencepost.harness.api.beneath import log_file


class LocalCluster(LocalEnvironment):
    """`Cluster` with every capability, those of the network in namespaces only. Safe to use from several threads."""

    def __init__(self, options: LocalOptions, run_dir: Path, distributions: Mapping[str, Distribution]) -> None:
        self._options, self._distributions = options, distributions
        self._network = Network() if os.environ.get(NETWORK) == "namespaces" and not options.loopback else None
        self._processes = NodeProcesses()
        self._starting = threading.Lock()
        listen = node_plan.private if self._network else node_plan.loopback
        nodes = node_plan.nodes(options.brokers, options.controllers, listen, options.second_brokers)
        super().__init__(nodes, run_dir, options)

    # ---- up and down

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Bring Kafka up, in a network of its own where there is one."""
        if self._network:
            for node in self._planned.values():
                self._network.add(node.name, node.address[0])
        self._start_relays()
        self._prepare_environment()
        self.bring_up(topics, storage.local_tool(self._distributions[self.kafka_version]))

    @property
    def services(self) -> tuple[str, ...]:
        """The nodes of declared services; none where there is no network of their own."""
        return tuple(self._options.services) if self._network else ()

    def _start_relays(self) -> None:
        """Start the relay of each declared service at a node of its own."""
        addresses = self._options.service_addresses()
        for name in self.services:
            host, port = services.address_of(addresses[name])
            assert self._network is not None
            self._network.add(name, host)
            with self._network.inside(name):
                self._processes.add(name, services.start_inside(name, host, port))

    def end(self) -> None:
        """Kill every process, keep the log segments if asked, remove the data."""
        with ExitStack() as steps:
            steps.callback(shutil.rmtree, self._data, ignore_errors=True)
            if self._mounted:
                steps.callback(self._mounted.close)
            if self._throttles:
                steps.callback(self._throttles.close)
            if self._options.keep_storage:
                steps.callback(self.collect_storage, self._run_dir)
            if self._network:
                steps.callback(self._network.close)
            steps.callback(self._processes.kill_all)

    # ---- processes

    def spawn(self, client: str, argv: Sequence[str], *, reads: Sequence[str] = (), **popen: Any) -> ClientProcess:
        if self._network and client not in self._network:
            self._network.add(client, node_plan.client_address(len(self._clients) + 1))
        with self._at(client):
            process = ClientProcess(argv, **popen)
        self._processes.add(client, process)
        self._started(client)
        return process

    def start(self, node: str) -> None:
        if node not in self._planned:
            return
        with self._starting:
            if node not in self._processes.names() or self.pid(node) is None:
                self._processes.add(node, self._launch(node))

    def _launch(self, node: str) -> NodeProcess:
        distribution = self._distributions[self.version(node)]
        argv = distribution.command("kafka.Kafka", [str(self._config(node))], self._options.heap_mb)
        with log_file(self._run_dir, self._place(node, "server.log")) as log, self._at(node):
            quiet = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            return self._start_in_environment(node, argv, **quiet, start_new_session=True)

    def _at(self, node: str) -> Any:
        return self._network.inside(node) if self._network else nullcontext()

    def kill(self, node: str) -> None:
        self._processes.kill(node)

    def stop(self, node: str) -> None:
        self._processes.send(node, signal.SIGTERM)

    def pid(self, node: str) -> int | None:
        return self._processes.pid(node)

    def pause(self, node: str) -> None:
        self._processes.send(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._processes.send(node, signal.SIGCONT)

    def status(self, node: str) -> int | None:
        return self._processes.status(node)

    def process_state(self, node: str) -> str:
        return self._processes.state(node)

    def heal(self) -> None:
        """End all faults, thaw and start all nodes, and wait (60 s) until all answer. Raises ClusterError."""
        self._heal_environment()
        for name in self._processes.names():
            self.resume(name)
        self.await_answers()
