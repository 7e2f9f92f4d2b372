"""The columns of a history (docs/history.md), each declared once: writer, merge, adoption, checks and the page read them here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.harness.api.files import regular

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Whose JSON line gives a column: the file's header, the process line, the invocation, the completion.
HEADER, PROCESS, INVOCATION, COMPLETION = "header", "process", "invocation", "completion"
UNREADABLE = "unreadable"  # `f` of a row that stands for operations of a process which are missing in its file
REQUIRED = object()  # as a default: a line, a row or an element of a list without it is damaged


@dataclass(frozen=True)
class Column:
    """One column of a Parquet table.

    name: its name.
    type: Arrow's name of its type (`int64`), or `list of NAME` with NAME of `STRUCTS`.
    meaning: its meaning, in words.
    line: the JSON line that it is copied from, under its own name; empty: merging computes it.
    default: its value where that line lacks it; REQUIRED: the line is damaged without it.
    optional: a table without it has nothing of the kind (older tables, and histories from elsewhere).
    """

    name: str
    type: str
    meaning: str
    line: str = ""
    default: Any = None
    optional: bool = False


OPERATIONS = (
    Column("index", "int64", "0, 1, ... in the order of `time`", default=REQUIRED),
    Column("process", "int32", "process number; -1 is the harness itself", INVOCATION, REQUIRED),
    Column("slot", "int32", "the worker's place; -1 is the harness itself", HEADER, -1),
    Column("op", "int64", "number of the operation within its process", INVOCATION, REQUIRED),
    Column("node", "string", "node that the worker runs on", HEADER),
    Column("role", "string", "`writer`, `member`, `reader`, `instance`, `conductor`, `final` or `harness`", HEADER),
    Column("isolation", "string", "isolation level of the process's consumer; null: that of the contract", PROCESS),
    Column(
        "transactional_id",
        "string",
        "transactional id of the producer: the process's, or a further one's that its invocation names",
        PROCESS,
    ),
    Column("final", "bool", "the operation is one of a final reader", PROCESS, False),
    Column("f", "string", "function: `txn`, `send`, `poll`, `final-read`, `settle`, ...", INVOCATION, REQUIRED),
    Column("type", "string", "`ok`, `fail` or `info`; `info` where there is no completion"),
    Column(
        "intent",
        "string",
        "`commit` or `abort`; null outside transactions. How a transaction without it was decided is not known, if it ended `ok`",
        INVOCATION,
    ),
    Column("time", "int64", "invocation", INVOCATION, REQUIRED),
    Column("end", "int64", "completion; null: none"),
    Column("decided", "int64", "first call of commit; null: never", COMPLETION),
    Column("mops", "list of mop", "micro-operations; the planned sends where there is no completion"),
    Column("errors", "list of error", "what calls raised, whatever the outcome", COMPLETION),
    Column("strange", "list of strange", "records that are not of this run, or whose checksum is wrong"),
    Column(
        "detail",
        "string",
        "JSON: the completion's `value` where that is an object (`settle`, ...), or its rebalances",
    ),
    Column("chains", "list of chain", "input records that the operation processed, and what it made of them", optional=True),
    Column("outputs", "list of output", "records that it read and that a program of somebody's own wrote", optional=True),
    Column("counts", "list of count", "what these records say of the program's state", optional=True),
    Column(
        "entries",
        "list of entry",
        "records of a connector, of Connect's own topics and of a program's changelogs, and rows of its state stores",
        optional=True,
    ),
    Column("offsets", "list of position", "group offsets that it commits: the next records to be read", optional=True),
)
STRUCTS = {
    "mop": (
        Column("kind", "int8", "0 a sent record, 1 a polled record", default=REQUIRED),
        Column("partition", "string", "`topic-number`", default=REQUIRED),
        Column("v", "int64", "identity of the record", default=REQUIRED),
        Column("offset", "int64", "offset; null where it is unknown"),
        Column("began", "int64", "when the record was handed to the client; null for a polled record"),
        Column("ended", "int64", "when it was acknowledged, or returned by poll; null: never"),
    ),
    "chain": (
        Column("partition", "string", "partition of the input record, `topic-number`", default=REQUIRED),
        Column("offset", "int64", "its offset", default=REQUIRED),
        Column("v", "int64", "identity of the input record", default=REQUIRED),
        Column("output", "int64", "identity of a record that was made of it, a row each; null: none was to be made"),
    ),
    "output": (
        Column("partition", "string", "where it was read, `topic-number`", default=REQUIRED),
        Column("offset", "int64", "its offset", default=REQUIRED),
        Column(
            "v",
            "int64",
            "identity of the input record that it names; -1: none of this run (`strange` says why)",
            default=REQUIRED,
        ),
        Column("ended", "int64", "when it was returned by poll"),
    ),
    "count": (
        Column("partition", "string", "where the record was read, `topic-number`", default=REQUIRED),
        Column("offset", "int64", "its offset", default=REQUIRED),
        Column(
            "count",
            "int64",
            "how many inputs with the key of its input the program had counted, that one included",
            default=REQUIRED,
        ),
    ),
    "entry": (
        Column("partition", "string", "where it was read, `topic-number`", default=REQUIRED),
        Column("offset", "int64", "its offset", default=REQUIRED),
        Column("timestamp", "int64", "its timestamp (ms); null where the client has none"),
        Column("producer_id", "int64", "the producer's id; -1 without idempotence; null: the client does not say it"),
        Column("producer_epoch", "int32", "the producer's epoch; likewise"),
        Column("transactional", "bool", "whether it belongs to a transaction; likewise"),
        Column(
            "kind",
            "string",
            "what it is (docs/connect.md): `record`, `offset`, `COMMIT`, `ABORT`, `task-count`, ...",
            default=REQUIRED,
        ),
        Column("name", "string", "of what: a source partition, a connector, a transactional id, a key", default=REQUIRED),
        Column("number", "int64", "a position in the source, a count, a state; -1: none", default=REQUIRED),
    ),
    "position": (
        Column("partition", "string", "`topic-number`", default=REQUIRED),
        Column("offset", "int64", "the offset", default=REQUIRED),
    ),
    "error": (
        Column("call", "string", "call of the client that failed"),
        Column("name", "string", "the client's name of the error"),
        Column("code", "int32", "the client's number of the error"),
        Column("text", "string", "the client's text"),
        Column("fatal", "bool", "the producer cannot be used any more"),
        Column("retriable", "bool", "the call may be repeated"),
        Column("abortable", "bool", "the transaction must be aborted"),
        Column("time", "int64", "when it was raised"),
    ),
    "strange": (
        Column("partition", "string", "where it was read"),
        Column("offset", "int64", "offset"),
        Column("why", "string", "what is wrong with it"),
        Column("raw", "string", "its first bytes"),
    ),
    "record": (
        Column("partition", "string", "`topic-number`"),
        Column("offset", "int64", "its offset; null where it is unknown"),
        Column("v", "int64", "its identity; null: none of this run"),
        Column("operation", "int64", "history index of the operation that sent or read it"),
        Column("role", "string", "its part in the finding: `sent`, `read`, `missing`, ..."),
    ),
    "state": (
        Column("transactional_id", "string", "the id"),
        Column("producer_id", "int64", "its producer id; -1 of a record that removes the id"),
        Column("producer_epoch", "int16", "its epoch"),
        Column("previous_producer_id", "int64", "the producer id before the epochs were exhausted; -1: none"),
        Column("next_producer_id", "int64", "the producer id after that; -1: none"),
        Column("timeout_ms", "int32", "the transaction timeout"),
        Column("started", "int64", "when the transaction began (ms); -1: none has"),
        Column("updated", "int64", "when the coordinator changed the state (ms)"),
        Column("protocol", "int16", "the version of transactions that the producer spoke (KIP-890: 2); 0: not recorded"),
        Column("partitions", "list of string", "the partitions of the transaction"),
    ),
    "reach": tuple(
        Column(name, "list of string", meaning)
        for name, meaning in (
            ("nodes", "all nodes that were probed"),
            ("before", "pairs that nothing crossed before the fault"),
            ("during", "pairs that nothing crossed during the fault"),
            ("after", "pairs that nothing crossed after healing"),
        )
    ),
}
RECEIPTS = (
    Column("id", "int32", "number of the fault in the plan's schedule"),
    Column("kind", "string", "the fault"),
    Column("role", "string", "the target as asked: `leader:orders-0`; `same`: that of the fault `same_as` of the evidence"),
    Column("targets", "list of string", "the nodes that it turned out to be"),
    Column("pairs", "list of string", "`source>destination` of each cut direction"),
    Column("planned_ns", "int64", "when it was to be injected"),
    Column(
        "injected_ns",
        "int64",
        "when the first of its calls that hurt was made; of a fault that makes none: when `inject` returned",
    ),
    Column("healed_ns", "int64", "when it was healed; 0: not yet, or not at all (the note says why)"),
    Column("evidence", "string", "JSON: what the fault saw before and during"),
    Column(
        "healing", "string", "JSON: what the fault saw after; `left`, `ended_early`: what it could not undo, what was over before"
    ),
    Column("reach", "reach", "the harness's own probes; null where nodes have no network of their own"),
    Column("effective", "bool", "whether the evidence shows that it took hold, at one of its targets at least; null: unknown"),
    Column("note", "string", "why it had no effect, and the like"),
)
ANOMALIES = (
    Column("id", "int64", "number of the finding in the verdict"),
    Column("anomaly", "string", "the anomaly"),
    Column("forbidden", "bool", "whether the contract forbids it"),
    Column("sentence", "string", "what happened, in words"),
    Column("operations", "list of int64", "its operations, by history index"),
    Column("records", "list of record", "its records"),
    Column("time", "int64", "when the first of its operations began; null: not known"),
    Column("faults", "list of int32", "the faults that were active around it"),
    Column("size", "int64", "how many records it has"),
)
VALUES = (
    Column("v", "int64", "identity of the record"),
    Column("partition", "string", "the partition, by its name"),
    Column("value", "string", "the original value"),
)

STORED = (
    Column("node", "string", "the node whose log holds it", default=REQUIRED),
    Column("partition", "string", "`topic-number`", default=REQUIRED),
    Column(
        "offset", "int64", "offset; of a compressed or empty batch the first one; of a `log` where it begins", default=REQUIRED
    ),
    Column("leader_epoch", "int32", "epoch of the leader that appended it"),
    Column("producer_id", "int64", "the producer's id; -1 without idempotence", default=REQUIRED),
    Column("producer_epoch", "int16", "the producer's epoch", default=REQUIRED),
    Column("sequence", "int32", "its sequence number; -1: none"),
    Column("timestamp", "int64", "its timestamp (ms)"),
    Column(
        "kind",
        "string",
        "`record`, `COMMIT`, `ABORT`, `control`; `gzip batch` and the like: all records of a compressed batch; `empty batch`: "
        "the head that compaction left of one; `damaged batch`: one that cannot be read; `log`: the log itself; in "
        "`__transaction_state` the state, or `removed`",
        default=REQUIRED,
    ),
    Column("v", "int64", "identity of the record; null: not one of this run, or not to be seen"),
    Column("first_offset", "int64", "the first offset of its batch", optional=True),
    Column(
        "last_offset",
        "int64",
        "the last offset of its batch; of a `log` the node's high watermark by its last checkpoint, -1: none",
        optional=True,
    ),
    Column("first_sequence", "int32", "the first sequence number of its batch; -1: none", optional=True),
    Column("checksum", "int64", "the checksum of its batch (CRC-32C)", optional=True),
    Column("transactional", "bool", "its batch belongs to a transaction", optional=True),
    Column("coordinator_epoch", "int32", "epoch of the coordinator that wrote the marker; -1: no marker", optional=True),
    Column("state", "state", "in `__transaction_state`, what the record says of its transactional id; else null", optional=True),
)
LOGS_SINCE = "first_offset"  # of the columns of `STORED` that older tables lack, the first


def schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of these columns."""
    import pyarrow as pa  # here, because a worker starts without it

    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def writing(schema: pa.Schema) -> dict[str, Any]:
    """Keywords of pyarrow's writers for a table. A page that was damaged since is noticed by whoever asks for that.

    Numbers of 64 bits (identities, offsets, times) repeat seldom and lie close to each other: stored as differences, they are
    smaller than in dictionaries, and read and written more quickly. All else repeats.
    """
    import pyarrow as pa

    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    close = [path for path, kind in leaves if kind == pa.int64()]
    return {
        "compression": "zstd",
        "write_page_checksum": True,
        "use_dictionary": [path for path, _ in leaves if path not in close],
        "column_encoding": dict.fromkeys(close, "DELTA_BINARY_PACKED"),
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of numbers and texts in which Parquet keeps a column, by their paths."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path, kind


@lru_cache(maxsize=16)
def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return schema(columns)


def demand_columns(path: Path, columns: Sequence[Column]) -> None:
    """Raises OSError when a file is no Parquet table that has all these columns, with their types and with what they must have.

    The text names the mistake, and not the file: the caller names it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        status = regular(path).stat()
        _demand_types(pq.read_schema(path), tuple(columns))
        demanded = tuple(replace(column, optional=True) for column in columns)
        _demand_values(path, status.st_size, status.st_mtime_ns, demanded)
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter of a column's name
        raise OSError(f"it is no whole Parquet file: {error}") from error


def _demand_types(actual: pa.Schema, columns: tuple[Column, ...]) -> None:
    if actual.equals(_schema(columns)):
        return
    if twice := next((name for name in actual.names if actual.names.count(name) > 1), None):
        raise OSError(f"it has two columns `{twice}` (docs/history.md)")
    optional = {column.name for column in columns if column.optional}
    for field in _schema(columns):
        if field.name not in actual.names and field.name in optional:
            continue
        if field.name not in actual.names:
            raise OSError(f"its column `{field.name}` is missing (docs/history.md)")
        if not actual.field(field.name).type.equals(field.type):
            raise OSError(f"its column `{field.name}` is {actual.field(field.name).type}, not {field.type} (docs/history.md)")


@lru_cache
def _demand_values(path: Path, size: int, changed_ns: int, columns: tuple[Column, ...]) -> None:
    """Reads only columns that the head of the file does not answer for, and each once."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            leaves = list(_uncounted(file.metadata.row_group(number), columns))
            if name := lacking_values(file.read_row_group(number, leaves), columns):
                raise OSError(f"its column `{name}` lacks values (docs/history.md)")


def _uncounted(group: pq.RowGroupMetaData, columns: Sequence[Column]) -> Iterator[str]:
    """Leaves whose required values may be missing, as far as the head of the file shows.

    Of lists it counts values, and not elements. So one leaf is read, and the others must have as many values as that.
    """
    leaves: dict[str, list[pq.ColumnChunkMetaData]] = {}
    for leaf in map(group.column, range(group.num_columns)):
        leaves.setdefault(leaf.path_in_schema.partition(".")[0], []).append(leaf)
    for column in columns:
        first, *others = leaves.get(column.name, (None,))
        if first is None:
            continue
        if column.default is REQUIRED and _value_count(first) != first.num_values:
            yield first.path_in_schema
        if inner := _element(column):
            yield first.path_in_schema
            names = {field.name for field in inner if field.default is REQUIRED}
            named = (leaf for leaf in others if leaf.path_in_schema.rpartition(".")[2] in names)
            count = _value_count(first)
            yield from (leaf.path_in_schema for leaf in named if count is None or _value_count(leaf) != count)


def _value_count(leaf: pq.ColumnChunkMetaData) -> int | None:
    """The number of values of a leaf that are not null; None where the head does not say."""
    counted = leaf.statistics
    return leaf.num_values - counted.null_count if counted is not None and counted.has_null_count else None


def _element(column: Column) -> tuple[Column, ...]:
    """The fields of a list's elements, where they are structs."""
    return STRUCTS.get(column.type.removeprefix("list of "), ()) if column.type.startswith("list of ") else ()


def lacking_values(table: pa.Table, columns: Sequence[Column]) -> str:
    """The name of a column of a table with a null where a value is required, also in the elements of a list; else empty.

    Columns, and fields of elements, that the table does not have are not looked at.
    """
    for column in columns:
        if column.name not in table.column_names:
            continue
        values = table[column.name]
        if column.default is REQUIRED and values.null_count:
            return column.name
        for elements in (chunk.flatten() for chunk in values.chunks if _element(column)):
            required = [field.name for field in _element(column) if field.default is REQUIRED]
            there = [name for name in required if elements.type.get_field_index(name) >= 0]
            if elements.null_count or any(elements.field(name).null_count for name in there):
                return column.name
    return ""


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type that a column's `type` names."""
    import pyarrow as pa

    if name.startswith("list of "):
        return pa.list_(arrow_type(name.removeprefix("list of ")))
    if name in STRUCTS:
        return pa.struct(list(schema(STRUCTS[name])))
    return pa.bool_() if name == "bool" else getattr(pa, name)()


def table(columns: Sequence[Column]) -> str:
    """The columns as a Markdown table, as docs/history.md has it."""
    rows = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in columns]
    return "\n".join(("| column | type | meaning |", "|---|---|---|", *rows)) + "\n"


if __name__ == "__main__":
    for columns in (OPERATIONS, *STRUCTS.values(), RECEIPTS, ANOMALIES, STORED):
        print(table(columns))  # noqa: T201
