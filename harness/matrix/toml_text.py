"""Values as text of TOML, and settings that the campaigns of the matrix share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PATIENCE = {"session.timeout.ms": 6000, "max.poll.interval.ms": 8000}  # else a group waits minutes for a member that is lost


def table(value: Any) -> str:
    """A value in one line: a mapping is an inline table."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {table(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else json.dumps(name)
