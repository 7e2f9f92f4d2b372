"""Operations that are made of requests, before they have numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import Outcome, record_ids
from fencepost.harness.interop.wire.batches import Batch

MOST_SENDS = record_ids.MAX_SEQ + 1


@dataclass(slots=True, eq=False)
class Read:
    """A batch that a reader was given and went on behind, or a record of it that somebody else named; `v` its identity."""

    partition: str
    v: int
    offset: int


@dataclass(slots=True, eq=False)
class Operation:
    """An operation, with its fields as in docs/history.md.

    offsets: of groups, by group and partition.
    assigned: those of them whose partition may have been assigned anew since the process committed one before.
    """

    f: str
    time: int
    type: Outcome = Outcome.OK
    end: int | None = None
    intent: str | None = None
    decided: int | None = None
    sends: list[Batch] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    assigned: list[tuple[str, str]] = field(default_factory=list)
    detail: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class Process:
    """A producer's instance, or what a consumer reads by one connection.

    number: its number in the history; -1: it has none yet.
    """

    client: str
    transactional_id: str | None = None
    isolation: str | None = None
    operations: list[Operation] = field(default_factory=list)
    number: int = -1
