"""Declared outside services: an address in the sandbox's network that is forwarded to one of this machine.

A sandbox has no route to anywhere. For each declared service there is a relay of two programs with a Unix socket between them,
which network namespaces do not separate (unix(7), network_namespaces(7)): one outside, which starts the sandbox and lives as long
as it, and connects to the service; one inside, at a node with the service's name, where clients connect. So faults on links reach
the service as they reach a broker, and nothing else of this machine is reachable.

Without namespaces there is no relay: clients go to the service itself.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fencepost.harness.api import ClusterError
from fencepost.harness.system.python_command import module_command

SOCKETS = "FENCEPOST_SERVICES"  # names the directory of the relays' sockets, inside the sandbox
PROGRAM = "fencepost.clusters.local.relay"
CONNECT_S = 5.0
_NAME = re.compile(r"[a-z][a-z0-9-]{0,10}")  # an interface has 15 characters
_RESERVED = re.compile(r"[nkcs]\d+")  # brokers, controllers, clients, the second cluster
_LISTEN_S = 20.0


def mistakes(services: Mapping[str, str]) -> list[str]:
    """What is wrong with some declarations, a sentence each."""
    wrong = []
    for name, target in services.items():
        if not _NAME.fullmatch(name) or _RESERVED.fullmatch(name):
            wrong.append(f'services.{name}: no name of a service: small letters, digits and "-", at most 11, and no node\'s (n1)')
        if not _valid(str(target)):
            wrong.append(f'services.{name}: "{target}" is no address of this machine like 127.0.0.1:5432')
    return wrong


def _valid(target: str) -> bool:
    host, _, port = target.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 1 << 16


def address_of(target: str) -> tuple[str, int]:
    """Host and port of a service."""
    host, _, port = target.rpartition(":")
    return host.strip("[]"), int(port)


def unanswered(services: Mapping[str, str]) -> list[str]:
    """The services at which nothing answers, a sentence each."""
    wrong = []
    for name, target in services.items():
        try:
            socket.create_connection(address_of(target), CONNECT_S).close()
        except OSError as error:
            wrong.append(f"cluster.services.{name}: nothing answers at {target} ({error.strerror or error}); is it started?")
    return wrong


def outside(services: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` with the outer halves of the relays beside it."""
    declared = [f"{name}={target}" for name, target in services.items()]
    return [*module_command(PROGRAM, "outside", *declared, "--"), *argv]


def start_inside(name: str, host: str, port: int) -> subprocess.Popen[bytes]:
    """Start the inner half of a service's relay in this thread's network namespace, and wait until it listens.

    Raises ClusterError.
    """
    path = Path(os.environ.get(SOCKETS, ""), name)
    argv = module_command(PROGRAM, "inside", host, str(port), str(path))
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as said:
        if said.readline().strip() == b"listens":
            return process
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LISTEN_S)
    raise ClusterError(f"the relay of the service {name} did not start ({host}:{port}, exit {process.poll()})")
