"""The options of the `docker` cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fencepost.clusters.kafka.options import MOST_MB, NO_PROXY, TwoClusterOptions
from fencepost.harness.api import Between, Corruptible, Interceptable


@dataclass(frozen=True, kw_only=True)
class DockerOptions(TwoClusterOptions):
    """The options of `[test.cluster]` with `kind = "docker"`."""

    image: str = (
        ""  # brokers' image, `{version}` in it is Kafka's; default: fencepost/kafka:{version}, else apache/kafka:{version}
    )
    memory_mb: Annotated[int, Between(256, 2 * MOST_MB)] = 1536  # of each broker's container; beyond, the kernel ends it
    cpus: Annotated[float, Between(0, 1024)] = 0.0  # processors of each broker's container; 0: no limit
    proxy: bool = False  # a proxy before each broker, for the fault `protocol` and a record of what is on the wire

    def mistakes(self) -> list[str]:
        unclear = [f'image = "{self.image}": one image cannot hold several versions; write {{version}} where the version belongs']
        one_for_all = self.image and "{version}" not in self.image
        small = [f"memory_mb = {self.memory_mb}: a heap of {self.heap_mb} MB needs {self.heap_mb + 128} or more"]
        wrong = super().mistakes() + (unclear if one_for_all and len(self.all_versions()) > 1 else [])
        return wrong + (small if self.memory_mb < self.heap_mb + 128 else [])

    def missing(self) -> dict[type, str]:
        hidden = "with disk_mb the brokers' files are where only containers see them"
        inside: dict[type, str] = {Corruptible: hidden} if self.disk_mb else {}
        reasons = {**super().missing(), **inside, Interceptable: "" if self.proxy else NO_PROXY}
        return {capability: reason for capability, reason in reasons.items() if reason}
