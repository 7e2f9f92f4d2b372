"""Fence producers: an operator fences the producers of a transactional id (`Admin.fenceProducers` of the Java client)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, Cluster, ClusterError, ClusterView, HarnessError, Receipt, TransactionState
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import answer_or
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.open_transactions import ids_of_instances
from fencepost.nemesis.support.strike import hit_among

OF_INSTANCE = "instance"
UNKNOWN = TransactionState(state="", producer_id=-1, epoch=-1)


@dataclass(frozen=True, kw_only=True)
class FenceProducers:
    """Initialises transactional ids in the producers' stead, so that their epochs rise, as `Admin.fenceProducers` does.

    Whoever produces under such an id is fenced, and its open transaction aborted, by the coordinator: no promise is weakened.
    Healing undoes nothing, for producers come back by themselves. Evidence: producer ids and epochs, before and during;
    `fencings`: from when to when each call lasted (CLOCK_MONOTONIC ns; no end: nobody knows whether it happened).
    """

    needs: ClassVar[tuple[type, ...]] = ()
    of_transactions: ClassVar[bool] = True  # it aims at transactional ids of the workload

    target: str = "random"  # the ids: random (one of the workload's), all, instance (one of an instance), or id:ID
    times: Annotated[int, Between(1, 1000)] = 1  # how often each is fenced, one epoch each time

    def __post_init__(self) -> None:
        demand_bounds(self)
        targets.check_names(self.target, "id:TRANSACTIONAL-ID", OF_INSTANCE)

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Fence them, one after the other."""
        with no_target_on_error(self.target):
            known = ids_of_instances(cluster) if self.target == OF_INSTANCE else cluster.transactional_ids
            names = chosen_ids(self.target, known, rng)
        before = epochs(cluster, names)
        calls = [_fencing(cluster, name) for name in names for _ in range(self.times)]
        during = {**epochs(cluster, names), **{call["transactional_id"]: call["epochs"] for call in calls if call.get("epochs")}}
        problems = [call.pop("problem") for call in calls if "problem" in call]
        fenced = [name for name in names if during.get(name, before.get(name)) != before.get(name)]
        untold = [name for name in names if name not in fenced and not any(text.startswith(f"{name} ") for text in problems)]
        problems += [f"{name} has the epoch that it had before, as far as anybody says" for name in untold]
        coordinators = _coordinators(cluster, names)
        return Receipt(
            role=self.target,
            targets=coordinators,
            evidence={
                "before": before,
                "during": during,
                "fencings": calls,
                **hit_among(coordinators, _coordinators(cluster, fenced)),
            },
            effective=bool(fenced),
            note="; ".join(dict.fromkeys(problems)),
        )

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Look once more; there is nothing to undo."""
        return healed(receipt, {"after": epochs(cluster, receipt.evidence.get("during", ()))}, [])


def chosen_ids(target: str, names: Sequence[str], rng: Random) -> list[str]:
    """The transactional ids meant. Raises ClusterError when the workload has none."""
    if name := target.partition("id:")[2]:
        return [name]
    if not names:
        raise ClusterError("no transactional id is known")
    return sorted(names) if target == "all" else [rng.choice(sorted(names))]


def epochs(cluster: Cluster, names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Producer id and epoch of transactional ids, as their coordinators have them (-1: of an id that is not known there);
    without those that nobody tells."""
    answers = {name: answer_or(None, cluster.admin().transactions, [name]) for name in names}
    states = {name: answer.get(name, UNKNOWN) for name, answer in answers.items() if answer is not None}
    return {name: {"producer_id": state.producer_id, "epoch": state.epoch} for name, state in states.items()}


def _fencing(cluster: Cluster, name: str) -> dict[str, Any]:
    """One call: transactional_id, began_ns, ended_ns (None: unknown), and epochs or a problem."""
    call: dict[str, Any] = {"transactional_id": name, "began_ns": time.monotonic_ns(), "ended_ns": None}
    try:
        producer_id, epoch = cluster.admin().fence_producer(name)
    except HarnessError as error:
        return {**call, "problem": f"{name} may not be fenced: {error}"}
    return {**call, "ended_ns": time.monotonic_ns(), "epochs": {"producer_id": producer_id, "epoch": epoch}}


def _coordinators(cluster: Cluster, names: Sequence[str]) -> tuple[str, ...]:
    """The nodes that coordinate these ids now, as far as somebody says so."""
    nodes = [answer_or("", cluster.roles().transaction_coordinator, name) for name in names]
    return tuple(sorted({*filter(None, nodes)}))
