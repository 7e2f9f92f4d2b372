"""Overlapping changes: several faults change the same things at the same time, and each is undone by itself, in any order.

A fault that put back the value it had found would make another fault's change permanent. So the value before the first change is
stored, and each change as a function: when one is undone, the thing gets the value that the other changes alone make of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Generic, TypeVar

Name = TypeVar("Name")
Value = TypeVar("Value")


class OverlappingChanges(Generic[Name, Value]):
    """The changes that faults have made to things, the oldest first. Safe to use from several threads.

    One object serves all faults of a run: each kind of thing has a subclass, which faults get by `cluster.shared`.

    lock: hold it from reading a thing to adding its change, and from `expected` to ordering just that.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._before: dict[Name, Value] = {}
        self._changes: dict[Name, dict[int, Callable[[Value], Value]]] = {}
        self._names: dict[int, set[Name]] = {}  # what each change is about, until it is undone
        self._numbers = 0

    def add(self, current: Mapping[Name, Value], changes: Mapping[Name, Callable[[Value], Value]]) -> int:
        """Add one fault's changes of things, which have the values `current`; return the number for `undoing`."""
        with self.lock:
            changed = set().union(*self._names.values())
            self._numbers += 1
            for name, change in changes.items():
                if name not in changed:
                    self._before[name], self._changes[name] = current[name], {}
                self._changes[name][self._numbers] = change
            self._names[self._numbers] = set(changes)
            return self._numbers

    @contextmanager
    def undoing(self, number: int | None) -> Iterator[None]:
        """Take a fault's changes away, if they are there; inside, make the things as they are `expected` then."""
        with self.lock:
            for changes in self._changes.values():
                changes.pop(number or 0, None)
        try:
            yield
        finally:
            self.forget(number)

    def forget(self, number: int | None) -> None:
        """Forget a fault's changes."""
        with self.lock:
            for name in self._names.pop(number or 0, set()):
                self._changes[name].pop(number or 0, None)

    def expected(self, name: Name, otherwise: Value) -> Value:
        """The value that a thing must have under the changes in force; `otherwise` when there never was one."""
        with self.lock:
            if name not in self._before:
                return otherwise
            return reduce(lambda value, change: change(value), self._changes[name].values(), self._before[name])

    def is_changed(self, name: Name) -> bool:
        """Return whether a change of it is in force."""
        with self.lock:
            return bool(self._changes.get(name))
