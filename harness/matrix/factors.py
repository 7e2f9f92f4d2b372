"""The factors with which cells of the matrix are crossed, and which of their values go together. All of it is data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fencepost.harness.matrix.cells import ACTS, BY_NAME, DELIVERED, ERROR, GAPS, LOST, MOVE, POINTS

GAP, POINT, ACT, ROLE, VERSION, CLIENT, GROUP, ID = FACTORS = (
    "gap", "point", "act", "role", "version", "client", "group", "id",
)  # fmt: skip
OF_START = (VERSION, CLIENT, GROUP, ID)  # what one start of a cluster has for all its faults
COORDINATOR, LEADER, BYSTANDER = "coordinator", "leader", "bystander"
V1, V2, CHANGING = "v1", "v2", "changing"
NO_GROUP, CLASSIC, CONSUMER = "no-group", "classic", "consumer"
FRESH, COMMITTED, ABORTED, FENCED = "fresh", "committed", "aborted", "fenced"

VALUES: Mapping[str, Mapping[str, str]] = {
    GAP: {gap.name: gap.sentence for gap in GAPS},
    POINT: POINTS,
    ACT: ACTS,
    ROLE: {
        COORDINATOR: "the broker that is hit coordinates the transactional id; for `txn-offset-commit` the group",
        LEADER: "it leads a partition",
        BYSTANDER: "it need be neither: the controller, or the broker that a client asks for its coordinator",
    },
    VERSION: {
        V1: "the cluster's transaction.version is 1",
        V2: "it is 2",
        CHANGING: "it is lowered and raised all the time",
    },
    CLIENT: {
        "librdkafka": "librdkafka of the installed confluent-kafka",
        "java": "kafka-clients 4.3.0",
        "franz-go": "franz-go 1.22.2",
        "aiokafka": "aiokafka 0.14.0",
    },
    GROUP: {
        NO_GROUP: "transactions without a group",
        CLASSIC: "members of a group of the classic protocol",
        CONSUMER: "members of a group of the consumer protocol (KIP-848)",
    },
    ID: {
        FRESH: "no transaction of this producer has ended",
        COMMITTED: "the last one was committed",
        ABORTED: "the last one was aborted",
        FENCED: "another producer has taken the id over",
    },
}
RELEASES: Mapping[str, str] = {"java": "java@4.3.0", "franz-go": "franz-go@1.22.2", "aiokafka": "aiokafka@0.14.0"}
NO_OFFSETS = ("franz-go",)  # clients whose drivers send no offsets into a transaction (docs/clients.md)
CLASSIC_ONLY = ("aiokafka",)
OF_GROUPS = ("add-offsets", "txn-offset-commit")
BEGINS_ALONE = ("find-coordinator", "init-producer-id")  # gaps whose requests name no producer
ADDITIONS = ("add-partitions", "add-offsets")
WITH_V2 = ("java", "franz-go")  # clients that speak the second protocol where the cluster has it
MESSAGE_ACTS = (DELIVERED, LOST, ERROR)  # which hit no broker but by the message itself
AT_BYSTANDERS = ("find-coordinator",)


def own_role(gap: str) -> str:
    """The role of the broker that has the message of a gap."""
    if gap in AT_BYSTANDERS:
        return BYSTANDER
    return LEADER if BY_NAME[gap].moves_leaders else COORDINATOR


@dataclass(frozen=True)
class Rule:
    """Values of some factors that do not go together.

    factors: their names; the arguments of `excludes` in this order.
    """

    factors: tuple[str, ...]
    excludes: Callable[..., bool]
    reason: str


RULES = (
    Rule((GAP, GROUP), lambda gap, group: gap in OF_GROUPS and group == NO_GROUP, "without a group no offsets are sent"),
    Rule((CLIENT, GROUP), lambda client, group: client in NO_OFFSETS and group != NO_GROUP, "its driver sends no offsets"),
    Rule((CLIENT, GROUP), lambda client, group: client in CLASSIC_ONLY and group == CONSUMER, "it knows no other protocol"),
    Rule((GAP, ID), lambda gap, id_: gap == "next-begin" and id_ in (FRESH, FENCED), "a transaction of it has just ended"),
    Rule((GAP, ID), lambda gap, id_: gap in BEGINS_ALONE and id_ == FRESH, "an id is new once, too seldom for a fault"),
    Rule(
        (GAP, VERSION, CLIENT),
        lambda gap, version, client: gap in ADDITIONS and version == V2 and client in WITH_V2,
        "with the second protocol clients do not ask for additions",
    ),
    Rule((ACT, ROLE), lambda act, role: act == MOVE and role == BYSTANDER, "a bystander has no role that could move"),
    Rule(
        (GAP, ACT, ROLE),
        lambda gap, act, role: act in MESSAGE_ACTS and role != own_role(gap),
        "what is done to a message hits the broker that has it",
    ),
)


def excluded(values: Mapping[str, str]) -> str:
    """Why these values of factors do not go together; empty when they do."""
    for rule in RULES:
        given = [values[name] for name in rule.factors if name in values]
        if len(given) == len(rule.factors) and rule.excludes(*given):
            return rule.reason
    return ""
