"""Waiting: look until something is seen, or the time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fencepost.harness.api import clock

LOOK_EVERY_S = 0.05

Seen = TypeVar("Seen")


def poll_until(look: Callable[[], Seen], enough: Callable[[Seen], bool], within_s: float, every_s: float = LOOK_EVERY_S) -> Seen:
    """Look until it is enough, for at most `within_s` seconds; returns what was seen last, enough or not.

    The last look begins when the time is over: a pause of this machine leaves none of it out.
    """
    deadline = clock.monotonic() + within_s
    while True:
        over = clock.monotonic() >= deadline
        if enough(seen := look()) or over:
            return seen
        clock.sleep(every_s)
