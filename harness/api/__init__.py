"""The vocabulary: the values and interfaces that every package of fencepost knows.

It imports nothing else of ours. It holds the values that packages exchange (tests, operations, receipts, verdicts) and the
interfaces of clusters, workloads and faults (nemesis); use every name from here, whichever file it stands in. The interface of
checks needs numpy and Spark, and stands in `checkers.api`. Words are those of Jepsen (op, process, history, nemesis), Adya
(anomalies) and KIP-98 (transactional id, coordinator, last stable offset).
"""

from __future__ import annotations

from harness.api.bounds import HOUR_S, Between, Wait, bounds_of, demand_bounds, out_of_bounds
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
from harness.api.clusters import Admin, Cluster, ClusterProvider, JudgesSettings, Obtains, Placement, Roles, Spawned, TopicSpec
from harness.api.contract import CONTRACT_KEYS, ContractKey
from harness.api.contract_layers import contract_mistakes, overlaid_contract, planned_contract
from harness.api.errors import CampaignError, ClusterError, Exit, HarnessError, HistoryError, Interrupted, OverBudget
from harness.api.events import FailedEvent, PerformedEvent, PerformerEvent, RunEvent, note_event, phase_event
from harness.api.evidence import Evidence, Gap, GapKind, HistoryFile, Manifest, evidence_of, missing_evidence
from harness.api.expectations import ALONE, ANYWHERE, anomaly_and_word
from harness.api.faults import ClusterView, Fault, Receipt, SharedState
from harness.api.files import regular, replacing
from harness.api.history import OPERATIONS, UNREADABLE, VALUES, demand_columns
from harness.api.plans import WHEN, Budget, Choice, FaultChoice, Injection, Lane, Test
from harness.api.record_ids import MAX_OP, MAX_PROCESS, MAX_SEQ, record_id, split_record_id
from harness.api.run import Plan, Problem, Receipts, Run, RunFile, TopicPlan
from harness.api.services import DockerImage, DockerLeftover, DockerService, Judge, KafkaCache, KafkaVersion, SelfcheckRow
from harness.api.values import DAMAGE_SCHEMA, HISTORY_VERSION, PLAN_SCHEMA, VERDICT_SCHEMA, Isolation, Outcome, Property, Verdict
from harness.api.workloads import (
    CallError,
    Client,
    ClientSettings,
    Operation,
    PlannedOperation,
    Polled,
    Role,
    Workload,
    consumer_group,
)

__all__ = [
    "ALONE",
    "ANYWHERE",
    "CONTRACT_KEYS",
    "DAMAGE_SCHEMA",
    "HISTORY_VERSION",
    "HOUR_S",
    "MAX_OP",
    "MAX_PROCESS",
    "MAX_SEQ",
    "OPERATIONS",
    "PLAN_SCHEMA",
    "UNREADABLE",
    "VALUES",
    "VERDICT_SCHEMA",
    "WHEN",
    "Admin",
    "Between",
    "Budget",
    "CallError",
    "CampaignError",
    "Choice",
    "Client",
    "ClientSettings",
    "Cluster",
    "ClusterError",
    "ClusterProvider",
    "ClusterView",
    "ContractKey",
    "DockerImage",
    "DockerLeftover",
    "DockerService",
    "Evidence",
    "Exit",
    "FailedEvent",
    "Fault",
    "FaultChoice",
    "Fillable",
    "Gap",
    "GapKind",
    "HarnessError",
    "HeldBack",
    "HistoryError",
    "HistoryFile",
    "Injection",
    "Interrupted",
    "Isolation",
    "Judge",
    "JudgesSettings",
    "KafkaCache",
    "KafkaVersion",
    "Killable",
    "Lane",
    "Losable",
    "Manifest",
    "Measurable",
    "Obtains",
    "Operation",
    "Outcome",
    "OverBudget",
    "PacketTimes",
    "Pair",
    "Partitionable",
    "Pausable",
    "PerformedEvent",
    "PerformerEvent",
    "Placement",
    "Plan",
    "PlannedOperation",
    "Polled",
    "Powered",
    "Problem",
    "Property",
    "Receipt",
    "Receipts",
    "Role",
    "Roles",
    "Run",
    "RunEvent",
    "RunFile",
    "SelfcheckRow",
    "SharedState",
    "Skewable",
    "Slowable",
    "Spawned",
    "Stoppable",
    "Test",
    "Throttleable",
    "TopicPlan",
    "TopicSpec",
    "Upgradable",
    "Verdict",
    "Wait",
    "Wipeable",
    "Workload",
    "anomaly_and_word",
    "bounds_of",
    "consumer_group",
    "contract_mistakes",
    "demand_bounds",
    "demand_columns",
    "evidence_of",
    "missing_evidence",
    "note_event",
    "out_of_bounds",
    "overlaid_contract",
    "phase_event",
    "planned_contract",
    "record_id",
    "regular",
    "replacing",
    "split_record_id",
]
