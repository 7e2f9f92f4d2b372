"""The options of the `redpanda` cluster, and which capabilities it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fencepost.clusters.kafka.options import THROTTLE_ONLY_LOCAL
from fencepost.clusters.redpanda.settings import properties
from fencepost.harness.api import (
    Between,
    CampaignError,
    Fillable,
    Killable,
    Losable,
    Measurable,
    Partitionable,
    Pausable,
    Powered,
    Scalable,
    Skewable,
    Slowable,
    Stoppable,
    Throttleable,
    Upgradable,
    Wipeable,
)
from fencepost.harness.api.bounds import out_of_bounds
from fencepost.harness.api.capabilities import CAPABILITIES

LEAST_MB, MOST_MB = 512, 1 << 17
AVAILABLE = (Killable, Stoppable, Pausable, Scalable, Partitionable, Measurable, Losable, Slowable)
UNKNOWN = "how Redpanda does this is not known here"
_OTHERS_MB = 256  # of a container's memory: for what is not the broker's own


@dataclass(frozen=True, kw_only=True)
class RedpandaOptions:
    """The options of `[test.cluster]` with `kind = "redpanda"`."""

    controllers: ClassVar[int] = 0  # every broker is one
    keep_storage: ClassVar[bool] = False  # nothing here reads its log segments
    disk_mb: ClassVar[int] = 0  # nor knows how it does without room
    skewable: ClassVar[bool] = False  # nor how it tells its time

    brokers: Annotated[int, Between(1, 50)] = 3  # n1, n2, ...; each is a controller too
    redpanda: str = "v26.1.14"  # version: tag of the image
    image: str = "docker.redpanda.com/redpandadata/redpanda:{version}"  # `{version}` in it is the option `redpanda`
    settings: Mapping[str, Any] = field(default_factory=dict)  # cluster properties, laid over ours
    memory_mb: Annotated[int, Between(LEAST_MB + _OTHERS_MB, MOST_MB)] = 1536  # of each container; beyond, the kernel ends it
    cpus: Annotated[float, Between(0, 1024)] = 0.0  # processors of each broker's container; 0: no limit

    def __post_init__(self) -> None:
        if wrong := out_of_bounds(self):
            raise CampaignError(wrong)

    @property
    def own_mb(self) -> int:
        """The memory (MB) that the broker itself may use."""
        return self.memory_mb - _OTHERS_MB

    def all_versions(self) -> list[str]:
        return [self.redpanda]

    def version(self, _node: str) -> str:
        return self.redpanda

    def effective_settings(self) -> dict[str, Any]:
        """Cluster properties laid over those of the development mode."""
        return properties(self.brokers, self.settings)

    def missing(self) -> dict[type, str]:
        unknown = dict.fromkeys((capability for capability in CAPABILITIES if capability not in AVAILABLE), UNKNOWN)
        return {
            **unknown,
            Upgradable: "Redpanda is not changed in the middle of a run",
            Wipeable: "every broker of Redpanda is one of its controllers, and a controller must not forget",
            Fillable: "how Redpanda does without room on its disk is not known here",
            Throttleable: THROTTLE_ONLY_LOCAL,
            Skewable: "how Redpanda tells its time is not known here",
            Powered: "what Redpanda has synced, and where it notes it, is not known here",
        }
