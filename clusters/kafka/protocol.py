"""The few Kafka requests that no installed client offers, written to a socket directly.

Each asks one given broker and uses no cache: whether it answers at all and its features (ApiVersions, KIP-35, KIP-584), what it
knows of topics (Metadata, with leader epochs of KIP-320, or with ids of KIP-516), where logs begin and end (ListOffsets, with the
isolation of KIP-98), who leads the KRaft quorum (DescribeQuorum, KIP-595) and who coordinates an id or a group (FindCoordinator).
Each uses the oldest version that brokers 3.0 to 4.x share. Requests that change something are in `protocol_admin.py`, those about
transactions in `protocol_transactions.py`.
Layouts: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from fencepost.harness.api.wire import OPERATORS_CLIENT

T = TypeVar("T")


class Connecting(Protocol):
    """The address of a broker that demands TLS or a login (`clusters.kafka.guarded`)."""

    def connect(self, timeout_s: float) -> socket.socket: ...


Address = tuple[str, int]
Place = Address | Connecting

_LIST_OFFSETS, _METADATA, _FIND_COORDINATOR, _API_VERSIONS, _DESCRIBE_QUORUM = 2, 3, 10, 18, 55
_CLIENT = OPERATORS_CLIENT
GROUP, TRANSACTION = 0, 1  # kinds of coordinator
LATEST, EARLIEST = -1, -2  # instead of a time
_KNOWN_FEATURES, _FINALIZED_FEATURES = 0, 2  # tags of fields
_CONSUMER = -1  # instead of a replica's id
_WITH_IDS, _ID_BYTES = 10, 16  # the first version of Metadata with ids of topics
_MOMENT_S = 0.1  # for an answer where a pause of this machine has taken all the time


class WireError(OSError):
    """A broker answered with an error code, or not in the protocol."""


@dataclass(frozen=True)
class Partition:
    """A partition as a broker sees it.

    topic: the topic's name.
    number: from 0.
    leader: node id; -1 for none.
    epoch: the leader's.
    replicas: node ids, the preferred leader first.
    in_sync: node ids of the in-sync replicas.
    error: Kafka's error code; 0 for none.
    """

    topic: str
    number: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    error: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class Metadata:
    """The metadata of a cluster as a broker has it.

    brokers: node ids of the brokers in service.
    partitions: every partition.
    controller: under KRaft any broker. Redpanda names the leader of its controllers; -1 for none.
    addresses: node id -> the address that the broker gives to clients.
    """

    brokers: tuple[int, ...]
    partitions: tuple[Partition, ...]
    controller: int = -1
    addresses: Mapping[int, Address] = field(default_factory=dict)


def answers(address: Place, timeout_s: float = 1.0) -> bool:
    """Return whether the broker or controller at `address` answers a request within `timeout_s`."""
    try:
        return ask(address, _API_VERSIONS, 0, b"", timeout_s).number(">h") == 0
    except OSError:
        return False


def requests(address: Place, timeout_s: float = 1.0) -> dict[int, tuple[int, int]]:
    """The requests that the broker at `address` answers: key -> lowest and highest version. Raises OSError."""
    reply = ask(address, _API_VERSIONS, 0, b"", timeout_s)
    if error := reply.number(">h"):
        raise WireError(f"requests not listed: error {error}")
    return {key: (lowest, highest) for key, lowest, highest in reply.array(lambda: reply.numbers(">hhh"))}


def features(address: Place, timeout_s: float = 1.0) -> dict[str, int]:
    """The features that the broker at `address` knows, and the cluster's level of each as it has it. Raises OSError."""
    reply = ask(address, _API_VERSIONS, 3, compact(_CLIENT) + compact("1") + b"\x00", timeout_s, flexible=True, plain_reply=True)
    if error := reply.number(">h"):
        raise WireError(f"features not told: error {error}")
    for _ in range(reply.varint() - 1):
        reply.numbers(">hhh"), reply.tags()  # the versions of a request
    reply.number(">i")  # throttle time
    fields = reply.tags()
    known, finalized = (_feature_levels(fields[tag]) if tag in fields else {} for tag in (_KNOWN_FEATURES, _FINALIZED_FEATURES))
    return {**dict.fromkeys(known, 0), **finalized}


