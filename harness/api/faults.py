"""Faults, and what they leave as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Protocol

from harness.api.capabilities import Pair


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a fault really did. Times are CLOCK_MONOTONIC nanoseconds; evidence is plain JSON.

    ``effective`` is None until it is known, False when the evidence shows that nothing was hurt; then ``note``
    says why. A fault without effect weakens the verdict.
    """

    id: int = -1
    kind: str = ""
    role: str = ""  # the target as asked: "leader:orders-0", "controller"
    targets: tuple[str, ...] = ()  # the nodes it turned out to be
    pairs: tuple[Pair, ...] = ()  # for partitions
    planned_ns: int = 0
    injected_ns: int = 0  # when the fault had taken hold
    healed_ns: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict)  # before, during
    healing: Mapping[str, Any] = field(default_factory=dict)  # after
    reach: Mapping[str, Any] = field(default_factory=dict)  # the harness's own probes of all pairs: docs/history.md
    effective: bool | None = None
    note: str = ""


class Fault(Protocol):
    """Plug-in `fencepost.nemesis`: a frozen dataclass whose fields are its options."""

    needs: ClassVar[tuple[type, ...]]  # capabilities, e.g. (Killable,)

    def inject(self, cluster: Any, rng: Random) -> Receipt:
        """Hurt the cluster; return what was hurt, with evidence that it took hold."""

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        """Undo what `receipt` says was done, and add the evidence. Idempotent; leaves the cluster whole."""
