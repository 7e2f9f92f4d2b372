"""Rules that several anomalies share (`checkers.contract.rules`)."""

from __future__ import annotations

from dataclasses import replace

from fencepost.checkers.contract.rules import (
    ALLOWED,
    COMMITTED_READS,
    DELETIONS,
    INAPPLICABLE,
    LEADERS_LOGS,
    MEMBERS_ANSWERS,
    READS,
    UNCOMMITTED_READS,
    Rule,
)

COMPACTED = Rule(INAPPLICABLE, "the topic is compacted: an absent record proves nothing", {"compaction": "!false"})
"""Rule: not judged on topics with compaction."""
RETAINED = Rule(INAPPLICABLE, "the topic deletes old records: an absent record proves nothing", {"retention": "!none"})
"""Rule: not judged on topics with retention."""
UNLESS_TRANSACTIONAL = Rule(INAPPLICABLE, "the workload uses no transactions", {"transactional": "!true"})
"""Rule: not judged where the workload uses no transactions."""
UNLESS_DECIDED = Rule(
    INAPPLICABLE,
    "neither the workload nor a program nor a task of Connect uses transactions",
    {"transactional": "!true", "connect": "!enabled", "application": "none"},
)
"""Rule: not judged where neither the workload, nor a program, nor a worker of Connect may use transactions."""
UNLESS_IDEMPOTENT = Rule(
    INAPPLICABLE, "no producer is idempotent", {"idempotence": "false", "transactional": "false", "connect": "none"}
)
UNLESS_GROUP = Rule(INAPPLICABLE, "no consumer is a member of a group", {"consumption": "assigned", "application": "none"})
UNLESS_MEMBER = Rule(INAPPLICABLE, "no consumer of ours is a member of a group", {"consumption": "assigned"})
UNLESS_PROGRAM = Rule(INAPPLICABLE, "no program of somebody's own was judged", {"application": "none"})
UNLESS_REPORTED = Rule(
    INAPPLICABLE, "what clients reported is not recorded: outcomes are brokers' answers", {"outcomes": "brokers"}
)
UNLESS_CONNECTOR = Rule(INAPPLICABLE, "no connector was judged", {"connect": "none"})
UNLESS_PRODUCER = Rule(
    INAPPLICABLE, "no producer of ours writes here: the records are a connector's", {"connect": "!none", "transactional": "!true"}
)
"""Rule: not judged where a connector writes and no producer of the workload."""
_LOSSES = (  # settings under which records can be cut off that were acknowledged, or even read; each with how
    ({"unclean_leader_election": "true"}, "an unclean election cuts off what the new leader lacks (KIP-106)"),
    ({"power_failures": "all replicas"}, "what no replica had synced to disk is gone when the power of all fails"),
    (
        {"power_failures": "one replica", "min_insync_replicas": "1"},
        "the leader may be the only replica in sync, and its power failure takes what it had not synced to disk",
    ),
    (
        {"power_failures": "one replica", "eligible_leaders": "false"},
        "the leader may be the last replica in sync, and leads again without what it had not synced to disk (before KIP-966)",
    ),
    ({"corruption": "synced"}, "a segment below the recovery point is read at no start, so that a damage to it stays"),
    (
        {"corruption": "unsynced", "min_insync_replicas": "1"},
        "the leader may be the only replica in sync, and cuts its log off where its newest records are damaged",
    ),
    (
        {"corruption": "unsynced", "eligible_leaders": "false"},
        "the leader may be the last replica in sync, cuts its log off at a damage, and leads again (before KIP-966)",
    ),
)


def cut_off(consequence: str, unless: str = "", **when: str) -> tuple[Rule, ...]:
    """Rules: allowed where a log may be cut off (unclean elections, power failures, damages that nothing promises to notice).

    consequence: what follows for the anomaly, in words.
    unless: evidence that the setting leaves intact (`Rule.unless`).
    when: further conditions.
    """
    return tuple(Rule(ALLOWED, f"{how}: {consequence}", {**setting, **when}, unless=unless) for setting, how in _LOSSES)


