"""Answers that passed a proxy and are not in its record.

A broker answers the requests of a connection in their order (Kafka's protocol). So where a later request of the same connection
has the broker's answer, an earlier one had its own before, unless it wanted none, or a rule of the proxy had to do with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.words import and_more, form, plural
from fencepost.harness.interop.wire.shapes import body

OF_ANSWERS = (Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS, Evidence.WIRE)
_COLUMNS = ["node", "connection", "number", "api", "copies", "request", "rules", "lost"]
Row = Mapping[str, Any]


def unrecorded_answers(table: pa.Table, file: str) -> Iterator[Gap]:
    """The gap of a record in which such answers are missing: what became of their requests is not known."""
    missing = list(_unrecorded(table))
    if missing:
        some = f"{missing[0]['api']} number {missing[0]['number']} at {missing[0]['node']}{and_more(len(missing) - 1)}"
        what = f"{plural(len(missing), 'answer is', 'answers are')} missing"
        came = f"later ones of the same {form(len(missing), 'connection is', 'connections are')} there"
        yield Gap(file=file, why=f"{what}, to {some}: {came}", kind=GapKind.MISSING, lines=len(missing), evidence=OF_ANSWERS)


def _unrecorded(table: pa.Table) -> Iterator[Row]:
    connection = ["node", "connection"]
    answered = pc.and_(pc.is_valid(table["answered_ns"]), pc.invert(pc.fill_null(table["made_by_proxy"], False)))
    last = table.filter(answered).group_by(connection).aggregate([("number", "max")])
    latest = {(row["node"], row["connection"]): row["number_max"] for row in last.to_pylist()}
    open_ = pc.and_(pc.is_null(table["answered_ns"]), pc.is_valid(table["forwarded_ns"]))
    for row in table.select(_COLUMNS).filter(open_).to_pylist():
        behind = latest.get((row["node"], row["connection"]))
        if behind is not None and row["number"] is not None and row["number"] < behind and _wants_answer(row):
            yield row


def _wants_answer(row: Row) -> bool:
    """True for a request that went on as it was, once, and that a broker answers."""
    touched = row["rules"] or row["lost"] is not None or row["copies"] not in (None, 1)
    return not touched and not (row["api"] == "Produce" and body(row["request"]).get("acks") == 0)
