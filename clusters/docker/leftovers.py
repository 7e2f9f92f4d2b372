"""Everything in Docker with our labels: which run it belongs to, whether that still lives, and its removal.

Each thing has the identity of its run's process as a label (`harness.system.liveness`). Where that process can be seen, it
decides. From another PID namespace, container or host it cannot; then the lock of the run's directory decides. Where that is
not to be
found (in a container that has the directory elsewhere) the containers do. Every node has a helper that ends when it loses its
harness, or when that has not renewed its lease for `LEASE_S` (`helper_agent`), and all containers of the node end with it. So a
run of which a container runs is alive, or died within the lease; a run without is over, unless it is being set up just now.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from docker.errors import APIError, NotFound

from fencepost.clusters.docker import documents, engine
from fencepost.clusters.docker.documents import Listed
from fencepost.clusters.docker.helper_agent import LEASE_S
from fencepost.harness.api import ClusterError
from fencepost.harness.api.words import enumeration, plural
from fencepost.harness.system import liveness

_REMOVE_S = 30.0
_SETTING_UP_S = 600.0  # within which a run that has a network has a container too
_NOT_RUNNING = ("created", "exited", "dead", "removing")


@dataclass(frozen=True)
class Leftover:
    """The objects of a run in Docker.

    sandbox: the label that they share.
    run: the run's id.
    live: the run may still be going on, so they are not to be touched.
    user: what uses them, as text; empty for nothing.
    containers: by name.
    networks: by name.
    volumes: by name.
    """

    sandbox: str
    run: str
    live: bool
    user: str = ""
    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = [(len(self.containers), "container"), (len(self.networks), "network"), (len(self.volumes), "volume")]
        return f"{enumeration([plural(count, thing) for count, thing in counts if count])} of run {self.run} in Docker"

    def remove(self) -> None:
        """End and remove it all. Raises ClusterError for a live run, and for what could not be removed."""
        if self.live:
            raise ClusterError(f"{self} are in use: {self.user}")
        with engine.opened() as client:
            remove(client, self.sandbox)


def find() -> list[Leftover]:
    """The objects of every run of this machine in Docker now; none on a machine without Docker.

    Raises ClusterError when a daemon does not answer.
    """
    if not engine.is_here():
        return []
    with engine.opened() as client:
        by_kind = _labelled(client, engine.SANDBOX)
    sandboxes = dict.fromkeys(item.label.get(engine.SANDBOX, "") for items in by_kind for item in items)
    return [_leftover(sandbox, *(_of(sandbox, items) for items in by_kind)) for sandbox in sandboxes]


def remove(client: Any, sandbox: str) -> None:
    """Remove everything that a sandbox has, and wait until it is gone. Raises ClusterError after 30 s."""
    deadline = time.monotonic() + _REMOVE_S
    last = ""
    while time.monotonic() < deadline:
        containers, networks, volumes = _labelled(client, f"{engine.SANDBOX}={sandbox}")
        if not (containers or networks or volumes):
            return
        for container in containers:
            last = _tried(client.api.remove_container, container.id, force=True, v=True) or last
        for network in networks if not containers else ():
            last = _tried(client.api.remove_network, network.id) or last
        for volume in volumes if not containers else ():
            last = _tried(client.api.remove_volume, volume.name) or last
        time.sleep(0.1)
    raise ClusterError(
        f"Docker did not remove everything of {sandbox} within {_REMOVE_S:.0f} s: {last}; fencepost clean tries again"
    )


def _labelled(client: Any, label: str) -> tuple[list[Listed], ...]:
    """Containers, networks and volumes with this label. Raises ClusterError."""
    wanted = {"label": label}
    volumes = documents.read(client.api.volumes(filters=wanted), documents.Volumes).volumes or []
    listed = client.api.containers(all=True, filters=wanted), client.api.networks(filters=wanted)
    return (*(documents.read(items, list[Listed]) for items in listed), volumes)


def _tried(remove: Any, name: str, **options: Any) -> str:
    """Request a removal; Docker's error, empty when it is gone or going."""
    with suppress(NotFound):
        try:
            remove(name, **options)
        except APIError as error:
            return str(error.explanation or error)
    return ""


def _of(sandbox: str, items: list[Listed]) -> list[Listed]:
    return [item for item in items if item.label.get(engine.SANDBOX, "") == sandbox]


def _leftover(sandbox: str, containers: list[Listed], networks: list[Listed], volumes: list[Listed]) -> Leftover:
    items = [*containers, *networks, *volumes]
    labels = [item.label for item in items]
    running = [item.called for item in containers if item.state not in _NOT_RUNNING]
    lock = liveness.user_of_lock(labels[0].get(engine.DIRECTORY, ""))
    user = user_of([label.get(engine.OWNER, "") for label in labels], lock, running, min(map(_age_s, items)))
    return Leftover(
        sandbox=sandbox,
        run=labels[0].get(engine.RUN, "?"),
        live=bool(user),
        user=user,
        containers=tuple(item.called for item in containers),
        networks=tuple(item.called for item in networks),
        volumes=tuple(item.called for item in volumes),
    )


def user_of(owners: Sequence[str], lock: str | None, running: Sequence[str], age_s: float) -> str:
    """The user of what a run has, empty for none.

    owners: identities of the run's processes.
    lock: the user of its directory; None when that is not known.
    running: its containers that run.
    age_s: since the newest of it was made.
    """
    lives = [liveness.alive(owner) for owner in owners]
    if any(lives):
        owner = owners[lives.index(True)].split(" ")
        return f"its process {owner[3]} is alive"
    if None not in lives or lock == "":
        return ""
    if lock:
        return f"its directory is in use by {lock}"
    if running:
        return f"its process is not to be seen from here, and {running[0]} runs, which ends {LEASE_S:.0f} s after its harness"
    return f"its process is not to be seen from here, and it was made {age_s:.0f} s ago" if age_s < _SETTING_UP_S else ""


def _age_s(item: Listed) -> float:
    """Seconds since something was made: containers have a number, networks and volumes a text of ISO 8601."""
    made = item.created or item.created_at
    if isinstance(made, (int, float)):
        return time.time() - made
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", str(made))
    if not match:
        return 0.0
    return time.time() - datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")).timestamp()
