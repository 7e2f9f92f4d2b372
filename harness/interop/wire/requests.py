"""The requests of a record (`wire.parquet`), as far as a history can be made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fencepost.harness.api.wire import OPERATORS_CLIENT, of_broker
from fencepost.harness.interop.wire.shapes import body, places

OF_WRITERS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit", "EndTxn")
OF_GROUPS = ("TxnOffsetCommit", "OffsetCommit", "OffsetFetch")
OF_TOPICS = ("Metadata", "CreateTopics", "DeleteTopics")
APIS = tuple(dict.fromkeys((*OF_WRITERS, *OF_GROUPS, *OF_TOPICS, "Fetch")))
KEPT_IF_ALTERED = ("EndTxn", "Produce", "TxnOffsetCommit", "OffsetCommit")  # something came of them, and nobody knows what
NONE = "NONE"  # Kafka's name of no error
INTERNAL = "__"  # the beginning of the names of Kafka's own topics
_COLUMNS = (
    *("node", "connection", "client_id", "api", "version", "arrived_ns", "forwarded_ns", "answered_ns", "transactional_id"),
    *("producer_id", "producer_epoch", "answer_producer_id", "answer_producer_epoch", "committed", "error", "partitions"),
    *("answer_partitions", "request", "made_by_proxy", "client", "group", "answer", "copies"),
)
Place = Mapping[str, Any]  # what a request or an answer says of a partition


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that reached a broker, and the broker's own answer.

    source: broker and connection.
    arrived: when the proxy had it (ns).
    answered: when the broker had answered (ns); None: no answer is known.
    error: the first error of the answer; None: no answer is known.
    producer, granted: producer id and epoch of the request, of the answer; None: it has none.
    places, answers: what it and its answer say of each partition, by the partition's name.
    settings: its other fields, by Kafka's names.
    group: the group that it is about; None: none.
    altered: a rule of the proxy has altered it: nobody knows what the broker was asked.
    ids: topics and their ids that it or its answer names.
    given: the answer of CreateTopics and DeleteTopics, by Kafka's names; None: not known.
    copies: how often it was passed on to the broker.
    """

    source: tuple[str, int]
    client: str
    client_id: str
    api: str
    version: int
    arrived: int
    answered: int | None
    error: str | None
    transactional_id: str | None
    producer: tuple[int, int] | None
    granted: tuple[int, int] | None
    committed: bool
    places: Mapping[str, Place]
    answers: Mapping[str, Place]
    settings: Mapping[str, Any]
    group: str | None = None
    altered: bool = False
    ids: frozenset[tuple[str, str]] = frozenset()
    given: Mapping[str, Any] | None = None
    copies: int = 1

    @property
    def succeeded(self) -> bool:
        return self.error == NONE


def requests_of(table: pa.Table, until: int | None = None, wanted: Callable[[str], bool] = lambda partition: True) -> list[Seen]:
    """The requests of a record in the order in which they came.

    until: what came or was answered from then on is not known (ns).
    wanted: the partitions that count, besides Kafka's own, which do not.

    Raises ValueError for JSON of another form than a proxy writes.
    """
    import pyarrow.compute as pc

    columns = [*_COLUMNS, *(name for name in ("altered",) if name in table.column_names)]
    table = table.select(columns).filter(pc.is_in(table["api"], pa.array(APIS))).sort_by("arrived_ns")
    made = (_seen(row, until, wanted) for batch in table.to_batches() for row in batch.to_pylist() if _counts(row, until))
    return [seen for seen in made if seen is not None]


def _counts(row: Mapping[str, Any], until: int | None) -> bool:
    """True for what a client asked and a broker got."""
    if row["forwarded_ns"] is None or row["client_id"] == OPERATORS_CLIENT:
        return False
    if of_broker(row["api"], row["version"], row["client_id"]):  # about a request of a client that is recorded, too
        return False
    return until is None or row["arrived_ns"] < until


def _seen(row: Mapping[str, Any], until: int | None, wanted: Callable[[str], bool]) -> Seen | None:
    settings = body(row["request"])
    if row["api"] == "Fetch" and _replica(settings):
        return None
    altered = bool(row.get("altered"))  # nobody knows what the broker was asked
    if altered and row["api"] not in KEPT_IF_ALTERED:
        return None
    answered = row["answered_ns"] if not (altered or row["made_by_proxy"]) else None
    known = answered is not None and (until is None or answered < until)
    asked, told = places(row["partitions"]), places(row["answer_partitions"]) if known else []
    return Seen(
        source=(row["node"], row["connection"] or 0),
        client=row["client"] or "",
        client_id=row["client_id"] or "",
        api=row["api"],
        version=row["version"],
        arrived=row["arrived_ns"],
        answered=row["answered_ns"] if known else None,
        error=row["error"] if known else None,
        transactional_id=row["transactional_id"] or None,
        producer=_pair(row["producer_id"], row["producer_epoch"]),
        granted=_pair(row["answer_producer_id"], row["answer_producer_epoch"]) if known else None,
        committed=bool(row["committed"]) or altered,
        places=dict(_places(asked, wanted)),
        answers=dict(_places(told, wanted)),
        settings=settings,
        group=row["group"] or None,
        altered=altered,
        ids=frozenset(_ids((*asked, *told))),
        given=body(row["answer"]) if known and row["answer"] and row["api"] in OF_TOPICS else None,
        copies=row["copies"] or 1,
    )


def _replica(settings: Mapping[str, Any]) -> bool:
    """True for a follower's Fetch."""
    state = settings.get("replicaState") or {}
    return bool(max(settings.get("replicaId", -1), state.get("replicaId", -1)) >= 0)


def _pair(producer: int | None, epoch: int | None) -> tuple[int, int] | None:
    return None if producer is None or producer < 0 or epoch is None else (producer, epoch)


def _places(some: Iterable[Place], wanted: Callable[[str], bool]) -> Iterator[tuple[str, Place]]:
    for place in some:
        topic, number = place.get("topic"), place.get("partition")
        if topic and number is not None and not topic.startswith(INTERNAL) and topic != place.get("topic_id"):
            name = f"{topic}-{number}"
            if wanted(name):
                yield name, place


def _ids(some: Iterable[Place]) -> Iterator[tuple[str, str]]:
    """Topics with their ids, where both are known."""
    for place in some:
        topic, topic_id = place.get("topic"), place.get("topic_id")
        if topic and topic_id and topic != topic_id:
            yield topic, topic_id
