"""The running `local` cluster: Kafka's brokers and controllers as JVMs in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fencepost.clusters.kafka import node_plan, storage
from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.distribution import Distribution
from fencepost.clusters.local import services
from fencepost.clusters.local.options import LocalOptions
from fencepost.clusters.local.proxied_sandbox import ProxiedSandbox
from fencepost.harness.api import TopicSpec


class LocalCluster(ProxiedSandbox):
    """`Cluster` with every capability, those of the network in namespaces only. Safe to use from several threads."""

    _options: LocalOptions

    def __init__(self, options: LocalOptions, run_dir: Path, distributions: Mapping[str, Distribution]) -> None:
        self._distributions = distributions
        super().__init__(options, run_dir)

    def _plan_nodes(self, listen: node_plan.Listen) -> list[PlannedNode]:
        planned = node_plan.nodes(self._options.brokers, self._options.controllers, listen, self._options.second_brokers)
        return node_plan.behind_proxies(planned, listen) if self._options.proxy else planned

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Bring Kafka up, in a network of its own where there is one."""
        self.prepare()
        self._start_relays()
        self.start_proxies()
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

    def message_jars(self, node: str) -> str:
        return self._distributions[self.version(node)].classpath()

    def command_line(self, node: str) -> list[str]:
        distribution = self._distributions[self.version(node)]
        return distribution.command("kafka.Kafka", [str(self._config(node))], self._options.heap_mb)

    @property
    def _keeps_storage(self) -> bool:
        return self._options.keep_storage
