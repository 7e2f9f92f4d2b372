"""What is forbidden under which settings: a table, with the reason of every row. No check looks at settings.

The first row of an anomaly whose conditions all hold decides. A condition is `key: value`, or `key: "!value"` for anything else.
Keys are those of the plan's `contract` (docs/run-directory.md); `DEFAULTS` stand for absent ones (Kafka's own defaults).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.log import Settings

DEFAULTS = {
    "acks": "all",
    "idempotence": "true",
    "transactional": "false",
    "isolation": "read_uncommitted",
    "consumption": "assigned",
    "max_in_flight": "5",
    "unclean_leader_election": "false",
    "min_insync_replicas": "1",
    "compaction": "false",
    "retention": "none",
    "readers": "own",
    "judge_uncommitted_readers": "false",
}
FORBIDDEN, ALLOWED, INAPPLICABLE = "forbidden", "allowed", "inapplicable"


@dataclass(frozen=True)
class Clause:
    """One row: under `when`, the anomaly is forbidden, allowed, or cannot be judged; and why.

    essential: every run under this clause must have exercised it, or the run's verdict is unknown.
    """

    judged: str
    reason: str
    when: Mapping[str, str] = field(default_factory=dict)
    essential: bool = False


_COMPACTED = Clause(INAPPLICABLE, "the topic is compacted: an absent record proves nothing", {"compaction": "!false"})
_RETAINED = Clause(INAPPLICABLE, "the topic deletes old records: an absent record proves nothing", {"retention": "!none"})
_NO_TRANSACTIONS = Clause(INAPPLICABLE, "the workload uses no transactions", {"transactional": "!true"})
_G1 = "read_committed returns only records of committed transactions (KIP-98; Adya's G1)"

CLAUSES: dict[str, tuple[Clause, ...]] = {
    "lost-write": (
        _COMPACTED,
        _RETAINED,
        Clause(ALLOWED, "acks=0 acknowledges what no broker has seen", {"acks": "0"}),
        Clause(ALLOWED, "acks=1 acknowledges before any follower has the record; a new leader may not have it", {"acks": "1"}),
        Clause(
            ALLOWED,
            "unclean leader election may elect a replica that lacks acknowledged records (KIP-106)",
            {"unclean_leader_election": "true"},
        ),
        Clause(
            FORBIDDEN,
            "acks=all waits for every in-sync replica; with min.insync.replicas=1 that may be the leader alone, but only an "
            "in-sync replica may lead next, and the page cache survives kills, pauses and partitions (KIP-106, KIP-966)",
            {"min_insync_replicas": "1"},
            essential=True,
        ),
        Clause(
            FORBIDDEN,
            "acks=all: what is acknowledged is on every in-sync replica, and only those may lead (KIP-966)",
            essential=True,
        ),
    ),
    "duplicate": (
        Clause(
            FORBIDDEN,
            "transactional producers append a retry only once (KIP-98)",
            {"transactional": "true"},
            True,
        ),
        Clause(FORBIDDEN, "idempotent producers append a retry only once (KIP-98, KIP-679)", {"idempotence": "true"}, True),
        Clause(ALLOWED, "without idempotence a retry may be appended again: at least once is all that is promised"),
    ),
    "aborted-read": (_NO_TRANSACTIONS, Clause(FORBIDDEN, _G1)),
    "dirty-read": (_NO_TRANSACTIONS, Clause(FORBIDDEN, _G1)),
    "torn-transaction": (
        _NO_TRANSACTIONS,
        _COMPACTED,
        _RETAINED,
        Clause(FORBIDDEN, "a transaction's records become visible together or not at all (KIP-98: atomicity)", essential=True),
    ),
    "inconsistent-offset": (Clause(FORBIDDEN, "an offset names one record for ever (the replication protocol; KIP-101)"),),
    "phantom": (Clause(FORBIDDEN, "a topic holds only what producers sent, unchanged (record checksums)"),),
    "wrong-partition": (Clause(FORBIDDEN, "a record is stored in the partition to which it was sent"),),
    "order-inversion": (
        Clause(FORBIDDEN, "sequence numbers keep a producer's order in each partition (KIP-98)", {"transactional": "true"}),
        Clause(FORBIDDEN, "sequence numbers keep a producer's order in each partition (KIP-98)", {"idempotence": "true"}),
        Clause(FORBIDDEN, "max.in.flight=1: a send begins after the one before has ended", {"max_in_flight": "1"}),
        Clause(ALLOWED, "without idempotence, retries of several requests in flight may overtake each other"),
    ),
    "lso-stall": (Clause(FORBIDDEN, "every transaction ends, at the latest by its timeout (KIP-98, KIP-890)"),),
}
STRANGERS = (Clause(FORBIDDEN, "the check was added by a plug-in, and no clause allows what it looks for"),)


def full_contract(*layers: Mapping[str, str] | None) -> dict[str, str]:
    """Defaults, overlaid by each layer in turn; every value as lower-case text."""
    contract = dict(DEFAULTS)
    for layer in layers:
        contract.update({key: str(value).lower() for key, value in (layer or {}).items()})
    if contract["acks"] == "-1":
        contract["acks"] = "all"
    return contract


def clause(anomaly: str, contract: Mapping[str, str]) -> Clause:
    """The clause that decides about an anomaly under a full contract."""
    return next(row for row in (*CLAUSES.get(anomaly, ()), *STRANGERS) if _holds(row, contract))


def _holds(row: Clause, contract: Mapping[str, str]) -> bool:
    return all(
        contract.get(key) != value[1:] if value.startswith("!") else contract.get(key) == value for key, value in row.when.items()
    )


def settings(contract: Mapping[str, str]) -> Settings:
    """How logs are to be read under a full contract.

    `readers = "all"` (or `judge_uncommitted_readers = "true"`) judges every non-final reader as read_committed. Final
    read_uncommitted reads never are: they are the witness of what the log holds, aborted records included.
    """
    ordered = "true" in (contract["idempotence"], contract["transactional"])
    return Settings(
        all_readers=contract["readers"] == "all" or contract["judge_uncommitted_readers"] == "true",
        pipelined_order=ordered,
    )
