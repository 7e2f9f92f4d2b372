"""Undoes several things and goes on after a failure, so that one rule that cannot be deleted does not keep the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from fencepost.harness.api import ClusterError
from fencepost.harness.api.errors import Interrupted

A = TypeVar("A")


def undo_each(undo: Callable[[A], object], things: Iterable[A]) -> None:
    """Undo each of `things` and go on after a failure. Raises ClusterError at the end, with the reasons of all failures."""
    failures: list[str] = []
    for thing in things:
        try:
            undo(thing)
        except Interrupted:  # of the whole process, not of this thing
            raise
        except Exception as error:  # noqa: BLE001 - netlink has errors of its own
            failures.append(str(error))
    if failures:
        raise ClusterError("; ".join(dict.fromkeys(failures)))
