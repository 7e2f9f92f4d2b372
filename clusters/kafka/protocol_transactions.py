"""The Kafka requests about transactions that no installed client offers: what coordinators and leaders know of them, and what
operators change.

Written to a socket like those of `protocol.py`; each asks the one broker that can answer. ListTransactions,
DescribeTransactions, DescribeProducers and WriteTxnMarkers (KIP-664: hanging transactions), InitProducerId (KIP-98; with another
producer's transactional id it fences that one), EndTxn (KIP-98; whoever knows producer id and epoch can send it, as Flink's sink
does). A marker is written in version 1, which has no transaction version: leaders then take one of the epoch that its transaction
has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

from fencepost.clusters.kafka.protocol import Place, Reply, WireError, ask, compact, string, varint
from fencepost.harness.api import ActiveProducer, TransactionState

_INIT_PRODUCER_ID, _END_TXN, _WRITE_TXN_MARKERS, _DESCRIBE_PRODUCERS, _DESCRIBE_TRANSACTIONS = 22, 26, 27, 61, 65
_LIST_TRANSACTIONS = 66
_UNKNOWN_ID = 105  # TRANSACTIONAL_ID_NOT_FOUND
RETRIABLE = {
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    51: "CONCURRENT_TRANSACTIONS",
}
_NO_TAGS = b"\x00"
_ALL = varint(1)  # an empty list: no filter

T = TypeVar("T")


class RefusedError(WireError):
    """A broker refused a request with an error code of Kafka's."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code} {RETRIABLE.get(code, '')}".strip())
        self.code = code


def init_producer(address: Place, transactional_id: str, timeout_ms: int, timeout_s: float = 5.0) -> tuple[int, int]:
    """The producer id and epoch of a new producer with this id; all before it are fenced. Raises RefusedError.

    timeout_ms: the transaction timeout that the coordinator keeps for the id until the next producer names another.
    """
    reply = ask(address, _INIT_PRODUCER_ID, 1, string(transactional_id) + struct.pack(">i", timeout_ms), timeout_s)
    _, error, producer_id, epoch = reply.numbers(">ihqh")
    _demand_none(error, f"no producer id for {transactional_id}")
    return producer_id, epoch


def end_transaction(
    address: Place, transactional_id: str, producer: tuple[int, int], commit: bool, timeout_s: float = 5.0
) -> None:
    """Commit or abort the open transaction of a producer (id, epoch). Raises RefusedError."""
    body = string(transactional_id) + struct.pack(">qh?", *producer, commit)
    _, error = ask(address, _END_TXN, 1, body, timeout_s).numbers(">ih")
    _demand_none(error, f"the transaction of {transactional_id} was not ended")


def list_transactions(address: Place, timeout_s: float = 5.0) -> dict[str, tuple[str, int]]:
    """Every transactional id that a broker coordinates, with its state and producer id.

    Raises RefusedError, also while the broker still loads the state of some ids.
    """
    reply = ask(address, _LIST_TRANSACTIONS, 0, _ALL + _ALL + _NO_TAGS, timeout_s, flexible=True)
    _, error = reply.numbers(">ih")
    _demand_none(error, "the transactions of a broker are not told")
    reply.compact_array(reply.compact_text)  # filters that it does not know
    rows = _rows(reply, lambda row: (row.compact_text(), row.number(">q"), row.compact_text()))
    return {name: (state, producer_id) for name, producer_id, state in rows}


def describe_transactions(address: Place, ids: Iterable[str], timeout_s: float = 5.0) -> dict[str, TransactionState]:
    """The states of these transactional ids by their coordinator, without those that it does not know. Raises RefusedError."""
    wanted = list(ids)
    body = varint(len(wanted) + 1) + b"".join(map(compact, wanted)) + _NO_TAGS
    reply = ask(address, _DESCRIBE_TRANSACTIONS, 0, body, timeout_s, flexible=True)
    reply.number(">i")  # throttle time
    return {name: state for name, state in _rows(reply, _transaction) if state is not None}


