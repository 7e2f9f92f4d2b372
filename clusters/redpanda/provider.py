"""The plug-in `redpanda`: the image, the description for the plan, and the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clusters.docker.provider import ContainerProvider
from fencepost.clusters.redpanda.options import RedpandaOptions

if TYPE_CHECKING:
    from fencepost.clusters.docker.images import Image
    from fencepost.clusters.docker.run_resources import RunResources
    from fencepost.clusters.redpanda.cluster import RedpandaCluster


@dataclass(frozen=True, kw_only=True)
class Redpanda(ContainerProvider, RedpandaOptions):
    """Redpanda in containers of a network of their own. Written against its documentation; never run by its authors."""

    def describe(self) -> dict[str, Any]:
        from fencepost.clusters.docker import engine

        with engine.opened() as client:
            image = self.resolve_images(client)[self.redpanda]
        return {
            "kafka": f"Redpanda {self.redpanda}",
            "images": {self.redpanda: f"{image.name} ({image.origin}, {image.id})"},
            "broker_settings": {name: str(value).lower() for name, value in self.effective_settings().items()},
            "controllers": "combined",
            "network": "containers",
        }

    def resolve_images(self, client: Any, on_progress: Callable[[str], None] = lambda _: None) -> dict[str, Image]:
        from fencepost.clusters.docker import images

        name = self.image.replace("{version}", self.redpanda)
        return {self.redpanda: images.third_party(client, name, "Redpanda", on_progress)}

    def make(self, run_dir: Path, resources: RunResources, images: dict[str, Image]) -> RedpandaCluster:
        from fencepost.clusters.redpanda.cluster import RedpandaCluster

        return RedpandaCluster(self, run_dir, resources, images)
