"""A cluster: `local` with other defaults, for small machines."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.clusters.local import Local


@dataclass(frozen=True, kw_only=True)
class Frugal(Local):
    """Brokers as JVMs on this machine, as `local`, with heaps of 192 MiB."""

    heap_mb: int = 192  # of each JVM
