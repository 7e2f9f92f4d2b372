"""The options of the `ssh` cluster: which host is which node, and how it is reached."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fencepost.clusters.fault_tools.network_capabilities import NETWORK_CAPABILITIES
from fencepost.clusters.kafka.options import EnvironmentOptions, KafkaOptions
from fencepost.harness.api import Between, ClusterError, Corruptible, Fillable

if TYPE_CHECKING:
    from fencepost.clusters.ssh.host import SshHost

ELSEWHERE = "files on other hosts are not damaged: choose the cluster local or docker"
PORTS = 5  # of a node: for clients, brokers and controllers, and two for probes


@dataclass(frozen=True, kw_only=True)
class SshOptions(KafkaOptions, EnvironmentOptions):
    """The options of `[test.cluster]` with `kind = "ssh"`."""

    hosts: tuple[str, ...] = ()  # one per broker and controller: host, user@host or user@host:port
    user: str = ""  # where `hosts` names none; default: who runs the harness
    key: str = ""  # path of a private key; default: those of ~/.ssh and of the agent
    known_hosts: str = ""  # path; default: ~/.ssh/known_hosts
    verify_host_keys: bool = True  # refuse hosts that are not in known_hosts
    directory: str = "/var/tmp/fencepost"  # there; jars stay in it, a run's data goes with the run
    addresses: tuple[str, ...] = ()  # IPv4 addresses for Kafka, one per host; default: those behind the names in `hosts`
    port: Annotated[int, Between(1024, 65536 - PORTS)] = 9092  # for clients; the four above too (9093-9094 TCP, 9095-9096 UDP)
    sudo: bool = False  # change packet rules and mount disks by `sudo -n`, for users other than root
    java: str = "java"  # the program there
    python: str = "python3"  # the program there
    lease_s: Annotated[float, Between(2, 600)] = 15.0  # how long a host waits for a silent harness, before it undoes all

    def mistakes(self) -> list[str]:
        wanted, mistakes = self.brokers + self.controllers, super().mistakes()
        if len(self.hosts) < wanted:
            mistakes.append(f"hosts: {len(self.hosts)} named, {wanted} needed, one for every broker and controller")
        if self.addresses and len(self.addresses) != len(self.hosts):
            mistakes.append(f"addresses: {len(self.addresses)} named for {len(self.hosts)} hosts; name one for each, or none")
        if len(set(self.hosts)) < len(self.hosts):
            mistakes.append("hosts: one is named twice; every node needs a host of its own")
        return mistakes + [f"hosts: {error}" for text in self.hosts if (error := _unreadable(text))]

    def missing(self) -> dict[type, str]:
        """The missing capabilities that are known without asking the hosts; they are asked when the cluster starts."""
        lacking, plain = (
            {**super().missing(), Corruptible: ELSEWHERE},
            sorted({host.user for host in self.hosts_by_node().values()} - {"root"}),
        )
        if self.sudo or not plain:
            return lacking
        refused = f"need root, and {', '.join(plain)} may not use sudo (`sudo = true`)"
        reasons = {**lacking, **dict.fromkeys(NETWORK_CAPABILITIES, f"packet rules {refused}")}
        return {**reasons, **({Fillable: f"disks {refused}"} if self.disk_mb else {})}

    # ---- which host is which node

    def hosts_by_node(self) -> dict[str, SshHost]:
        """Node -> its host, not yet connected."""
        from fencepost.clusters.ssh.host import HostAddress, Login, SshHost

        login = Login(self.user, self.key, self.known_hosts, self.verify_host_keys)
        return {node: SshHost(HostAddress.read(text), login, self.python) for node, text in self._by_node(self.hosts).items()}

    def addresses_by_node(self) -> dict[str, str]:
        """Node -> the IPv4 address where its Kafka listens. Raises ClusterError: unknown, or the same for two."""
        texts = self._by_node(self.addresses) or {node: host.address.host for node, host in self.hosts_by_node().items()}
        addresses = {node: _ipv4(text) for node, text in texts.items()}
        if len(set(addresses.values())) < len(addresses):
            raise ClusterError(f"every node needs an address of its own, and these are {addresses}; `addresses` names them")
        return addresses

    def _by_node(self, items: Sequence[str]) -> dict[str, str]:
        return {name: items[i] for i, name in enumerate(self.nodes())} if items else {}


def _unreadable(text: str) -> str:
    from fencepost.clusters.ssh.host import HostAddress

    try:
        HostAddress.read(text)
    except ValueError as error:
        return str(error)
    return ""


def _ipv4(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise ClusterError(f"{name} has no IPv4 address that this machine knows: {error}; name one in `addresses`") from error
