"""The parsed blocks put together: `history.parquet`, block after block, and `values.parquet`: every record's own name."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.api import record_ids
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap
from fencepost.harness.api.history import VALUES, schema, writing
from fencepost.harness.api.record_ids import MAX_OP, MAX_PROCESS
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.merge import ERROR, MOP, OPS_SCHEMA, STRANGE
from fencepost.harness.interop.jepsen.identities import NONE, Identities, Ints, RecordNames
from fencepost.harness.interop.jepsen.joining import Joining
from fencepost.harness.interop.jepsen.operation_rows import in_order, mapped
from fencepost.harness.interop.jepsen.parsed_blocks import ParsedBlock
from fencepost.harness.interop.parallel import cores, in_turn

VALUES_SCHEMA = schema(VALUES)
WORDS = ["role", "isolation", "f", "type", "intent", "mops.list.element.partition"]  # columns of few different texts
UNSENT = "its value was sent by no operation of this history"


NO_OFFSET = -1  # a producer's word for an offset that it was not told (acks=0)
LEFT_OUT = (Evidence.OUTCOMES, Evidence.POLLS)


@dataclass(frozen=True)
class Part:
    """The operations and micro-operations of one block as columns; `owner` is the row of the operation.

    impossible: which of them are sends that were acknowledged at an offset that cannot be.
    """

    ops: pa.Table
    process: Ints
    number: Ints
    owner: Ints
    kind: Any
    names: RecordNames
    offset: pa.Array
    acked: Any
    impossible: Any

    @property
    def identities(self) -> Ints:
        """The identity of every micro-operation, as if all were sends."""
        sent = np.cumsum(self.kind == 0)
        before = np.concatenate([[0], sent])[np.searchsorted(self.owner, np.arange(len(self.ops)))]
        seq = sent - 1 - before[self.owner]
        return np.asarray(record_ids.of(self.process[self.owner], self.number[self.owner], seq), dtype=np.int64)


class Assembly:
    """All blocks of a history. contract: how the operations are to be understood."""

    def __init__(self, parsed_blocks: Sequence[ParsedBlock], joining: Joining, file: str, contract: Mapping[str, str]) -> None:
        self._parsed, self._joining, self._file = parsed_blocks, joining, file
        self._transactional = contract["transactional"] == "true"
        self._subscribed = contract["consumption"] == "subscribed"
        self._keys = {key: code for code, key in enumerate(dict.fromkeys(self._written_keys()))}
        self._indexed = _indexed(parsed_blocks)
        senders = [part.senders for part in parsed_blocks] + [rows.senders for rows in joining.rows.values()]
        self._processes = _Processes(
            set[int]().union(*(part.touched for part in parsed_blocks)), set[int]().union(*senders), file
        )
        self.damage: list[Gap] = []

    @property
    def renumbered(self) -> list[Gap]:
        """The gap that says of processes that they have other numbers here than in the file."""
        which = f"a process number above {MAX_PROCESS}, or below 0"
        why = f"{which}: processes are numbered anew, in their order, those that send first"
        return [Gap(file=self._file, why=why)] if self._processes.anew else []

    @property
    def partitions(self) -> list[str]:
        return list(self._keys)

    def write(self, run_dir: Path) -> int:
        """Write both files; the number of operations. Threads do it: Arrow and numpy let go of the interpreter."""
        count = 0
        with (
            replacing(run_dir, RunFile.HISTORY) as history,
            replacing(run_dir, RunFile.VALUES) as values,
            pq.ParquetWriter(history, OPS_SCHEMA, **{**writing(OPS_SCHEMA), "use_dictionary": WORDS}) as ops,
            pq.ParquetWriter(values, VALUES_SCHEMA, **{**writing(VALUES_SCHEMA), "use_dictionary": ["partition"]}) as named,
            ThreadPoolExecutor(cores()) as pool,
            ThreadPoolExecutor(1) as aside,
        ):
            places = range(len(self._parsed))
            names, numbers = zip(*in_turn(pool, self._sent, ((place,) for place in places)), strict=True)
            identities = Identities(names, numbers)
            known = in_turn(pool, self._known, ((place, identities) for place in places))
            for ops_table, values_table in in_turn(pool, self._tables, self._numbered(known, identities)):
                named_too = aside.submit(named.write_table, values_table)
                ops.write_table(ops_table)
                named_too.result()
                count += len(ops_table)
        return count

    # -- reading -----------------------------------------------------------------------------------
    def _written_keys(self) -> Iterator[str]:
        """The keys in all blocks, as they come."""
        for place, parsed in enumerate(self._parsed):
            tables = [mapped(parsed.mops), *(rows.tables()[1] for rows in (self._joining.rows.get(place),) if rows)]
            for chunk in (chunk for table in tables for chunk in table["key"].chunks):
                yield from chunk.dictionary.to_pylist()

    def _sent(self, place: int) -> tuple[RecordNames, Ints]:
        """The records that a block sends."""
        part = self._part(place)
        return part.names.at(part.kind == 0), part.identities[part.kind == 0]

    def _part(self, place: int) -> Part:
        ops, mops = mapped(self._parsed[place].ops), mapped(self._parsed[place].mops)
        if place in self._joining.rows:
            more_ops, more_mops = self._joining.rows[place].tables()
            ops = pa.concat_tables([ops, more_ops])
            ops, mops = in_order(ops, pa.concat_tables([mops, more_mops]).unify_dictionaries())
        columns = {name: _whole(mops[name]) for name in mops.column_names}
        process, offset = self._processes.numbered(ops["process"].to_numpy()), columns["offset"]
        kind = columns["kind"].to_numpy(zero_copy_only=False)
        number = ops["number" if self._indexed else "at"].to_numpy()
        if len(ops) and number.max() > MAX_OP:
            raise HistoryError(f"{self._file}: has operation {number.max()}; at most {MAX_OP}")
        return Part(
            ops=ops,
            process=process,
            number=number,
            owner=np.repeat(np.arange(len(ops)), ops["count"].to_numpy()),
            kind=kind,
            names=RecordNames(self._coded(columns["key"]), columns["number"], columns["text"]),
            offset=pc.if_else(pc.less(offset, 0), pa.scalar(None, pa.int64()), offset),
            impossible=(kind == 0) & pc.fill_null(pc.less(offset, NO_OFFSET), False).to_numpy(zero_copy_only=False),
            acked=columns["acked"].to_numpy(zero_copy_only=False),
        )

    def _coded(self, keys: pa.DictionaryArray) -> Ints:
        """Codes of partitions that are the same in all blocks."""
        codes = [self._keys[key] for key in keys.dictionary.to_pylist()]
        if not codes:
            return np.empty(0, dtype=np.int64)
        return np.asarray(np.array(codes, dtype=np.int64)[keys.indices.to_numpy(zero_copy_only=False)])

    # -- writing -----------------------------------------------------------------------------------
    def _known(self, place: int, identities: Identities) -> tuple[Part, Ints, Any]:
        """A part, the identities of its records, and which of them nobody sent, so that they have none yet."""
        part = self._part(place)
        sent, v = part.kind == 0, part.identities
        v[~sent] = identities.find(part.names.at(~sent))
        return part, v, ~sent & (v == NONE)

    def _numbered(self, known: Iterable[tuple[Part, Ints, Any]], identities: Identities) -> Iterator[tuple[Any, ...]]:
        """Parts in order, with identities for all records; and the number of operations before each."""
        first = 0
        for part, v, unsent in known:
            v[unsent] = identities.unknown(part.names.at(unsent))
            yield part, v, unsent, first, identities.ambiguous
            first += len(part.ops)

    def _tables(self, part: Part, v: Ints, unsent: Any, first: int, ambiguous: Ints) -> tuple[pa.Table, pa.Table]:
        sent = part.kind == 0
        placeless = (part.kind == 1) & part.offset.is_null().to_numpy(zero_copy_only=False)
        if placeless.any():
            part, placeless = _unheard(part, placeless)
        judged = self._judged(part, np.isin(v, ambiguous), placeless)
        partition = pa.array(self.partitions, pa.string()).take(pa.array(part.names.key))
        mops = self._mops(part, v, partition, judged)
        strange = _strange(part, partition, unsent & judged)
        shown = (sent | unsent) & judged
        values = [pa.array(v[shown]), partition.filter(pa.array(shown)), part.names.at(shown).values()]
        return self._ops(part, first, mops, strange), pa.table(values, schema=VALUES_SCHEMA)

    def _judged(self, part: Part, ambiguous: Any, placeless: Any) -> Any:
        """The mask of micro-operations that can be judged.

        Without the sends and reads of values that were sent more than once to their key (a read of such a value is ambiguous, and
        two processes that claim one record contradict each other), and without polled records of unknown place. Where a send was
        acknowledged at an offset that cannot be, its place is not known.
        """
        for which, why in (
            (ambiguous & (part.kind == 0), "sends a value that is sent more than once to its key"),
            (placeless, "polled records without an offset, and of their keys"),
            (part.impossible, "has an acknowledgement at a negative offset"),
        ):
            for row in np.unique(part.owner[which]).tolist():
                line, why_left_out = int(part.ops["at"][row].as_py()) + 1, f"operation {int(part.number[row])} {why}; left out"
                self.damage.append(Gap(file=self._file, line=line, why=why_left_out, evidence=LEFT_OUT))
        return ~(ambiguous | placeless)

    def _mops(self, part: Part, v: Ints, partition: pa.Array, judged: Any) -> pa.ListArray:
        owner, sent = part.owner, part.kind == 0
        time, end = (pc.take(_whole(part.ops[name]), pa.array(owner)) for name in ("time", "end"))
        none = pa.scalar(None, pa.int64())
        refused = pa.array(sent & self._refused(part.ops)[owner])
        began = pc.if_else(pa.array(sent), time, none)
        ended = pc.if_else(pc.and_not(pa.array(~sent | part.acked), refused), end, none)
        offset = pc.if_else(refused, none, part.offset)
        flat = [pa.array(part.kind), partition, pa.array(v), offset, began, ended]
        structs = pa.StructArray.from_arrays(flat, fields=list(MOP.fields))
        return _listed(structs.filter(pa.array(judged)), owner[judged], len(part.ops))

    def _refused(self, ops: pa.Table) -> Any:
        """Operations outside transactions of which nothing happened, whatever they say of their records: those that failed."""
        if self._transactional:
            return np.zeros(len(ops), dtype=np.bool_)
        failed = pc.and_(pc.equal(ops["f"], "send"), pc.equal(ops["type"], "fail"))
        return _whole(failed).to_numpy(zero_copy_only=False)

    def _ops(self, part: Part, first: int, mops: pa.ListArray, strange: pa.ListArray) -> pa.Table:
        count, ops = len(part.ops), part.ops
        f = ops["f"]
        if self._transactional:
            f = pc.if_else(pc.equal(f, "send"), "txn", f)
        txn, none = pc.equal(f, "txn"), pa.scalar(None, pa.int64())
        process = pa.array(part.process, pa.int32())
        columns = {
            "index": pa.array(np.arange(first, first + count)),
            "process": process,
            "slot": process,
            "op": pa.array(part.number),
            "role": pc.if_else(pa.array(np.isin(part.process, self._processes.senders)), "writer", "reader"),
            "final": pa.repeat(pa.scalar(False), count),
            "f": f,
            "intent": pc.if_else(txn, "commit", pa.scalar(None, pa.string())),
            # of a transaction without known outcome nobody knows when it was decided, but surely not before it began
            "decided": pc.if_else(pc.and_(txn, pc.equal(ops["type"], "info")), ops["time"], none),
            "mops": mops,
            "errors": _errors(ops),
            "strange": strange,
            "detail": ops["detail"] if self._subscribed else _without_groups(ops),
            **{name: ops[name] for name in ("type", "time", "end")},
        }
        absent = {field.name: pa.nulls(count, field.type) for field in OPS_SCHEMA if field.name not in columns}
        return pa.table({field.name: {**columns, **absent}[field.name] for field in OPS_SCHEMA}, schema=OPS_SCHEMA)


class _Processes:
    """The processes of a history by numbers that identities of records have room for.

    They are Jepsen's own, unless one is too large (each crash gives a process a new number), or below 0 (as the harness is).
    Then all are numbered anew, in their order, those that send first.
    """

    def __init__(self, processes: Iterable[int], senders: Iterable[int], file: str) -> None:
        sending = np.array(sorted(senders), dtype=np.int64)
        if len(sending) > MAX_PROCESS + 1:
            raise HistoryError(f"{file}: has {len(sending)} processes that send; at most {MAX_PROCESS + 1}")
        everyone = np.array(sorted(processes), dtype=np.int64)
        self.anew = int(everyone.max(initial=0)) > MAX_PROCESS or int(everyone.min(initial=0)) < 0  # below 0 is the harness
        self._order = np.concatenate([sending, np.setdiff1d(everyone, sending)])
        self._sorted = np.argsort(self._order)
        self.senders = self.numbered(sending)

    def numbered(self, processes: Ints) -> Ints:
        if not self.anew:
            return processes
        return np.asarray(self._sorted[np.searchsorted(self._order, processes, sorter=self._sorted)], dtype=np.int64)


def _indexed(parsed_blocks: Sequence[ParsedBlock]) -> bool:
    """Return whether Jepsen's own indexes number the operations: all have one, and they rise."""
    spans = [parsed.indexes for parsed in parsed_blocks if parsed.indexes is not None]
    rising = all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    return rising and all(span[0] >= 0 for span in spans)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def _listed(values: pa.Array, owner: Ints, count: int) -> pa.ListArray:
    """One list per operation of what it owns."""
    return pa.ListArray.from_arrays(pa.array(np.searchsorted(owner, np.arange(count + 1)), pa.int32()), values)


