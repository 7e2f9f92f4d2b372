"""The objects of a run in Docker: a name, labels, and a network. All containers of a run have the labels of one sandbox."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docker.types import Mount

from fencepost.clusters.docker import engine, init, leftovers
from fencepost.clusters.docker.network import Network
from fencepost.harness.system import liveness


class RunResources:
    """A run's network, and the names and labels of all else that it makes in Docker; `remove` removes all of it."""

    def __init__(self, client: Any, run_dir: Path) -> None:
        self.client = client
        self.sandbox = os.environ.get(init.SANDBOX) or init.new()
        self.name = f"fencepost-{re.sub(r'[^A-Za-z0-9_.-]', '-', run_dir.name)}-{self.sandbox}"
        self.labels = {engine.SANDBOX: self.sandbox, engine.RUN: run_dir.name, engine.OWNER: liveness.identity()}
        if lock := liveness.lock_reference(run_dir):
            self.labels[engine.DIRECTORY] = lock
        self.network = Network(client, self.name, self.labels)

    def labels_for(self, node: str) -> dict[str, str]:
        return {**self.labels, engine.NODE: node}

    def remove(self) -> None:
        leftovers.remove(self.client, self.sandbox)


def mount(path: Path, inside: str = "", *, read_only: bool = False) -> Mount:
    """A path of this machine at the same path in a container, or `inside`."""
    return Mount(inside or str(path), str(path), type="bind", read_only=read_only)
