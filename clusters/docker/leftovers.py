"""Everything in Docker with our labels: which run it belongs to, whether that still lives, and its removal."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, DockerException, NotFound

from clusters.docker import engine
from harness.api import ClusterError

_REMOVE_S = 30.0


@dataclass(frozen=True)
class Leftover:
    """What one run has in Docker. `live`: the run may still be going on, so it is not to be touched."""

    sandbox: str
    run: str
    live: bool
    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = [(len(self.containers), "container"), (len(self.networks), "network"), (len(self.volumes), "volume")]
        parts = [f"{count} {thing}{'s' if count > 1 else ''}" for count, thing in counts if count]
        return f"{' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))} of run {self.run} in Docker"

    def remove(self) -> None:
        """End and remove it all. Raises ClusterError for a live run, and for what could not be removed."""
        if self.live:
            raise ClusterError(f"{self} are in use")
        with engine.opened() as client:
            remove(client, self.sandbox)


def find() -> list[Leftover]:
    """What every run of this machine has in Docker now; nothing when no daemon answers."""
    try:
        client = engine.connect()
    except ClusterError:
        return []
    try:
        found = _labelled(client, engine.SANDBOX)
    except DockerException:
        return []
    finally:
        client.close()
    sandboxes = dict.fromkeys(item["Labels"][engine.SANDBOX] for items in found for item in items)
    return [_leftover(sandbox, *(_of(sandbox, items) for items in found)) for sandbox in sandboxes]


def remove(client: Any, sandbox: str) -> None:
    """Remove everything that a sandbox has, and wait until it is gone. Raises ClusterError after 30 s."""
    deadline = time.monotonic() + _REMOVE_S
    last = ""
    while time.monotonic() < deadline:
        containers, networks, volumes = _labelled(client, f"{engine.SANDBOX}={sandbox}")
        if not (containers or networks or volumes):
            return
        for container in containers:
            last = _tried(client.api.remove_container, container["Id"], force=True, v=True) or last
        for network in networks if not containers else ():
            last = _tried(client.api.remove_network, network["Id"]) or last
        for volume in volumes if not containers else ():
            last = _tried(client.api.remove_volume, volume["Name"]) or last
        time.sleep(0.1)
    raise ClusterError(
        f"Docker did not remove everything of {sandbox} within {_REMOVE_S:.0f} s: {last}; fencepost clean tries again"
    )


def _labelled(client: Any, label: str) -> tuple[list[dict[str, Any]], ...]:
    """Containers, networks and volumes with this label."""
    wanted = {"label": label}
    volumes = client.api.volumes(filters=wanted)["Volumes"] or []
    return client.api.containers(all=True, filters=wanted), client.api.networks(filters=wanted), volumes


def _tried(remove: Any, name: str, **options: Any) -> str:
    """Request a removal; Docker's error, empty when it is gone or going."""
    with suppress(NotFound):
        try:
            remove(name, **options)
        except APIError as error:
            return str(error.explanation or error)
    return ""


def _of(sandbox: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if item["Labels"][engine.SANDBOX] == sandbox]


def _leftover(
    sandbox: str, containers: list[dict[str, Any]], networks: list[dict[str, Any]], volumes: list[dict[str, Any]]
) -> Leftover:
    labels = [item["Labels"] for item in [*containers, *networks, *volumes]]
    live = any(engine.alive(one.get(engine.OWNER, "")) for one in labels)
    return Leftover(
        sandbox=sandbox,
        run=labels[0].get(engine.RUN, "?"),
        live=live,
        containers=tuple(item["Names"][0].lstrip("/") for item in containers),
        networks=tuple(item["Name"] for item in networks),
        volumes=tuple(item["Name"] for item in volumes),
    )