def _feature_levels(reply: Reply) -> dict[str, int]:
    """The first of the two numbers of each feature: of the finalized ones their level."""
    levels = {}
    for _ in range(reply.varint() - 1):
        name, (level, _) = reply.compact_text(), reply.numbers(">hh")
        reply.tags()
        levels[name] = level
    return levels


def metadata(address: Place, timeout_s: float = 2.0) -> Metadata:
    """All topics as the broker at `address` knows them. Raises OSError when it does not answer."""
    reply = ask(address, _METADATA, 7, struct.pack(">i?", -1, False), timeout_s)
    reply.number(">i")  # throttle time
    brokers = reply.array(lambda: (reply.number(">i"), (reply.text(), reply.number(">i")), reply.text())[:2])
    reply.text()  # cluster id
    controller = reply.number(">i")
    topics = reply.array(lambda: _topic(reply))
    ids = tuple(number for number, _ in brokers)
    return Metadata(ids, tuple(p for partitions in topics for p in partitions), controller, dict(brokers))


def topic_ids(address: Place, topics: Iterable[str], timeout_s: float = 2.0) -> dict[str, str]:
    """The ids of these topics as the broker at `address` knows them (KIP-516), without unknown ones. Raises OSError."""
    wanted = list(topics)
    named = b"".join(bytes(_ID_BYTES) + compact(name) + b"\x00" for name in wanted)
    body = varint(len(wanted) + 1) + named + struct.pack(">???", False, False, False) + b"\x00"
    reply = ask(address, _METADATA, _WITH_IDS, body, timeout_s, flexible=True)
    reply.number(">i")  # throttle time
    reply.compact_array(lambda: _broker(reply))
    reply.compact_text(), reply.number(">i")  # cluster id, controller
    rows = reply.compact_array(lambda: _topic_id(reply))
    return {name: topic_id for error, name, topic_id in rows if not error}


def _broker(reply: Reply) -> None:
    reply.number(">i"), reply.compact_text(), reply.number(">i"), reply.compact_text(), reply.tags()


def _topic_id(reply: Reply) -> tuple[int, str, str]:
    """The error, name and id of a topic; its partitions are left out."""
    error, name, topic_id = reply.number(">h"), reply.compact_text(), str(uuid.UUID(bytes=reply.take(_ID_BYTES)))
    reply.number(">b")  # whether it is Kafka's own
    reply.compact_array(lambda: _flexible_partition(reply))
    reply.number(">i"), reply.tags()  # what the asking user may do
    return error, name, topic_id


def _flexible_partition(reply: Reply) -> None:
    reply.numbers(">hiii")
    for _ in ("replicas", "in sync", "offline"):
        reply.compact_array(lambda: reply.number(">i"))
    reply.tags()


def quorum_leader(address: Place, timeout_s: float = 1.0) -> tuple[int, int] | None:
    """(leader's node id, epoch) if the controller at `address` leads the quorum, None if it does not. Raises OSError."""
    body = b"\x02" + compact("__cluster_metadata") + b"\x02" + struct.pack(">i", 0) + b"\x00\x00\x00"
    reply = ask(address, _DESCRIBE_QUORUM, 0, body, timeout_s, flexible=True)
    if reply.number(">h") != 0 or reply.varint() != 2:
        return None
    reply.take(reply.varint() - 1)
    if reply.varint() != 2:
        return None
    _, error, leader, epoch = reply.numbers(">ihii")
    return (leader, epoch) if error == 0 else None


def find_coordinator(address: Place, kind: int, key: str, timeout_s: float = 2.0) -> int:
    """Node id of the coordinator of a group or transactional id; asking makes the broker create the internal topic.

    Raises WireError while there is none.
    """
    reply = ask(address, _FIND_COORDINATOR, 1, string(key) + struct.pack(">b", kind), timeout_s)
    _, error = reply.numbers(">ih")
    message = reply.text()
    if error:
        raise WireError(f"no coordinator for {key}: error {error} {message}")
    return reply.number(">i")


