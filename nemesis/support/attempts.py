"""Attempts: calls of which some may fail, and what undoes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from fencepost.harness.api import HarnessError, OverBudget

Answer = TypeVar("Answer")
Argument = TypeVar("Argument")
Arguments = ParamSpec("Arguments")


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
    """`attempt_each` with nodes, apart from those that the test's budget spared: (who was tried, the texts of what failed)."""
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


def answer_or(otherwise: Answer, call: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
    """Return what a call returns, or `otherwise` where nobody answers it."""
    try:
        return call(*args, **kwargs)
    except HarnessError:
        return otherwise
