"""The columns of `wire.parquet`: Kafka's requests as proxies between clients and brokers recorded them (docs/wire.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.harness.api.history import REQUIRED, Column, schema

if TYPE_CHECKING:
    import pyarrow as pa

OPERATORS_CLIENT = "fencepost"
"""The client.id of what the harness itself asks brokers, as an operator."""
FETCHES: Mapping[str, Any] = {"name": "what readers are given", "api": "Fetch", "connection_of": "client", "act": "record"}
"""The rule of a proxy by which each Fetch of a client is recorded, those without records in their answer too."""
NODES = b"fencepost.nodes"
"""Key of the table's metadata: whose record it is, and up to when each is whole."""
ROWS = b"fencepost.rows"
"""Key of the table's metadata: how many rows it had when it was written."""
NUMBERS = "row"
"""Its column of running numbers, by which missing rows are seen."""
WIRE = (
    Column("node", "string", "the broker whose proxy recorded it", default=REQUIRED),
    Column("connection", "int64", "number of the connection, at its proxy"),
    Column("number", "int64", "number of the request, at its proxy"),
    Column("client", "string", "address of the client"),
    Column("client_id", "string", "its client.id"),
    Column("correlation", "int32", "correlation id of the request"),
    Column("api", "string", "Kafka's name of the request: `EndTxn`, ...", default=REQUIRED),
    Column("version", "int16", "its version", default=REQUIRED),
    Column("arrived_ns", "int64", "when the proxy had it, by the clock of the history", default=REQUIRED),
    Column("forwarded_ns", "int64", "when it was passed on to the broker; null: it never was"),
    Column("answered_ns", "int64", "when the broker had answered; null: no answer is known"),
    Column("returned_ns", "int64", "when the answer was passed on to the client; null: it never was"),
    Column("copies", "int32", "how often it was passed on to the broker"),
    Column("transactional_id", "string", "its transactional id"),
    Column("producer_id", "int64", "the producer id that it names"),
    Column("producer_epoch", "int16", "the epoch that it names"),
    Column("answer_producer_id", "int64", "the producer id of the answer (InitProducerId, EndTxn from version 5)"),
    Column("answer_producer_epoch", "int16", "the epoch of the answer"),
    Column("committed", "bool", "of EndTxn: it commits"),
    Column("group", "string", "the consumer group that it is about"),
    Column("error", "string", "the first error of the answer; `NONE`: there is none"),
    Column("partitions", "string", "JSON: the partitions of the request, with what was written to each"),
    Column("answer_partitions", "string", "JSON: the partitions of the answer, with the error of each"),
    Column("request", "string", "JSON: Kafka's own form of the request, where it holds no records"),
    Column("answer", "string", "JSON: Kafka's own form of the answer"),
    Column("rules", "list of string", "the rules of the proxy that acted"),
    Column("made_by_proxy", "bool", "the answer is the proxy's, not the broker's"),
    Column("altered", "bool", "the proxy has altered the request, which is as it came here", optional=True),
    Column("lost", "string", "why no answer came; null: it did, or the record ends before"),
    Column("row", "int64", "number of the row in the table as it was written, from 0", optional=True),
)


@dataclass(frozen=True)
class NodeRecord:
    """The record of one broker's proxy.

    until_ns: up to when it is whole; None: to the end of the run.
    why: why it ends before; empty: it does not.
    """

    until_ns: int | None = None
    why: str = ""


def wire_schema() -> pa.Schema:
    """The Arrow schema of `wire.parquet`."""
    return schema(WIRE)


def with_nodes(table: pa.Table, nodes: Mapping[str, NodeRecord]) -> pa.Table:
    """The table with a note of whose record it is: all brokers of the cluster, those without a record too (`until_ns` 0)."""
    document = {node: asdict(record) for node, record in nodes.items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), NODES: json.dumps(document).encode()})


def with_numbers(table: pa.Table) -> pa.Table:
    """The table with a running number for each row, in the order in which requests came, and a note of how many there are."""
    import pyarrow as pa

    table = table.sort_by("arrived_ns")
    at = table.schema.get_field_index(NUMBERS)
    table = table.set_column(at, table.schema.field(at), pa.array(range(len(table)), pa.int64()))
    return table.replace_schema_metadata({**(table.schema.metadata or {}), ROWS: str(len(table)).encode()})


