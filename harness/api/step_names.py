"""Names of steps of the protocol, points in them and acts, of which names of cells are made (`harness/matrix/cells.py`)."""

from __future__ import annotations

from fencepost.harness.api.words import did_you_mean

GAPS = (
    *("find-coordinator", "init-producer-id", "add-partitions", "produce", "add-offsets", "txn-offset-commit"),
    *("end-txn", "prepared", "markers", "next-begin"),
)
POINTS = ("before", "unanswered", "late")
ACTS = ("kill", "freeze", "one-way", "move", "late", "lost", "error")


def unknown_cell(text: str) -> str:
    """Why a text names no cell, behind which factors may follow, with what may be meant; empty when it does."""
    parts, known = text.split("/"), (GAPS, POINTS, ACTS)
    wrong = [(part, names) for part, names in zip(parts, known, strict=False) if part not in names]
    if len(parts) >= len(known) and not wrong:
        return ""
    hints = "".join(did_you_mean(part, names) for part, names in wrong)
    return f'there is no cell "{text}"{hints or ": a cell is a gap, a point and an act, as in end-txn/before/kill"}'
