"""Prepares a host: checks its Java, copies our program and Kafka's jars there; copies a run's files there and back."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

import structlog

from fencepost.clusters.kafka.distribution import Distribution
from fencepost.clusters.ssh.host import QUIET_S, SshHost, exit_status, retry_dropped
from fencepost.clusters.ssh.remote import file_transfer
from fencepost.harness.api import ClusterError
from fencepost.harness.fetching.java import OLDEST

log = structlog.get_logger()
_REACH_S, _INSTALL_S = 20.0, 600.0


@dataclass(frozen=True)
class HostFacts:
    """The versions of a host's kernel, interpreter and Java, and our user id there."""

    kernel: str
    machine: str
    python: str
    java: str
    uid: int


def inspect_host(host: SshHost, directory: str, java: str) -> HostFacts:
    """Connect, copy our program into `directory`, and read the host's versions. Raises ClusterError with the remedy."""
    retry_dropped(host, "begin there", lambda: host.install_program(directory), _REACH_S)
    facts: HostFacts = retry_dropped(host, "look at its Java", lambda: host.ask(HostFacts, "inspect", java), _REACH_S)
    match = re.search(r'version "(?:1\.)?([0-9][^"]*)"', facts.java)
    if not match or int(re.split(r"\D", match.group(1))[0]) < OLDEST:
        raise ClusterError(
            f"{host.address}: Kafka needs Java {OLDEST} or newer, and `{java} -version` says there: "
            f"{' '.join(facts.java.split())[:120]}. Install one (Debian, Ubuntu: sudo apt install openjdk-17-jre-headless), "
            "or name another in the option `java`"
        )
    return replace(facts, java=match.group(1))


def install(host: SshHost, distribution: Distribution) -> None:
    """Copy the jars that are missing or damaged. After a dropped connection the rest is copied."""
    jars = dict(distribution.jars)
    directory = f"{host.directory}/jars"

    def attempt() -> None:
        request = json.dumps(jars).encode()
        missing = host.ask(list[str], "missing", directory, feed=lambda stdin: stdin.write(request))
        if unknown := [name for name in missing if name not in jars]:
            raise ClusterError(f"{host.address} wants files that are no jars of Kafka {distribution.version}: {unknown[:3]!r}")
        if missing:
            size = sum((distribution.directory / name).stat().st_size for name in missing)
            log.info("jars copied", host=str(host.address), kafka=distribution.version, jars=len(missing), mb=size >> 20)
            paths = {name: distribution.directory / name for name in missing}
            host.run(host.program("receive", directory), lambda stdin: _send_jars(stdin, paths, jars))

    retry_dropped(host, "copy Kafka's jars", attempt, _INSTALL_S)


def _send_jars(stdin: IO[bytes], jars: Mapping[str, Path], checksums: Mapping[str, str]) -> None:
    with file_transfer.opened(stdin) as tar:
        for name, path in jars.items():
            tar.add(str(path), f"{checksums[name]}/{name}")


def classpath(host: SshHost, distribution: Distribution) -> str:
    """The paths of a distribution's jars on the host."""
    jars = Path(host.directory, "jars")
    return ":".join(str(file_transfer.jar_path(jars, name, checksum)) for name, checksum in sorted(distribution.jars.items()))


def copy_files(host: SshHost, run: str, sent: Mapping[str, Path]) -> None:
    """Copy files and directories into a run: name there -> path here."""

    def feed(stdin: IO[bytes]) -> None:
        with file_transfer.opened(stdin) as tar:
            for name, path in sent.items():
                tar.add(str(path), name)

    retry_dropped(host, f"copy {', '.join(sent)}", lambda: host.run(host.program("unpack", run), feed), _REACH_S)


def fetch_storage(host: SshHost, run: str, destination: Path) -> None:
    """Copy the log segments of a run's node to `destination`."""

    def attempt() -> None:
        channel = host.channel(host.program("pack", run))
        try:
            channel.settimeout(QUIET_S)
            with channel, channel.makefile("rb", 1 << 18) as stream:
                file_transfer.unpack(cast(IO[bytes], stream), destination)
                status = exit_status(channel, QUIET_S)
        except file_transfer.UnsafeTar as error:
            raise ClusterError(f"{host.address}: its log segments are refused: {error}") from error
        except tarfile.TarError as error:
            raise EOFError(f"the connection ended amid the log segments: {error}") from error
        if status != 0:
            raise ClusterError(f"{host.address}: the log segments could not be packed (status {status})")

    retry_dropped(host, "fetch its log segments", attempt, _REACH_S)
