"""The part of a test that only workers of Kafka Connect have: their files, and the wait for connectors to write again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.harness.api import Isolation, Role
from fencepost.harness.api.events import PerformerEvent, note_event, phase_event
from fencepost.harness.connect.worker import jar_directories
from fencepost.harness.perform.partition_offsets import PartitionOffsets

GROWTH_S = 60.0  # for connectors to write again when all is healed
LOOK_EVERY_S = 0.5


def worker_directories(roles: Iterable[Role], connect: Mapping[str, Any]) -> list[str]:
    """Directories that the workers of Connect need to see.

    connect: the plan's entries, by version.
    """
    wanted = {version: role.worker for role in roles if role.worker for version in role.worker.versions}
    return [path for name, worker in wanted.items() for path in jar_directories(worker, connect[name])]


def await_growth(offsets: PartitionOffsets, tend: Callable[[], None], emit: Callable[[PerformerEvent], None]) -> None:
    """Let the connectors write something after the last fault, so that what a fault has delayed is seen."""
    emit(phase_event("drain", f"waiting until the connectors write again, at most {GROWTH_S:g} s"))
    deadline, before = time.monotonic() + GROWTH_S, offsets.ends(Isolation.COMMITTED)
    while offsets.ends(Isolation.COMMITTED) == before and time.monotonic() < deadline:
        tend()
        time.sleep(LOOK_EVERY_S)
    if time.monotonic() >= deadline:
        emit(note_event(f"no connector has written a record in {GROWTH_S:g} s after the last fault"))
