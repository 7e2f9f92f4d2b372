"""The parts of Docker's documents that are read here, and their shapes."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fencepost.harness.api import ClusterError
from fencepost.harness.system.answers import WrongAnswer, shaped

T = TypeVar("T")


class _Document(msgspec.Struct, rename="pascal"):
    """Docker's names begin with a capital."""


class State(_Document):
    """The state of a container."""

    pid: int


class Endpoint(_Document):
    """The place of a container in a network."""

    ip_address: str = msgspec.field(name="IPAddress")


class NetworkSettings(_Document):
    """The networks of a container."""

    networks: dict[str, Endpoint]


class Inspected(_Document):
    """A container."""

    state: State
    network_settings: NetworkSettings


class Ended(_Document):
    """The end of a container."""

    status_code: int


class Made(_Document):
    """A program that can be started in a container."""

    id: str


class Executed(_Document):
    """A program that was started in a container."""

    exit_code: int | None


class Top(_Document):
    """The processes of a container: id and state of each."""

    processes: list[tuple[str, str]] | None


class Listed(_Document):
    """A container, a network or a volume in a list."""

    labels: dict[str, str] | None = None
    id: str = ""
    name: str = ""
    names: list[str] | None = None
    state: str = ""
    created: float | str = ""
    created_at: str = ""

    @property
    def label(self) -> dict[str, str]:
        return self.labels or {}

    @property
    def called(self) -> str:
        """The name, of whichever kind it is."""
        return (self.names or [self.name or self.id])[0].lstrip("/")


class Volumes(_Document):
    """A list of volumes."""

    volumes: list[Listed] | None = None


def read(document: Any, shape: type[T]) -> T:
    """A document of the daemon. Raises ClusterError for one of another shape."""
    try:
        return shaped(document, shape)
    except WrongAnswer as error:
        raise ClusterError(f"the Docker daemon answers what cannot be understood: {error}") from error
