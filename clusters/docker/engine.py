"""The connection to the Docker daemon, the reasons why there is none, and the labels of everything a run makes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException

from harness.api import ClusterError

SANDBOX, RUN, NODE, OWNER = "fencepost.sandbox", "fencepost.run", "fencepost.node", "fencepost.owner"
_TIMEOUT_S = 60
_POOL = 256  # every container keeps two connections: its streams, and the wait for its end


def connect() -> Any:
    """A client of the daemon that DOCKER_HOST names, else of the machine's own. Raises ClusterError with the remedy."""
    try:
        client = docker.from_env(timeout=_TIMEOUT_S, max_pool_size=_POOL)
        client.ping()
    except DockerException as error:
        raise ClusterError(f"no Docker daemon answers ({_address()}): {_reason(error)}. {_remedy(error)}") from error
    return client


def trouble() -> str:
    """Why a cluster cannot live in Docker here; empty when it can."""
    try:
        with opened() as client:
            info = client.info()
    except (ClusterError, DockerException) as error:
        return str(error)
    if (kind := info.get("OSType", "linux")) != "linux":
        return f"the Docker daemon runs {kind} containers; Linux containers are needed"
    if any("rootless" in option for option in info.get("SecurityOptions") or ()):
        return "the Docker daemon is rootless, so that the addresses of containers cannot be reached; use one that root started"
    if not _address().startswith("unix:"):
        return (
            f"the Docker daemon ({_address()}) must be on this machine: containers see its files and the harness their addresses"
        )
    return ""


@contextmanager
def opened() -> Iterator[Any]:
    """A client for the length of the block; what Docker refuses becomes a ClusterError."""
    client = connect()
    try:
        yield client
    except DockerException as error:
        raise ClusterError(f"Docker: {_reason(error)}") from error
    finally:
        client.close()


def owner() -> str:
    """An identity of this process that no later process has, as text for a label."""
    return f"{socket.gethostname()} {_boot()} {os.getpid()} {_started(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process that wrote this label may still live: false only if it is surely gone."""
    host, boot, pid, started = [*owner.split(" "), "", "", "", ""][:4]
    if host != socket.gethostname() or not pid.isdigit():
        return True
    return boot == _boot() and _started(int(pid)) == started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty when there is none, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _reason(error: DockerException) -> str:
    """The cause of an error as a short text, without the layers of libraries around it."""
    text = str(getattr(error, "explanation", None) or error).strip()
    return next((cause for name, cause in _CAUSES.items() if name in text), text)


_CAUSES = {
    "FileNotFoundError": "there is no such socket",
    "PermissionError": "permission denied",
    "ConnectionRefusedError": "nobody listens there",
}


def _remedy(error: DockerException) -> str:
    if "PermissionError" in str(error) or "Permission denied" in str(error):
        return "You may not use it: join the group `docker`, or use sudo"
    return "Install and start one (Debian, Ubuntu: sudo apt install docker.io), or name it in DOCKER_HOST"
