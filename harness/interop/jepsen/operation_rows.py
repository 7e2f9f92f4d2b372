"""Operations as they are parsed: plain lists that become two Arrow tables, with keys and values still as they were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from fencepost.harness.api import Outcome
from fencepost.harness.api.record_ids import MAX_SEQ
from fencepost.harness.interop.jepsen.lines import Event

OPS = pa.schema(
    [
        ("at", pa.int64()),  # the place of its line in the history, from 0
        ("number", pa.int64()),  # Jepsen's own index, -1 when it gave none
        ("process", pa.int64()),
        ("f", pa.string()),
        ("type", pa.string()),
        ("time", pa.int64()),
        ("end", pa.int64()),  # null: no completion
        ("count", pa.int64()),  # how many micro-operations
        ("detail", pa.string()),
        ("error", pa.string()),
    ]
)
MOPS = pa.schema(
    [
        ("kind", pa.int8()),
        ("key", pa.dictionary(pa.int32(), pa.string())),
        ("number", pa.int64()),  # the value, when it is a whole number
        ("text", pa.string()),  # the value, when it is anything else
        ("offset", pa.int64()),
        ("acked", pa.bool_()),
    ]
)
_WHOLE = range(-(1 << 63), 1 << 63)
MICRO_OPERATIONS = "micro-operations, as [:send key value] or [:poll {key [[offset value] ...]}]"
Mop = tuple[int, Any, Any, Any, bool]  # kind, key, value, offset, acknowledged


class UnlikeJepsensError(ValueError):
    """An operation that no client of Jepsen's writes so, in words."""


class OperationRows:
    """Grows by whole operations: one that cannot be understood leaves nothing behind.

    senders: processes that sent anything.
    functions: how many operations of each f.
    together: some `send` has several records that nothing says to be separate.
    """

    def __init__(self) -> None:
        self._ops: list[tuple[Any, ...]] = []
        self._mops: list[Mop] = []
        self.senders: set[int] = set()
        self.functions: Counter[str] = Counter()
        self.together = False

    def add(self, at: int, invoked: Event, completed: Event | None, value: Any, ended_at: int = -1) -> None:
        """An operation with the value that counts; without times, places stand for them.

        Raises ValueError.
        """
        f, start = invoked.f, len(self._mops)
        type_ = Outcome.INFO.value if completed is None else completed.type
        detail = None
        if f in ("assign", "subscribe"):
            detail = _assignment(value, invoked.seek or (completed.seek if completed is not None else invoked.seek))
        elif f != "crash":
            try:
                polls = self._add_mops(value, type_ == "ok", int(invoked.process))
            except Exception as odd:
                del self._mops[start:]
                if isinstance(odd, UnlikeJepsensError):
                    raise
                raise UnlikeJepsensError(f"{str(value)[:60]} is no vector of {MICRO_OPERATIONS}") from odd
            if completed is not None and (polls or completed.rebalances or invoked.rebalances):
                detail = _consumed(polls, invoked, completed)
        time = invoked.time if invoked.time >= 0 else at
        end = None if completed is None else completed.time if completed.time >= 0 else max(time, ended_at)
        error = (completed.error or None) if completed is not None else None
        count = len(self._mops) - start
        self.together |= f == "send" and count > 1 and invoked.transactional is not False
        self._ops.append((at, invoked.index, invoked.process, f, type_, time, end, count, detail, error))
        self.functions[f] += 1

    def _add_mops(self, value: Any, ok: bool, process: int) -> list[Any]:
        """Take in an operation's micro-operations; what its polls returned (None: nobody knows)."""
        mops, sent = self._mops, 0
        polls: list[Any] = []
        for mop in value:
            name = mop[0]
            if name in (":send", ":poll"):  # JSON that keeps the colon of keywords
                name = name[1:]
            if name == "send":
                result = mop[2]
                offset, v = result if result.__class__ is list else (None, result)
                if v is None or mop[1] is None:
                    raise UnlikeJepsensError("a send without its key or its value")
                mops.append((0, _value(mop[1]), _value(v), _offset(offset), result.__class__ is list or ok))
                sent += 1
            elif name != "poll":
                raise UnlikeJepsensError(f"unknown micro-operation {name!r}")
            else:
                polls.append(mop[1] if len(mop) > 1 else None)
                for key, records in _polled(polls[-1] or ()):
                    if key is None or any(v is None for _, v in records):
                        raise UnlikeJepsensError("a polled record without its key or its value")
                    mops += [(1, key, _value(v), _offset(offset), False) for offset, v in records]
        if sent > MAX_SEQ:
            raise UnlikeJepsensError(f"{sent} sends in one operation; at most {MAX_SEQ}")
        if sent:
            self.senders.add(process)
        return polls

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Operations in the order of their invocations, and their micro-operations in the same order."""
        columns = list(zip(*self._ops, strict=True)) or [()] * len(OPS)
        ops = pa.table([pa.array(column, kind) for column, kind in zip(columns, OPS.types, strict=True)], schema=OPS)
        return in_order(ops, _mops_table(self._mops))


def _offset(value: Any) -> Any:
    """A record's offset; None: not told. Raises ValueError for what is none."""
    if value is None or (value.__class__ is int and value in _WHOLE):
        return value
    raise UnlikeJepsensError(f"the offset {str(value)[:40]} is no number of Kafka's")


