"""Occasions: events without which a property cannot be broken, or is so hardly ever.

A check declares those of which its anomaly needs one (`Check.occasions`). The judge counts them in each run, beside what was
compared (`checkers.verdict.occasions`), and the verdict has the counts. A property that was compared and held, and none of whose
occasions occurred, is `held without occasion`: nothing happened that could have broken it.
"""

from __future__ import annotations

from enum import Enum


class Occasion(str, Enum):
    """A kind of event that may break a promise. The closed vocabulary of `verdict.json`, of `at_least` and of checks.

    sentence: what it is, and how it is counted.
    source: what it is counted from.
    """

    sentence: str
    source: str

    def __new__(cls, name: str, sentence: str, source: str) -> Occasion:
        member = str.__new__(cls, name)
        member._value_ = name
        member.sentence, member.source = sentence, source
        return member

    def __str__(self) -> str:
        return str(self.value)

    CLIENT_DIED = (
        "client-died",
        "A client of the workload died inside a transaction, or inside a call that sends.",
        "history",
    )
    COMMIT_UNANSWERED = (
        "commit-unanswered",
        "A commit of a client had no answer within a second, or never: the client did not know whether it was done.",
        "history",
    )
    TRANSACTION_ABORTED = (
        "transaction-aborted",
        "A transaction was aborted: by its client, by its coordinator, or by the next instance of its transactional id.",
        "history; the markers in the brokers' log segments",
    )
    INSTANCE_DIED = (
        "instance-died",
        "An instance of a program, or a member of a group, died between an output and the decision about it; an instance without "
        "transactions, within a second after an output; one of a sink, at any time: nobody knows when it stores.",
        "history (members); receipts, lives of instances and the brokers' log segments (programs)",
    )
    WORK_UNANSWERED = (
        "work-unanswered",
        "A commit of a transaction that processes inputs had no answer within a second, or never. Of a program: its first marker "
        "came more than a second after its last record.",
        "history (members); the brokers' log segments (programs)",
    )
    WORK_ABORTED = (
        "work-aborted",
        "A transaction that processes inputs was aborted, so that the inputs had to be read again.",
        "history (members); the markers in the brokers' log segments (programs)",
    )
    WORK_SUPERSEDED = (
        "work-superseded",
        "A consumer group's partitions were assigned anew while a transaction that processes its inputs was open, and whose "
        "instance or member lived: what one that has lost them still does has to be refused.",
        "history (members); the brokers' logs and log segments, receipts, lives of instances (programs)",
    )
    GROUP_REBALANCED = (
        "group-rebalanced",
        "A consumer group's partitions were assigned anew while it worked.",
        "history, where clients of the workload are members; else the brokers' logs, after the first output, or for a sink the "
        "first input",
    )
    COORDINATOR_MOVED = (
        "coordinator-moved",
        "Another broker became the coordinator of a transaction that was open, or not decided in all partitions.",
        "the brokers' logs and log segments",
    )
    LEADER_MOVED = (
        "leader-moved",
        "Another broker, or the same one again, became the leader of a partition between two of its records.",
        "the leader epochs in the brokers' log segments",
    )
    PRODUCER_FENCED = (
        "producer-fenced",
        "A transactional id was initialised again, or fenced by an operator: whatever its former instance still does has to be "
        "refused.",
        "history and receipts, where clients record `initialise`; else the brokers' logs",
    )
    SERVER_STRUCK = (
        "server-struck",
        "A fault took hold of a broker or a controller, of their links, disks, clocks or settings, or of topics. What an "
        "operator asks brokers for (`fence-producers`, `abort-transaction`, `revoke-acl`) hurts none.",
        "receipts of faults",
    )
    CLIENT_STRUCK = (
        "client-struck",
        "A fault took hold of a client, an instance, a member of a group or a worker of Kafka Connect, or of its links.",
        "receipts of faults",
    )


OCCASIONS = tuple(occasion.value for occasion in Occasion)
