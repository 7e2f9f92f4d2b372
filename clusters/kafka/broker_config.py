"""One broker's or controller's configuration file and command line, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fencepost.clusters.kafka.client_rights import listener_properties
from fencepost.clusters.kafka.protocol import Address
from fencepost.harness.api.beneath import make_folder, write_text

CLIENT, BROKER, CONTROLLER = "CLIENT", "BROKER", "CONTROLLER"


@dataclass(frozen=True)
class PlannedNode:
    """A node as planned.

    listeners: the address of each listener it has, where others reach it.
    behind: where it listens itself, of listeners at whose address a proxy stands before it.
    cluster: the Kafka cluster it is of (`TopicSpec.cluster`).
    """

    name: str
    id: int
    roles: tuple[str, ...]  # "broker", "controller"
    listeners: Mapping[str, Address] = field(default_factory=dict)
    behind: Mapping[str, Address] = field(default_factory=dict)
    cluster: str = ""

    @property
    def own_listeners(self) -> dict[str, Address]:
        """The addresses at which it listens itself."""
        return {**self.listeners, **self.behind}

    @property
    def address(self) -> Address:
        """The address of its client listener, or of a pure controller's only listener."""
        return self.listeners.get(CLIENT) or self.listeners[CONTROLLER]


def properties(
    node: PlannedNode, controllers: Iterable[PlannedNode], settings: Mapping[str, str], data: Path, acls: bool = False
) -> dict[str, str]:
    """The complete server.properties of `node` (KRaft, static quorum, plain text listeners; with `acls` an authorizer)."""
    listeners, own_listeners = (
        {name: f"{name}://{host}:{port}" for name, (host, port) in addresses.items()}
        for addresses in (node.listeners, node.own_listeners)
    )
    voters = [f"{c.id}@{c.listeners[CONTROLLER][0]}:{c.listeners[CONTROLLER][1]}" for c in controllers]
    own = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join(own_listeners.values()),
        "listener.security.protocol.map": f"{CLIENT}:{'SASL_' * acls}PLAINTEXT,{BROKER}:PLAINTEXT,{CONTROLLER}:PLAINTEXT",
        "log.dirs": str(data),
    }
    if "broker" in node.roles:
        own["advertised.listeners"] = ",".join(text for name, text in listeners.items() if name != CONTROLLER)
        own["inter.broker.listener.name"] = BROKER
    return {**settings, **own, **(listener_properties(CLIENT) if acls else {})}


def fixed_settings(acls: bool) -> frozenset[str]:
    """The settings that `properties` sets whatever is asked for."""
    node = PlannedNode("n1", 1, ("broker", "controller"), {CLIENT: ("", 0), CONTROLLER: ("", 0)})
    return frozenset(properties(node, [node], {}, Path(), acls))


def write_properties(directory: Path, file: str, values: Mapping[str, str]) -> None:
    """Write a node's settings to a file beneath a directory. Raises UnwritableFile."""
    make_folder(directory, str(PurePosixPath(file).parent))
    write_text(directory, file, "".join(f"{name}={value}\n" for name, value in sorted(values.items())))


def command(
    program: str, classpath: str, main: str, arguments: Iterable[str], heap_mb: int, flags: Iterable[str] = ()
) -> list[str]:
    """The command line of a Kafka program: small, quick to start, logging to stderr with UTC time and level.

    program: the `java` to run.
    """
    return [
        program,
        *flags,
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Xshare:auto",
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
        "-Duser.timezone=UTC",  # wherever it runs: its dates are compared with ours
        "-Dorg.slf4j.simpleLogger.levelInBrackets=true",
        "-cp",
        classpath,
        main,
        *arguments,
    ]


def error_lines(output: str) -> str:
    """The last errors and exceptions in the output of a Java program that died, else its last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "[ERROR]" in line or "Exception" in line or line.startswith(("Error", "Caused by"))]
    return " | ".join((errors or lines)[-4:])
