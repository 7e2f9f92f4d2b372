"""Faults, and the evidence of their effect."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from fencepost.harness.api.capabilities import Pair
from fencepost.harness.api.clusters import Cluster

State = TypeVar("State")


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A record of what a fault really did. Times are CLOCK_MONOTONIC nanoseconds; evidence is plain JSON.

    A fault without effect weakens the verdict.

    id: number of the fault in the plan's schedule.
    kind: the fault.
    role: the target as it was chosen: `leader:orders-0`, `controller`.
    targets: the nodes that it was then.
    pairs: the links that were cut, each in one direction.
    planned_ns: planned time of the injection.
    injected_ns: time of the first of its calls that hurt; of a fault without such calls, the time when `inject` returned.
    healed_ns: time of the healing; 0: not healed yet, or not at all (`note` says why).
    evidence: observations before and during the fault.
    healing: observations after the healing.
    reach: the harness's own probes of all pairs (docs/history.md).
    effective: True: the evidence shows that one of its targets was hurt, and `note` names those that were not; False: it shows
        that nothing was hurt, and `note` says why; None: not known yet.
    note: the reason why it had no effect, and the like.
    """

    id: int = -1
    kind: str = ""
    role: str = ""
    targets: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    planned_ns: int = 0
    injected_ns: int = 0
    healed_ns: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict)
    healing: Mapping[str, Any] = field(default_factory=dict)
    reach: Mapping[str, Any] = field(default_factory=dict)
    effective: bool | None = None
    note: str = ""


class SharedState:
    """State that the faults of one run share: one object of each class. Their host holds it. Safe to use from several threads."""

    def __init__(self) -> None:
        self._objects: dict[type, Any] = {}
        self._lock = threading.Lock()

    def get(self, kind: type[State]) -> State:
        """The object of this class; `kind()` makes it at its first use."""
        with self._lock:
            if kind not in self._objects:
                self._objects[kind] = kind()
            state: State = self._objects[kind]
            return state


class ClusterView(Cluster, Protocol):
    """The cluster as the host of the faults passes it to `inject` and `heal`: all that the cluster has, and what faults share."""

    def shared(self, kind: type[State]) -> State:
        """The one object of this class that all faults of the run share; `kind()` makes it at its first use.

        A fault has no state of its own. Its receipt has the state that healing needs; this object has the state that overlapping
        faults share. The object is used from several threads.
        """

    def strike_now(self, kind: str, options: Mapping[str, Any], lasts_s: float) -> bool | None:
        """Inject another fault at once; it has a receipt of its own and is healed after `lasts_s`.

        Returns whether it took hold; None: unknown, or the faults are over. Raises HarnessError for wrong options.
        """


@runtime_checkable
class FiresFault(Protocol):
    """A fault that injects another one. The other one's options are judged before anything starts."""

    def fired(self) -> tuple[str, Mapping[str, Any]] | None:
        """The kind and the options of the other fault; None under options without one."""


@runtime_checkable
class ChangesTopicSettings(Protocol):
    """A fault whose option `settings` changes settings of topics. They are judged as those of `[test.topic]` are."""

    def changed_topic_settings(self) -> Mapping[str, str]:
        """Names and values of the settings while the fault lasts, as Kafka writes them."""


@runtime_checkable
class DemandsContract(Protocol):
    """A fault that breaks promises by itself, as an operator may. Its test has to name them in its contract."""

    def demanded_contract(self) -> Mapping[str, str]:
        """Keys of the contract, and the values that the test must give them; nothing under innocent options."""


class Fault(Protocol):
    """Plug-in `fencepost.nemesis`: a frozen dataclass whose fields are its options.

    needs: the capabilities that it needs: `(Killable,)`.
    """

    needs: ClassVar[tuple[type, ...]]

    def inject(self, cluster: Any, rng: Random) -> Receipt:
        """Hurt the cluster; return what was hurt, with evidence that it took hold."""

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        """Undo the fault that `receipt` records, and add the evidence. Idempotent; leaves the cluster whole."""
