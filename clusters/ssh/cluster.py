"""The running `ssh` cluster: a broker and its watcher on every host, workers on this machine."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from fencepost.clusters.kafka import broker_config, node_plan, storage
from fencepost.clusters.kafka.client_process import ClientProcess
from fencepost.clusters.kafka.distribution import Distribution
from fencepost.clusters.local.processes import NodeProcesses
from fencepost.clusters.ssh import install
from fencepost.clusters.ssh.environment import HostEnvironment
from fencepost.clusters.ssh.host import require_reachable
from fencepost.clusters.ssh.options import SshOptions
from fencepost.clusters.ssh.parallel import in_parallel
from fencepost.clusters.ssh.remote.watcher import CONFIG, DATA
from fencepost.clusters.ssh.watcher_client import WatcherClient
from fencepost.harness.api import ClusterError, TopicSpec

log = structlog.get_logger()
_KILL_S = 20.0


class SshCluster(HostEnvironment):
    """`Cluster` with every capability that its hosts allow. Safe to use from several threads.

    Requests to a host raise ClusterError when it does not answer in time; a connection that drops is made again.
    """

    def __init__(self, options: SshOptions, run_dir: Path, distributions: Mapping[str, Distribution]) -> None:
        self._options, self._distributions = options, distributions
        self._token = secrets.token_hex(4)
        self._run_name = f"{run_dir.resolve().name}-{self._token}"
        self._hosts, self._addresses = options.hosts_by_node(), options.addresses_by_node()
        self._watchers: dict[str, WatcherClient] = {}
        self._network, self._network_trouble = None, "the cluster has not been started"
        self._processes = NodeProcesses()
        super().__init__(_nodes(options, self._addresses), run_dir, options)

    # ---- up and down

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Install, start every watcher, and bring Kafka up."""
        require_reachable(self._hosts.values())
        in_parallel(self._prepare, self._hosts)
        in_parallel(lambda node: self._watchers[node].begin(self._watcher_settings(node)), self._watchers)
        self._prepare_environment()
        self.bring_up(topics, self._format)
        self._fetch_logs()

    def _prepare(self, node: str) -> None:
        host = self._hosts[node]
        install.inspect_host(host, self._options.directory, self._options.java)
        for version in dict.fromkeys([self.version(node), *self._options.upgrades]):
            install.install(host, self._distributions[version])
        run = f"{host.directory}/runs/{self._run_name}-{node}"
        self._watchers[node] = WatcherClient(node, host, run, self._options.lease_s, self._log(node))

    def _watcher_settings(self, node: str) -> dict[str, Any]:
        sudo = self._options.sudo and self._hosts[node].user != "root"
        return {"address": self._addresses[node], "port": self._options.port, "token": self._token + node, "sudo": sudo}

    def _format(self, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Format on this machine, with the node's configuration except its directory."""
        *options, config = arguments
        node = Path(config).parent.name
        here = self._data / f"{node}.properties"
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_text(Path(config).read_text() + f"log.dirs={self._data / node}\n")  # the last one counts
        return storage.local_tool(self._distributions[self.kafka_version])([*options, str(here)], timeout_s)

    def make_storage(self, tool: storage.Format, configs: Mapping[str, Path]) -> None:
        """Format here, and copy every node's directory and configuration to its host."""
        super().make_storage(tool, configs)

        def copy(node: str) -> None:
            install.copy_files(self._hosts[node], self._watchers[node].run, {DATA: self._data / node, CONFIG: configs[node]})

        in_parallel(copy, configs)
        shutil.rmtree(self._data)

    def end(self) -> None:
        """Kill every process, fetch the logs (and segments if asked), and leave only jars on the hosts.

        What cannot be done on a host that does not answer is logged, and done by the host itself when the lease is over.
        """
        with ExitStack() as steps:
            steps.callback(shutil.rmtree, self._data, ignore_errors=True)
            if self._network:
                steps.callback(self._network.close)
            steps.callback(in_parallel, self._end_host, list(self._watchers))
            steps.callback(self._processes.kill_all)

    def _end_host(self, node: str) -> None:
        watcher = self._watchers[node]
        try:
            if not watcher.begun:
                return
            watcher.ask("signal", number=int(signal.SIGKILL))
            if self._options.keep_storage:
                self._await_gone(node)
                self._fetch_storage(node, self._run_dir)
            watcher.fetch_log()
            watcher.end()
        except ClusterError as error:
            log.error(
                "not tidied up", node=node, error=str(error), remedy=f"the host does it itself within {watcher.lease_s:g} s"
            )
        finally:
            watcher.host.drop()

    def collect_storage(self, run_dir: Path) -> None:
        in_parallel(lambda node: self._fetch_storage(node, run_dir), self._watchers)

    def _fetch_storage(self, node: str, run_dir: Path) -> None:
        install.fetch_storage(self._hosts[node], self._watchers[node].run, run_dir / "storage" / node)

    def _fetch_logs(self) -> None:
        in_parallel(lambda node: self._watchers[node].fetch_log(), self._watchers)

    def clock_jumps(self) -> dict[str, tuple[float, ...]]:
        return {node: watcher.clock_jumps for node, watcher in self._watchers.items()}

    def request_address(self, node: str) -> tuple[str, int]:
        """The inter-broker listener: the harness has the clients' address, and a fault on their links must not cut it off."""
        listeners = self._planned[node].listeners
        return listeners.get(broker_config.BROKER) or listeners[broker_config.CONTROLLER]

    # ---- processes

    def spawn(self, client: str, argv: Sequence[str], *, reads: Sequence[str] = (), **popen: Any) -> ClientProcess:
        process = ClientProcess(argv, **popen)
        self._processes.add(client, process)
        self._started(client)
        return process

    def start(self, node: str) -> None:
        if node in self._planned:
            host, distribution = self._hosts[node], self._distributions[self.version(node)]
            arguments = [f"{self._watchers[node].run}/{CONFIG}"]
            classpath = install.classpath(host, distribution)
            argv = broker_config.command(self._options.java, classpath, "kafka.Kafka", arguments, self._options.heap_mb)
            self._watchers[node].ask("start", argv=argv)

    def kill(self, node: str) -> None:
        if node in self._planned:
            self._watcher(node).ask("signal", number=int(signal.SIGKILL))
            self._await_gone(node)
        else:
            self._processes.kill(node)

    def stop(self, node: str) -> None:
        self._signal(node, signal.SIGTERM)

    def _await_gone(self, node: str) -> None:
        deadline = time.monotonic() + _KILL_S
        while pid := self.pid(node):
            if time.monotonic() > deadline:
                raise ClusterError(f"{node} (pid {pid}) still there {_KILL_S:.0f} s after SIGKILL")
            time.sleep(0.01)

    def pid(self, node: str) -> int | None:
        if node in self._planned:
            pid: int | None = self._watcher(node).ask("status")["pid"]
            return pid
        return self._processes.pid(node)

    def status(self, node: str) -> int | None:
        if node in self._planned:
            status: int | None = self._watcher(node).ask("status")["status"]
            return status
        return self._processes.status(node)

    def pause(self, node: str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: str, number: signal.Signals) -> None:
        if node in self._planned:
            self._watcher(node).ask("signal", number=int(number))
        else:
            self._processes.send(node, number)

    def process_state(self, node: str) -> str:
        return str(self._watcher(node).ask("status")["state"]) if node in self._planned else self._processes.state(node)

    def _watcher(self, node: str) -> WatcherClient:
        return self._watchers[node]

    def heal(self) -> None:
        """End all faults, thaw and start all nodes, and wait (60 s) until all answer. Raises ClusterError."""
        self._heal_environment()
        in_parallel(self.resume, [*self._planned, *self._processes.names()])
        self.await_answers()


def _nodes(options: SshOptions, addresses: Mapping[str, str]) -> list[broker_config.PlannedNode]:
    """The nodes, each at the address of its host, on the ports from `port` on."""
    ports = {
        name: options.port + i for i, name in enumerate((broker_config.CLIENT, broker_config.BROKER, broker_config.CONTROLLER))
    }
    planned = node_plan.nodes(options.brokers, options.controllers, lambda _kind, _number: ("", ports))
    return [
        replace(node, listeners={name: (addresses[node.name], port) for name, (_, port) in node.listeners.items()})
        for node in planned
    ]
