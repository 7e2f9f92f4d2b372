"""The answers of brokers as a page in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.harness.api.services import ProbeResult, ProbeRow

WORDS: Mapping[ProbeResult, str] = {
    ProbeResult.MET: "met",
    ProbeResult.DIFFERS: "differs",
    ProbeResult.VIOLATED: "**violated**",
    ProbeResult.UNREACHED: "not reached",
}


def markdown(answers: Mapping[str, Sequence[ProbeRow]]) -> str:
    """A table of rows, with a column for each cluster and profile. answers: of each cluster, by its name."""
    columns = {(cluster, row.profile): None for cluster, rows in answers.items() for row in rows}
    cells = {(cluster, row.profile, row.number): row for cluster, rows in answers.items() for row in rows}
    first = {row.number: row for rows in answers.values() for row in rows}
    head = ["answer", "situation", "demanded", *(f"{cluster}, {profile}" for cluster, profile in columns)]
    lines = [_line(head), _line(["---"] * len(head))]
    for number, row in first.items():
        own = [cells.get((*column, number)) for column in columns]
        lines.append(_line([f"`{number}`", row.situation, f"{row.demanded} ({row.source})", *map(_cell, own)]))
    reasons = {row.reason: None for rows in answers.values() for row in rows if row.result is ProbeResult.DIFFERS}
    return "\n".join([*lines, "", *(f"* {reason}" for reason in reasons), ""])


def _cell(row: ProbeRow | None) -> str:
    if row is None:
        return ""
    return f"{WORDS[row.result]}: {row.answer}" if row.result in (ProbeResult.DIFFERS, ProbeResult.VIOLATED) else WORDS[row.result]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