def _transaction(reply: Reply) -> tuple[str, TransactionState | None]:
    error, name, state = reply.number(">h"), reply.compact_text(), reply.compact_text()
    timeout_ms, started_ms, producer_id, epoch = reply.numbers(">iqqh")
    partitions = [f"{topic}-{number}" for topic, numbers in _rows(reply, _numbers_of_topic) for number in numbers]
    if error == _UNKNOWN_ID:
        return name, None
    _demand_none(error, f"the transaction of {name} is not told")
    return name, TransactionState(
        state=state,
        producer_id=producer_id,
        epoch=epoch,
        timeout_ms=timeout_ms,
        started_ms=started_ms,
        partitions=tuple(partitions),
    )


def _numbers_of_topic(reply: Reply) -> tuple[str, list[int]]:
    return reply.compact_text(), [reply.number(">i") for _ in range(reply.varint() - 1)]


def describe_producers(address: Place, topic: str, number: int, timeout_s: float = 5.0) -> tuple[ActiveProducer, ...]:
    """The producers that the leader of a partition remembers. Raises RefusedError."""
    ((error, producers),) = producers_of(address, [(topic, number)], timeout_s).values()
    _demand_none(error, f"the producers of {topic}-{number} are not told")
    return producers


def producers_of(
    address: Place, partitions: Iterable[tuple[str, int]], timeout_s: float
) -> dict[str, tuple[int, tuple[ActiveProducer, ...]]]:
    """The producers of many partitions at once, each with the error code of its answer (0: none)."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    body = varint(len(topics) + 1)
    for topic, numbers in topics.items():
        body += compact(topic) + varint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + _NO_TAGS
    reply = ask(address, _DESCRIBE_PRODUCERS, 0, body + _NO_TAGS, timeout_s, flexible=True)
    reply.number(">i")  # throttle time
    return {name: (error, producers) for rows in _rows(reply, _producers_of_topic) for name, error, producers in rows}


def _producers_of_topic(reply: Reply) -> list[tuple[str, int, tuple[ActiveProducer, ...]]]:
    topic = reply.compact_text()
    return _rows(reply, lambda row: _producers_of_partition(row, topic))


def _producers_of_partition(reply: Reply, topic: str) -> tuple[str, int, tuple[ActiveProducer, ...]]:
    number, error = reply.numbers(">ih")
    reply.compact_text()
    return f"{topic}-{number}", error, tuple(_rows(reply, _producer))


def _producer(reply: Reply) -> ActiveProducer:
    producer_id, epoch, sequence, timestamp, coordinator_epoch, start = reply.numbers(">qiiqiq")
    return ActiveProducer(
        producer_id=producer_id,
        epoch=epoch,
        last_sequence=sequence,
        last_timestamp_ms=timestamp,
        coordinator_epoch=coordinator_epoch,
        first_offset=None if start < 0 else start,
    )


def write_abort_marker(address: Place, topic: str, number: int, producer: ActiveProducer, timeout_s: float = 5.0) -> None:
    """Write an abort marker for a producer's open transaction into one partition, by its leader. Raises RefusedError.

    The coordinator does not learn of it, which is why `kafka-transactions.sh abort` is for hanging transactions only (KIP-664).
    """
    place = compact(topic) + varint(2) + struct.pack(">i", number) + _NO_TAGS
    epochs = struct.pack(">qh?", producer.producer_id, producer.epoch, False)
    coordinator = struct.pack(">i", max(0, producer.coordinator_epoch))
    body = varint(2) + epochs + varint(2) + place + coordinator + _NO_TAGS + _NO_TAGS
    reply = ask(address, _WRITE_TXN_MARKERS, 1, body, timeout_s, flexible=True)
    for error in (error for topics in _rows(reply, _marker) for errors in topics for error in errors):
        _demand_none(error, f"no abort marker in {topic}-{number} for producer id {producer.producer_id}")


def _marker(reply: Reply) -> list[list[int]]:
    reply.number(">q")  # producer id
    return _rows(reply, _errors_of_topic)


def _errors_of_topic(reply: Reply) -> list[int]:
    reply.compact_text()
    return _rows(reply, lambda row: row.numbers(">ih")[1])


def _rows(reply: Reply, item: Callable[[Reply], T]) -> list[T]:
    """An array of a flexible version, whose rows each end with tagged fields."""
    rows = []
    for _ in range(reply.varint() - 1):
        rows.append(item(reply))
        reply.tags()
    return rows


def _demand_none(error: int, what: str) -> None:
    if error:
        raise RefusedError(what, error)
