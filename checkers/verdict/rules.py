"""Which settings forbid which anomaly: a table of rules, with the reason of each. No check looks at settings.

The first rule of an anomaly whose conditions all hold decides. A condition is `key: value`, `key: "!value"` for anything else, or
`key: "has:value"` for a comma-separated list with that value in it.
Keys are those of `harness.api.CONTRACT_KEYS`, whose defaults stand for absent ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from fencepost.checkers.model.values import Settings
from fencepost.checkers.verdict.evidence import DELETIONS, FINAL_READS, READS
from fencepost.harness.api.contract_layers import overlaid_contract, planned_contract

FORBIDDEN, ALLOWED, INAPPLICABLE = "forbidden", "allowed", "inapplicable"


@dataclass(frozen=True)
class Rule:
    """One row: under `when`, the anomaly is forbidden, allowed, or cannot be judged; and why.

    essential: every run under this rule must have exercised it, or the run's verdict is unknown.
    unless: evidence (`checkers.verdict.evidence`) that the setting leaves intact: findings that it shows by itself are not
    allowed by this row, and the next row without such a condition decides about them.
    """

    judged: str
    reason: str
    when: Mapping[str, str] = field(default_factory=dict)
    essential: bool = False
    unless: str = ""


_COMPACTED = Rule(INAPPLICABLE, "the topic is compacted: an absent record proves nothing", {"compaction": "!false"})
_RETAINED = Rule(INAPPLICABLE, "the topic deletes old records: an absent record proves nothing", {"retention": "!none"})
_ABSENT = (_COMPACTED, _RETAINED)
_NO_TRANSACTIONS = Rule(INAPPLICABLE, "the workload uses no transactions", {"transactional": "!true"})
_NO_GROUP = Rule(INAPPLICABLE, "no consumer is a member of a group", {"consumption": "assigned", "application": "none"})
_NO_MEMBER = Rule(INAPPLICABLE, "no consumer of ours is a member of a group", {"consumption": "assigned"})
_NO_PROGRAM = Rule(INAPPLICABLE, "no program of somebody's own was judged", {"application": "none"})
_NO_CONNECTOR = Rule(INAPPLICABLE, "no connector was judged", {"connect": "none"})
_UNFENCED = tuple(
    Rule(
        ALLOWED,
        f"a worker with exactly.once.source.support={level} writes offsets apart from records, and fences nobody (KIP-618)",
        {"connect": level},
    )
    for level in ("disabled", "preparing")
)
_LOSSES = (  # settings under which records can be cut off that were acknowledged, or even read; each with how
    ({"unclean_leader_election": "true"}, "an unclean election cuts off what the new leader lacks (KIP-106)"),
    ({"power_failures": "all replicas"}, "what no replica had synced to disk is gone when the power of all fails"),
    (
        {"power_failures": "one replica", "min_insync_replicas": "1"},
        "the leader may be the only replica in sync, and its power failure takes what it had not synced to disk",
    ),
)


def _cut_off(consequence: str, unless: str = "", **when: str) -> tuple[Rule, ...]:
    """What follows where a log may be cut off, and under which settings besides."""
    return tuple(Rule(ALLOWED, f"{how}: {consequence}", {**setting, **when}, unless=unless) for setting, how in _LOSSES)


_GONE = _cut_off("acknowledged records may be lost")
_TRUNCATED = _cut_off("records that were read already may be gone; consumers then go back or on (KIP-320)")
_COORDINATOR = (
    Rule(
        ALLOWED,
        "an unclean election may cut off the coordinator's log: it then writes markers of the transaction before into the next",
        {"unclean_coordinator": "true", "transactional": "true"},
    ),
    Rule(
        ALLOWED,
        "a power failure may cut off the coordinator's log: it then writes markers of the transaction before into the next",
        {"power_failures": "all replicas", "transactional": "true"},
    ),
)
_ABORTED_IN_PART = Rule(
    ALLOWED,
    "an operator aborts open transactions on single partitions, of which their coordinators do not learn (KIP-664)",
    {"operator_aborts": "open", "transactional": "true"},
)
_ALONE = Rule(
    ALLOWED,
    "with acks=0 or 1 a leader acknowledges alone, and the next leader gives its offsets away again; what readers got is on all "
    "replicas in sync (KIP-101), and binds",
    {"acks": "!all"},
    unless=READS,
)
_RECORDS_DELETED, _OFFSETS_DELETED = (
    Rule(ALLOWED, reason, {"topic_deletions": f"has:{what}"}, unless=DELETIONS)
    for what, reason in (
        ("records", "what lay in a topic that was deleted is gone, and a transaction that was open then is torn there"),
        ("offsets", "the topic with the stored offsets was deleted: after each deletion tasks may begin again"),
    )
)
_KEPT = Rule(
    FORBIDDEN,
    "what one poll returns of a partition is in order and without a gap, and so is what a member of a group gets of a partition "
    "that it keeps between two rebalances; what lies across a rebalance, or where none is recorded, is not judged (KIP-429)",
    {"consumption": "subscribed"},
)
_IN_ORDER = "an assigned consumer returns every visible record of a partition once, in the order of offsets"
_SENT_ORDER = "Jepsen's name for neighbours out of order; `order-inversion` judges the same among all sends of a producer"
_DECIDED = {
    "G1c-wr": "read_committed returns a record after its transaction was decided, so polls have an order (KIP-98; Adya)",
    "G1c-wr-process": "as G1c-wr, in one order with what each process did after what",
    "G1c-wr-realtime": "as G1c-wr, in one order with what had ended before what began",
}
_UNORDERED = "Kafka orders each partition alone: transactions may interleave differently in two of them (KIP-98)"
_LAGGING = "a consumer may stand anywhere in each partition: Kafka promises no snapshot and no fresh read (KIP-98)"


def _permitted(reason: str, *names: str) -> dict[str, tuple[Rule, ...]]:
    """Cycles that Kafka permits, alone and with process and realtime edges; forbidden when the contract's `cycles` names them."""
    demanded = "the test's own contract forbids this class of cycles"
    every = [name + suffix for name in names for suffix in ("", "-process", "-realtime")]
    return {name: (Rule(FORBIDDEN, demanded, {"cycles": f"has:{name}"}), Rule(ALLOWED, reason)) for name in every}


