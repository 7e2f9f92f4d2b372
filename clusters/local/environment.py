"""The environment of brokers in a sandbox: its network, disks and clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.clusters.fault_tools.disk_throttle.capability import ThrottledDisks
from fencepost.clusters.fault_tools.disk_throttle.throttles import Throttles
from fencepost.clusters.fault_tools.environment import BrokerEnvironment
from fencepost.clusters.fault_tools.network_capabilities import NETWORK_CAPABILITIES
from fencepost.clusters.kafka.client_process import ClientProcess
from fencepost.clusters.local import clocks, disks
from fencepost.clusters.local.network import Network
from fencepost.clusters.local.options import SandboxOptions
from fencepost.clusters.local.processes import NodeProcess
from fencepost.harness.api import ClusterError, Partitionable, Throttleable
from fencepost.harness.secrets import environment_without_secrets


class LocalEnvironment(BrokerEnvironment, ThrottledDisks):
    """`BrokerEnvironment`, with a network in namespaces only; `Throttleable` (with `slow_disks`)."""

    _options: SandboxOptions
    _network: Network | None
    _mounted: disks.MountedDisks | None = None

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            return f"a local cluster cannot do this: {capability.__name__}"
        if self._network is None and capability in NETWORK_CAPABILITIES:
            return self._options.missing().get(capability, "the cluster was started outside its sandbox, on loopback")
        if capability is Throttleable:
            return self._options.throttle_trouble() or None
        in_network = self._missing_in_network(capability) if self._network else None
        return self._options.missing_by_choice().get(capability) or in_network or self._missing_power_failure(capability)

    def _usable_network(self) -> Network:
        if self._network is None:
            raise ClusterError(f"nothing can be done to the network: {self.unavailable(Partitionable)}")
        return self._network

    def _prepare_environment(self) -> None:
        """Make disks and clocks, before storage is formatted. Raises ClusterError where that cannot be done."""
        if self._options.disk_mb:
            self._disks = self._mounted = disks.MountedDisks((self._data / name for name in self._planned), self._options.disk_mb)
        if self._options.skewable:
            self._clocks = clocks.sandbox_clocks(self._run_dir / "logs", self._planned)
        if not self._options.throttle_trouble():
            self._throttles = Throttles({node: self._data / node for node in self._planned})

    def _start_in_environment(self, node: str, argv: Sequence[str], env: Mapping[str, str], **popen: Any) -> NodeProcess:
        """Start a node's process with its clock, and by its throttle program; `popen` as for `subprocess.Popen`.

        env: variables beside those of this process.
        """
        own = {**env, **(self._clocks.environment(node) if self._clocks else {})}
        if self._throttles is None:
            return ClientProcess(argv, env={**environment_without_secrets(), **own}, **popen)
        program = ["env", *(f"{name}={value}" for name, value in own.items()), *argv]
        return self._throttles.start(node, program, env=environment_without_secrets(), start_new_session=True, **popen)

    def _heal_environment(self) -> None:
        """End every fault on links, disks and clocks."""
        if self._network:
            self._network.undrop_all()
        if self._throttles:
            self._throttles.end_all()
        super()._heal_environment()
