"""The base class of clusters whose nodes are processes in a sandbox: their network and data from start to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from fencepost.clusters.kafka import node_plan
from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.client_process import ClientProcess
from fencepost.clusters.local.environment import LocalEnvironment
from fencepost.clusters.local.init import NETWORK
from fencepost.clusters.local.network import Network
from fencepost.clusters.local.options import SandboxOptions
from fencepost.clusters.local.processes import NodeProcess, NodeProcesses
from fencepost.harness.api.beneath import log_file


class SandboxCluster(LocalEnvironment):
    """`Cluster` with every capability, those of the network in namespaces only. Safe to use from several threads."""

    def __init__(self, options: SandboxOptions, run_dir: Path) -> None:
        self._options = options
        self._network = Network() if os.environ.get(NETWORK) == "namespaces" and not options.loopback else None
        self._processes = NodeProcesses()
        self._starting = threading.Lock()
        super().__init__(self._plan_nodes(node_plan.private if self._network else node_plan.loopback), run_dir, options)

    # ---- what a provider adds

    @abstractmethod
    def _plan_nodes(self, listen: node_plan.Listen) -> list[PlannedNode]: ...

    @abstractmethod
    def command_line(self, node: str) -> list[str]:
        """The command line of a node's process, as its next start runs it."""

    def own_environment(self, node: str) -> dict[str, str]:
        """Variables of a node's process, beside those of this one."""
        return {}

    def working_directory(self, node: str) -> Path | None:
        """The directory in which a node's process starts; None: that of this process."""
        return None

    # ---- up and down

    def prepare(self) -> None:
        """Give every node its network, disk and clock, before anything of its own is written. Raises ClusterError."""
        if self._network:
            for node in self._planned.values():
                self._network.add(node.name, node.address[0])
        self._prepare_environment()

    def end(self) -> None:
        """Kill every process, keep the log segments if asked, remove the data."""
        with ExitStack() as steps:
            steps.callback(shutil.rmtree, self._data, ignore_errors=True)
            if self._mounted:
                steps.callback(self._mounted.close)
            if self._throttles:
                steps.callback(self._throttles.close)
            if self._keeps_storage:
                steps.callback(self.collect_storage, self._run_dir)
            if self._network:
                steps.callback(self._network.close)
            steps.callback(self._processes.kill_all)

    @property
    def _keeps_storage(self) -> bool:
        """Whether the nodes' log segments are copied into the run's directory at the end."""
        return False

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
        argv, env = self.command_line(node), self.own_environment(node)
        with log_file(self._run_dir, self._place(node, "server.log")) as log, self._at(node):
            quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            return self._start_in_environment(node, argv, env, cwd=self.working_directory(node), **quiet)

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
