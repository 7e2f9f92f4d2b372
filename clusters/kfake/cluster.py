"""The running `kfake` cluster: `command` with a built-in command line, and one process behind all brokers."""

from __future__ import annotations

from pathlib import Path

from fencepost.clusters.command.cluster import CommandCluster
from fencepost.clusters.command.options import CommandOptions
from fencepost.clusters.kfake import program
from fencepost.clusters.kfake.options import OF_CLIENTS, ONE_PROCESS, KfakeOptions
from fencepost.clusters.local.sandbox_cluster import SandboxCluster
from fencepost.harness.api import ClusterError


class KfakeCluster(CommandCluster):
    """`Cluster`; `Killable`, `Pausable` and `Scalable` for clients only."""

    only_clients = ONE_PROCESS
    transaction_listing = SandboxCluster.transaction_listing  # type: ignore[assignment]

    def __init__(self, options: KfakeOptions, run_dir: Path) -> None:
        settings = [f"{name}={value}" for name, value in options.effective_settings().items()]
        command = (str(program.ensure()), "{ports}", *settings)
        super().__init__(
            CommandOptions(command=command, brokers=options.brokers, title=program.version(), loopback=True), run_dir
        )

    def unavailable(self, capability: type) -> str | None:
        return None if capability in OF_CLIENTS else ONE_PROCESS  # `only_clients` has the reason for brokers

    # ---- one process behind all brokers

    def start(self, node: str) -> None:
        if node in self._planned:
            super().start(self.brokers[0])

    def pid(self, node: str) -> int | None:
        return super().pid(self._holder(node))

    def status(self, node: str) -> int | None:
        return super().status(self._holder(node))

    def process_state(self, node: str) -> str:
        return super().process_state(self._holder(node))

    def _log(self, node: str) -> Path:
        return super()._log(self._holder(node))

    def _holder(self, node: str) -> str:
        """The node whose process a node is in."""
        return self.brokers[0] if node in self._planned else node

    def kill(self, node: str) -> None:
        super().kill(self._client(node))

    def stop(self, node: str) -> None:
        super().stop(self._client(node))

    def pause(self, node: str) -> None:
        super().pause(self._client(node))

    def _client(self, node: str) -> str:
        if node in self._planned:
            raise ClusterError(f"{node}: {ONE_PROCESS}")
        return node
