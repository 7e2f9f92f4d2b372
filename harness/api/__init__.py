"""The vocabulary: what every room of fencepost knows, and nothing else.

It imports nothing else of ours (the words of a check are looked up on first use). It holds the values that travel between rooms
(tests, operations, receipts, answers) and the interfaces of the four kinds of plug-in: cluster, workload, fault (nemesis) and
checker; use every name from here, whichever file it stands in. Words are those of Jepsen (op, process, history, nemesis), Adya
(anomalies) and KIP-98 (transactional id, coordinator, last stable offset).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harness.api.capabilities import (
    Fillable,
    HeldBack,
    Killable,
    Losable,
    Measurable,
    PacketTimes,
    Pair,
    Partitionable,
    Pausable,
    Powered,
    Skewable,
    Slowable,
    Stoppable,
    Throttleable,
    Upgradable,
    Wipeable,
)
from harness.api.clusters import Admin, Cluster, ClusterProvider, Placement, Roles, Spawned, TopicSpec
from harness.api.errors import CampaignError, ClusterError, Exit, HarnessError, HistoryError, Interrupted, OverBudget
from harness.api.faults import Fault, Receipt
from harness.api.plans import WHEN, Budget, Choice, FaultChoice, Injection, Lane, Test
from harness.api.record_ids import MAX_OP, MAX_PROCESS, MAX_SEQ, record_id, split_record_id
from harness.api.values import (
    HISTORY_VERSION,
    PLAN_SCHEMA,
    VERDICT_SCHEMA,
    Isolation,
    Outcome,
    Property,
    Verdict,
)
from harness.api.workloads import CallError, Client, ClientSettings, Operation, PlannedOperation, Polled, Role, Workload

if TYPE_CHECKING:
    from checkers.api import Check, CheckResult, partition_check, run_check
    from checkers.partition.log import PartitionLog
    from checkers.run_view import RunView

__all__ = [
    "HISTORY_VERSION",
    "MAX_OP",
    "MAX_PROCESS",
    "MAX_SEQ",
    "PLAN_SCHEMA",
    "VERDICT_SCHEMA",
    "WHEN",
    "Admin",
    "Budget",
    "CallError",
    "CampaignError",
    "Check",
    "CheckResult",
    "Choice",
    "Client",
    "ClientSettings",
    "Cluster",
    "ClusterError",
    "ClusterProvider",
    "Exit",
    "Fault",
    "FaultChoice",
    "Fillable",
    "HarnessError",
    "HeldBack",
    "HistoryError",
    "Injection",
    "Interrupted",
    "Isolation",
    "Killable",
    "Lane",
    "Losable",
    "Measurable",
    "Operation",
    "Outcome",
    "OverBudget",
    "PacketTimes",
    "Pair",
    "PartitionLog",
    "Partitionable",
    "Pausable",
    "Placement",
    "PlannedOperation",
    "Polled",
    "Powered",
    "Property",
    "Receipt",
    "Role",
    "Roles",
    "RunView",
    "Skewable",
    "Slowable",
    "Spawned",
    "Stoppable",
    "Test",
    "Throttleable",
    "TopicSpec",
    "Upgradable",
    "Verdict",
    "Wipeable",
    "Workload",
    "partition_check",
    "record_id",
    "run_check",
    "split_record_id",
]

# Plug-in `fencepost.checker`: a function over one partition (`PartitionLog`, numpy) or over a whole run (`RunView`, Spark) that
# returns `CheckResult`, decorated with `partition_check` or `run_check`. They bring numpy and Spark along, which nobody needs who
# only performs a test; so they live with the checks, and come from there when they are asked for.
_OF_CHECKS = {
    "Check": "checkers.api",
    "CheckResult": "checkers.api",
    "partition_check": "checkers.api",
    "run_check": "checkers.api",
    "PartitionLog": "checkers.partition.log",
    "RunView": "checkers.run_view",
}


def __getattr__(name: str) -> Any:
    if name in _OF_CHECKS:
        return getattr(import_module(_OF_CHECKS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
