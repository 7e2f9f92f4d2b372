"""What a fault of the matrix met: the values of the factors with which its cell is crossed, as the run's evidence has them.

What was planned is the crossing's name; a fault strikes whatever message comes first, so it need not have met that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from fencepost.harness.api.run import Problem, Run
from fencepost.harness.api.values import from_digits
from fencepost.harness.matrix.cells import MOVE, Cell
from fencepost.harness.matrix.evidence import Caught, Evidence, evidence_of
from fencepost.harness.matrix.factors import (
    ACT,
    BYSTANDER,
    CHANGING,
    CLIENT,
    COORDINATOR,
    GAP,
    GROUP,
    ID,
    LEADER,
    NO_GROUP,
    POINT,
    ROLE,
    V1,
    V2,
    VALUES,
    VERSION,
    own_role,
)
from fencepost.harness.matrix.id_states import IdStates

FEATURE, FIRST_WITH_V2 = "transaction.version", 4
ROLES: Mapping[str, str] = {  # by target of a fault that was fired, and by kind
    "coordinator": COORDINATOR,
    "leader": LEADER,
    "controller": BYSTANDER,
    "move-coordinator": COORDINATOR,
    "move-leaders": LEADER,
}
Receipts = Sequence[Mapping[str, Any]]


class Observed:
    """The values of a run's faults, by factor; a factor that is not known is left out."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._receipts: Receipts = [] if isinstance(run.receipts, Problem) else [dict(each) for each in run.receipts]

    def values(self, cell: Cell, receipt: Mapping[str, Any]) -> dict[str, str]:
        """What the fault of a cell met. receipt: its own."""
        evidence = evidence_of(receipt)
        made = {GAP: cell.gap, POINT: cell.point, ACT: cell.act, **self._of_start}
        if evidence.catch:
            made[ROLE] = self._role(cell, evidence, evidence.catch)
            made[ID] = self._ids.state(cell.gap, evidence.catch)
        return {factor: value for factor, value in made.items() if value}

    @cached_property
    def _of_start(self) -> dict[str, str]:
        plan = self._run.plan
        options = (plan.get("workload") or {}).get("options") or {}
        client = str((plan.get("client") or {}).get("kind", "")).partition("@")[0]
        return {
            VERSION: _version(plan),
            CLIENT: client if client in VALUES[CLIENT] else "",
            GROUP: str(options.get("protocol", NO_GROUP)),
        }

    @cached_property
    def _ids(self) -> IdStates:
        return IdStates.read(self._run)

    def _role(self, cell: Cell, evidence: Evidence, catch: Caught) -> str:
        fired = evidence.fired
        if not fired:
            return own_role(cell.gap)
        if cell.act == MOVE:
            return ROLES.get(fired.kind, "")
        if fired.role == "broker" or catch.node in self._struck(fired.kind, catch.time_ns):
            return own_role(cell.gap)
        return ROLES.get(fired.role, "")

    def _struck(self, kind: str, after_ns: int) -> tuple[str, ...]:
        """The nodes of the first fault of a kind that was injected after a moment."""
        planned = {fault["id"] for fault in self._run.plan.get("schedule") or ()}
        fired = [
            receipt
            for receipt in self._receipts
            if receipt["kind"] == kind and receipt["id"] not in planned and (receipt.get("injected_ns") or 0) >= after_ns
        ]
        first = min(fired, key=lambda receipt: receipt["injected_ns"], default=None)
        return tuple(first.get("targets") or ()) if first else ()


def _version(plan: Mapping[str, Any]) -> str:
    """Of the cluster's transactions; empty: not known."""
    if any(fault["kind"] == "transaction-version" for fault in plan.get("schedule") or ()):
        return CHANGING
    cluster = plan.get("cluster") or {}
    major = str((cluster.get("description") or {}).get("kafka", "")).partition(".")[0]
    features = (cluster.get("options") or {}).get("features")
    level = features.get(FEATURE) if isinstance(features, Mapping) else None
    if level is None:
        return "" if not major.isdecimal() else V2 if from_digits(major) >= FIRST_WITH_V2 else V1
    return V2 if level == 2 else V1
