"""Two runs side by side, for the terminal: what differs. `assets/compare.js` shows the same in a browser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fencepost.harness.memory.rows import RunRow
from fencepost.harness.page_text import NOTHING
from fencepost.harness.site.entries import Entry, entry_of
from fencepost.harness.site.histories import shown_number
from fencepost.harness.site.settings import Settings

Pair = tuple[str, str]


@dataclass(frozen=True)
class Line:
    """A thing of two runs. part: its heading; name, a, b: in words."""

    part: str
    name: str
    a: str
    b: str

    @property
    def differs(self) -> bool:
        return self.a != self.b


def compared(a: RunRow, b: RunRow, settings_a: Settings | None, settings_b: Settings | None) -> tuple[Line, ...]:
    """Everything that is known of two runs, part by part."""
    first, second = entry_of(a), entry_of(b)
    return (
        *(Line("outcome", name, *values) for name, values in _outcome(first, second)),
        *(Line("versions", name, _text(a, key), _text(b, key)) for name, key in _VERSIONS),
        *(Line("test", name, _text(a, key), _text(b, key)) for name, key in _TEST),
        *_findings(a, b),
        *(Line("rates", name, _number(a, key), _number(b, key)) for name, key in _RATES),
        *_settings(dict(settings_a or ()), dict(settings_b or ())),
    )


_VERSIONS = (("Kafka", "kafka"), ("client", "client"), ("protocol", "protocol"))
_TEST = (("test", "test"), ("campaign", "campaign"), ("workload", "workload"), ("cluster", "cluster"), ("seed", "seed"))
_RATES = (
    ("operations per second", "rate"),
    ("operations", "operations"),
    ("faults", "faults"),
    ("longest stall, s", "gap_s"),
    ("recovery, s", "recovery_s"),
)


def _outcome(a: Entry, b: Entry) -> Iterable[tuple[str, Pair]]:
    yield "verdict", (a.outcome, b.outcome)
    yield "anomalies", (", ".join(a.row.anomalies) or NOTHING, ", ".join(b.row.anomalies) or NOTHING)
    yield "cause", (a.cause or NOTHING, b.cause or NOTHING)


def _findings(a: RunRow, b: RunRow) -> Iterable[Line]:
    """A line for each fingerprint: two findings of one are alike, whatever their records, and however many they are."""
    of_runs = [{finding.fingerprint for finding in row.findings} for row in (a, b)]
    names = {finding.fingerprint: finding.anomaly for row in (a, b) for finding in row.findings}
    for fingerprint, anomaly in names.items():
        one, other = ("found" if fingerprint in of else "not found" for of in of_runs)
        yield Line("findings", f"{anomaly} ({fingerprint})", one, other)


def _settings(a: dict[str, str], b: dict[str, str]) -> Iterable[Line]:
    for name in dict.fromkeys((*a, *b)):
        yield Line("settings", name, a.get(name, "not set"), b.get(name, "not set"))


def _text(row: RunRow, key: str) -> str:
    value: Any = getattr(row, key)
    return NOTHING if value is None or value == "" else str(value)


def _number(row: RunRow, key: str) -> str:
    value = getattr(row, key)
    return NOTHING if value is None else f"{value:,}" if isinstance(value, int) else shown_number(value)
