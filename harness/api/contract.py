"""The keys of a contract: what a run's settings promise, and how its history is to be read. This is the one table of them.

A contract is a mapping of texts. `plan.json` has it, a campaign's `[test.contract]` and `--contract` overlay it, the rules that
each check declares decide by it which anomalies are forbidden (docs/rules.md). docs/campaign-reference.md shows it. How contracts
are read and laid over each other: `harness/api/contract_layers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_FLAG = ("true", "false")
_PERMITTED_CYCLES = tuple(name + suffix for name in ("G0", "G1c", "G-single", "G2") for suffix in ("", "-process", "-realtime"))


@dataclass(frozen=True, kw_only=True)
class ContractKey:
    """A key of a contract.

    name: its name.
    values: the values that it may have; a word in capitals stands for a whole number.
    default: its value where none is given: Kafka's own default where there is one.
    meaning: a sentence of the reference page.
    listed: its value is several of `values`, separated by commas, or none.
    elsewhere: its value for a history that fencepost did not record; None: the default.
    implies: value -> the values of other keys that it implies.
    planned: the plan of every run of fencepost has it.
    weakening: each of its values promises less than the one before, the first all.
    """

    name: str
    values: tuple[str, ...]
    default: str
    meaning: str
    listed: bool = False
    elsewhere: str | None = None
    implies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    planned: bool = True
    weakening: bool = False


_TABLE = (
    ContractKey(
        name="acks",
        values=("0", "1", "all"),
        default="all",
        elsewhere="all",
        implies={"0": {"idempotence": "false"}, "1": {"idempotence": "false"}},
        meaning="How many replicas have a record before it is acknowledged (`acks` of the producer; -1 is `all`).",
    ),
    ContractKey(
        name="idempotence",
        values=_FLAG,
        default="true",
        elsewhere="true",
        implies={"true": {"acks": "all"}},
        meaning="Producers are idempotent: a retry is appended once, in order (`enable.idempotence`; implied by transactions).",
    ),
    ContractKey(
        name="transactional",
        values=_FLAG,
        default="false",
        elsewhere="true",
        implies={"true": {"idempotence": "true"}},
        meaning="The workload uses transactions.",
    ),
    ContractKey(
        name="isolation",
        values=("read_committed", "read_uncommitted"),
        default="read_uncommitted",
        elsewhere="read_committed",
        meaning="The highest isolation level at which the workload reads.",
    ),
    ContractKey(
        name="readers",
        values=("own", "all"),
        default="own",
        elsewhere="own",
        meaning="Which readers of the main phase are judged as read_committed: those of that isolation level, or all of them.",
    ),
    ContractKey(
        name="first_poll",
        values=("beginning", "anywhere"),
        default="beginning",
        elsewhere="anywhere",
        meaning="Where a process begins to read: at the log's start, or at an unknown position.",
    ),
    ContractKey(
        name="aborted_polls",
        values=("kept", "rewound"),
        default="kept",
        elsewhere="rewound",  # as Jepsen's client does
        meaning="Where a client reads on after an operation that did not end ok: where it was, or at what it first polled in it.",
    ),
    ContractKey(
        name="strict_realtime",
        values=_FLAG,
        default="false",
        meaning="`true` forbids `real-time-inversion` where acks is `all`.",
    ),
    ContractKey(
        name="strict_errors",
        values=_FLAG,
        default="false",
        meaning="`true` forbids `wrong-error`: errors of another class than KIP-98 demands.",
    ),
    ContractKey(
        name="final_read",
        values=_FLAG,
        default="true",
        meaning="The history has a final phase in which every partition is read to its end.",
    ),
    ContractKey(
        name="consumption",
        values=("assigned", "subscribed", "recorded"),
        default="assigned",
        elsewhere="assigned",
        meaning="Consumers have their partitions assigned, or subscribe as members of a group, which rebalances. `recorded`: "
        "those subscribe whose `subscribe` the history has.",
    ),
    ContractKey(
        name="application",
        values=("none", "exactly-once", "at-least-once"),
        default="none",
        meaning="What a program of somebody's own between an input and an output topic promises ([your-application.md]"
        "(your-application.md)); `none`: there is none.",
    ),
    ContractKey(
        name="connect",
        values=("none", "disabled", "preparing", "enabled"),
        default="none",
        meaning="The weakest `exactly.once.source.support` of Connect's workers ([connect.md](connect.md)); `none`: no workers.",
    ),
    ContractKey(
        name="positions",
        values=("dense", "sparse", "ordered", "unstated"),
        default="dense",
        meaning="What positions of a connector's source are ([connect.md](connect.md#what-a-position-is)): `dense` rise by one, "
        "`sparse` ones rise, and are each record's own, `ordered` ones never go back. `unstated`: nobody has said, so what they "
        "cannot be is unknown.",
        planned=False,
    ),
    ContractKey(
        name="max_in_flight",
        values=("NUMBER",),
        default="5",
        elsewhere="5",
        meaning="How many requests of a producer are under way at a time (`max.in.flight.requests.per.connection`).",
    ),
    ContractKey(
        name="unclean_leader_election",
        values=_FLAG,
        default="false",
        elsewhere="false",
        implies={"false": {"unclean_coordinator": "false"}},
        meaning="A replica that is not in sync may become leader (`unclean.leader.election.enable`).",
    ),
    ContractKey(
        name="unclean_coordinator",
        values=_FLAG,
        default="false",
        elsewhere="false",
        implies={"true": {"unclean_leader_election": "true"}},
        meaning="The same for the transaction coordinator's own topic (`unclean.leader.election.enable` of the brokers).",
    ),
    ContractKey(
        name="min_insync_replicas",
        values=("NUMBER",),
        default="1",
        elsewhere="2",
        meaning="How many replicas must be in sync for acks=all (`min.insync.replicas`).",
    ),
    ContractKey(
        name="power_failures",
        values=("none", "one replica", "all replicas"),
        default="none",
        meaning="Whose memory is lost before it is synced to disk: of no replica, of one at a time (the next only once the one "
        "before is in sync again), or of all replicas at once.",
        planned=False,
        weakening=True,
    ),
    ContractKey(
        name="eligible_leaders",
        values=_FLAG,
        default="false",
        meaning="Replicas that fell out of sync, and still have all that was acknowledged, may lead in the place of the last one "
        "in sync, if that loses its memory (KIP-966: `eligible.leader.replicas.version`, with which clusters of 4.1 and later "
        "begin).",
        planned=False,
    ),
    ContractKey(
        name="corruption",
        values=("none", "unsynced", "synced"),
        default="none",
        meaning="`unsynced`: the newest records of one replica come back damaged. It notices when it starts, and cuts its log "
        "off there. `synced`: also files below its recovery point, which Kafka takes for synced. It reads them at no start, and "
        "gives them to readers.",
        planned=False,
        weakening=True,
    ),
    ContractKey(
        name="operator_aborts",
        values=("none", "open"),
        default="none",
        meaning="`open`: an operator aborts transactions that are under way on single partitions (KIP-664), and only the rest of "
        "them is committed.",
        planned=False,
        weakening=True,
    ),
    ContractKey(
        name="topic_deletions",
        values=("records", "offsets"),
        listed=True,
        default="",
        meaning="What topics hold that are deleted and created again in a run: `records` of the workload, or `offsets` that "
        "Kafka Connect has stored for a connector.",
        planned=False,
    ),
    ContractKey(
        name="compaction",
        values=_FLAG,
        default="false",
        elsewhere="false",
        meaning="The topics are compacted (`cleanup.policy`), so that an absent record proves nothing.",
    ),
    ContractKey(
        name="retention",
        values=("none", "MILLISECONDS", "SIZE bytes"),
        default="none",
        elsewhere="none",
        meaning="After how long, or beyond how much, old records are deleted (`retention.ms`, `retention.bytes`).",
    ),
    ContractKey(
        name="producer_expiry",
        values=("none", "MILLISECONDS"),
        default="none",
        meaning="After how long leaders forget an idle producer, where that is less than Kafka's own day "
        "(`producer.id.expiration.ms`).",
        planned=False,
    ),
    ContractKey(
        name="cycles",
        values=_PERMITTED_CYCLES,
        listed=True,
        default="",
        meaning="Classes of cycles that are forbidden although Kafka permits them (docs/graphs.md).",
        planned=False,
    ),
    ContractKey(
        name="offset_commits",
        values=("recorded", "unrecorded"),
        default="recorded",
        elsewhere="unrecorded",
        meaning="`unrecorded`: a group's offsets may also be committed by somebody of whom the history does not tell: "
        "automatically (`enable.auto.commit`), by another member, by an operator.",
        planned=False,
    ),
    ContractKey(
        name="offset_expiry",
        values=("none", "MILLISECONDS"),
        default="none",
        meaning="How long brokers keep the offsets of a group after its last commit, where that is less than Kafka's own seven "
        "days (`offsets.retention.minutes`).",
        planned=False,
    ),
    ContractKey(
        name="senders",
        values=("all", "some"),
        default="all",
        meaning="`some`: records of senders of whom the history does not tell were left out of it, so nobody finds a `phantom`.",
        planned=False,
    ),
    ContractKey(
        name="outcomes",
        values=("clients", "brokers"),
        default="clients",
        meaning="`brokers`: outcomes are brokers' answers on the wire; what clients reported, and their errors, is not known.",
        planned=False,
    ),
    ContractKey(
        name="judge_uncommitted_readers",
        values=_FLAG,
        default="false",
        implies={"true": {"readers": "all"}},
        meaning="`true` means the same as `readers` = `all`.",
        planned=False,
    ),
    ContractKey(
        name="values",
        values=("unique", "per key"),
        default="unique",
        meaning="`per key`: the same value may be sent to several partitions (histories from elsewhere).",
        planned=False,
    ),
)
CONTRACT_KEYS = {key.name: key for key in _TABLE}