_ATOMIC = "a transaction's records become visible together or not at all (KIP-98: atomicity)"
_REREAD = "outputs and offsets are committed together; after an abort a member reads the same again (KIP-98)"
_G1 = "read_committed returns only records of committed transactions (KIP-98; Adya's G1)"

RULES: dict[str, tuple[Rule, ...]] = {
    "lost-write": (
        _COMPACTED,
        _RETAINED,
        Rule(
            ALLOWED, "acks=0 acknowledges what no broker has seen; what readers got binds (KIP-101)", {"acks": "0"}, unless=READS
        ),
        Rule(
            ALLOWED,
            "acks=1 acknowledges before any follower has the record, and a new leader may not have it; what readers got is on "
            "all replicas in sync (KIP-101), and binds",
            {"acks": "1"},
            unless=READS,
        ),
        *_GONE,
        _ABORTED_IN_PART,
        Rule(
            FORBIDDEN,
            "acks=all waits for every in-sync replica; with min.insync.replicas=1 that may be the leader alone, but only an "
            "in-sync replica may lead next, and the page cache survives kills, pauses and partitions (KIP-106, KIP-966)",
            {"min_insync_replicas": "1"},
            essential=True,
        ),
        Rule(
            FORBIDDEN,
            "acks=all: what is acknowledged is on every in-sync replica, and only those may lead (KIP-966)",
            essential=True,
        ),
    ),
    "duplicate": (
        *_cut_off("a record that was read and then cut off is appended again by its retry, once in each log", FINAL_READS),
        Rule(
            FORBIDDEN,
            "transactional producers append a retry only once (KIP-98)",
            {"transactional": "true"},
            True,
        ),
        Rule(FORBIDDEN, "idempotent producers append a retry only once (KIP-98, KIP-679)", {"idempotence": "true"}, True),
        Rule(ALLOWED, "without idempotence a retry may be appended again: at least once is all that is promised"),
    ),
    "aborted-read": (
        Rule(FORBIDDEN, "what surely failed outside transactions was never appended", {"transactional": "!true"}),
        *_cut_off("the producer's next marker decides records whose own ABORT marker is gone", transactional="true"),
        Rule(FORBIDDEN, _G1),
    ),
    "dirty-read": (
        *_COORDINATOR,
        Rule(FORBIDDEN, "nobody gets a record before it is sent", {"transactional": "!true"}),
        Rule(FORBIDDEN, _G1),
    ),
    "lso-overrun": (
        _NO_TRANSACTIONS,
        _ABORTED_IN_PART,
        *_cut_off("what an open transaction had sent may be gone, and its place given away again"),
        *_COORDINATOR,
        Rule(FORBIDDEN, "read_committed returns nothing above the first record of an open transaction (KIP-98)"),
    ),
    "torn-transaction": (
        _NO_TRANSACTIONS,
        _COMPACTED,
        _RETAINED,
        *_cut_off("of a transaction over several partitions one may lose records, or the marker that shows them"),
        _ABORTED_IN_PART,
        Rule(FORBIDDEN, _ATOMIC, {"final_read": "false"}),
        Rule(FORBIDDEN, _ATOMIC, essential=True),
    ),
    "inconsistent-offset": (
        *_cut_off("its offset is given away again, and who read it before got another record there", FINAL_READS),
        _ALONE,
        Rule(FORBIDDEN, "an offset names one record for ever (the replication protocol; KIP-101)"),
    ),
    "swallowed-write": (
        *_cut_off("a record may be gone, and its offset hold an older one that another leader had kept"),
        Rule(
            ALLOWED,
            "with acks=0 or 1 a leader acknowledges alone, and the next one may give the offset to a retry of an older record",
            {"acks": "!all"},
        ),
        Rule(
            FORBIDDEN,
            "what is acknowledged lies where its acknowledgement says; a broker gives one answer twice only to a retry (KIP-98)",
        ),
    ),
    "reprocessed": (
        _NO_GROUP,
        *_cut_off("with the group's committed offsets, so that members read on from older ones"),
        Rule(ALLOWED, "the program promises its outputs at least once", {"application": "at-least-once"}),
        Rule(
            FORBIDDEN,
            "what a program makes of a record is there once: outputs and offsets are committed together (KIP-98, KIP-447)",
            {"application": "exactly-once"},
            essential=True,
        ),
        Rule(FORBIDDEN, "outputs and offsets are committed together, and who has lost the partition is fenced (KIP-98, KIP-447)"),
    ),
    "unprocessed": (
        _NO_GROUP,
        _COMPACTED,
        _RETAINED,
        *_cut_off("outputs may be gone, and the offset that was committed with them not"),
        _ABORTED_IN_PART,
        Rule(
            FORBIDDEN,
            "a program processes every record below the offset that its group commits (KIP-98)",
            {"application": "!none"},
        ),
        Rule(FORBIDDEN, _REREAD, {"final_read": "false"}),
        Rule(FORBIDDEN, _REREAD, essential=True),
    ),
    "phantom-output": (
        _NO_PROGRAM,
        *_cut_off("an input that was read and processed may be gone"),
        Rule(FORBIDDEN, "a program that reads at read_committed makes outputs of committed inputs only (KIP-98)"),
    ),
    "output-order": (
        _NO_PROGRAM,
        *_cut_off("what is processed again then lies after what was kept"),
        Rule(FORBIDDEN, "the program promises the order of inputs with one key, in each partition of its output"),
    ),
    "torn-state": (
        _NO_PROGRAM,
        _COMPACTED,
        _RETAINED,
        *_cut_off("outputs may be gone, and what the program's state has of them not"),
        _ABORTED_IN_PART,
        Rule(
            FORBIDDEN,
            "what a program keeps of an input is committed with its output or not at all (KIP-129)",
            {"application": "!at-least-once"},
        ),
        Rule(ALLOWED, "a program that promises its outputs at least once may have an input in its state twice"),
    ),
    "store-divergence": (
        _NO_PROGRAM,
        *_cut_off("records of a changelog may be gone, and what a store has of them not"),
        _ABORTED_IN_PART,
        Rule(
            FORBIDDEN,
            "a state store has what its changelog makes of it: aborted writes are wiped, and it is restored from there (KIP-129)",
            {"application": "!at-least-once"},
        ),
        Rule(ALLOWED, "a program that promises its outputs at least once may have in a store what its changelog lacks"),
    ),
    "wrong-state": (
        _NO_PROGRAM,
        _COMPACTED,
        _RETAINED,
        *_cut_off("inputs may be gone, and what the program's state has of them not"),
        _ABORTED_IN_PART,
        Rule(
            FORBIDDEN,
            "what a program keeps of an input is committed with its offset or not at all (KIP-129)",
            {"application": "!at-least-once"},
        ),
        Rule(ALLOWED, "a program that promises its outputs at least once may have an input in its state twice"),
    ),
    "source-duplicate": (
        _NO_CONNECTOR,
        *_cut_off("with the stored offsets, so that tasks read on from older ones"),
        *_UNFENCED,
        _OFFSETS_DELETED,
        Rule(
            FORBIDDEN,
            "records and stored offsets are one transaction, and tasks read on from these (KIP-618)",
            {"application": "none"},
            essential=True,
        ),
        Rule(FORBIDDEN, "records and stored offsets are one transaction, and tasks read on from these (KIP-618)"),
    ),
    "source-loss": (
        _NO_CONNECTOR,
        _COMPACTED,
        _RETAINED,
        *_cut_off("records may be gone, and the offset that was committed with them not"),
        _RECORDS_DELETED,
        Rule(FORBIDDEN, "an offset is stored after its records, or with them (KIP-618)"),
    ),
    "source-offset-torn": (
        _NO_CONNECTOR,
        *_cut_off("with the stored offsets, and not with the records, or the other way round"),
        *_UNFENCED,
        _RECORDS_DELETED,
        Rule(FORBIDDEN, "the records of a task and their offsets are one transaction (KIP-618)"),
    ),
    "source-offset-regression": (
        _NO_CONNECTOR,
        *_cut_off("with the stored offsets, so that tasks read on from older ones"),
        *_UNFENCED,
        Rule(FORBIDDEN, "a task reads on from the stored offset, and older tasks are fenced (KIP-618)"),
    ),
    "zombie-task": (
        _NO_CONNECTOR,
        *_cut_off("the coordinator may forget who had fenced whom"),
        *_UNFENCED,
        Rule(FORBIDDEN, "older tasks are fenced before newer ones start, and commit nothing afterwards (KIP-618)"),
    ),
    "unfenced-start": (
        _NO_CONNECTOR,
        *_cut_off("the configuration topic may lose a task-count record that workers had read"),
        *_UNFENCED,
        Rule(FORBIDDEN, "a task starts only when a task-count record lies after its configurations (KIP-618)"),
    ),
    "config-topic-writer": (
        _NO_CONNECTOR,
        *_cut_off("the coordinator may forget which leader was the last"),
        Rule(
            ALLOWED,
            "a leader with exactly.once.source.support=disabled writes outside transactions, and none is fenced (KIP-618)",
            {"connect": "disabled"},
        ),
        Rule(FORBIDDEN, "the leader alone writes to the configuration topic, in transactions that fence older ones (KIP-618)"),
    ),
    "connect-promise": (
        _NO_CONNECTOR,
        *_cut_off("with configurations, task-count records, or stored offsets"),
        *_UNFENCED,
        Rule(FORBIDDEN, "workers with exactly.once.source.support=enabled keep what KIP-618 says of them"),
    ),
    "vanished-output": (
        _NO_PROGRAM,
        _COMPACTED,
        _RETAINED,
        *_TRUNCATED,
        Rule(FORBIDDEN, _G1),
    ),
    "torn-offset": (
        _NO_MEMBER,
        *_cut_off("with the group's committed offsets, and not with the outputs, or the other way round"),
        _ABORTED_IN_PART,
        Rule(FORBIDDEN, "offsets in a transaction are committed with its records or not at all (KIP-98: atomicity)"),
    ),
    "offset-regression": (
        _NO_MEMBER,
        *_cut_off("with the group's committed offsets, so that members read on from older ones"),
        Rule(FORBIDDEN, "members read on from the group's offset, and who has lost the partition is fenced (KIP-447)"),
    ),
    "stale-offset": (
        _NO_GROUP,
        Rule(
            ALLOWED,
            "a coordinator that was frozen answers from what it knew; the member's generation fences what follows (KIP-447)",
        ),
    ),
    "dirty-offset": (
        _NO_MEMBER,
        *_COORDINATOR,
        Rule(FORBIDDEN, "an offset in a transaction is told to nobody before the transaction is decided (KIP-98, KIP-447)"),
    ),
    "double-ownership": (
        _NO_MEMBER,
        *_cut_off("with the group's own log, so that its coordinator forgets generations"),
        Rule(FORBIDDEN, "the generation in a transaction's group metadata fences whoever has lost the partition (KIP-447)"),
    ),
    "phantom": (Rule(FORBIDDEN, "a topic holds only what producers sent, unchanged (record checksums)"),),
    "wrong-partition": (
        Rule(
            INAPPLICABLE,
            "values are unique per key only: a record of another partition is nobody's (`phantom`)",
            {"values": "per key"},
        ),
        Rule(FORBIDDEN, "a record is stored in the partition to which it was sent"),
    ),
    "order-inversion": (
        *_cut_off("a record that is gone, and read or acknowledged before, lay higher than its successor does", FINAL_READS),
        _ALONE,
        Rule(FORBIDDEN, "sequence numbers keep a producer's order in each partition (KIP-98)", {"transactional": "true"}),
        Rule(FORBIDDEN, "sequence numbers keep a producer's order in each partition (KIP-98)", {"idempotence": "true"}),
        Rule(FORBIDDEN, "max.in.flight=1: a send begins after the one before has ended", {"max_in_flight": "1"}),
        Rule(ALLOWED, "without idempotence, retries of several requests in flight may overtake each other"),
    ),
    **dict.fromkeys(("poll-skip", "int-poll-skip"), (*_ABSENT, *_TRUNCATED, _ABORTED_IN_PART, _KEPT, Rule(FORBIDDEN, _IN_ORDER))),
    **dict.fromkeys(("nonmonotonic-poll", "int-nonmonotonic-poll"), (*_TRUNCATED, _KEPT, Rule(FORBIDDEN, _IN_ORDER))),
    "stale-read": (
        _COMPACTED,
        _RETAINED,
        *_TRUNCATED,
        Rule(FORBIDDEN, "what a read_committed reader got is below the high watermark and decided for ever (KIP-98, KIP-101)"),
    ),
    "real-time-inversion": (
        *_TRUNCATED,
        Rule(
            FORBIDDEN,
            "acks=all and one leader lineage: an acknowledged record lies before whatever is sent after it (KIP-101)",
            {"strict_realtime": "true", "acks": "all"},
        ),
        Rule(ALLOWED, "Kafka promises no order between producers; it is reported because replication should keep it"),
    ),
    "nonmonotonic-send": (Rule(ALLOWED, _SENT_ORDER),),
    "int-nonmonotonic-send": (Rule(ALLOWED, _SENT_ORDER),),
    "int-send-skip": (Rule(ALLOWED, "transactions share partitions: others' records may lie between two of one's own"),),
    **{
        name: (
            _NO_TRANSACTIONS,
            Rule(ALLOWED, "read_uncommitted readers get records before they are decided", {"isolation": "!read_committed"}),
            *_COORDINATOR,
            Rule(FORBIDDEN, reason),
        )
        for name, reason in _DECIDED.items()
    },
    **_permitted(_UNORDERED, "G0", "G1c"),
    **_permitted(_LAGGING, "G-single", "G2"),
    **dict.fromkeys(
        ("zombie-commit", "zombie-write"),
        (
            _NO_TRANSACTIONS,
            *_cut_off("the coordinator may forget who had fenced whom", transactional="true"),
            *_COORDINATOR,
            Rule(
                FORBIDDEN,
                "a producer is fenced once another one with its transactional id has initialised (KIP-98)",
            ),
        ),
    ),
    "epoch-regression": (
        *_cut_off("the coordinator may forget epochs that it gave", transactional="true"),
        *_COORDINATOR,
        Rule(FORBIDDEN, "a producer id's epoch only grows, and a leader refuses what is older (KIP-98, KIP-360)"),
    ),
    "wrong-error": (
        _NO_TRANSACTIONS,
        Rule(FORBIDDEN, "the class of each error is KIP-98's; the test's own contract demands it", {"strict_errors": "true"}),
        Rule(ALLOWED, "the class of an error harms no record: it is reported with its row of KIP-98's table"),
    ),
    "false-ack": (
        _NO_TRANSACTIONS,
        _COMPACTED,
        _RETAINED,
        *_cut_off("the marker of a committed transaction may be gone"),
        _ABORTED_IN_PART,
        *_COORDINATOR,
        Rule(FORBIDDEN, "a commit that returned ok has committed (KIP-98)"),
    ),
    "hanging-transaction": (
        Rule(INAPPLICABLE, "the workload uses no transactions", {"transactional": "!true", "connect": "!enabled"}),
        *_cut_off("with the marker of a transaction, which nobody writes again"),
        *_COORDINATOR,
        Rule(FORBIDDEN, "every transaction ends, at the latest by its timeout (KIP-98, KIP-890)"),
    ),
    "misreported-transaction": (
        _ABORTED_IN_PART,
        _NO_TRANSACTIONS,
        *_cut_off("the coordinator may forget a decision, and a leader begin below what was read"),
        *_COORDINATOR,
        Rule(FORBIDDEN, "coordinators answer by what they have decided, leaders by their logs (KIP-664)"),
    ),
    "lso-stall": (
        *_cut_off("with the marker of a transaction, which nobody writes again", transactional="true"),
        Rule(FORBIDDEN, "every transaction ends, at the latest by its timeout (KIP-98, KIP-890)"),
    ),
}
PLUGIN_RULES = (Rule(FORBIDDEN, "the check was added by a plug-in, and no clause allows what it looks for"),)


