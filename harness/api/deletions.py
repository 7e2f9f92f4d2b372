"""Topics that were deleted and created again, by the receipts of faults (`evidence.deletions`, docs/history.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Deletion:
    """A topic was deleted. Times in milliseconds since 1970: before the request, and when every broker knew the new topic
    (None: that was not seen)."""

    topic: str
    began_ms: int
    known_ms: int | None


def deletions_in(receipts: Iterable[Mapping[str, Any]]) -> list[Deletion]:
    """The deletions that receipts tell of, in the order of their times; what is no such evidence is left out."""
    found = [_deletion(call, receipt) for receipt in receipts for call in _calls(receipt)]
    return sorted((one for one in found if one is not None), key=lambda one: one.began_ms)


def _calls(receipt: Mapping[str, Any]) -> list[Any]:
    evidence = receipt.get("evidence")
    found = evidence.get("deletions") if isinstance(evidence, Mapping) else None
    return found if isinstance(found, list) else []


def _deletion(call: Any, receipt: Mapping[str, Any]) -> Deletion | None:
    if not isinstance(call, Mapping) or not isinstance(call.get("began_ms"), int) or "topic" not in call:
        return None
    healing = receipt.get("healing")
    again = healing.get("again") if isinstance(healing, Mapping) else None
    known = again.get("known_ms") if isinstance(again, Mapping) else None
    return Deletion(str(call["topic"]), call["began_ms"], known if isinstance(known, int) else None)
