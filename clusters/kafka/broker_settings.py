"""The settings that make a small test cluster honest and quick, each with its reason.

A campaign's `settings` override them; the run's plan has those in effect. Settings that a broker version
does not know are ignored by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """A broker setting.

    name: Kafka's.
    value: with enough brokers.
    reason: for the value.
    spare: the brokers that may be away, where the value is a number that shrinks with few brokers; None: it does not shrink.
    """

    name: str
    value: str
    reason: str
    spare: int | None = None


DEFAULTS = (
    Setting("default.replication.factor", "3", "a record acknowledged by all replicas must survive the loss of any broker", 0),
    Setting("min.insync.replicas", "2", "acks=all means nothing if one replica may acknowledge alone", 1),
    Setting("offsets.topic.replication.factor", "3", "committed offsets are part of exactly-once", 0),
    Setting("transaction.state.log.replication.factor", "3", "a lost transaction log is a lost commit", 0),
    Setting("transaction.state.log.min.isr", "2", "a commit acknowledged by one broker could be lost with it", 1),
    Setting("unclean.leader.election.enable", "false", "an out-of-sync leader loses acknowledged records by design"),
    Setting("auto.create.topics.enable", "false", "a topic that appears with other settings would hide a mistake"),
    Setting("log.retention.ms", "-1", "a record that expired looks like a lost one"),
    Setting("log.retention.bytes", "-1", "as above"),
    Setting("offsets.topic.num.partitions", "4", "several group coordinators, yet a quick start"),
    Setting("transaction.state.log.num.partitions", "6", "several transaction coordinators, yet a quick start"),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000", "a dead client must not stall the readers"),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", "60000", "expiry of ids stays out of the way"),
    Setting("group.initial.rebalance.delay.ms", "0", "groups form at once"),
    Setting("group.min.session.timeout.ms", "1000", "a killed consumer can be noticed within a run"),
    Setting("replica.lag.time.max.ms", "4000", "a follower that is cut off leaves the in-sync replicas within a short fault"),
    Setting("replica.socket.timeout.ms", "3000", "a follower whose leader froze tries again soon"),
    Setting("controller.socket.timeout.ms", "3000", "a broker whose controller froze looks for the new one soon"),
    Setting("broker.heartbeat.interval.ms", "500", "with the next: a failed leader is replaced in some 3 s"),
    Setting("broker.session.timeout.ms", "3000", "as above"),
    Setting("controller.quorum.election.timeout.ms", "1000", "a failed controller is replaced in some 2 s"),
    Setting("controller.quorum.fetch.timeout.ms", "2000", "as above"),
    Setting("controller.quorum.request.timeout.ms", "2000", "as above"),
    Setting("leader.imbalance.check.interval.seconds", "15", "leaders return to their preferred broker within a run"),
    Setting("num.network.threads", "2", "many brokers share few cores"),
    Setting("num.io.threads", "4", "as above"),
    Setting("background.threads", "2", "as above"),
    Setting("log.cleaner.dedupe.buffer.size", "4194304", "the default takes 128 MB of heap"),
)


def broker_settings(brokers: int, overrides: Mapping[str, Any]) -> dict[str, str]:
    """The settings of every broker and controller, names to values; `overrides` win."""
    settings = {row.name: _value(row, brokers) for row in DEFAULTS}
    return settings | {name: _text(value) for name, value in overrides.items()}


def _value(row: Setting, brokers: int) -> str:
    if row.spare is None:
        return row.value
    return str(max(1, min(int(row.value), brokers - row.spare)))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
