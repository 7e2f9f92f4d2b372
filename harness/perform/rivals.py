"""Rivals: producers beside a slot's own, in the same worker, each a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fencepost.harness.api import CallError, Client, Operation, Outcome, PlannedOperation, Rival

Perform = Callable[[Operation, Any], Outcome]


class OpenedLate:
    """A client that its first `initialise` opens, so that what opening does to other instances lies within an operation."""

    def __init__(self, client: Client) -> None:
        self._client, self._open = client, False

    def initialise(self, timeout_s: float) -> None:
        """Open the client, or, if it is open, initialise it anew. Where that fails it is closed: the next call opens it."""
        call = self._client.initialise if self._open else self._client.open
        try:
            call(timeout_s)
        except CallError:
            self._client.close()
            self._open = False
            raise
        self._open = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class SlotRival:
    """One rival: `perform` is the worker's, which records the operation.

    All operations are made by one thread, which lives as long as the worker: a driver dies with the thread that started it.
    """

    def __init__(self, process: int, client: OpenedLate, perform: Perform) -> None:
        self._process, self._client, self._perform = process, client, perform
        self._number = 0
        self._thread = ThreadPoolExecutor(max_workers=1)

    def perform(self, planned: PlannedOperation) -> Outcome:
        op = Operation.of(self._process, self._number, planned)
        self._number += 1
        return self._thread.submit(self._perform, op, self._client).result()


@dataclass
class SlotRivals:
    """The rivals of one slot by the suffix of their transactional id; each is made when it is first asked for.

    client: makes the client of a suffix, with settings of its producer over the slot's own.
    begin: begins a process of a suffix in the history, and gives its number.
    perform: the worker's, which records the operation.
    """

    client: Callable[[str, Mapping[str, Any]], Client]
    begin: Callable[[str], int]
    perform: Perform

    def __post_init__(self) -> None:
        self._made: dict[str, Rival] = {}

    def __call__(self, suffix: str, settings: Mapping[str, Any] = MappingProxyType({}), /) -> Rival:
        if suffix not in self._made:
            self._made[suffix] = SlotRival(self.begin(suffix), OpenedLate(self.client(suffix, settings)), self.perform)
        return self._made[suffix]
