"""The record of proxies as a table: one row per request, made of the lines about it.

A request and its answer are separate lines, others between them. A row is kept as an object until some time after its last line
(`SETTLED`), and is a row of Arrow from then on: so memory does not grow with the number of lines as objects.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from fencepost.harness.api.files import fits_in_memory, regular
from fencepost.harness.api.wire import NodeRecord, wire_schema
from fencepost.harness.api.words import plural
from fencepost.harness.proxy import journal
from fencepost.harness.proxy.continuity import Continuity, whole_until

WIRE = wire_schema()
MOST_LINE = 16 << 20  # bytes; a request of ten thousand partitions has two million
SETTLED, BATCH = 20_000, 10_000  # lines after which nothing more is said of an answered request; rows of a batch of Arrow
_OF_REQUEST = (
    "node", "connection", "client", "client_id", "correlation", "api", "version", "arrived_ns", "transactional_id",
    "producer_id", "producer_epoch", "committed", "group",
)  # fmt: skip
FOLLOWING = ("forwarded", "answer", "returned", "lost")  # `at` of lines about a request that one before them has
NOTHING = msgspec.Raw(b"")


Short = Annotated[int, msgspec.Meta(ge=-(1 << 15), lt=1 << 15)]
Int = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a record (docs/proxy.md). JSON inside stays text."""

    at: str
    line: Long | None = None
    sum: Long | None = None
    n: Long = -1
    nodes: list[str] | None = None
    first: Long | None = None
    lines: Long | None = None
    node: str | None = None
    connection: Long | None = None
    client: str | None = None
    client_id: str | None = None
    correlation: Int | None = None
    api: str | None = None
    version: Short | None = None
    arrived_ns: Long = 0
    forwarded_ns: Long | None = None
    answered_ns: Long | None = None
    returned_ns: Long | None = None
    transactional_id: str | None = None
    producer_id: Long | None = None
    producer_epoch: Short | None = None
    committed: bool | None = None
    group: str | None = None
    error: str | None = None
    why: str | None = None
    kept: bool = False
    altered: bool = False
    made_by_proxy: bool = False
    copy: Int | None = None
    rules: list[str] = []
    by: str | None = None
    time_ns: Long = 0
    answer: bool = False
    partitions: msgspec.Raw = NOTHING
    body: msgspec.Raw = NOTHING

    @property
    def times(self) -> tuple[int, ...]:
        """When what it tells of was (ns), as far as it says so."""
        some = (self.arrived_ns, self.forwarded_ns, self.answered_ns, self.returned_ns, self.time_ns)
        return tuple(time for time in some if time)


DECODE = msgspec.json.Decoder(Line).decode


@dataclass(frozen=True)
class Recorded:
    """What files of a record hold.

    table: a row for each request, in the order in which they arrived.
    nodes: up to when the record of each broker is whole.
    numbered: its lines have numbers, so that missing ones are seen.
    """

    table: pa.Table
    nodes: Mapping[str, NodeRecord]
    numbered: bool


def read(directory: Path) -> pa.Table:
    """The requests in all files `*.jsonl` of a directory, in the order in which they arrived."""
    return recorded(directory).table