def list_offsets(
    address: Place, partitions: Iterable[Partition], *, when: int, committed: bool, timeout_s: float = 5.0
) -> dict[str, int]:
    """First (EARLIEST) or end (LATEST) offset of each of these partitions that the broker at `address` leads.

    The end is the last stable offset when `committed`, else the high watermark. Raises OSError when it does not answer.
    """
    wanted = list(partitions)
    topics = b"".join(string(p.topic) + struct.pack(">iiq", 1, p.number, when) for p in wanted)
    body = struct.pack(">ibi", _CONSUMER, committed, len(wanted)) + topics
    reply = ask(address, _LIST_OFFSETS, 2, body, timeout_s)
    reply.number(">i")  # throttle time
    offsets = reply.array(lambda: (reply.text(), reply.array(lambda: reply.numbers(">ihqq"))))
    return {f"{topic}-{number}": offset for topic, rows in offsets for number, error, _, offset in rows if not error}


def _topic(reply: Reply) -> list[Partition]:
    _, name, _ = reply.number(">h"), reply.text(), reply.number(">b")
    return reply.array(lambda: _partition(reply, name))


def _partition(reply: Reply, topic: str) -> Partition:
    error, number, leader, epoch = reply.numbers(">hiii")
    replicas, in_sync, _ = (tuple(reply.array(lambda: reply.number(">i"))) for _ in range(3))
    return Partition(topic, number, leader, epoch, replicas, in_sync, error)


def ask(
    address: Place, key: int, version: int, body: bytes, timeout_s: float, flexible: bool = False, plain_reply: bool = False
) -> Reply:
    """One request on a connection of its own; `timeout_s` bounds all of it, but for pauses of this machine.

    plain_reply: the reply's header has no tagged fields although the request is flexible (ApiVersions).
    """
    deadline = time.monotonic() + timeout_s
    connect = socket.create_connection(address, timeout_s) if isinstance(address, tuple) else address.connect(timeout_s)
    with connect as connection:
        return exchange(connection, key, version, body, deadline, flexible, plain_reply)


def exchange(
    connection: socket.socket,
    key: int,
    version: int,
    body: bytes,
    deadline: float,
    flexible: bool = False,
    plain_reply: bool = False,
) -> Reply:
    """One request and its reply. deadline: by the monotonic clock; the reply has a moment in any case. Raises OSError."""
    request = struct.pack(">hhi", key, version, 1) + string(_CLIENT) + (b"\x00" if flexible else b"") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    deadline = max(deadline, time.monotonic() + _MOMENT_S)
    (length,) = struct.unpack(">i", _receive(connection, 4, deadline))
    reply = Reply(_receive(connection, length, deadline))
    reply.number(">i")  # correlation id
    if flexible and not plain_reply:
        reply.varint()  # tagged fields of the header
    return reply


def _receive(connection: socket.socket, length: int, deadline: float) -> bytes:
    received = b""
    while len(received) < length:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        block = connection.recv(length - len(received))
        if not block:
            raise WireError("the broker closed the connection")
        received += block
    return received


def string(text: str) -> bytes:
    """A string with its length before it, as older versions of requests have it."""
    return struct.pack(">h", len(text.encode())) + text.encode()


def varint(value: int) -> bytes:
    """An unsigned number of variable length: seven bits a byte, the lowest first."""
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def compact(text: str) -> bytes:
    """A string as flexible versions have it (KIP-482)."""
    return varint(len(text.encode()) + 1) + text.encode()


class Reply:
    """Reads a reply from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise WireError("the broker's reply is too short")
        self._at += length
        return taken

    def rest(self) -> bytes:
        """All that is still to be read."""
        return self.take(len(self._data) - self._at)

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def number(self, layout: str) -> int:
        return self.numbers(layout)[0]

    def text(self) -> str:
        """A nullable string; empty for null."""
        return self.take(max(0, self.number(">h"))).decode()

    def compact_text(self) -> str:
        """A nullable string of a flexible version (KIP-482); empty for null."""
        return self.take(max(0, self.varint() - 1)).decode()

    def tags(self) -> dict[int, Reply]:
        """The tagged fields that come here."""
        return {self.varint(): Reply(self.take(self.varint())) for _ in range(self.varint())}

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(max(0, self.number(">i")))]

    def compact_array(self, item: Callable[[], T]) -> list[T]:
        """A list of a flexible version (KIP-482); empty for null."""
        return [item() for _ in range(max(0, self.varint() - 1))]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
