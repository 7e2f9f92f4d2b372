"""The answers of brokers as a table in Markdown: `python -m fencepost.harness.conformance.probe_page FILE...`.

Each file is one that `fencepost probe --file FILE.json` has written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    return (
        f"{WORDS[row.result]}: {row.answer}" if row.result in (ProbeResult.DIFFERS, ProbeResult.VIOLATED) else WORDS[row.result]
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def read(file: Path) -> tuple[str, list[ProbeRow]]:
    """The name of a cluster, and its answers, from a file."""
    document = json.loads(file.read_text())
    rows = [ProbeRow(**{**row, "result": ProbeResult(row["result"])}) for row in document["rows"]]
    reached = {row.profile for row in rows if row.result is not ProbeResult.UNREACHED}
    features = ", ".join(f"{name} {level}" for name, level in document["features"].items())
    name = f"Kafka {document['kafka']}" + (f" at {features}" if features else "")
    return name, [row for row in rows if row.profile in reached]


if __name__ == "__main__":
    sys.stdout.write(markdown(dict(read(Path(name)) for name in sys.argv[1:])))
