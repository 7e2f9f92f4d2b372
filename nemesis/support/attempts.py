"""Attempts: calls for several nodes of which some may fail, what undoes them, and the receipt when there is no target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fencepost.harness.api import HarnessError, OverBudget, Receipt

Argument = TypeVar("Argument")


def attempt_each(action: Callable[[Argument], None], arguments: Iterable[Argument]) -> list[str]:
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
def undo_on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was done when the rest of an injection breaks off: without a receipt nobody would know what to heal."""
    try:
        yield
    except Exception:
        undo()
        raise


def attempt_within_budget(action: Callable[[str], None], nodes: Iterable[str]) -> tuple[list[str], list[str]]:
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


def hit_evidence(targets: Sequence[str], hit: Collection[str]) -> dict[str, list[str]]:
    """`hit` of the evidence: which targets were hurt, where that is only some of them."""
    some = [node for node in targets if node in hit]
    return {"hit": some} if some and len(some) < len(targets) else {}


def no_target(role: str, error: HarnessError) -> Receipt:
    """The receipt of a fault that found no target: nothing was hurt, and `note` says why."""
    return Receipt(role=role, effective=False, note=f"no target: {error}")
