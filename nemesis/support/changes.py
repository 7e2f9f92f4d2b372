"""What several faults have changed of the same things at the same time, so that each can be undone by itself, in any order.

A fault that put back what it had found would bring back, for good, what another had changed by then. So it is kept how a thing
was before the first of them, and what each does to it: without one of them, the thing has to be as the others alone make it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Generic, TypeVar

from harness.api import Cluster

Name = TypeVar("Name")
State = TypeVar("State")


class Layers(Generic[Name, State]):
    """The changes that lie on things, the oldest first. Safe to use from several threads.

    quiet: hold it from looking at a thing to laying a change on it, and from asking what is wanted to ordering just that.
    """

    def __init__(self) -> None:
        self.quiet = threading.RLock()
        self._before: dict[Name, State] = {}
        self._changes: dict[Name, dict[int, Callable[[State], State]]] = {}
        self._held: dict[int, set[Name]] = {}  # by changes that lie on them, or are being undone
        self._numbers = 0

    def lay(self, found: Mapping[Name, State], changes: Mapping[Name, Callable[[State], State]]) -> int:
        """Lay one fault's changes on things, which are now as they were `found`; the number to `lift` them by."""
        with self.quiet:
            held = set().union(*self._held.values())
            self._numbers += 1
            for name, change in changes.items():
                if name not in held:
                    self._before[name], self._changes[name] = found[name], {}
                self._changes[name][self._numbers] = change
            self._held[self._numbers] = set(changes)
            return self._numbers

    @contextmanager
    def lifted(self, number: int | None) -> Iterator[None]:
        """Take a fault's changes away, if they are there; inside, have the things become what is wanted then."""
        with self.quiet:
            for changes in self._changes.values():
                changes.pop(number or 0, None)
        try:
            yield
        finally:
            self.drop(number)

    def drop(self, number: int | None) -> None:
        """Forget a fault's changes."""
        with self.quiet:
            for name in self._held.pop(number or 0, set()):
                self._changes[name].pop(number or 0, None)

    def wanted(self, name: Name, otherwise: State) -> State:
        """How a thing has to be with the changes that lie on it; `otherwise` when none ever did."""
        with self.quiet:
            if name not in self._before:
                return otherwise
            return reduce(lambda state, change: change(state), self._changes[name].values(), self._before[name])

    def changed(self, name: Name) -> bool:
        """Whether a change lies on it."""
        with self.quiet:
            return bool(self._changes.get(name))


class LayersOf(Generic[Name, State]):
    """The layers of each cluster, for as long as the cluster is there."""

    def __init__(self) -> None:
        self._kept: dict[int, Layers[Name, State]] = {}
        self._lock = threading.Lock()

    def __call__(self, cluster: Cluster) -> Layers[Name, State]:
        """Of the cluster itself, whatever view of it a fault was given: its methods are bound to it."""
        itself = getattr(cluster.bootstrap, "__self__", cluster)
        with self._lock:
            if id(itself) not in self._kept:
                self._kept[id(itself)] = Layers()
                weakref.finalize(itself, self._kept.pop, id(itself), None)
            return self._kept[id(itself)]