def _value(value: Any) -> Any:
    """A record's value, or its key. Raises ValueError for what no client of Jepsen's sends."""
    if value.__class__ is int or value.__class__ is str or value is None:
        return value
    raise UnlikeJepsensError(f"the value {str(value)[:40]} is neither a number nor a text")


def _polled(got: Any) -> Iterable[tuple[Any, Any]]:
    """Keys and their records: of a map, of a flat list `[key, records, ...]`, or of pairs `[[key, records], ...]`."""
    if got.__class__ is dict:
        return got.items()
    if all(pair.__class__ is list and len(pair) == 2 and pair[1].__class__ is list for pair in got):
        return got  # type: ignore[no-any-return]
    return zip(got[::2], got[1::2], strict=True)


def in_order(ops: pa.Table, mops: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both tables in the order of the operations' places. The micro-operations of one operation stay together, as they were."""
    at, count = ops["at"].to_numpy(), ops["count"].to_numpy()
    if bool((at[1:] > at[:-1]).all()):
        return ops, mops
    order = np.argsort(at, kind="stable")
    starts, lengths = (np.cumsum(count) - count)[order], count[order]
    shift = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return ops.take(pa.array(order)), mops.take(pa.array(shift + np.arange(len(shift))))


def write(table: pa.Table, path: Path) -> None:
    """Spill a table, to be mapped into memory again by `mapped`."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def mapped(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _mops_table(mops: list[Mop]) -> pa.Table:
    kinds, keys, values, offsets, acked = zip(*mops, strict=True) if mops else ((),) * 5
    numbers, texts = _numbers_and_texts(values)
    known, _ = _numbers_and_texts(offsets)
    arrays = [pa.array(kinds, pa.int8()), _keys(keys), numbers, texts, known, pa.array(acked, pa.bool_())]
    return pa.table(arrays, schema=MOPS)


def _keys(keys: Sequence[Any]) -> pa.DictionaryArray:
    codes: dict[Any, int] = {}
    try:
        indices = [codes.setdefault(key, len(codes)) for key in keys]
        names = [written(key) for key in codes]
    except TypeError:  # a key that is itself a vector or a map
        return pa.array([written(key) for key in keys], pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(names, pa.string()))


def _numbers_and_texts(values: Sequence[Any]) -> tuple[pa.Array, pa.Array]:
    """Whole numbers, and the text of whatever is none (a missing value is neither)."""
    try:
        return pa.array(values, pa.int64()), pa.nulls(len(values), pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        whole = [value if value.__class__ is int and value in _WHOLE else None for value in values]
        texts = [
            None if number is not None or value is None else written(value) for number, value in zip(whole, values, strict=True)
        ]
        return pa.array(whole, pa.int64()), pa.array(texts, pa.string())


def written(value: Any) -> str:
    """A key or value as text: texts and numbers as they are, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _consumed(polls: list[Any], invoked: Event, completed: Event) -> str | None:
    """The details of an operation's polls, as JSON: rebalances among them, keys in several, polls without result."""
    detail: dict[str, Any] = {}
    if rebalances := [*(() if invoked is completed else invoked.rebalances or ()), *(completed.rebalances or ())]:
        detail["rebalances"] = [[word, [written(key) for key in keys]] for word, keys in rebalances]
    if len(polls) > 1:
        counts = Counter(written(key) for got in polls if got for key, records in _polled(got) if records)
        parted = [key for key, count in counts.items() if count > 1]
        detail |= {"parted": parted} if parted else {}
    if completed.type != "fail" and None in polls:
        detail["unheard"] = True
    return msgspec.json.encode(detail).decode() if detail else None


def _assignment(value: Any, seek: bool | None) -> str:
    if value is not None and value.__class__ is not list:  # a map may say where reading begins
        raise ValueError(f"{str(value)[:40]} is no vector of keys")
    detail: dict[str, Any] = {"partitions": [written(key) for key in value or ()]}
    sought = {"position": "unknown"} if seek is None else {"seek_to_beginning": True} if seek else {}
    return msgspec.json.encode({**detail, **sought}).decode()
