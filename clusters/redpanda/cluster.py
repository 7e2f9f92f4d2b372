"""The running `redpanda` cluster: `DockerCluster` with Redpanda in its containers, and roles found by other requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fencepost.clusters.docker.cluster import DockerCluster
from fencepost.clusters.docker.container import Container, LogFile
from fencepost.clusters.docker.images import Image
from fencepost.clusters.docker.run_resources import RunResources, mount
from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.admin import KafkaAdmin
from fencepost.clusters.kafka.node_plan import fitted
from fencepost.clusters.kafka.roles import WireRoles, ask_all
from fencepost.clusters.redpanda.options import RedpandaOptions
from fencepost.clusters.redpanda.settings import CONFIG, DATA, bootstrap_file, command, topic_settings
from fencepost.harness.api import ClusterError, TopicSpec
from fencepost.harness.api.beneath import make_folder, write_text

_ASK_S, _READY_S = 1.0, 90.0


class RedpandaRoles(WireRoles):
    """Coordinators as FindCoordinator names them (their logs are no Kafka topics), the controller as Metadata does."""

    def controller(self) -> str:
        """The controller that most brokers name."""
        views = ask_all(lambda address: protocol.metadata(address, _ASK_S), self.brokers)
        claims = Counter(view.controller for view in views.values() if view.controller in self.names)
        if not claims:
            raise ClusterError(f"nobody names a controller: {len(views)} of {len(self.brokers)} brokers answered")
        return self.names[claims.most_common(1)[0][0]]

    def transaction_coordinator(self, transactional_id: str) -> str:
        return self._named(protocol.TRANSACTION, transactional_id)

    def group_coordinator(self, group: str) -> str:
        return self._named(protocol.GROUP, group)

    def _named(self, kind: int, key: str) -> str:
        claims = ask_all(lambda address: protocol.find_coordinator(address, kind, key, _ASK_S), self.brokers)
        known = Counter(node for node in claims.values() if node in self.names)
        if not known:
            raise ClusterError(f"nobody names a coordinator for {key}: {len(claims)} of {len(self.brokers)} brokers answered")
        return self.names[known.most_common(1)[0][0]]


class RedpandaCluster(DockerCluster):
    """`Cluster`, `Killable`, `Pausable`, `Partitionable` and what else containers can do. Safe to use from several threads."""

    transaction_listing = None  # type: ignore[assignment]  # its answers to KIP-664's requests have not been compared with Kafka's

    def __init__(self, options: RedpandaOptions, run_dir: Path, resources: RunResources, images: Mapping[str, Image]) -> None:
        # DockerCluster uses only those options of `docker` that RedpandaOptions has too
        super().__init__(cast(Any, options), run_dir, resources, images)
        self._own_mb = options.own_mb
        self._roles = RedpandaRoles(self._roles.names, self._roles.brokers, {})
        self._admin = KafkaAdmin(self.bootstrap(), self._roles)

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Bring Redpanda up, in a network that has been probed. Raises ClusterError."""
        self._require_open_network()
        for node in self._planned:
            (self._data / node).mkdir(parents=True)
            make_folder(self._run_dir, self._place(node, "etc"))
            write_text(self._run_dir, self._place(node, "etc/.bootstrap.yaml"), bootstrap_file(self._settings))
        for node in self._planned:
            self.start(node)
        self._wait(_READY_S, "the brokers to join", self._missing_brokers)
        self._make_topics({name: _accepted(spec, len(self.brokers)) for name, spec in topics.items()})

    def _make_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        self._wait(_READY_S, "the coordinators", self._setup_problem)
        self._admin.create_topics(topics)
        self._topics = tuple(f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions))

    def _setup_problem(self) -> str:
        """Asking for a coordinator makes the broker create what it keeps its state in; what was refused, else empty."""
        first = self._planned[self.brokers[0]].address
        try:
            for kind in (protocol.TRANSACTION, protocol.GROUP):
                protocol.find_coordinator(first, kind, "fencepost")
        except OSError as error:
            return str(error)
        return ""

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
