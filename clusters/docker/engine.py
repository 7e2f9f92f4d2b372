"""The connection to the Docker daemon, the reasons why there is none, and the labels of everything a run makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from fencepost.harness.api import ClusterError

SANDBOX, RUN, NODE, OWNER = "fencepost.sandbox", "fencepost.run", "fencepost.node", "fencepost.owner"
DIRECTORY = "fencepost.directory"  # of the run, with its lock (`harness.system.liveness`)
_SOCKET = Path("/var/run/docker.sock")
_FIRST_S, _TIMEOUT_S = 10, 60  # for the first answer, for every other
ERRORS = (DockerException, HTTPError, RequestException)  # the first when it refuses, the others when it dies amid a request
_POOL = 256  # every container keeps two connections: its streams, and the wait for its end


def connect() -> Any:
    """A client of the daemon that DOCKER_HOST names, else of the machine's own. Raises ClusterError with the remedy."""
    try:
        client = docker.from_env(timeout=_FIRST_S, max_pool_size=_POOL)
        client.ping()
        client.api.timeout = _TIMEOUT_S
    except ERRORS as error:
        raise ClusterError(f"no Docker daemon answers ({_address()}): {reason(error)}. {_remedy(error)}") from error
    return client


def trouble() -> str:
    """The reason why a cluster cannot live in Docker here; empty when it can."""
    try:
        with opened() as client:
            info = client.info()
    except ClusterError as error:
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
    except ERRORS as error:
        raise ClusterError(f"Docker: {reason(error)}") from error
    finally:
        client.close()


def is_here() -> bool:
    """Return whether there may be a daemon at all: it is named, or the machine's own has a socket."""
    return bool(os.environ.get("DOCKER_HOST")) or _SOCKET.exists()


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or f"unix://{_SOCKET}"


def reason(error: BaseException) -> str:
    """The cause of an error as a short text, without the layers of libraries around it."""
    text = str(getattr(error, "explanation", None) or error).strip()
    return next((cause for name, cause in _CAUSES.items() if name in text), " ".join(text.split()) or type(error).__name__)


_CAUSES = {
    "FileNotFoundError": "there is no such socket",
    "PermissionError": "permission denied",
    "ConnectionRefusedError": "nobody listens there",
    "RemoteDisconnected": "the daemon ended amid a request",
    "ConnectionResetError": "the daemon ended amid a request",
    "BrokenPipeError": "the daemon ended amid a request",
    "timed out": "the daemon does not answer in time",
}


def _remedy(error: BaseException) -> str:
    if "PermissionError" in str(error) or "Permission denied" in str(error):
        return "You may not use it: join the group `docker`, or use sudo"
    return "Install and start one (Debian, Ubuntu: sudo apt install docker.io), or name it in DOCKER_HOST"