def _unheard(part: Part, placeless: Any) -> tuple[Part, Any]:
    """The part with a mark on operations of which a polled record has no offset, and the mask of their records of that key.

    Nothing that such an operation polled of that key can be placed: what it got is unknown.
    """
    whose = part.owner * (int(part.names.key.max()) + 1) + part.names.key
    details = part.ops["detail"].to_pylist()
    for row in np.unique(part.owner[placeless]).tolist():
        details[row] = json.dumps({**json.loads(details[row] or "{}"), "unheard": True}, separators=(",", ":"))
    column = part.ops.schema.get_field_index("detail")
    ops = part.ops.set_column(column, "detail", pa.array(details, pa.string()))
    return replace(part, ops=ops), (part.kind == 1) & np.isin(whose, whose[placeless])


def _errors(ops: pa.Table) -> pa.ListArray:
    errors = _whole(ops["error"])
    there = np.flatnonzero(errors.is_valid().to_numpy(zero_copy_only=False))
    given = {
        "call": pc.take(_whole(ops["f"]), pa.array(there)),
        "name": errors.take(pa.array(there)),
        "text": errors.take(pa.array(there)),
    }
    arrays = [given.get(field.name, pa.nulls(len(there), field.type)) for field in ERROR]
    return _listed(pa.StructArray.from_arrays(arrays, fields=list(ERROR)), there, len(ops))


def _without_groups(ops: pa.Table) -> pa.ChunkedArray:
    """Details, without those that matter to members of a group only: nobody needs to read them again."""
    detail = ops["detail"]
    assignments = pc.is_in(ops["f"], pa.array(["assign", "subscribe"]))
    unheard = pc.fill_null(pc.match_substring(detail, '"unheard"'), False)
    return pc.if_else(pc.or_(assignments, unheard), detail, pa.scalar(None, pa.string()))


def _strange(part: Part, partition: pa.Array, which: Any) -> pa.ListArray:
    mask = pa.array(which)
    arrays = [
        partition.filter(mask),
        part.offset.filter(mask),
        pa.repeat(pa.scalar(UNSENT), int(which.sum())),
        part.names.at(which).values(),
    ]
    return _listed(pa.StructArray.from_arrays(arrays, fields=list(STRANGE)), part.owner[which], len(part.ops))
