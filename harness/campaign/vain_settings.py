"""Settings of topics, brokers and groups that are lawful each, and with which nothing could be written, committed or joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.harness.api import ConfiguresMembers, CountsBrokers, CountsReplicas, ReportsSettings
from fencepost.harness.api.plans import Test
from fencepost.harness.api.values import from_digits
from fencepost.harness.api.words import form, plural
from fencepost.harness.campaign.toml import Keys, as_text

IN_SYNC = "min.insync.replicas"
LOG, OFFSETS = "transaction.state.log", "offsets.topic"
SESSION, PROTOCOL, PREVIEW = "session.timeout.ms", "group.protocol", "group.coordinator.rebalance.protocols"
SESSIONS = ("group.min.session.timeout.ms", 6_000), ("group.max.session.timeout.ms", 1_800_000)  # Kafka's defaults
MESSAGE, BATCH = "max.message.bytes", 1_048_588  # Kafka's default
COMPRESSION, NO = "compression.type", "none"
CODECS = ("gzip", "snappy", "lz4", "zstd")
READS = {"kafkajs": ("gzip",)}  # what a client reads, where that is not all
LARGEST = {"librdkafka": ("message.max.bytes", 1_000_000), "java": ("max.request.size", 1_048_576)}  # defaults of the clients


def in_vain(test: Test, provider: Any, workload: Any) -> Iterator[tuple[Keys, str]]:
    """What is in vain: keys of the test, and a sentence with the remedy.

    provider, workload: made of the test's options; None where these are wrong.
    """
    yield from _compression(test)
    brokers = provider.brokers if isinstance(provider, CountsBrokers) else None
    if brokers is not None:
        replicas = provider.replicas() if isinstance(provider, CountsReplicas) else brokers
        yield from _topic(test, brokers, replicas)
        yield from _more_replicas(test, brokers)
    if isinstance(provider, ReportsSettings):
        settings = {name: as_text(value) for name, value in provider.effective_settings().items()}
        yield from _in_sync_log(test, settings)
        yield from _large_records(test, settings)
        if workload is not None:
            yield from _members(test, settings, workload)


def _topic(test: Test, brokers: int, replicas: int) -> Iterator[tuple[Keys, str]]:
    least = as_text(test.topic.get(IN_SYNC, ""))
    if not least.isdecimal():
        return
    if from_digits(least) > brokers:
        yield ("topic", IN_SYNC), f"{_there(brokers)}, not {least}: no write with acks=all would succeed"
    elif from_digits(least) > replicas:
        text = f"each partition has {plural(replicas, 'replica')}, not {least}: no write with acks=all would succeed"
        yield ("topic", IN_SYNC), f"{text}; give cluster.replication = {least}, or lower it"


def _more_replicas(test: Test, brokers: int) -> Iterator[tuple[Keys, str]]:
    options = test.cluster.options
    given = as_text(options.get("replication", ""))
    if given.isdecimal() and from_digits(given) > brokers:
        yield ("cluster", "replication"), f"{_there(brokers)}, not {given}; give more brokers, or fewer replicas"
    for name, value in _given(test).items():
        if (
            name in (f"{LOG}.replication.factor", f"{OFFSETS}.replication.factor")
            and value.isdecimal()
            and from_digits(value) > brokers
        ):
            text = f"{_there(brokers)}, not {value}: Kafka would never create the topic; give more brokers, or lower it"
            yield ("cluster", "settings", name), text


def _in_sync_log(test: Test, settings: Mapping[str, str]) -> Iterator[tuple[Keys, str]]:
    """The transaction log demands more replicas in sync than it has."""
    least, factor = settings.get(f"{LOG}.min.isr", ""), settings.get(f"{LOG}.replication.factor", "")
    if least.isdecimal() and factor.isdecimal() and from_digits(least) > from_digits(factor):
        for name in (f"{LOG}.min.isr", f"{LOG}.replication.factor"):
            if name in _given(test):
                there = f"the transaction log has {plural(from_digits(factor), 'replica')}, and {least} of them must be in sync"
                text = f"{there}: no transaction could begin; lower {LOG}.min.isr, or raise {LOG}.replication.factor"
                yield ("cluster", "settings", name), text
                return


def _large_records(test: Test, settings: Mapping[str, str]) -> Iterator[tuple[Keys, str]]:
    """Records that are too large for the topic, or for the client that sends them."""
    given = as_text(test.workload.options.get("record_bytes", ""))
    if not given.isdecimal():
        return
    name, most = LARGEST.get(test.client.partition("@")[0], ("", 0))
    most = from_digits(limit) if (limit := as_text(test.producer.get(name, ""))).isdecimal() else most
    if name and from_digits(given) >= most:
        text = f"{test.client} refuses records with more than its {name} = {most}"
        yield ("workload", "record_bytes"), f"{text}; give fewer bytes, or raise {name} in client.producer"
    most_stored = as_text(test.topic.get(MESSAGE, settings.get("message.max.bytes", str(BATCH))))
    if (
        most_stored.isdecimal()
        and from_digits(given) >= from_digits(most_stored)
        and as_text(test.producer.get(COMPRESSION, NO)) == NO
    ):
        text = f"brokers refuse batches with more than {MESSAGE} = {most_stored}"
        yield ("workload", "record_bytes"), f"{text}; give fewer bytes, or raise {MESSAGE} in topic"


def _compression(test: Test) -> Iterator[tuple[Keys, str]]:
    """Records that are compressed as the client that reads them cannot."""
    readers = dict.fromkeys((test.readers or test.client, test.client))
    for keys, settings in ((("topic", COMPRESSION), test.topic), (("client", "producer", COMPRESSION), test.producer)):
        codec = as_text(settings.get(COMPRESSION, NO))
        for reader in readers:
            family = reader.partition("@")[0]
            if codec in CODECS and family in READS and codec not in READS[family]:
                text = f"{reader} cannot read records that are compressed by {codec}"
                yield keys, f"{text}; give {' or '.join(READS[family])}, or leave it out"


def _members(test: Test, settings: Mapping[str, str], workload: Any) -> Iterator[tuple[Keys, str]]:
    """Members that brokers refuse."""
    if not any(role.group for role in workload.roles()):
        return
    beneath = workload.member_settings() if isinstance(workload, ConfiguresMembers) else {}
    members = {**beneath, **test.consumer}
    if as_text(members.get(PROTOCOL, "")).lower() == "consumer":
        yield from _consumer_protocol(test, settings)
    else:
        yield from _sessions(test, settings, as_text(members.get(SESSION, "")))


def _consumer_protocol(test: Test, settings: Mapping[str, str]) -> Iterator[tuple[Keys, str]]:
    """Brokers have the protocol of KIP-848 from 4.0 on, by the feature `group.version`; 3.7 to 3.9 a preview, by a setting."""
    options = test.cluster.options
    version, features = as_text(options.get("kafka", "")), options.get("features")
    keys: Keys = ("client", "consumer", PROTOCOL) if PROTOCOL in test.consumer else ("workload", "protocol")
    if version.partition(".")[0] in ("2", "3") and "consumer" not in settings.get(PREVIEW, ""):
        text = f"brokers of Kafka {version} refuse members of the consumer protocol"
        yield keys, f"{text}; give cluster.kafka = 4.0.0 or newer, or classic"
    elif isinstance(features, Mapping) and as_text(features.get("group.version", "1")) == "0":
        yield (
            keys,
            "with the feature group.version = 0 brokers refuse members of the consumer protocol; leave it out, or give classic",
        )


def _sessions(test: Test, settings: Mapping[str, str], wanted: str) -> Iterator[tuple[Keys, str]]:
    """Brokers refuse members of a classic group whose sessions are shorter or longer than their bounds."""
    if not wanted.isdecimal():
        return
    low, high = (settings.get(name, str(otherwise)) for name, otherwise in SESSIONS)
    if low.isdecimal() and high.isdecimal() and not from_digits(low) <= from_digits(wanted) <= from_digits(high):
        keys: Keys = ("client", "consumer", SESSION) if SESSION in test.consumer else ("workload",)
        name, bound, how = (
            (SESSIONS[0][0], low, "less") if from_digits(wanted) < from_digits(low) else (SESSIONS[1][0], high, "more")
        )
        text = f"{SESSION} = {wanted}: brokers refuse members with {how} than their {name} = {bound}"
        yield keys, f"{text}; give another, here or in cluster.settings"


def _given(test: Test) -> dict[str, str]:
    """The brokers' settings that the test gives."""
    settings = test.cluster.options.get("settings")
    return {str(name): as_text(value) for name, value in settings.items()} if isinstance(settings, Mapping) else {}


def _there(brokers: int) -> str:
    return f"there {form(brokers, 'is', 'are')} {plural(brokers, 'broker')}"
