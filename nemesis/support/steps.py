"""Small steps that faults share: looking until something is seen, trying without giving up, reporting a miss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from harness.api import HarnessError, OverBudget, Receipt

LOOK_EVERY_S = 0.05

Seen = TypeVar("Seen")
Argument = TypeVar("Argument")


def until(look: Callable[[], Seen], enough: Callable[[Seen], bool], within_s: float) -> Seen:
    """Look until it is enough, for at most `within_s` seconds; returns what was seen last, enough or not."""
    deadline = time.monotonic() + within_s
    while not enough(seen := look()) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return seen


def attempt(action: Callable[[Argument], None], arguments: Iterable[Argument]) -> list[str]:
    """Call `action` with each argument whatever became of the others; returns the texts of those that failed.

    A fault that hurts several nodes must not lose its receipt because one of them could not be hurt.
    """
    problems = []
    for argument in arguments:
        try:
            action(argument)
        except (HarnessError, OSError) as error:
            problems.append(str(error))
    return problems


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was done when the rest of an injection breaks off: without a receipt nobody would know what to heal."""
    try:
        yield
    except Exception:
        undo()
        raise


def within_budget(action: Callable[[str], None], nodes: Iterable[str]) -> tuple[list[str], list[str]]:
    """`attempt` with nodes, apart from those that the test's budget spared: (who was tried, the texts of what failed)."""
    tried, problems = [], []
    for node in nodes:
        try:
            action(node)
        except OverBudget as error:
            problems.append(str(error))
            continue
        except (HarnessError, OSError) as error:
            problems.append(str(error))
        tried.append(node)
    return tried, problems


def missed(role: str, error: HarnessError) -> Receipt:
    """The receipt of a fault that found no target: nothing was hurt, and `note` says why."""
    return Receipt(role=role, effective=False, note=f"no target: {error}")
