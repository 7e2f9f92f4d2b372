"""Tests of what ends with its time: a short one, and on a machine that is busy a longer one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")


def given_longer(attempt: Callable[[float], Seen], enough: Callable[[Seen], bool], first_s: float = 0.5) -> Seen:
    """What an attempt shows that is given so many seconds: four times as many until it is enough, four times."""
    for longer in range(4):
        if enough(seen := attempt(first_s * 4**longer)):
            break
    return seen
