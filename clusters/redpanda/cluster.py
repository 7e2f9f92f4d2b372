"""The running `redpanda` cluster: `DockerCluster` with Redpanda in its containers, and roles found by other requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fencepost.clusters.docker.cluster import DockerCluster
from fencepost.clusters.docker.container import Container, LogFile
from fencepost.clusters.docker.images import Image
from fencepost.clusters.docker.run_resources import RunResources, mount
from fencepost.clusters.kafka.node_plan import fitted
from fencepost.clusters.kafka.other_broker import READY_S, OtherBrokerCluster
from fencepost.clusters.redpanda.admin import PORT, RedpandaAdmin
from fencepost.clusters.redpanda.options import RedpandaOptions
from fencepost.clusters.redpanda.settings import CONFIG, DATA, bootstrap_file, command, topic_settings
from fencepost.harness.api import TopicSpec
from fencepost.harness.api.beneath import make_folder, write_text


class RedpandaCluster(OtherBrokerCluster, DockerCluster):
    """`Cluster`, `Killable`, `Pausable`, `Partitionable` and what else containers can do. Safe to use from several threads."""

    transaction_listing = None  # type: ignore[assignment]  # its answers to KIP-664's requests have not been compared with Kafka's

    def __init__(self, options: RedpandaOptions, run_dir: Path, resources: RunResources, images: Mapping[str, Image]) -> None:
        # DockerCluster uses only those options of `docker` that RedpandaOptions has too
        super().__init__(cast(Any, options), run_dir, resources, images)
        self._own_mb = options.own_mb
        self._take_roles(self._roles.names)
        places = {node: f"http://{planned.address[0]}:{PORT}" for node, planned in self._planned.items()}
        self._admin = RedpandaAdmin(self.bootstrap(), self._roles, places)

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Bring Redpanda up, in a network that has been probed. Raises ClusterError."""
        self._require_open_network()
        for node in self._planned:
            (self._data / node).mkdir(parents=True)
            make_folder(self._run_dir, self._place(node, "etc"))
            write_text(self._run_dir, self._place(node, "etc/.bootstrap.yaml"), bootstrap_file(self._settings))
        for node in self._planned:
            self.start(node)
        self._wait(READY_S, "the brokers to join", self._missing_brokers)
        self._make_topics({name: _accepted(spec, len(self.brokers)) for name, spec in topics.items()})

    def _etc(self, node: str) -> Path:
        return self._log(node).parent / "etc"

    def _launch(self, node: str) -> Container:
        image = self._images[self.version(node)]
        argv = command(self._planned[node], list(self._planned.values()), self._own_mb)
        mounts = [mount(self._data / node, DATA), mount(self._etc(node), CONFIG)]
        settings = {**self._joined(node, mounts), **self._limits()}
        return Container(
            self._resources.client,
            self._name(node),
            image.name,
            argv,
            LogFile(self._run_dir, self._place(node, "server.log")),
            settings,
        )


def _accepted(spec: TopicSpec, brokers: int) -> TopicSpec:
    """The topic with the settings that Redpanda has, and an odd number of replicas."""
    fit = fitted(spec, brokers)
    odd = fit.replication if fit.replication % 2 else fit.replication - 1
    return TopicSpec(partitions=fit.partitions, replication=odd, settings=topic_settings(fit.settings))
