"""Brokers' lines around an incident: WARN and ERROR entries of the brokers concerned, and what of the incident they name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.harness.api.clocks_ahead import MOST_S
from fencepost.harness.report.broker_lines import BrokerLine
from fencepost.harness.report.incident_brokers import concerned, partitions
from fencepost.harness.report.incident_material import Material, near, producers
from fencepost.harness.report.incidents import Incident

MOST_LINES = 20
_SKIPPED_WITHIN_MS = 30_000  # a coordinator that is cut off or restarted skips a marker long after the decision
_PARTITIONS = 6


@dataclass(frozen=True, kw_only=True)
class NamingLine:
    """A broker's line, and what of the incident it names: a transactional id, a producer id, a partition."""

    line: BrokerLine
    names: tuple[str, ...]


@dataclass(frozen=True)
class Lines:
    """Brokers' lines around an incident. more: how many of them are not here. log_gaps: sentences about logs that cannot tell."""

    lines: tuple[NamingLine, ...] = ()
    more: int = 0
    nodes: tuple[str, ...] = ()
    log_gaps: tuple[str, ...] = ()


def broker_lines(made: Material, incident: Incident) -> Lines:
    """The WARN and ERROR entries within two seconds of the incident's moments, on the brokers concerned; all where nobody knows
    which these are. Also those by which a coordinator skips a marker of the incident's transactions, within 30 s. Where there are
    too many, those that name the incident come first.
    """
    stretches = near(made, incident)
    if not stretches:
        return Lines()
    nodes = concerned(made, incident) or made.logs.nodes
    met = {line: None for node in nodes for start, stop in stretches for line in _lines_of(made, node, start, stop)}
    named = _names(made, incident)
    ids = [words for name, words in named.items() if name.startswith("transactional ")]
    later = (line for start, stop in stretches for line in _skipping(made, start, stop))
    met |= {line: None for line in later if any(_has(line.text, words) for words in ids)}
    naming = [NamingLine(line=line, names=tuple(text for text, words in named.items() if _has(line.text, words))) for line in met]
    chosen = sorted(naming, key=lambda each: (-_weight(each), each.line.ms))[:MOST_LINES]
    log_gaps = made.logs.gaps(min(start for start, _ in stretches), max(stop for _, stop in stretches))
    return Lines(
        lines=tuple(sorted(chosen, key=lambda each: (each.line.ms, each.line.node))),
        more=len(naming) - len(chosen),
        nodes=tuple(nodes),
        log_gaps=tuple(log_gaps),
    )


def _lines_of(made: Material, node: str, start_ms: int, stop_ms: int) -> list[BrokerLine]:
    """The entries of a broker in a stretch of time, by its own clock where a fault had set that."""
    ahead_ms = _ahead_ms(made, node, (start_ms + stop_ms) // 2)
    lines = made.logs.between(start_ms + ahead_ms, stop_ms + ahead_ms, [node])
    return [replace(line, ahead_ms=ahead_ms) for line in lines]


def _skipping(made: Material, start_ms: int, stop_ms: int) -> list[BrokerLine]:
    """The entries of all brokers that skip a marker."""
    return [
        line
        for node in made.logs.nodes
        for line in _lines_of(made, node, start_ms, stop_ms + _SKIPPED_WITHIN_MS)
        if line.skips_marker
    ]


def _ahead_ms(made: Material, node: str, ms: int) -> int:
    """How far faults had set a broker's clock ahead at a moment, by their receipts."""
    time = 0 if made.clock is None else made.clock.ns(ms)
    ahead = 0
    for fault in made.data.faults or ():
        evidence, begun = fault.get("evidence"), fault.get("injected_ns") or 0
        by_s = evidence.get("by_s") if isinstance(evidence, Mapping) and node in (fault.get("targets") or ()) else None
        if isinstance(by_s, (int, float)) and abs(by_s) < MOST_S and begun and begun <= time <= (fault.get("healed_ns") or time):
            ahead = round(by_s * 1000)
    return ahead


def closest_line(lines: Lines) -> NamingLine | None:
    """The line that says most about an incident: one that names its transaction, else its producer, else its partition."""
    named = [each for each in lines.lines if each.names]
    return max(named, key=lambda each: (_weight(each), -each.line.ms), default=None)


def _weight(naming: NamingLine) -> int:
    weights = {"transactional": 4, "producer": 2, "partition": 1}
    return sum(weights[name.partition(" ")[0]] for name in naming.names)


def _names(made: Material, incident: Incident) -> Mapping[str, tuple[str, ...]]:
    """What an incident is about, and the words by which brokers' lines name it."""
    ids = dict.fromkeys(str(row["transactional_id"]) for row in made.accused(incident) if row.get("transactional_id"))
    named: dict[str, tuple[str, ...]] = {f"transactional id {name}": (name,) for name in ids}
    numbers = sorted({number for number, _ in producers(incident)})
    named |= {f"producer {number}": (f"producer {number}", f"producerId {number}", f"producerId={number}") for number in numbers}
    return named | {f"partition {name}": (name,) for name in partitions(incident)[:_PARTITIONS]}


def _has(text: str, words: Sequence[str]) -> bool:
    """Return whether a text has one of these as a word of its own: `t-1` is not in `t-10`, nor in `out-1`."""
    return any(re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) for word in words if word)