def recorded(path: Path) -> Recorded:
    """What all files `*.jsonl` of a directory hold, or one file.

    Raises ValueError for a line that is none of a record or is there twice, and, where lines have no numbers, for missing ones as
    far as others show that.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    shown = [Continuity() for _ in files]
    batches = [batch for file, continuity in zip(files, shown, strict=True) for batch in _batches(_rows_of(file, continuity))]
    table = pa.Table.from_batches(batches, WIRE).sort_by("arrived_ns")
    demand_once(table)
    numbered = any(continuity.numbered for continuity in shown)
    return Recorded(table, whole_until(shown, _replaced(table)), numbered)


def _rows_of(file: Path, continuity: Continuity) -> Iterator[dict[str, Any]]:
    yield from rows_of(continuity.through(lines_of(file)), lambda: continuity.broken)
    if continuity.empty:
        continuity.nodes.add(file.stem)


def _replaced(table: pa.Table) -> dict[str, int]:
    """Brokers whose requests are of several proxies, by their numbers, and when the last request of the first one came (ns)."""
    import pyarrow.compute as pc

    from fencepost.harness.proxy.process import SPAN

    number = pc.divide(table["number"], pa.scalar(SPAN))
    last = table.append_column("proxy", number).group_by(["node", "proxy"]).aggregate([("arrived_ns", "max")]).to_pylist()
    some: dict[str, dict[int, int]] = {}
    for row in last:
        some.setdefault(row["node"], {})[row["proxy"]] = row["arrived_ns_max"]
    return {node: own.get(0, -1) for node, own in some.items() if len(own) > 1 or 0 not in own}


def demand_once(table: pa.Table) -> None:
    """Raise ValueError for a record in which a request is twice: of two copies of lines, say."""
    requests = table.select(["node", "number", "arrived_ns"])
    again = len(requests) - len(requests.group_by(requests.column_names).aggregate([]))
    if again:
        raise ValueError(f"{plural(again, 'request is', 'requests are')} there twice")


def lines_of(file: Path) -> Iterator[Line]:
    """The lines of a file. The last one may be torn, by an end of the process while it was written: it is left out.

    Raises ValueError also for a file, or a line, that is longer than any that can be judged: it may come from anywhere.
    """
    for number, line in enumerate(_texts(file), 1):
        try:
            yield _checked(DECODE(line), line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ValueError(f"{file.name}, line {number}: {error}") from error


def _texts(file: Path) -> Iterator[bytes]:
    """The whole lines of a file, and behind them those of what its proxy had not made lines of when it was killed."""
    rest = journal.unfinished(file)
    with regular(file).open("rb") as content:
        if (size := os.fstat(content.fileno()).st_size) > fits_in_memory():
            raise ValueError(f"{file.name}: it has {size:,} bytes, more than an eighth of this machine's memory")
        for number in itertools.count(1):
            if rest is not None and content.tell() >= rest.size:
                break
            line = content.readline(MOST_LINE + 1)
            if len(line) > MOST_LINE:
                raise ValueError(f"{file.name}, line {number}: it has more than {MOST_LINE:,} bytes")
            if not line.endswith(b"\n"):
                break
            yield line
    if rest is not None:
        yield from journal.lines_of(rest, file.name)


def _checked(line: Line, text: bytes) -> Line:
    """Raise ValueError for a line that was written otherwise, and for a request without what each has."""
    if line.sum is not None and _sum(text) != line.sum:
        raise ValueError("it is not as it was written: its checksum is another")
    if line.at == "request" and None in (line.node, line.api, line.version):
        raise ValueError("a request without its broker, name or version")
    return line


def _sum(text: bytes) -> int:
    """The CRC-32 of a line from behind its own checksum to the end of its object."""
    _, _, behind = text.partition(b'"sum":')
    return zlib.crc32(behind.partition(b",")[2].rstrip(b"\n"))


def rows_of(lines: Iterable[Line], broken: Callable[[], bool] = lambda: False) -> Iterator[dict[str, Any]]:
    """A row for each request that lines are about, soon after the last of them.

    broken: whether lines are known to be missing before the one that was taken last.

    Raises ValueError for a line about a request that none before it has, though none is known to be missing, and for a second one
    of the same request.
    """
    rows: dict[int, dict[str, Any]] = {}
    settled: deque[tuple[int, int]] = deque()  # requests that were answered or lost, by the number of the line that says so
    for number, line in enumerate(lines):
        row = rows.get(line.n)
        if line.at == "request":
            if row is not None:
                raise ValueError(f"line {number + 1}: request {line.n} is there twice")
            rows[line.n] = _row(line)
        elif row is not None:
            _add(row, line)
            if row["returned_ns"] is not None or row["lost"] is not None:
                settled.append((number, line.n))
        elif line.at in FOLLOWING and line.copy is None and not broken():  # an answer to a copy may come late
            raise ValueError(f"line {number + 1} is about request {line.n}, which no line before it has: lines are missing")
        while settled and settled[0][0] < number - SETTLED:
            if (row := rows.pop(settled.popleft()[1], None)) is not None:
                yield row
    yield from rows.values()


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == BATCH:
            yield pa.RecordBatch.from_pylist(some, WIRE)
            some = []
    if some:
        yield pa.RecordBatch.from_pylist(some, WIRE)


def _row(line: Line) -> dict[str, Any]:
    """The row of a request without its answer. One that is kept back was forwarded only if another line says so."""
    return {
        **dict.fromkeys(WIRE.names),
        **{key: getattr(line, key) for key in _OF_REQUEST},
        "number": line.n,
        "forwarded_ns": None if line.kept else line.arrived_ns,
        "copies": 0 if line.kept else 1,
        "partitions": _text(line.partitions) or "[]",
        "answer_partitions": "[]",
        "request": _text(line.body),
        "rules": list(line.rules),
        "altered": line.altered,
        "made_by_proxy": False,
    }


def _add(row: dict[str, Any], line: Line) -> None:
    match line.at:
        case "forwarded":
            row["forwarded_ns"] = row["forwarded_ns"] or line.forwarded_ns
            row["copies"] += 1
        case "answer" if line.copy is None:
            _answer(row, line)
        case "returned":
            row["returned_ns"] = line.returned_ns
        case "lost":
            row["lost"] = line.why
            row["returned_ns"] = None


def _answer(row: dict[str, Any], line: Line) -> None:
    row.update({key: getattr(line, key) for key in ("answered_ns", "returned_ns", "error", "made_by_proxy")})
    row["answer_producer_id"] = line.producer_id
    row["answer_producer_epoch"] = line.producer_epoch
    row["answer_partitions"] = _text(line.partitions) or "[]"
    row["answer"] = _text(line.body)
    row["rules"] += [name for name in line.rules if name not in row["rules"]]


def _text(body: msgspec.Raw) -> str | None:
    """JSON as it came; None: there is none."""
    content = bytes(body)
    return None if content in (b"", b"null") else content.decode()