def missing_rows(table: pa.Table) -> NodeRecord | None:
    """Up to when a table is whole, by the numbers of its rows; None: it has none."""
    import pyarrow.compute as pc

    if NUMBERS not in table.column_names or table[NUMBERS].null_count == len(table):
        return None
    ordered = table.select([NUMBERS, "arrived_ns"]).sort_by(NUMBERS).to_pydict()
    for number, seen in enumerate(ordered[NUMBERS]):
        if seen != number:
            return NodeRecord(max(ordered["arrived_ns"][:number], default=0), f"rows are missing, the first is number {number}")
    count = (table.schema.metadata or {}).get(ROWS)
    if count != str(len(table)).encode():
        why = "it does not say how many rows it had" if count is None else "rows at its end are missing"
        return NodeRecord(pc.max(table["arrived_ns"]).as_py(), why)
    return NodeRecord()


_ASKS = {
    "EndTxn": ("transactional_id", "producer_id", "producer_epoch", "committed"),
    "AddPartitionsToTxn": ("transactional_id", "producer_id", "producer_epoch"),
    "AddOffsetsToTxn": ("transactional_id", "producer_id", "producer_epoch", "group"),
    "TxnOffsetCommit": ("transactional_id", "producer_id", "producer_epoch", "group"),
    "Produce": ("partitions",),  # without a transactional id, as an idempotent producer's, it may be of a transaction
    "InitProducerId": ("transactional_id", "request"),
}
"""What each request of these says, where the proxy could read it."""
_INITIALISED = 5  # up to this version each release of the proxy reads an InitProducerId, which may lawfully say neither
_BATCHED = 4  # from this version on an AddPartitionsToTxn is about several ids
_VERIFYING = "AddPartitionsManager"  # with which the client ids begin under which Kafka's brokers send it


def of_broker(api: str, version: int, client_id: str | None) -> bool:
    """True for an AddPartitionsToTxn by which a leader asks about a client's transaction (KIP-890). Clients may send such too."""
    return api == "AddPartitionsToTxn" and version >= _BATCHED and (client_id or "").startswith(_VERIFYING)


def unread(table: pa.Table) -> NodeRecord | None:
    """Up to when each request about a transaction says what it asks for; None: all of them do.

    A proxy passes on what it cannot read: a request of a newer version may have decided any transaction from then on.
    """
    import pyarrow.compute as pc

    first, api = list[tuple[int, str]](), table["api"]
    for name, columns in _ASKS.items():
        lacking = pc.equal(api, name)
        some = _says_nothing(table[columns[0]])
        for column in columns[1:]:
            one = _says_nothing(table[column])
            some = pc.and_(some, one) if name == "InitProducerId" else pc.or_(some, one)
        if name == "InitProducerId":
            some = pc.and_(some, pc.greater(table["version"], _INITIALISED))
        if name == "AddPartitionsToTxn":
            some = pc.and_(some, pc.or_(pc.less(table["version"], _BATCHED), pc.invert(_verifying(table["client_id"]))))
        times = pc.filter(table["forwarded_ns"], pc.and_(lacking, some)).drop_null()
        first += [(pc.min(times).as_py(), name)] if len(times) else []
    if not first:
        return None
    time, name = min(first)
    return NodeRecord(time, f"a request ({name}) does not say what it asks for: it could not be read")


def _says_nothing(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    lacking = pc.is_null(column)
    return pc.or_(lacking, pc.fill_null(pc.equal(column, "[]"), False)) if pa.types.is_string(column.type) else lacking


def _verifying(client_ids: Any) -> Any:
    import pyarrow.compute as pc

    return pc.fill_null(pc.starts_with(client_ids, _VERIFYING), False)


def untimely(table: pa.Table) -> int:
    """How many requests have times that contradict one another: each of them follows the one before."""
    import pyarrow.compute as pc

    steps = ("arrived_ns", "forwarded_ns", "answered_ns", "returned_ns")
    wrong = pc.is_null(table["arrived_ns"])
    for before, after in (*pairwise(steps), ("arrived_ns", "answered_ns")):
        wrong = pc.or_(wrong, pc.fill_null(pc.less(table[after], table[before]), False))
    return int(pc.sum(wrong).as_py() or 0)


def nodes_of(path: Path) -> Mapping[str, NodeRecord] | None:
    """Whose record a table is; None: it does not say, or not in this form. Raises OSError and ArrowException."""
    import pyarrow.parquet as pq

    noted = (pq.read_schema(path).metadata or {}).get(NODES)
    try:
        made = {} if noted is None else {node: NodeRecord(**record) for node, record in json.loads(noted).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    sound = all(type(each.until_ns) in (int, type(None)) and isinstance(each.why, str) for each in made.values())
    return made if noted is not None and sound else None
