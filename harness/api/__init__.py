"""The public interface: what a plug-in may import, and what keeps its meaning from release to release (docs/plugins.md).

The interface of checks needs numpy and Spark, and is `checkers.api`. Words are those of Jepsen (op, process, history, nemesis),
Adya (anomalies) and KIP-98 (transactional id, coordinator, last stable offset). The modules of this folder are the vocabulary of
all packages: values that they exchange, and interfaces; they import nothing else of ours.
"""

from __future__ import annotations

from fencepost.harness.api import capabilities
from fencepost.harness.api.bounds import HOUR_S, Between, Wait
from fencepost.harness.api.capabilities import *  # noqa: F403 - each of them, listed there
from fencepost.harness.api.clients import (
    CALLS,
    CAPABILITIES,
    CallError,
    Client,
    ClientSettings,
    Delivered,
    Done,
    DriverFamily,
    GroupMetadata,
    Outgoing,
    Polled,
    Position,
    Rebalance,
)
from fencepost.harness.api.clusters import (
    ActiveProducer,
    Admin,
    Cluster,
    ClusterProvider,
    JudgesSettings,
    Obtains,
    Placement,
    Roles,
    RunningImages,
    SecondCluster,
    Spawned,
    StoredRow,
    Storing,
    TopicSpec,
    TransactionState,
)
from fencepost.harness.api.connect import ConnectAnswer, ConnectClient, ConnectDuties, ConnectWorker, RunningConnect
from fencepost.harness.api.errors import CampaignError, ClusterError, HarnessError, OverBudget
from fencepost.harness.api.faults import ChangesTopicSettings, ClusterView, DemandsContract, Fault, Receipt, SharedState
from fencepost.harness.api.logs import LogEntry, LogRecord, ReadingLogs
from fencepost.harness.api.record_ids import record_id, split_record_id
from fencepost.harness.api.rights import Right
from fencepost.harness.api.transactions import CoordinatedTransaction, ListingTransactions, OpenTransaction, TransactionListing
from fencepost.harness.api.values import SECOND, Isolation, Outcome
from fencepost.harness.api.workloads import (
    ONLY_READ,
    OWN_GROUP,
    Operation,
    Operator,
    PlannedOperation,
    Program,
    Rival,
    Rivals,
    Role,
    Workload,
    own_group,
)

__all__ = [
    "CALLS",
    "CAPABILITIES",
    "HOUR_S",
    "ONLY_READ",
    "OWN_GROUP",
    "SECOND",
    "ActiveProducer",
    "Admin",
    "Between",
    "CallError",
    "CampaignError",
    "ChangesTopicSettings",
    "Client",
    "ClientSettings",
    "Cluster",
    "ClusterError",
    "ClusterProvider",
    "ClusterView",
    "ConnectAnswer",
    "ConnectClient",
    "ConnectDuties",
    "ConnectWorker",
    "CoordinatedTransaction",
    "Delivered",
    "DemandsContract",
    "Done",
    "DriverFamily",
    "Fault",
    "GroupMetadata",
    "HarnessError",
    "Isolation",
    "JudgesSettings",
    "ListingTransactions",
    "LogEntry",
    "LogRecord",
    "Obtains",
    "OpenTransaction",
    "Operation",
    "Operator",
    "Outcome",
    "Outgoing",
    "OverBudget",
    "Placement",
    "PlannedOperation",
    "Polled",
    "Position",
    "Program",
    "ReadingLogs",
    "Rebalance",
    "Receipt",
    "Right",
    "Rival",
    "Rivals",
    "Role",
    "Roles",
    "RunningConnect",
    "RunningImages",
    "SecondCluster",
    "SharedState",
    "Spawned",
    "StoredRow",
    "Storing",
    "TopicSpec",
    "TransactionListing",
    "TransactionState",
    "Wait",
    "Workload",
    "own_group",
    "record_id",
    "split_record_id",
]
__all__ += capabilities.__all__
