"""Kafka Connect: its workers, their REST interface, and the duties of each worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from fencepost.harness.api.values import from_digits

EXACTLY_ONCE = (3, 3)  # the first release whose sources can be exactly-once (KIP-618)


def release(version: str) -> tuple[int, ...]:
    """(4, 3) of 4.3.0."""
    return tuple(from_digits(part) for part in version.split(".")[:2] if part.isdecimal())


@dataclass(frozen=True, kw_only=True)
class ConnectWorker:
    """A distributed worker of Kafka Connect, which is the process of an instance (KIP-618).

    version: the version of Kafka Connect.
    support: its `exactly.once.source.support`; where the workers differ each has its own.
    ours: its only plug-ins are those of fencepost and of Connect.
    plugins: directories and jars of connectors.
    settings: settings of the worker, laid over those of the harness.
    connectors: names of the connectors that it runs.
    transaction_timeout_s: seconds for which a transaction of a task may stay open after the task's end.
    group: its worker group, after the run's prefix. Workers with one group are a Connect cluster; their internal topics begin
        with it.
    positions: the kind of the positions of its connectors' sources: `positions` of a contract.
    classes: the classes of these connectors, which `plugins` have to hold.
    upgrades: other versions of Kafka Connect that it may change to while the test runs.
    """

    version: str
    support: str = "enabled"
    ours: bool = True
    plugins: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    connectors: tuple[str, ...] = ()
    transaction_timeout_s: float = 10.0
    group: str = "connect"
    positions: str = "dense"
    classes: tuple[str, ...] = ()
    upgrades: tuple[str, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """Every version that it may run, its first one first."""
        return tuple(dict.fromkeys((self.version, *self.upgrades)))


@dataclass(frozen=True)
class ConnectAnswer:
    """The answer of a worker of Connect.

    status: the status of HTTP.
    document: the body (`connect_document`), from JSON; None: there is none.
    worker: the node that was asked.
    """

    status: int
    document: Any
    worker: str


class _Part(msgspec.Struct):
    """A connector or a task, in an answer about its state."""

    id: int | None = None
    state: str = ""
    trace: str | None = None


class _StoredOffset(msgspec.Struct):
    """A stored offset of a source."""

    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


class _Document(msgspec.Struct):
    """The parts of an answer that are read; others may have any shape."""

    connector: _Part | None = None
    tasks: list[_Part] | None = None
    offsets: list[_StoredOffset] | None = None
    error_code: int | None = None
    message: str | None = None


MOST_SHOWN = 1000  # characters of an answer that is no document of Connect


def connect_document(answer: Any) -> dict[str, Any] | str | None:
    """The document of an answer of Connect; as a text where its parts have other shapes than Connect's have."""
    if answer is None or isinstance(answer, str):
        return answer if answer is None else answer[:MOST_SHOWN]
    try:
        msgspec.convert(answer, _Document)
    except (msgspec.ValidationError, RecursionError):
        return repr(answer)[:MOST_SHOWN]
    return dict(answer)


class ConnectClient(Protocol):
    """The REST interface of Connect's workers.

    directory: a directory of the conductor's own, which workers on this machine can read.
    bootstrap: bootstrap servers of the cluster that is judged.
    second: bootstrap servers of the second Kafka cluster; empty: there is none.
    services: the address (`host:port`) of each outside service that the test declares.
    """

    directory: Path
    bootstrap: str
    second: str
    services: Mapping[str, str]

    def ask(self, method: str, path: str, body: Any = None) -> ConnectAnswer:
        """One request to the next of the workers that are known. Raises CallError when it is not answered."""


@dataclass(frozen=True, kw_only=True)
class ConnectDuties:
    """The present duties of a worker of Connect.

    leads: it is the leader of the worker group.
    connectors: names of the connectors that it runs.
    tasks: (connector, number) of each task that it runs.
    """

    leads: bool
    connectors: tuple[str, ...] = ()
    tasks: tuple[tuple[str, int], ...] = ()


@runtime_checkable
class RunningConnect(Protocol):
    """A running cluster with workers of Connect among its clients."""

    def connect_duties(self) -> Mapping[str, ConnectDuties]:
        """The duties of each worker now, by its node, as the group's coordinator has them. Raises ClusterError."""
