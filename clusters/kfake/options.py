"""The options of the `kfake` cluster, and which capabilities it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fencepost.clusters.kafka.options import NodeOptions
from fencepost.clusters.kfake import program
from fencepost.harness.api import Between, Killable, Pausable, Scalable
from fencepost.harness.api.capabilities import CAPABILITIES

ONE_PROCESS = "kfake's brokers are one process that holds everything in memory; only clients can be killed and paused"
OF_CLIENTS: tuple[type, ...] = (Killable, Pausable, Scalable)


@dataclass(frozen=True, kw_only=True)
class KfakeOptions(NodeOptions):
    """The options of `[test.cluster]` with `kind = "kfake"`.

    settings: broker settings that kfake has, by Kafka's names (`transactional.id.expiration.ms`)
    """

    default_nemesis: ClassVar[tuple[str, ...]] = ()
    only_clients: ClassVar[str] = ONE_PROCESS

    brokers: Annotated[int, Between(1, 9)] = 3  # n1, n2, ...: ports of one process
    settings: Mapping[str, Any] = field(default_factory=dict)

    def mistakes(self) -> list[str]:
        reason = program.missing()
        return [*super().mistakes(), *([reason] if reason else [])]

    def version(self, node: str) -> str:
        return program.version()

    def all_versions(self) -> list[str]:
        return [program.version()]

    def effective_settings(self) -> dict[str, str]:
        return {name: str(value).lower() for name, value in self.settings.items()}

    def missing(self) -> dict[type, str]:
        return {capability: ONE_PROCESS for capability in CAPABILITIES if capability not in OF_CLIENTS}
