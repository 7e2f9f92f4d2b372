"""The receipts of faults: `faults.jsonl` as rows of `faults.parquet` (docs/history.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fencepost.harness.api.evidence import Gap, GapKind, HistoryFile, evidence_of
from fencepost.harness.api.history import RECEIPTS
from fencepost.harness.history.lines import CUT_OFF, column_type, decoded_as

_OWN_TYPES: dict[str, Any] = {"pairs": list[tuple[str, str]], "evidence": dict[str, Any], "healing": dict[str, Any]}
_TYPES = {column.name: _OWN_TYPES.get(column.name) or column_type(column.type) for column in RECEIPTS}
_Receipt: Any = msgspec.defstruct(
    "Receipt", [(name, kind) if name == "id" else (name, kind | None, None) for name, kind in _TYPES.items()]
)
MOST = 50_000  # faults of a run, or damaged lines
_decode = msgspec.json.Decoder(_Receipt).decode


def receipts(file: HistoryFile, lines: Iterable[tuple[int, bytes]]) -> tuple[list[dict[str, Any]], list[Gap]]:
    """A row for each fault, from the last of its lines; and the lines that could not be read."""
    last: dict[int, Any] = {}
    gaps: list[Gap] = []
    for number, raw in lines:
        if not raw.strip():
            continue
        if max(len(gaps), len(last)) >= MOST:
            gaps.append(
                _gap(file, number, f"there are {MOST:,} faults, or damaged lines, before it: from here on nothing is read")
            )
            break
        try:
            receipt = decoded_as(_decode, raw)
        except ValueError as error:
            gaps.append(_gap(file, number, f"not understood: {error}" if raw.endswith(b"\n") else CUT_OFF))
        else:
            last[receipt.id] = receipt
    return [_row(last[id_]) for id_ in sorted(last)], gaps


def _gap(file: HistoryFile, line: int, why: str) -> Gap:
    return Gap(file=file.name, line=line, why=why, kind=GapKind.UNREADABLE, role="faults", evidence=evidence_of("faults"))


def _row(receipt: Any) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(receipt)
    pairs = [f"{source}>{destination}" for source, destination in row["pairs"] or ()]
    texts = {name: msgspec.json.encode(row[name] or {}).decode() for name in ("evidence", "healing")}
    return {**row, **texts, "pairs": pairs}
