"""The store of a sink, outside of Kafka: what is there, and the offsets that the store itself has, by commands of the user.

The listing at the end is the work of a final reader: its items are polls of outputs, with the number of the item for an offset.
So a listing that is missing or cut off weakens a verdict as a final read does (docs/sinks.md).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import (
    Admin,
    ClusterError,
    Isolation,
    Operation,
    Outcome,
    PlannedOperation,
    Polled,
    Program,
    Store,
)
from fencepost.harness.api.service_addresses import filled, services_of
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.instance import environment, store_of
from fencepost.harness.system import programs

MOST_LISTING = programs.MOST_OUTPUT // 2  # bytes: what is longer may have been cut
MOST_ITEM = 1 << 20  # bytes of an item that are looked at
CHUNK = 1000  # items of a poll
MOST_TEXT = 300  # characters of a program's last words in a message
COUNT_EVERY_S = 3.0  # between two listings while the store is watched for growth
NO_SLOT = -1


class ListingError(ClusterError):
    """A store whose content is not known: the command that lists it failed."""


@dataclass(frozen=True)
class SinkStore:
    """The store of a sink in one run.

    name: as the partition of a topic, in histories: `store-0`.
    variables: the environment of the commands.
    """

    store: Store
    name: str
    variables: Mapping[str, str] = field(repr=False)

    def items(self) -> list[bytes]:
        """What is stored, in the order of the store; without empty lines. Raises ListingError."""
        return [line.encode()[:MOST_ITEM] for line in self._lines("listing", self.store.items)]

    def positions(self) -> dict[str, int]:
        """The store's own offsets by partition of the input: the next record to be read. Raises ListingError."""
        return dict(_position(line) for line in self._lines("positions", self.store.positions))

    def _lines(self, option: str, command: Sequence[str]) -> list[str]:
        try:
            answer = programs.run(command, self.store.bound_s, env=self.variables)
        except OSError as error:
            raise ListingError(f"{option}: {command[0]} cannot be started ({error.strerror or error})") from error
        except subprocess.TimeoutExpired as error:
            raise ListingError(f"{option}: {command[0]} did not end within {self.store.bound_s:g} s (listing_s)") from error
        if answer.returncode:
            words = " / ".join(answer.stderr.strip().splitlines()[-3:])[-MOST_TEXT:]
            raise ListingError(secrets.mask(f"{option}: {command[0]} ended with status {answer.returncode}: {words}"))
        if len(answer.stdout.encode()) >= MOST_LISTING:
            raise ListingError(f"{option}: more than {MOST_LISTING >> 20} MiB, which is more than a listing may have")
        return [line.removesuffix("\r") for line in answer.stdout.split("\n") if line.strip()]


def of_plan(plan: Mapping[str, Any], program: Program, run_dir: Path) -> SinkStore:
    """The store of a program that is a sink. Raises ListingError for a service that the test does not declare."""
    assert program.store is not None
    try:
        items, positions = (_filled(words, plan) for words in (program.store.items, program.store.positions))
    except LookupError as error:
        raise ListingError(str(error.args[0])) from error
    place = store_of(run_dir)
    place.mkdir(parents=True, exist_ok=True)
    known = {"bootstrap": "", **plan}
    variables = environment(known, program, NO_SLOT, run_dir.resolve() / "data" / "listing")
    return SinkStore(replace(program.store, items=items, positions=positions), f"{program.output}-0", variables)


def _filled(words: Sequence[str], plan: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(filled(word, services_of(plan)) for word in words)


def _position(line: str) -> tuple[str, int]:
    try:
        topic, partition, offset = line.split()
        return f"{topic}-{int(partition)}", int(offset)
    except ValueError as error:
        raise ListingError(f"positions: {line[:60]!r} is no line like `in 3 1207`: topic, partition, next offset") from error


@dataclass
class StoreOffsets:
    """The progress of a sink, in the place of the cluster's answers about an output topic and a group.

    admin: of the cluster, for the group's offsets where the store has none of its own.
    """

    store: SinkStore
    admin: Callable[[], Admin]
    clock: Callable[[], float] = time.monotonic
    _count: int = 0
    _counted_at: float | None = None

    def end_offsets(self, partitions: Sequence[str], isolation: Isolation) -> dict[str, int]:
        """How many items there are; looked at every `COUNT_EVERY_S`, since a listing costs more than a request."""
        if self._counted_at is None or self.clock() - self._counted_at >= COUNT_EVERY_S:
            self._count, self._counted_at = len(self.store.items()), self.clock()
        return {self.store.name: self._count}

    def group_offsets(self, group: str, partitions: Sequence[str]) -> Mapping[str, int | None]:
        """The store's own offsets, or those of the group where it has none."""
        if not self.store.store.positions:
            return self.admin().group_offsets(group, partitions)
        positions = self.store.positions()
        return {name: positions.get(name) for name in partitions}


@dataclass
class StoreClient:
    """The items of a store, as a reader's client returns records."""

    store: SinkStore
    items: list[bytes] | None = None
    _read: int = 0

    def poll(self, _timeout_s: float, limit: int) -> list[Polled]:
        """The next items. Raises ListingError."""
        if self.items is None:
            self.items = self.store.items()
        first, self._read = self._read, min(len(self.items), self._read + limit)
        return [Polled(self.store.name, offset, self.items[offset]) for offset in range(first, self._read)]

    @property
    def whole(self) -> bool:
        """Whether every item was returned."""
        return self.items is not None and self._read >= len(self.items)


class StoreReader:
    """Lists the store of a sink once, as a final reader reads a partition."""

    def __init__(self, store: SinkStore, writer: HistoryWriter, process: int) -> None:
        self._store, self._writer, self._process = store, writer, process

    def run(self, workload: Any, run: str, report: Callable[[dict[str, Any]], None]) -> None:
        """List it, and report how that ended."""
        self._writer.process(
            self._process, isolation=Isolation.COMMITTED.value, final=True, transactional_id=None, client="store"
        )
        report({"process": self._process})
        client, number, problem = StoreClient(self._store), 0, ""
        while not client.whole and not problem:
            problem = self._poll(workload, client, number, run)
            number += 1
        count = len(client.items or ())
        value = {self._store.name: [0, count, count if client.whole else 0]}
        done = Outcome.OK if client.whole else Outcome.INFO
        self._writer.invoke(self._process, number, "final-read", {})
        self._writer.complete(done, self._process, number, "final-read", value if client.whole else {}, errors=[])
        if problem:
            report({"note": f"what the sink's store holds is not known: {problem}"})
        report({"final": done.value})

    def _poll(self, workload: Any, client: StoreClient, number: int, run: str) -> str:
        """Record the next items; returns why there are none."""
        op = Operation.of(self._process, number, PlannedOperation(f="poll", mops=(("poll",),), limit=CHUNK))
        self._writer.invoke(op.process, op.number, "poll", op.value)
        try:
            outcome = workload.perform(op, client, run)
        except ListingError as error:
            errors = [{"call": "list", "name": "LISTING_FAILED", "code": 0, "text": str(error), "time": time.monotonic_ns()}]
            self._writer.complete(Outcome.INFO, op.process, op.number, "poll", op.value, errors=errors)
            return str(error)
        self._writer.complete(outcome, op.process, op.number, "poll", op.value, errors=[])
        return ""
