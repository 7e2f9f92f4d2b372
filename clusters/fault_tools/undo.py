"""Undoing one thing after the other, whatever became of the ones before: a rule that is not removed must not be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from harness.api import ClusterError, Interrupted

A = TypeVar("A")


def one_by_one(undo: Callable[[A], object], things: Iterable[A]) -> None:
    """Undo each of `things`, going on after a failure. Raises ClusterError at the end, with the reasons of all that stayed."""
    stayed: list[str] = []
    for thing in things:
        try:
            undo(thing)
        except Interrupted:  # it came meanwhile, and is not about this thing
            raise
        except Exception as error:  # noqa: BLE001 - netlink has errors of its own
            stayed.append(str(error))
    if stayed:
        raise ClusterError("; ".join(dict.fromkeys(stayed)))
