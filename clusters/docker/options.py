"""The options of the `docker` cluster."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.kafka.options import MOST_MB, EnvironmentOptions


@dataclass(frozen=True, kw_only=True)
class DockerOptions(EnvironmentOptions):
    """The options of `[test.cluster]` with `kind = "docker"`."""

    image: str = (
        ""  # brokers' image, `{version}` in it is Kafka's; default: fencepost/kafka:{version}, else apache/kafka:{version}
    )
    memory_mb: int = 1536  # of each broker's container; more than that, and the kernel ends it
    cpus: float = 0.0  # processors of each broker's container; 0: no limit

    def mistakes(self) -> list[str]:
        unclear = [f'image = "{self.image}": one image cannot hold several versions; write {{version}} where the version belongs']
        one_for_all = self.image and "{version}" not in self.image
        return super().mistakes() + (unclear if one_for_all and len(self.all_versions()) > 1 else [])

    def limits(self) -> dict[str, tuple[float, float]]:
        return {**super().limits(), "memory_mb": (self.heap_mb + 128, 2 * MOST_MB), "cpus": (0, 1024)}
