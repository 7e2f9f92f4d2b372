"""The Kafka requests that change a cluster, and what they change: settings, replicas, leaders, membership.

Written to a socket like those of `protocol.py`; a broker passes them on to the controller. IncrementalAlterConfigs (KIP-226,
KIP-339), DescribeConfigs (KIP-133), AlterPartitionReassignments (KIP-455), ElectLeaders (KIP-183), UnregisterBroker (KIP-631),
UpdateFeatures (KIP-584, KIP-778).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.protocol import Place, Reply, WireError, ask, compact, string, varint

_DESCRIBE_CONFIGS, _ELECT_LEADERS, _ALTER_CONFIGS, _REASSIGN, _UPDATE_FEATURES, _UNREGISTER = 32, 43, 44, 45, 57, 64
_TOPIC, _BROKERS = 2, 4  # kinds of resource
_SET, _DELETE = 0, 1
_OWN = 1  # source of a setting: the topic's own
_PREFERRED = 0
_RAISE, _LOWER = 1, 3  # kinds of update of a feature; 3: even if the controller cannot tell that nothing is lost
_NOT_NEEDED = 84  # ELECTION_NOT_NEEDED: that replica leads already
_TIMEOUT_MS = 5000
_NO_TAGS = b"\x00"

TopicPartition = tuple[str, int]  # topic, number


def set_cluster_setting(address: Place, name: str, value: str, timeout_s: float = 5.0) -> None:
    """Set a dynamic setting of every broker, now and later. Raises WireError when it is refused."""
    _alter(address, _BROKERS, "", {name: value}, timeout_s)


def set_topic_settings(address: Place, topic: str, settings: Mapping[str, str | None], timeout_s: float = 5.0) -> None:
    """Change a topic's own settings; None deletes one, so that the brokers' applies. Raises WireError when it is refused."""
    _alter(address, _TOPIC, topic, settings, timeout_s)


def topic_settings(address: Place, topic: str, timeout_s: float = 5.0) -> dict[str, str]:
    """A topic's own settings, without what it inherits. Raises WireError when there is no such topic."""
    body = struct.pack(">ib", 1, _TOPIC) + string(topic) + struct.pack(">i?", -1, False)
    reply = ask(address, _DESCRIBE_CONFIGS, 1, body, timeout_s)
    _, _, error = reply.numbers(">iih")
    if refusal := _refusal(error, reply.text()):
        raise WireError(f"settings of {topic} not told: {refusal}")
    reply.number(">b"), reply.text()  # the resource again
    rows = reply.array(lambda: _setting(reply))
    return {name: value for name, value, source in rows if source == _OWN}


def reassign(address: Place, replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float = 5.0) -> None:
    """Begin to move partitions to these brokers, the preferred leader first. Raises WireError when any is refused."""
    body = struct.pack(">i", _TIMEOUT_MS) + varint(len(by_topic := _by_topic(replicas)) + 1)
    for topic, numbers in by_topic.items():
        entries = [struct.pack(">i", number) + _numbers(replicas[topic, number]) + _NO_TAGS for number in numbers]
        body += compact(topic) + varint(len(entries) + 1) + b"".join(entries) + _NO_TAGS
    body += _NO_TAGS
    reply = ask(address, _REASSIGN, 0, body, timeout_s, flexible=True)
    _, error = reply.numbers(">ih")
    problems = [_refusal(error, reply.compact_text())]
    for _ in range(reply.varint() - 1):
        topic = reply.compact_text()
        for _ in range(reply.varint() - 1):
            number, error = reply.numbers(">ih")
            refusal = _refusal(error, reply.compact_text())
            problems.append(refusal and f"{topic}-{number}: {refusal}")
            reply.varint()
        reply.varint()
    _raise("replicas not reassigned", problems)


def elect_preferred(address: Place, partitions: Iterable[TopicPartition], timeout_s: float = 5.0) -> None:
    """Let the first replica of each lead; one that leads already is no error. Raises WireError when any election failed."""
    body = struct.pack(">bi", _PREFERRED, len(by_topic := _by_topic(partitions)))
    for topic, numbers in by_topic.items():
        body += string(topic) + struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)
    body += struct.pack(">i", _TIMEOUT_MS)
    reply = ask(address, _ELECT_LEADERS, 1, body, timeout_s)
    _, error = reply.numbers(">ih")
    rows = reply.array(lambda: (reply.text(), reply.array(lambda: (reply.numbers(">ih"), reply.text()))))
    problems = [_refusal(error, "")]
    for topic, results in rows:
        for (number, error), text in results:
            if error != _NOT_NEEDED and (refusal := _refusal(error, text)):
                problems.append(f"{topic}-{number}: {refusal}")
    _raise("leaders not elected", problems)


def unregister(address: Place, broker: int, timeout_s: float = 5.0) -> None:
    """Unregister a broker that is down; it registers again when it starts. Raises WireError."""
    reply = ask(address, _UNREGISTER, 0, struct.pack(">i", broker) + _NO_TAGS, timeout_s, flexible=True)
    _, error = reply.numbers(">ih")
    _raise(f"broker {broker} not unregistered", [_refusal(error, reply.compact_text())])


def set_feature(address: Place, name: str, level: int, timeout_s: float = 5.0) -> None:
    """Raise or lower a feature of the cluster. Raises WireError when it is refused, and when the level is the present one."""
    kind = _RAISE if level > protocol.features(address, timeout_s).get(name, 0) else _LOWER
    update = compact(name) + struct.pack(">hb", level, kind) + _NO_TAGS
    body = struct.pack(">i", _TIMEOUT_MS) + varint(2) + update + struct.pack(">?", False) + _NO_TAGS
    reply = ask(address, _UPDATE_FEATURES, 1, body, timeout_s, flexible=True)
    _, error = reply.numbers(">ih")
    problems = [_refusal(error, reply.compact_text())]
    for _ in range(reply.varint() - 1):
        reply.compact_text()
        problems.append(_refusal(reply.number(">h"), reply.compact_text()))
        reply.varint()
    _raise(f"{name} = {level} refused", problems)


def _alter(address: Place, kind: int, name: str, settings: Mapping[str, str | None], timeout_s: float) -> None:
    changes = b"".join(
        string(key) + struct.pack(">b", _DELETE if value is None else _SET) + (_NULL if value is None else string(value))
        for key, value in settings.items()
    )
    resource = struct.pack(">b", kind) + string(name) + struct.pack(">i", len(settings)) + changes
    reply = ask(address, _ALTER_CONFIGS, 0, struct.pack(">i", 1) + resource + struct.pack(">?", False), timeout_s)
    _, _, error = reply.numbers(">iih")
    wanted = ", ".join(f"{key} = {value}" for key, value in settings.items())
    _raise(f"{wanted} refused", [_refusal(error, reply.text())])


_NULL = struct.pack(">h", -1)


def _setting(reply: Reply) -> tuple[str, str, int]:
    name, value = reply.text(), reply.text()
    _, source, _ = reply.numbers(">?b?")
    reply.array(lambda: (reply.text(), reply.text(), reply.number(">b")))
    return name, value, source


def _refusal(error: int, message: str) -> str:
    return f"error {error} {message}".strip() if error else ""


def _raise(what: str, problems: Iterable[str]) -> None:
    if text := "; ".join(filter(None, problems)):
        raise WireError(f"{what}: {text}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


def _numbers(ids: Sequence[int]) -> bytes:
    return varint(len(ids) + 1) + struct.pack(f">{len(ids)}i", *ids)
