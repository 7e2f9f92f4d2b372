"""The columns of an operation's row that the value of its line fills (docs/history.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fencepost.harness.history.lines import Count, Entries, Input, Offset, Output, Poll, Send

Row = dict[str, Any]


def micro_operations(value: Any) -> Row:
    """The columns that an operation's value fills."""
    if not any(isinstance(mop, (Input, Offset, Output, Entries)) for mop in value or ()):
        return {"mops": mops_of(value)}
    offsets = [{"partition": mop.partition, "offset": mop.offset} for mop in value if isinstance(mop, Offset)]
    counts = [
        {"partition": partition, "offset": offset, "count": count}
        for mop in value
        for partition, got in (mop.got.items() if isinstance(mop, Count) else ())
        for offset, count in got
    ]
    return {
        "mops": mops_of(value),
        "chains": _chains(value),
        "offsets": offsets,
        "outputs": [*_outputs(value)],
        "counts": counts,
        "entries": [*_entries(value)],
    }


def _entries(value: Any) -> Iterator[tuple[Any, ...]]:
    """A row for each record of a connector, or of Connect's own topics."""
    for mop in value:
        yield from ((mop.partition, *row) for row in mop.rows) if isinstance(mop, Entries) else ()


def _outputs(value: Any) -> Iterator[Row]:
    """A row for each record of a program that was read."""
    for mop in value:
        for partition, got in mop.got.items() if isinstance(mop, Output) else ():
            yield from ({"partition": partition, "offset": offset, "v": v, "ended": mop.returned} for offset, v in got)


def _chains(value: Any) -> list[Row]:
    """A row for each record that was made of an input, in their order; for an input of which none was, one without it."""
    rows: list[Row] = []
    for mop in value:
        if isinstance(mop, Input):
            rows.append({"partition": mop.partition, "offset": mop.offset, "v": mop.v, "output": None})
        elif isinstance(mop, Send) and rows and rows[-1]["output"] is None:
            rows[-1]["output"] = mop.v
        elif isinstance(mop, Send) and rows:
            rows.append({**rows[-1], "output": mop.v})
    return rows


def mops_of(value: Any) -> list[tuple[Any, ...]]:
    """Micro-operations as rows of the column `mops`; a poll gives a row per record."""
    rows: list[tuple[Any, ...]] = []
    for mop in value if isinstance(value, list) else ():
        if isinstance(mop, Send):
            rows.append((0, mop.partition, mop.v, mop.offset, mop.began, mop.ended))
        elif isinstance(mop, Poll):
            ended = mop.returned
            rows += [(1, partition, v, offset, None, ended) for partition, got in (mop.got or {}).items() for offset, v in got]
    return rows
