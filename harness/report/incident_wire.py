"""What the proxies before the brokers recorded of an incident: requests of its transactional ids, markers of its producers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fencepost.harness.api.run import Run
from fencepost.harness.api.wire_table import wire_table_of
from fencepost.harness.page_text import duration

BEFORE_NS, AFTER_NS = 500_000_000, 2_500_000_000  # around an accused operation
HELD_NS = 60_000_000_000  # for which a request may have been held before
MOST = 400  # of a run
LATE_NS = 1_000_000  # by which a request must be kept back to be late
MARKERS = "WriteTxnMarkers"
NO_ERROR = "NONE"
_COLUMNS = ("node", "api", "version", "client_id", "forwarded_ns", "arrived_ns", "answered_ns", "returned_ns", "copies")
_MORE = (
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "committed",
    "error",
    "partitions",
    "rules",
    "lost",
    "made_by_proxy",
)


@dataclass(frozen=True, kw_only=True)
class WireRow:
    """A request and its answer, as in `wire.parquet` (docs/proxy.md)."""

    node: str
    api: str
    version: int
    client_id: str
    arrived_ns: int
    forwarded_ns: int | None
    answered_ns: int | None
    returned_ns: int | None
    copies: int
    transactional_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    committed: bool | None
    error: str | None
    partitions: str
    rules: Sequence[str]
    lost: str | None
    made_by_proxy: bool

    @property
    def between_brokers(self) -> bool:
        return self.api == MARKERS

    @property
    def words(self) -> str:
        """The request: `EndTxn 1, commit, producer 5 epoch 0`."""
        decision = {True: "commit", False: "abort", None: ""}[self.committed]
        producer = f"producer {self.producer_id} epoch {self.producer_epoch}" if self.producer_id is not None else ""
        return ", ".join(filter(None, [f"{self.api} {self.version}", decision, *self._places(), producer]))

    @property
    def fate(self) -> str:
        """What became of it, in words."""
        if self.forwarded_ns is None:
            return f"the proxy answers {self.error}" if self.made_by_proxy else f"not passed on ({self.lost or 'no answer'})"
        kept_ns = self.forwarded_ns - self.arrived_ns
        late = f"passed on {duration(kept_ns)} later; " if kept_ns >= LATE_NS else ""
        if self.answered_ns is None:
            return f"{late}never answered"
        missed = f", which the client never got ({self.lost or 'not delivered'})" if self.returned_ns is None else ""
        return f"{late}answer {self.error or NO_ERROR} after {duration(self.answered_ns - self.forwarded_ns)}{missed}"

    @property
    def struck(self) -> bool:
        """True if a rule acted on it, or its client never got an answer."""
        return bool(self.rules) or self.returned_ns is None

    @property
    def label(self) -> str:
        """The request and its fate in a few words, for a drawing."""
        kept_ns = (self.forwarded_ns or self.arrived_ns) - self.arrived_ns
        if self.forwarded_ns is None:
            return f"{self.api}: not passed on" if not self.made_by_proxy else f"{self.api}: {self.error} by the proxy"
        if kept_ns >= LATE_NS:
            return f"{self.api}, {duration(kept_ns)} late"
        return (
            f"{self.api}: answer lost"
            if self.answered_ns is not None and self.lost
            else f"{self.api}: {self.error or 'no answer'}"
        )

    def _places(self) -> list[str]:
        """The partitions that it names, the first three."""
        try:
            named = [f"{one['topic']}-{one['partition']}" for one in json.loads(self.partitions or "[]")]
        except (ValueError, TypeError, KeyError):
            return []
        more = [f"{len(named) - 3} more"] if len(named) > 3 else []
        return [" ".join([*named[:3], *more])] if named else []


def wire_rows(run: Run | None, spans: Sequence[tuple[str, int, int]]) -> tuple[WireRow, ...]:
    """The requests around operations, in order of time. spans: transactional id, and when the operation began and ended (ns)."""
    if run is None or not spans:
        return ()
    begin, end = min(span[1] for span in spans) - BEFORE_NS - HELD_NS, max(span[2] for span in spans) + AFTER_NS
    try:
        window = [("arrived_ns", ">=", begin), ("arrived_ns", "<=", end)]
        rows = wire_table_of(run, [*_COLUMNS, *_MORE], window).to_pylist()
    except (OSError, pa.ArrowException):
        return ()
    return tuple(WireRow(**row) for row in _chosen(rows, spans))[:MOST]


def _chosen(rows: Sequence[dict[str, Any]], spans: Sequence[tuple[str, int, int]]) -> Iterator[dict[str, Any]]:
    own = [row for row in rows if _inside(row, [span for span in spans if span[0] == row["transactional_id"]])]
    producers = {row["producer_id"] for row in own if row["producer_id"] is not None}
    markers = [row for row in rows if row["api"] == MARKERS and row["producer_id"] in producers and _inside(row, spans)]
    yield from sorted([*own, *markers], key=lambda row: int(row["arrived_ns"]))


def _inside(row: dict[str, Any], spans: Sequence[tuple[str, int, int]]) -> bool:
    """True if it was passed on, or came, around one of these operations."""
    sent_ns = row["forwarded_ns"] or row["arrived_ns"]
    return any(begin - BEFORE_NS <= sent_ns <= end + AFTER_NS for _, begin, end in spans)
