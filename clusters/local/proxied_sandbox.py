"""The base class of clusters in a sandbox with a proxy before each broker, where the test has any (docs/protocol-faults.md)."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.interception import BehindProxies, Interceptor
from fencepost.clusters.kafka.proxies import CONTROL_PORT, HEAP_MB, BrokerProxies
from fencepost.clusters.local.options import SandboxOptions
from fencepost.clusters.local.sandbox_cluster import SandboxCluster
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy.jars import with_proxy
from fencepost.harness.proxy.process import ProxyProcess, Settings


class ProxiedSandbox(SandboxCluster, BehindProxies):
    """A proxy is a process in its broker's own network namespace. It stands before the nodes that are planned `behind` one."""

    def __init__(self, options: SandboxOptions, run_dir: Path) -> None:
        self.interceptor = Interceptor()
        self._proxies = BrokerProxies(run_dir, self.interceptor, self._launch_proxy)
        super().__init__(options, run_dir)

    @abstractmethod
    def message_jars(self, node: str) -> str:
        """The class path with Kafka's messages, for the proxy before a node. Raises ClusterError."""

    def start_proxies(self) -> None:
        """Start the proxy of each broker, if the test has any, where the broker will be.

        Raises ClusterError, and CampaignError when a proxy refuses its settings.
        """
        for node in self._planned.values():
            if node.behind:
                self._proxies.start(node, CONTROL_PORT if self._network else 0)

    def _launch_proxy(self, node: PlannedNode, settings: Settings) -> ProxyProcess:
        classpath = with_proxy(self.message_jars(node.name))
        with log_file(self._run_dir, f"{RunFile.LOGS}/{node.name}/proxy.log") as log, self._at(node.name):
            return ProxyProcess(settings, classpath, log, heap_mb=HEAP_MB).__enter__()

    def end(self) -> None:
        try:
            self._proxies.close()
        finally:
            super().end()

    def _heal_environment(self) -> None:
        self.interceptor.withdraw_all()
        super()._heal_environment()
        self._proxies.restart_ended()