def full_contract(planned: Mapping[str, str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """A plan's contract with every key, overlaid by one that somebody gives. Raises CampaignError for what cannot be meant."""
    return overlaid_contract(planned_contract(planned), given or {})


def rule_for(anomaly: str, contract: Mapping[str, str]) -> Rule:
    """The rule that decides about an anomaly under a full contract, as long as no evidence stands against it (`Rule.unless`)."""
    return _rules(anomaly, tuple(contract.items()))[0]


def rule_on_evidence(anomaly: str, contract: Mapping[str, str]) -> Rule:
    """The rule that decides about findings that the evidence shows against `rule_for`."""
    return _rules(anomaly, tuple(contract.items()))[1]


# Judged by what brokers answer and by what lies in logs; the other rules are about what our own producers and readers recorded.
BY_LOGS = frozenset(("hanging-transaction", "misreported-transaction", "lso-stall", "epoch-regression"))
OF_CONNECTORS = frozenset(name for name, rows in RULES.items() if _NO_CONNECTOR in rows)
_NO_PRODUCER = Rule(
    INAPPLICABLE, "no producer of ours writes here: the records are a connector's", {"connect": "!none", "transactional": "!true"}
)


_OF_PRODUCERS = RULES.keys() - BY_LOGS - OF_CONNECTORS


@lru_cache(maxsize=4096)  # each verdict asks several times for each anomaly
def _rules(anomaly: str, clauses: tuple[tuple[str, str], ...]) -> tuple[Rule, Rule]:
    """The first applicable rule under a contract's clauses, and the first one that needs no evidence."""
    rows = list(_applicable(anomaly, dict(clauses)))
    return rows[0], next(row for row in rows if not row.unless)


def _applicable(anomaly: str, contract: Mapping[str, str]) -> Iterator[Rule]:
    first = (_NO_PRODUCER,) if anomaly in _OF_PRODUCERS else ()
    return (row for row in (*first, *RULES.get(anomaly, ()), *PLUGIN_RULES) if _holds(row, contract))


def _holds(row: Rule, contract: Mapping[str, str]) -> bool:
    return all(_is(contract.get(key, ""), value) for key, value in row.when.items())


def _is(actual: str, wanted: str) -> bool:
    if wanted.startswith("has:"):
        return wanted[4:] in actual.split(",")
    return actual != wanted[1:] if wanted.startswith("!") else actual == wanted


def settings(contract: Mapping[str, str]) -> Settings:
    """How logs are to be read under a full contract.

    `readers = "all"` (or `judge_uncommitted_readers = "true"`) judges every non-final reader as read_committed. Final
    read_uncommitted reads never are: they are the witness of what the log holds, aborted records included.
    `first_poll = "anywhere"`: where a process begins to read is unknown. `aborted_polls = "rewound"`: after an operation that did
    not end ok the client seeks back to what it first polled in it (as Jepsen's does).
    """
    ordered = "true" in (contract["idempotence"], contract["transactional"])
    return Settings(
        all_readers=contract["readers"] == "all" or contract["judge_uncommitted_readers"] == "true",
        read_uncommitted=contract["isolation"] == "read_uncommitted",
        pipelined_order=ordered,
        from_start=contract["first_poll"] == "beginning",
        rewinds=contract["aborted_polls"] == "rewound",
        deletes=contract["compaction"] != "false" or contract["retention"] != "none",
    )
