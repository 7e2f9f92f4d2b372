"""Docker as the harness knows it (`harness.api.services.DockerService`). Methods import its client library when they need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencepost.harness.api.services import DockerImage, DockerLeftover, DockerService


class LocalDocker(DockerService):
    """The Docker daemon of this machine."""

    def build_image(self, kafka: str, base: str, on_progress: Callable[[str], None]) -> DockerImage:
        from fencepost.clusters.docker import images

        return images.build(kafka, base, on_progress)

    def trouble(self) -> str:
        from fencepost.clusters.docker import engine

        return engine.trouble()

    def images(self, kafka: str) -> Sequence[str]:
        from fencepost.clusters.docker import images

        return images.present(kafka)

    def leftovers(self) -> Sequence[DockerLeftover]:
        from fencepost.clusters.docker import leftovers

        return leftovers.find()
