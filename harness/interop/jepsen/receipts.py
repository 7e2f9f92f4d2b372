"""The receipts of a Jepsen nemesis. Nothing measured whether it took hold, so `effective` is null."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fencepost.harness.interop.jepsen.parsed_blocks import PlacedEvent

_UNDOES = {"resume": ("pause",), "start": ("kill",), "stop": ("start",), "reset": ("bump", "strobe")}


def receipts(seen: Iterable[PlacedEvent]) -> list[dict[str, Any]]:
    """OperationRows of `faults.parquet` from the nemesis' lines, in the order of their beginnings.

    `start-x` is healed by `stop-x`, `kill` by `start`, `pause` by `resume`, `start` by `stop`, `bump-` and `strobe-` by `reset-`;
    any other operation is over when its second line comes.
    """
    rows: list[dict[str, Any]] = []
    begun: dict[str, PlacedEvent] = {}
    for placed in seen:
        f = placed.event.f
        if f not in begun:
            begun[f] = placed
            continue
        request = begun.pop(f)
        healed = [row for row in rows if not row["healed_ns"] and row["note"] in _healed_by(f)]
        for row in healed:
            row.update(healed_ns=_time(placed), healing=_answer(request, placed))
        if not healed:
            rows.append(_receipt(len(rows), request, placed))
    rows += [_receipt(len(rows) + number, placed, placed) for number, placed in enumerate(begun.values())]
    for row in rows:
        if not row["healed_ns"] and not _heals_later(row["note"]):
            row["healed_ns"] = row["injected_ns"]
    return rows


def _healed_by(f: str) -> tuple[str, ...]:
    """The operations that `f` undoes, by their whole names."""
    role, slash, word = f.rpartition("/")
    verb, dash, what = word.partition("-")
    if verb == "start" and dash:
        return ()
    return tuple(f"{role}{slash}{undone}{dash}{what}" for undone in _UNDOES.get(verb, ()))


def _heals_later(f: str) -> bool:
    verb = f.rpartition("/")[2].partition("-")[0]
    return any(verb in undone for undone in _UNDOES.values())


def _receipt(number: int, request: PlacedEvent, done: PlacedEvent) -> dict[str, Any]:
    role, _, word = request.event.f.rpartition("/")
    return {
        "id": number,
        "kind": word.removeprefix("start-") or word,
        "role": role,
        "targets": [],
        "pairs": [],
        "planned_ns": _time(request),
        "injected_ns": _time(done),
        "healed_ns": 0,
        "evidence": _answer(request, done),
        "healing": "{}",
        "effective": None,
        "note": request.event.f,
    }


def _time(seen: PlacedEvent) -> int:
    return seen.event.time if seen.event.time >= 0 else seen.at


def _answer(request: PlacedEvent, done: PlacedEvent) -> str:
    return msgspec.json.encode({"asked": request.value, "answered": done.value}).decode()
