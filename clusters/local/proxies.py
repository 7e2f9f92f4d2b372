"""The proxies before the brokers of a local cluster: a process for each broker, in the broker's own network namespace."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.node_plan import proxied
from fencepost.clusters.kafka.protocol import Address
from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.beneath import log_file, make_folder
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy.control import Control
from fencepost.harness.proxy.jars import with_proxy
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

CONTROL_PORT = 8474  # at the broker's own address; on loopback any that is free
HEAP_MB = 192


class LocalProxies:
    """The processes, as long as the cluster lives. Links that faults cut lie before them, as they lie before the brokers."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._ends = run_dir, ExitStack()
        self._running: dict[str, ProxyProcess] = {}

    def start(self, node: PlannedNode, classpath: str, inside: AbstractContextManager[None], port: int = 0) -> Control:
        """Start the proxy of a broker. inside: puts this thread into the broker's network namespace. Raises ClusterError."""
        make_folder(self._run_dir, RunFile.WIRE_LINES)
        settings = Settings(
            brokers=[
                Broker(upstream=_text(node.behind[name]), listen=_text(address), node=node.name)
                for name, address in proxied(node)
            ],
            control=f"{node.address[0]}:{port}",
            record=self._run_dir / RunFile.WIRE_LINES,
            node=node.name,
        )
        with log_file(self._run_dir, f"{RunFile.LOGS}/{node.name}/proxy.log") as log, inside:
            try:
                proxy = self._ends.enter_context(ProxyProcess(settings, with_proxy(classpath), log, heap_mb=HEAP_MB))
            except CampaignError as error:  # an address that is in use
                raise ClusterError(f"the proxy of {node.name} does not start: {'; '.join(error.mistakes)}") from error
        self._running[node.name] = proxy
        return proxy.control

    def ended(self) -> list[str]:
        """The brokers whose proxy has ended by itself."""
        return [node for node, proxy in self._running.items() if not proxy.is_alive()]

    def close(self) -> None:
        """End all of them."""
        self._ends.close()


def _text(address: Address) -> str:
    return "{}:{}".format(*address)
