"""Kafka Connect: its workers, the interface by which they are told what to do, and who of them does what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class ConnectWorker:
    """A distributed worker of Kafka Connect, which is the process of an instance (KIP-618).

    version: of Kafka Connect. support: its `exactly.once.source.support`; where the workers differ each has its own. ours: its
    only plug-ins are those of fencepost and of Connect. plugins: directories and jars of connectors. settings: of the worker,
    laid over ours. connectors: their names. group: of the workers, after the run's prefix: workers with one group are a Connect
    cluster, and their internal topics begin with it.
    transaction_timeout_s: how long a transaction of a task may stay open after its end.
    """

    version: str
    support: str = "enabled"
    ours: bool = True
    plugins: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    connectors: tuple[str, ...] = ()
    transaction_timeout_s: float = 10.0
    group: str = "connect"


@dataclass(frozen=True)
class ConnectAnswer:
    """The answer of a worker of Connect: HTTP's status, the document (None: none), and the node that was asked."""

    status: int
    document: Any
    worker: str


class ConnectClient(Protocol):
    """The REST interface of Connect's workers. directory: the conductor's own, which workers on this machine can read.

    bootstrap: of the cluster that is judged. second: of the one beside it; empty: there is none.
    """

    directory: Path
    bootstrap: str
    second: str

    def ask(self, method: str, path: str, body: Any = None) -> ConnectAnswer:
        """One request to the next of the workers that are known. Raises CallError when it is not answered."""


@dataclass(frozen=True, kw_only=True)
class ConnectDuties:
    """The present duties of a worker of Connect. leads: the group of workers. tasks: connectors with the numbers of tasks."""

    leads: bool
    connectors: tuple[str, ...] = ()
    tasks: tuple[tuple[str, int], ...] = ()


@runtime_checkable
class RunningConnect(Protocol):
    """A running cluster with workers of Connect among its clients."""

    def connect_duties(self) -> Mapping[str, ConnectDuties]:
        """What each worker does now, by its node, as the group's coordinator has it. Raises ClusterError."""
