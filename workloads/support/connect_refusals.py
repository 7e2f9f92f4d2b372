"""What a run of a connector cannot go on with: a configuration that Connect refuses, records that do not tell their positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.workloads.support.connect_records import STRANGE

FIRST = 10  # so many records of a connector, none of which tells its position, end a run
NO_CLASS = "Failed to find any class"  # Connect's words


@dataclass
class FirstRecords:
    """The first records that a reader got of a connector: whether any of them tells its position.

    seen: how many there were.
    told: one of them does.
    """

    seen: int = 0
    told: bool = False

    def unreadable(self, entries: Sequence[tuple[str, str]]) -> str:
        """The reason to end the run, when none of the first records tells its position.

        entries: of each further record its kind, and its source or the reason why it tells none.
        """
        self.told = self.told or any(kind != STRANGE for kind, _ in entries)
        before, self.seen = self.seen, self.seen + len(entries)
        if self.told or before >= FIRST or self.seen < FIRST:
            return ""
        return f"None of the first {self.seen} records tells its position (`source_by`, `position_by`): {entries[0][1]}"


def without_definitions(answer: Any) -> Any:
    """The answer of a validation with only the keys that have errors, of which a connector may have hundreds without."""
    if not isinstance(answer, dict) or not isinstance(answer.get("configs"), list):
        return answer
    values = [entry["value"] for entry in answer["configs"] if isinstance(entry, dict) and isinstance(entry.get("value"), dict)]
    return {**answer, "configs": [{"value": value} for value in values if value.get("errors")]}


def refused_keys(answer: Any) -> list[str]:
    """What Connect's validation has against a configuration: `key: message`, or that the connector's class is not there."""
    if not isinstance(answer, dict):
        return []
    message = str(answer.get("message") or "")
    if NO_CLASS in message:
        return [message.split(", available connectors")[0]]
    values = [entry.get("value") for entry in answer.get("configs") or () if isinstance(entry, dict)]
    named = [(value.get("name"), value.get("errors")) for value in values if isinstance(value, dict)]
    return [f"{name}: {error}" for name, errors in named if isinstance(errors, list) for error in errors]
