"""The options of clusters in a sandbox, and of `local`, and which capabilities this machine lacks with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.clusters.fault_tools import faketime
from fencepost.clusters.fault_tools.disk_throttle import throttles
from fencepost.clusters.fault_tools.network_capabilities import NETWORK_CAPABILITIES
from fencepost.clusters.kafka.node_plan import service_address
from fencepost.clusters.kafka.options import NO_PROXY, NO_THROTTLE, EnvironmentOptions, TwoClusterOptions
from fencepost.clusters.local import sandbox, services
from fencepost.harness.api import Fillable, Interceptable, Partitionable, Skewable, Throttleable


@dataclass(frozen=True, kw_only=True)
class SandboxOptions(EnvironmentOptions):
    """Options of clusters whose nodes are processes of this machine, in a sandbox."""

    loopback: bool = False  # no namespaces even where they are allowed
    slow_disks: bool = False  # lets a fault make the brokers' disks slow

    def mistakes(self) -> list[str]:
        wrong = super().mistakes()
        if (self.disk_mb or self.skewable) and self.loopback:
            wrong.append("disk_mb and skewable need a namespace to mount in, and loopback = true has none")
        return wrong

    def missing(self) -> dict[type, str]:
        reasons = {**self.missing_by_choice(), **self._missing_in_sandbox()}
        reasons[Throttleable] = self.throttle_trouble()
        if self.skewable:
            reasons[Skewable] = faketime.trouble()
        return {capability: reason for capability, reason in reasons.items() if reason}

    def missing_by_choice(self) -> dict[type, str]:
        """The capabilities that the options leave out, whatever this machine allows."""
        return super().missing()

    def throttle_trouble(self) -> str:
        """The reason why no disk can be slow; empty when it can."""
        return throttles.trouble() if self.slow_disks else NO_THROTTLE

    def _missing_in_sandbox(self) -> dict[type, str]:
        if self.loopback:
            return dict.fromkeys(NETWORK_CAPABILITIES, "the campaign asks for loopback = true, where nodes share one address")
        support, capabilities = sandbox.namespace_support(), (*NETWORK_CAPABILITIES, Fillable)
        if support.reason:
            return dict.fromkeys(capabilities, support.reason)
        return {
            capability: support.missing[capability.__name__]
            for capability in capabilities
            if capability.__name__ in support.missing
        }


@dataclass(frozen=True, kw_only=True)
class LocalOptions(SandboxOptions, TwoClusterOptions):
    """The options of `[test.cluster]` with `kind = "local"`."""

    proxy: bool = False  # a proxy before each broker, for the fault `protocol` and a record of what is on the wire
    services: Mapping[str, str] = field(default_factory=dict)  # outside services for clients: { postgres = "127.0.0.1:5432" }

    def mistakes(self) -> list[str]:
        return [*super().mistakes(), *services.mistakes(self.services)]

    def missing_by_choice(self) -> dict[type, str]:
        reasons = super().missing_by_choice()
        return {**reasons, Interceptable: "" if self.proxy else NO_PROXY}

    def service_addresses(self) -> dict[str, str]:
        """The address (`host:port`) of each declared service, as clients reach it; without namespaces its own."""
        if Partitionable in self.missing():
            return dict(self.services)
        ports = (services.address_of(target)[1] for target in self.services.values())
        named = zip(self.services, ports, strict=True)
        return {name: f"{service_address(number)}:{port}" for number, (name, port) in enumerate(named, 1)}
