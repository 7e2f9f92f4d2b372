"""The requests on the wire of a run (`wire.parquet`), as exchanges of each transactional id and as answered batches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.wire.exchanges import Exchange
from fencepost.checkers.wire.states import IMPLYING, NO_EPOCH, NO_PRODUCER, NONE, SECOND_FROM, Answer, Api, Request
from fencepost.harness.api.wire import nodes_of, of_broker, unread
from fencepost.harness.api.wire_table import demand_wire

NO_WIRE = "no requests were recorded on the wire (no wire.parquet): no proxy lay between clients and brokers"
UNNAMED = "wire.parquet does not say which brokers there were, so requests may be missing"
COLUMNS = (
    *("node", "client_id", "api", "version", "forwarded_ns", "answered_ns", "returned_ns", "copies", "transactional_id"),
    *("producer_id", "producer_epoch", "answer_producer_id", "answer_producer_epoch", "committed", "group", "error"),
    *("partitions", "answer_partitions", "request", "made_by_proxy"),
)
NEWEST = {  # the newest version of each request whose rules are known here
    Api.INIT: 5,
    Api.PARTITIONS: 5,
    Api.OFFSETS: 4,
    Api.PRODUCE: 13,
    Api.COMMIT_OFFSETS: 6,
    Api.END: 5,
}
MOST_COPIES = 1000  # of a request: no rule of a proxy makes more
Row = Mapping[str, Any]


@dataclass(frozen=True)
class WireLog:
    """The record.

    rows: the requests that reached a broker, by Kafka's names, in the order in which they were forwarded.
    until: up to when the record is whole (ns); None: to the end.
    why: why it ends before.
    """

    rows: list[dict[str, Any]]
    until: int | None = None
    why: str = ""
    unknown: dict[str, str] = field(default_factory=dict)

    @cached_property
    def of_ids(self) -> dict[str, list[Exchange]]:
        """The exchanges of each transactional id. Those with requests of unknown versions are in `unknown`, with the reason."""
        made: dict[str, list[Exchange]] = {}
        for at, row in enumerate(self.rows):
            name, api = row["transactional_id"], _API.get(row["api"])
            if not name or api is None:
                continue
            if row["version"] > NEWEST[api]:
                self.unknown[name] = f"{api.value} of version {row['version']} is not known"
                continue
            if (row["copies"] or 0) > MOST_COPIES:
                self.unknown[name] = f"one of its requests was passed on more than {MOST_COPIES:,} times"
                continue
            made.setdefault(name, []).extend(_exchanges(at, api, row))
        return made


_API = {api.value: api for api in Api}


def _exchanges(at: int, api: Api, row: Row) -> Iterator[Exchange]:
    """The exchanges of a row: one, of a Produce one for each partition."""
    if of_broker(api.value, row["version"], row["client_id"]):  # about a request of a client that is recorded, too
        return
    if api in IMPLYING and row["version"] < SECOND_FROM[api]:
        return
    if api is Api.PRODUCE:
        yield from _of_batches(at, row)
        return
    names = _names(row)
    if api in (Api.OFFSETS, Api.COMMIT_OFFSETS):
        names = frozenset({f"group {row['group']}"})
    producer, epoch = _number(row["producer_id"], NO_PRODUCER), _number(row["producer_epoch"], NO_EPOCH)
    request = Request(api, row["version"], producer, epoch, bool(row["committed"]), names)
    yield _exchange(at, row, request, _answer(api, row))


def _of_batches(at: int, row: Row) -> Iterator[Exchange]:
    """An exchange for each partition to which a transaction's records are written."""
    for partition, batch, error in batches(row):
        if batch.get("transactional"):
            name = frozenset({f"{partition['topic']}-{partition['partition']}"})
            request = Request(Api.PRODUCE, row["version"], batch["producer_id"], batch["epoch"], partitions=name)
            yield _exchange(at, row, request, None if error is None else Answer(error))


def _exchange(at: int, row: Row, request: Request, answer: Answer | None) -> Exchange:
    ended = None if answer is None else row["answered_ns"]
    times = max(1, _number(row["copies"], 1))
    return Exchange(at, row["node"], row["client_id"] or "", row["forwarded_ns"], ended, request, answer, times)


def _answer(api: Api, row: Row) -> Answer | None:
    """The broker's answer; None where it is not known, or lacks what this version has to have."""
    if not _answered(row):
        return None
    if row["error"] != NONE:
        return Answer(row["error"])
    gives = api is Api.INIT or (api is Api.END and row["version"] >= SECOND_FROM[Api.END])
    if not gives:
        return Answer()
    if row["answer_producer_id"] is None or row["answer_producer_epoch"] is None:
        return None
    return Answer(NONE, row["answer_producer_id"], row["answer_producer_epoch"])


def _answered(row: Row) -> bool:
    return row["answered_ns"] is not None and row["error"] is not None and not row["made_by_proxy"]


def batches(row: Row) -> Iterator[tuple[dict[str, Any], dict[str, Any], str | None]]:
    """The batches of a Produce: partition, batch, and the error with which it was answered; None: no answer is known."""
    answered = {(p.get("topic"), p["partition"]): p.get("error") or NONE for p in _parsed(row["answer_partitions"])}
    for partition in _parsed(row["partitions"]):
        error = answered.get((partition.get("topic"), partition["partition"])) if _answered(row) else None
        for batch in partition.get("batches") or ():
            yield partition, batch, error


def _names(row: Row) -> frozenset[str]:
    return frozenset(f"{partition['topic']}-{partition['partition']}" for partition in _parsed(row["partitions"]))


def _parsed(text: str | None) -> list[dict[str, Any]]:
    return json.loads(text) if text else []


def _number(value: int | None, without: int) -> int:
    return without if value is None else int(value)


def _known_until(row: dict[str, Any], until: int | None) -> dict[str, Any]:
    """A request without an answer from behind the end of the record: what the broker was asked in between is not known."""
    if until is None or row["answered_ns"] is None or row["answered_ns"] < until:
        return row
    return {**row, "answered_ns": None, "error": None, "answer_partitions": None}


def wire_log(run: RunView) -> WireLog | str:
    """The record of a run, once for all checks; why there is none, in words.

    Raises OSError and ArrowException for a damaged table.
    """
    if run.wire is None or not os.path.lexists(run.wire):
        return NO_WIRE
    demand_wire(run.wire, run.wire_checksum)
    nodes = nodes_of(run.wire)
    if nodes is None:
        raise OSError(UNNAMED)
    ends = [(record.until_ns, f"the record of {node} ends early: {record.why}") for node, record in nodes.items()]
    table = pq.read_table(run.wire, columns=list(COLUMNS), page_checksum_verification=True)
    if silent := unread(table):
        ends.append((silent.until_ns, silent.why))
    until, why = min(((end, why) for end, why in ends if end is not None), default=(None, ""))
    sent = (row for row in table.to_pylist() if row["forwarded_ns"] is not None)
    rows = [_known_until(row, until) for row in sent if until is None or row["forwarded_ns"] < until]
    return WireLog(sorted(rows, key=lambda row: row["forwarded_ns"]), until, why)