DAMAGED = Rule(
    ALLOWED,
    "a segment below the recovery point is read at no start, and a leader gives its readers what lies there",
    {"corruption": "synced"},
)
"""Rule: allowed where records come back from the disk with other bytes, or not at all, and nobody has to notice."""
UNFENCED_SOURCES = tuple(
    Rule(
        ALLOWED,
        f"a worker with exactly.once.source.support={level} writes offsets apart from records, and fences nobody (KIP-618)",
        {"connect": level},
    )
    for level in ("disabled", "preparing")
)
TRUNCATED = cut_off("records that were read already may be gone; consumers then go back or on (KIP-320)")


def _coordinator_cut_off(**when: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            ALLOWED,
            f"{how} may cut off the coordinator's log: it then writes markers of the transaction before into the next",
            {**setting, **when},
        )
        for how, setting in (
            ("an unclean election", {"unclean_coordinator": "true"}),
            ("a power failure", {"power_failures": "all replicas"}),
            (
                "a power failure of the last replica in sync (before KIP-966)",
                {"power_failures": "one replica", "eligible_leaders": "false"},
            ),
            (
                "a damage to the last replica in sync (before KIP-966)",
                {"corruption": "!none", "eligible_leaders": "false"},
            ),
        )
    )


def _aborted_in_part(**when: str) -> Rule:
    reason = "an operator aborts open transactions on single partitions, of which their coordinators do not learn (KIP-664)"
    return Rule(ALLOWED, reason, {"operator_aborts": "open", **when})


COORDINATOR_CUT_OFF = _coordinator_cut_off(transactional="true")
ABORTED_IN_PART = _aborted_in_part(transactional="true")
"""Rule: allowed where operators abort open transactions on single partitions (KIP-664)."""
HIDDEN_IN_PART = replace(
    ABORTED_IN_PART,
    reason=f"{ABORTED_IN_PART.reason}: their records stay in the log, where read_uncommitted gets them",
    unless=UNCOMMITTED_READS,
)
"""Rule: the same, of records that are missing at read_committed alone."""
LOGGED_IN_PART = replace(
    ABORTED_IN_PART,
    reason=f"{ABORTED_IN_PART.reason}: the values stay in the changelog, as aborted ones",
    unless=LEADERS_LOGS,
)
"""Rule: the same, of values of a program's state that differ from those in force."""
OFFSET_IN_PART = replace(
    ABORTED_IN_PART,
    reason=f"{ABORTED_IN_PART.reason}, nor members but by the group's offset: on its partition he takes that back",
    unless=MEMBERS_ANSWERS,
)
"""Rule: the same, of members that read on from an offset of before, as the group had told them."""
PASSED_IN_PART = replace(ABORTED_IN_PART, unless=COMMITTED_READS)
"""Rule: the same, of records that no read_committed reader got: what is aborted nobody gets, and what is not everybody does."""
DECISIONS_CUT_OFF, DECISIONS_ABORTED_IN_PART = _coordinator_cut_off(), _aborted_in_part()  # behind `UNLESS_DECIDED`
MARKERS_DELETED = Rule(
    ALLOWED,
    "the markers of a topic that was deleted are gone with it, and a leader of the new one takes records of open transactions",
    {"topic_deletions": "has:records"},
)
MARKERS_CUT_OFF = cut_off("markers may be gone, or the coordinator's decision")
UNSURE_DECISIONS = (MARKERS_DELETED, DECISIONS_ABORTED_IN_PART, *MARKERS_CUT_OFF, *DECISIONS_CUT_OFF)
"""Rules: allowed where the markers of a partition need not be what coordinators decided."""
ACKED_ALONE = Rule(
    ALLOWED,
    "with acks=0 or 1 a leader acknowledges alone, and the next leader gives its offsets away again; what readers got is on all "
    "replicas in sync (KIP-101), and binds",
    {"acks": "!all"},
    unless=READS,
)
RECORDS_DELETED, OFFSETS_DELETED = (
    Rule(ALLOWED, reason, {"topic_deletions": f"has:{what}"}, unless=DELETIONS)
    for what, reason in (
        ("records", "what lay in a topic that was deleted is gone, and a transaction that was open then is torn there"),
        ("offsets", "the topic with the stored offsets was deleted: after each deletion tasks may begin again"),
    )
)
G1 = "read_committed returns only records of committed transactions (KIP-98; Adya's G1)"
