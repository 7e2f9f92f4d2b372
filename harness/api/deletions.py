"""Topics that were deleted and created again, by the receipts of faults (`evidence.deletions`, docs/history.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.values import whole_number


@dataclass(frozen=True, slots=True)
class Deletion:
    """The deletion of a topic that was created again.

    topic: its name.
    began_ms: a moment before the request, milliseconds since 1970, as brokers stamp what they write.
    known_ms: the moment when every broker knew the new topic, likewise; None: that was not seen.
    known_ns: the same moment as histories have times, CLOCK_MONOTONIC nanoseconds; None: that was not seen.
    """

    topic: str
    began_ms: int
    known_ms: int | None
    known_ns: int | None = None


def deletions_in(receipts: Iterable[Mapping[str, Any]]) -> list[Deletion]:
    """The deletions in receipts, in the order of their times; other evidence is left out."""
    deletions = [_deletion(call, receipt) for receipt in receipts for call in _calls(receipt)]
    return sorted((deletion for deletion in deletions if deletion is not None), key=lambda deletion: deletion.began_ms)


def _calls(receipt: Mapping[str, Any]) -> list[Any]:
    evidence = receipt.get("evidence")
    calls = evidence.get("deletions") if isinstance(evidence, Mapping) else None
    return calls if isinstance(calls, list) else []


def _deletion(call: Any, receipt: Mapping[str, Any]) -> Deletion | None:
    if not isinstance(call, Mapping) or whole_number(call.get("began_ms")) is None or "topic" not in call:
        return None
    healing = receipt.get("healing")
    again = healing.get("again") if isinstance(healing, Mapping) else None
    known = again if isinstance(again, Mapping) else {}
    if known.get("deleted") is False:
        return None  # the request failed, and every broker still has the former topic
    known_ms, known_ns = (_after(call, name, known) for name in ("ms", "ns"))
    return Deletion(str(call["topic"]), call["began_ms"], known_ms, known_ns)


def _after(call: Mapping[str, Any], unit: str, known: Mapping[str, Any]) -> int | None:
    """The moment when every broker knew the new topic; None: it was not seen, or lies before the request."""
    began, seen = whole_number(call.get(f"began_{unit}")), whole_number(known.get(f"known_{unit}"))
    return seen if seen is not None and (began is None or seen >= began) else None
