"""The plug-in `ssh`: the supervisor, the description of the hosts for the plan, and the cluster from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.local import sandbox
from fencepost.clusters.ssh.options import SshOptions
from fencepost.harness.api import TopicSpec

if TYPE_CHECKING:
    from fencepost.clusters.ssh.cluster import SshCluster
    from fencepost.clusters.ssh.host import SshHost


@dataclass(frozen=True, kw_only=True)
class Ssh(SshOptions):
    """Brokers on any Linux hosts, by a user, a key and a directory; sshd, Python 3.9 and Java 17 there; clients run here."""

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` under a supervisor that ends the clients; what is on the hosts ends by its lease.

        Makes sure that Kafka is in this machine's cache. Raises ClusterError.
        """
        for version in self.all_versions():
            fetch(version)
        return sandbox.command(argv, loopback=True)

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Fetch every version that is used into this machine's cache. Raises CampaignError and ClusterError."""
        for version in self.all_versions():
            fetch(version, on_progress)

    def describe(self) -> dict[str, Any]:
        """The plan's entry, with present facts of each host. Raises ClusterError when one is unreachable or lacks anything."""
        from fencepost.clusters.ssh.host import require_reachable
        from fencepost.clusters.ssh.parallel import in_parallel

        hosts, addresses = self.hosts_by_node(), self.addresses_by_node()
        require_reachable(hosts.values())
        facts = dict(zip(hosts, in_parallel(self._inspect, hosts.values()), strict=True))
        for host in hosts.values():
            host.drop()
        return {
            "kafka": self.kafka,
            "versions": dict(self.versions),
            "upgrades": list(self.upgrades),
            "hosts": {
                node: {"ssh": str(host.address), "user": host.user, "address": addresses[node], **asdict(facts[node])}
                for node, host in hosts.items()
            },
            "jars": {name: checksum for version in self.all_versions() for name, checksum in fetch(version).jars.items()},
            "replication": self.replicas(),
            "broker_settings": self.effective_settings(),
            "eligible_leaders": self.eligible_leaders(),
            "controllers": self.controllers or "combined",
            "network": "hosts",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[SshCluster]:
        """Install what is missing, start every node, make the topics, yield the cluster ready; at the end leave only jars.

        Raises ClusterError, with the end of the log, when a node dies or is not ready within 90 s.
        """
        from fencepost.clusters.ssh.cluster import SshCluster

        cluster = SshCluster(self, run_dir, {version: fetch(version) for version in self.all_versions()})
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            cluster.end()

    def _inspect(self, host: SshHost) -> Any:
        from fencepost.clusters.ssh import install

        return install.inspect_host(host, self.directory, self.java)
