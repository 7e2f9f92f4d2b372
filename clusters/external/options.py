"""The options of the `external` cluster, and the capabilities that brokers lack which fencepost does not run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fencepost.clusters.external.proxies import refusal as no_proxy
from fencepost.clusters.kafka.options import NO_PROXY
from fencepost.harness.api import (
    Between,
    CampaignError,
    Interceptable,
    Killable,
    ListingTransactions,
    Losable,
    Measurable,
    Partitionable,
    Pausable,
    Scalable,
    Slowable,
)
from fencepost.harness.api.bounds import out_of_bounds
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.secrets import mistakes

NOT_OURS = "fencepost does not run these brokers and cannot hurt them; a fault of your own can (nemesis/README.md)"
SHARED_NETWORK = "clients reach these brokers over this machine's own network, which fencepost does not cut"
CLIENT_CAPABILITIES: tuple[type, ...] = (Killable, Pausable, Scalable)  # what can be done to clients
NETWORK_CAPABILITIES: tuple[type, ...] = (Partitionable, Losable, Slowable)
BROKER_CAPABILITIES: tuple[type, ...] = tuple(
    capability
    for capability in (*CAPABILITIES, ListingTransactions)
    if capability not in (*CLIENT_CAPABILITIES, *NETWORK_CAPABILITIES, Measurable, Interceptable)
)
_ADDRESS = re.compile(r"[^\s,:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, kw_only=True)
class ExternalOptions:
    """The options of `[test.cluster]` with `kind = "external"`.

    bootstrap: `host:port`, several with commas
    settings: client settings to connect with, librdkafka's names (security.protocol, sasl.*, ssl.*); secrets as `env:NAME` or
        `file:/path`
    prefix: what topics, groups, transactional ids and client ids of ours begin with; the run's id follows
    replication: of the run's topics; no more than there are brokers
    kafka: the brokers' version, if you want it in the report; a cluster does not tell
    proxy: a proxy on this machine between clients and brokers, for the fault `protocol` and a record of what is on the wire
    """

    default_nemesis: ClassVar[tuple[str, ...]] = ()
    only_clients: ClassVar[str] = "fencepost does not run these brokers; only clients can be killed and paused"

    bootstrap: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = "fencepost-"
    replication: Annotated[int, Between(1, 100)] = 3
    kafka: str = ""
    proxy: bool = False

    def __post_init__(self) -> None:
        if wrong := [*self._own_mistakes(), *self._settings_mistakes()]:
            raise CampaignError(wrong)

    def _own_mistakes(self) -> list[str]:
        wrong = [
            f'bootstrap: "{address}" is not host:port'
            for address in self.bootstrap.split(",")
            if not _ADDRESS.fullmatch(address.strip())
        ]
        if not _PREFIX.fullmatch(self.prefix):
            wrong.append(f'prefix = "{self.prefix}": 1 to 100 letters, digits, dots, dashes and underscores')
        if self.proxy and (reason := no_proxy(self.settings)):
            wrong.append(f"proxy: {reason}")
        return [*wrong, *out_of_bounds(self)]

    def _settings_mistakes(self) -> list[str]:
        from fencepost.clusters.external.connection import OURS, refusal

        wrong = [f"settings.{key}: {text}" for key, text in mistakes(self.settings)]
        wrong += [f"settings.{key}: is set by fencepost itself" for key in self.settings if key in OURS]
        if wrong:
            return wrong
        reason = refusal(self.settings)
        return [f"settings: {reason}"] if reason else []

    def missing(self) -> dict[type, str]:
        reasons = {self.only_clients: CLIENT_CAPABILITIES, NOT_OURS: BROKER_CAPABILITIES, SHARED_NETWORK: NETWORK_CAPABILITIES}
        missing = {capability: reason for reason, capabilities in reasons.items() for capability in capabilities}
        return missing if self.proxy else {**missing, Interceptable: NO_PROXY}

    def connection(self) -> Mapping[str, Any]:
        return self.settings
