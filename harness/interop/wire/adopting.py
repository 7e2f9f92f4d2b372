"""The record of `fencepost proxy`, or a `wire.parquet`, as a history of others: history.parquet, values.parquet, wire.parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.files import regular
from fencepost.harness.api.history import VALUES, schema, writing
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import NODES, NodeRecord, missing_rows, nodes_of, unread, untimely, with_nodes, with_numbers
from fencepost.harness.api.wire_table import wire_table
from fencepost.harness.api.words import and_more, plural
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.interop.wire.answers import unrecorded_answers
from fencepost.harness.interop.wire.conversion import Converted, converted
from fencepost.harness.interop.wire.requests import requests_of
from fencepost.harness.proxy import record

JUDGED = (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS, Evidence.DECISIONS, Evidence.WIRE)
OF_TOPICS = tuple(kind for kind in JUDGED if kind is not Evidence.WIRE)
OF_OFFSETS = (Evidence.DECISIONS, Evidence.SETTLING)
CONTRACT = {"aborted_polls": "kept", "consumption": "assigned", "final_read": "false", "outcomes": "brokers"}


def adopt_wire(path: Path, run_dir: Path) -> tuple[list[Gap], dict[str, str]]:
    """Write the history of a record into `run_dir`. Returns what it lacks, and what it says of the contract.

    Raises HistoryError: it cannot be read, or no transaction, send or poll is in it.
    """
    try:
        found = _record(path)
        table, nodes = found.table, found.nodes
        until = min((each.until_ns for each in nodes.values() if each.until_ns is not None), default=None)
        requests, unanswered = requests_of(table, until), list(unrecorded_answers(table, path.name))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: cannot be read as a proxy's record: {error}") from error
    made = converted(requests)
    if not any(row["f"] in ("txn", "send") for row in made.rows) and not (made.again and made.rows):
        raise HistoryError(f"{path}: a proxy's record, but no producer's batch in it that a broker got{_why_none(nodes)}")
    rows = [*made.rows, *_others(made)]
    values = [dict(zip(("v", "partition", "value"), name, strict=True)) for name in made.names]
    tables: tuple[tuple[str, list[dict[str, Any]], pa.Schema], ...] = (
        (RunFile.HISTORY, [{**row, "index": at} for at, row in enumerate(rows)], OPS_SCHEMA),
        (RunFile.VALUES, values, schema(VALUES)),
        (RunFile.RECEIPTS, [], FAULTS_SCHEMA),
    )
    for file, content, columns in tables:
        _write(run_dir, file, pa.Table.from_pylist(content, schema=columns))
    _write(run_dir, RunFile.WIRE, with_nodes(table, nodes))
    promised = {"transactional": str(made.transactional).lower(), "compaction": str(bool(made.shortened)).lower()}
    promised |= {"senders": "some"} if made.strangers else {}
    promised |= {"consumption": "recorded"} if made.grouped else {}
    gaps = [*_gaps(path, nodes, made), *_unnumbered(path, found.numbered), *unanswered, *_contradictory(path, table)]
    return gaps, {**CONTRACT, **promised}


def _write(run_dir: Path, file: str, table: pa.Table) -> None:
    with replacing(run_dir, file) as part:
        pq.write_table(table, part, **writing(table.schema))


@dataclass(frozen=True)
class _Record:
    """A record: its table, up to when that of each broker is whole, and whether missing lines or rows of it are seen."""

    table: pa.Table
    nodes: Mapping[str, NodeRecord]
    numbered: bool


def _record(path: Path) -> _Record:
    """The record at a path: a table, or lines."""
    tables = sorted(path.glob("*.parquet")) if path.is_dir() else [path] if _is_parquet(path) else []
    if len(tables) > 1:
        raise ValueError(f"it has {len(tables)} tables: give the file of one")
    for file in tables:
        table = wire_table(regular(file))
        record.demand_once(table)
        nodes = nodes_of(file)
        if nodes is None and NODES in (table.schema.metadata or {}):
            raise ValueError(f"what it says of its brokers ({NODES.decode()}) cannot be read")
        seen = missing_rows(table)
        whole = whole_before(nodes or _all_whole(table), seen)
        return _Record(table, whole_before(whole, unread(table)), seen is not None)
    lines = record.recorded(path)
    return _Record(with_numbers(lines.table), whole_before(lines.nodes, unread(lines.table)), lines.numbered)


def whole_before(nodes: Mapping[str, NodeRecord], seen: NodeRecord | None) -> dict[str, NodeRecord]:
    """The records of brokers, each up to where rows of the table are missing, or say nothing. seen: see `missing_rows`."""
    if seen is None or seen.until_ns is None:
        return dict(nodes)
    later = (node for node, each in nodes.items() if each.until_ns is None or each.until_ns > seen.until_ns)
    return {**nodes, **dict.fromkeys(later, seen)}


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _all_whole(table: pa.Table) -> dict[str, NodeRecord]:
    return {node: NodeRecord() for node in sorted(table["node"].unique().to_pylist())}


def _why_none(nodes: Mapping[str, NodeRecord]) -> str:
    ended = [f"{node}: {each.why}" for node, each in nodes.items() if each.until_ns is not None]
    return f" while its record was whole ({ended[0]}{and_more(len(ended) - 1)})" if ended else ""


def _others(made: Converted) -> Iterator[dict[str, Any]]:
    """Operations that stand for readers of whom the record does not tell.

    So a record is missed only where somebody who is in the record went on over its place (docs/foreign-histories.md).
    """
    last, number = made.rows[-1]["time"], max(row["process"] for row in made.rows) + 1
    blank = {**dict.fromkeys(made.rows[0]), "process": number, "slot": number, "role": "reader", "final": False, "time": last}
    blank |= {"mops": [], "errors": [], "strange": []}
    yield {**blank, "op": 0, "f": "subscribe", "type": "ok", "end": last, "detail": '{"topics": []}'}
    yield {**blank, "op": 1, "f": "poll", "type": "info", "end": last, "detail": '{"unheard": true}'}


def _contradictory(path: Path, table: pa.Table) -> Iterator[Gap]:
    """Times that contradict one another: what came before what is not known."""
    if count := untimely(table):
        why = (
            f"{plural(count, 'request was', 'requests were')} answered, or passed on, before it came, by the times of the record"
        )
        yield Gap(file=path.name, why=why, kind=GapKind.UNRELIABLE, evidence=JUDGED)


def _unnumbered(path: Path, numbered: bool) -> Iterator[Gap]:
    if not numbered:
        why = "its lines have no numbers (an older proxy's): those that are missing are not noticed"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING)


def _of_groups(path: Path, made: Converted) -> Iterator[Gap]:
    """What a record does not say of offsets that members were told."""
    of_end = "and of which the record has no end: who decided it is not known"
    of_beginning = "which the group may have had before the record: whose it is is not known"
    for some, why in ((made.doubtful, of_end), (made.before, of_beginning)):
        if some:
            where = f"{min(some)}{and_more(len(some) - 1)}"
            why = f"a member was told the group's offset of {where}, which a transaction was to commit, {why}"
            yield Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=OF_OFFSETS)


def _gaps(path: Path, nodes: Mapping[str, NodeRecord], made: Converted) -> Iterator[Gap]:
    """What a record does not say."""
    for node, each in nodes.items():
        if each.until_ns is not None:
            yield Gap(
                file=path.name,
                why=f"the record of {node} ends early: {each.why}; nothing behind that is judged",
                kind=GapKind.SHORTENED,
                evidence=JUDGED,
            )
    if made.strangers:
        why = f"readers got {plural(made.strangers, 'batch', 'batches')} of producers that did not pass a proxy: left out"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING)
    for topic, reason in made.again.items():
        why = f"{topic} may have been deleted and made again ({reason}): what was sent and read there is not known"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=OF_TOPICS)
    if made.shortened:
        some = sorted(made.shortened)
        why = f"brokers deleted records of {some[0]}{and_more(len(some) - 1)} (retention or compaction): no absence is judged"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING)
    if made.outside:
        some = sorted(made.outside)
        why = f"somebody commits the group's offset of {some[0]}{and_more(len(some) - 1)} outside of transactions: left out"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING)
    yield from _of_groups(path, made)
    if any(row["mops"] and row["isolation"] is None for row in made.rows if row["f"] == "poll"):
        why = "Fetches without an isolation level: the record is of an older proxy"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=(Evidence.LEVELS,))
    if made.unended:
        batches = plural(len(made.unended), "batch", "batches")
        why = (
            f"read_committed readers got {batches} of transactions whose end is not in the record: who decided them is not known"
        )
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=(Evidence.DECISIONS,))
    if made.left_out:
        why = f"{plural(made.left_out, 'client')} beyond the {made.rows[-1]['process']} that a history can number: left out"
        yield Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=JUDGED)
