"""One container from its start to its end, with its standard streams and its exit status.

The daemon removes it when it ends. Its standard input ends when this process dies.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, cast

from docker.errors import APIError
from docker.utils.socket import frames_iter

from fencepost.clusters.docker import documents, engine
from fencepost.harness.api import ClusterError
from fencepost.harness.api.beneath import log_file

_END_S = 30.0
MOST_OUTPUT = 128 << 20  # bytes of a program that ends by itself
_UNKNOWN_STATUS = -1
_GONE = (404, 409)  # no such container; it is not running


class OutputSink(Protocol):
    """Receives what a container writes."""

    def write(self, stream: int, data: bytes) -> None:
        """stream: 1 standard output, 2 standard error."""

    def close(self) -> None:
        """The container writes nothing more."""


class Container:
    """A started container. Raises ClusterError when it cannot be made or started."""

    def __init__(
        self, client: Any, name: str, image: str, argv: list[str], output: OutputSink, settings: Mapping[str, Any]
    ) -> None:
        self._client, self.name = client, name
        self._ended = threading.Event()
        self._output_ended = threading.Event()
        self._status = _UNKNOWN_STATUS
        try:
            made = client.containers.create(
                image,
                argv[1:] or None,
                entrypoint=argv[:1] or None,
                name=name,
                stdin_open=True,
                auto_remove=True,
                **_common(settings),
            )
            self.id: str = made.id
            self._stream = client.api.attach_socket(made.id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            self.socket: socket.socket = self._stream._sock
            self.socket.settimeout(None)
            for work in (self._await_end, lambda: self._listen(output)):
                threading.Thread(target=work, daemon=True, name=name).start()
            made.start()
            state = documents.read(client.api.inspect_container(made.id), documents.Inspected)
        except (*engine.ERRORS, ClusterError) as error:
            with suppress(*engine.ERRORS):
                client.api.remove_container(name, force=True)
            raise ClusterError(f"container {name} ({image}) did not start: {engine.reason(error)}") from error
        self._pid = state.state.pid
        self.addresses: list[str] = [network.ip_address for network in state.network_settings.networks.values()]

    def _await_end(self) -> None:
        try:
            ended = self._client.api.wait(self.id, timeout=None, condition="next-exit")
            self._status = documents.read(ended, documents.Ended).status_code
        except (*engine.ERRORS, ClusterError, OSError):
            self._output_ended.wait()  # it ended before this request, or the daemon went away: its output ends too
        self._ended.set()

    def _listen(self, output: OutputSink) -> None:
        try:
            for stream, data in frames_iter(self._stream, tty=False):
                output.write(stream, data)
        except (OSError, ValueError):
            pass  # the daemon went away, or we closed the stream
        except ClusterError:
            self.kill()  # it writes without end
        finally:
            output.close()
            self._output_ended.set()

    @property
    def pid(self) -> int | None:
        """The process id in the daemon's namespace while it lives, else None."""
        return None if self._ended.is_set() else self._pid

    @property
    def status(self) -> int | None:
        """The exit status once it has ended (-1: not known), else None."""
        return self._status if self._ended.is_set() else None

    def wait(self, timeout_s: float | None) -> int | None:
        """Wait for its end, and for the end of its output; None when the time was over before."""
        if not self._ended.wait(timeout_s):
            return None
        self._output_ended.wait(1.0)
        return self._status

    def signal(self, name: str) -> None:
        """Send a signal to its process; nothing if it has ended."""
        if self._ended.is_set():
            return
        try:
            self._client.api.kill(self.id, name)
        except engine.ERRORS as error:
            if not (isinstance(error, APIError) and error.status_code in _GONE):
                raise ClusterError(f"{name} could not be sent to {self.name}: {engine.reason(error)}") from error

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has it gone; nothing if it has ended."""
        self.signal("SIGKILL")
        if not self._ended.wait(_END_S):
            raise ClusterError(f"{self.name} (pid {self._pid}) still there {_END_S:.0f} s after SIGKILL")

    def state(self) -> str:
        """The kernel's letter for its first process (ps(1)); empty when it is gone."""
        try:
            table = documents.read(self._client.api.top(self.id, ps_args="-o pid,stat"), documents.Top)
        except engine.ERRORS:
            return ""
        return next((letters[:1] for pid, letters in table.processes or () if pid == str(self._pid)), "")

    def execute(self, argv: list[str], user: str) -> str:
        """The output of a short program, run in the container beside its process. Raises ClusterError if it failed."""
        try:
            made = documents.read(self._client.api.exec_create(self.id, argv, user=user), documents.Made)
            captured = _CapturedOutput()
            for parts in self._client.api.exec_start(made.id, stream=True, demux=True):
                for stream, data in enumerate(parts, start=1):
                    captured.write(stream, data or b"")
            status = documents.read(self._client.api.exec_inspect(made.id), documents.Executed).exit_code
        except engine.ERRORS as error:
            raise ClusterError(f"nothing could be run in {self.name}: {engine.reason(error)}") from error
        if status != 0:
            lines = captured.text(2).strip().splitlines()
            raise ClusterError(f"{' '.join(argv[1:])} in {self.name} ended with status {status}: {' '.join(lines[-1:])}")
        return captured.text(1)

    def close(self) -> None:
        """Close its streams: its standard input ends."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def _common(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of every container: no capability but those in `settings`, no way to more, no log kept by the daemon."""
    common = {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "read_only": True,
        "tmpfs": {"/tmp": "rw,exec,mode=1777"},  # exec: Java unpacks native libraries there (RocksDB, zstd)
        "log_config": {"type": "none"},
    }
    if any(mount["Target"] == "/tmp" for mount in settings.get("mounts", ())):
        del common["tmpfs"]  # modules lie directly in this machine's
    return {**common, **settings}


class LogFile:
    """Appends what a node writes to its log."""

    def __init__(self, run_dir: Path, place: str) -> None:
        self._file = log_file(run_dir, place)

    def write(self, stream: int, data: bytes) -> None:
        self._file.write(data)

    def close(self) -> None:
        self._file.close()


class _CapturedOutput:
    """Collects what a program writes. Raises ClusterError for a program that writes without end."""

    def __init__(self) -> None:
        self._written = {1: bytearray(), 2: bytearray()}

    def write(self, stream: int, data: bytes) -> None:
        self._written[stream] += data
        if len(self._written[stream]) > MOST_OUTPUT:
            raise ClusterError(f"a program in a container wrote more than {MOST_OUTPUT >> 20} MiB")

    def text(self, stream: int) -> str:
        return self._written[stream].decode(errors="replace")

    def close(self) -> None:
        pass


def run_to_end(
    client: Any, name: str, image: str, argv: list[str], settings: Mapping[str, Any], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself, in a container of its own. Raises ClusterError and TimeoutExpired."""
    captured = _CapturedOutput()
    tool = Container(client, name, image, argv, captured, settings)
    status = tool.wait(timeout_s)
    if status is None:
        tool.kill()
        raise subprocess.TimeoutExpired(argv, timeout_s)
    return subprocess.CompletedProcess(argv, status, captured.text(1), captured.text(2))


class WorkerProcess:
    """A worker's container as `harness.api.Spawned`: what the worker pool does with a process."""

    def __init__(self, container: Container, stdout: IO[bytes]) -> None:
        self._container = container
        self.stdin = cast(IO[bytes], container.socket.makefile("wb", buffering=0))
        self.stdout = stdout
        self.pid = container.pid

    @property
    def returncode(self) -> int | None:
        return self._container.status

    def poll(self) -> int | None:
        return self._container.status

    def wait(self, timeout: float | None = None) -> int:
        status = self._container.wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self._container.name, timeout or 0.0)
        return status

    def kill(self) -> None:
        self._container.kill()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.wait()


class PipeOutput:
    """Sends a container's standard output into a pipe, its standard error into a file."""

    def __init__(self, stderr: IO[bytes] | None) -> None:
        reading, self._writing = os.pipe()
        self.reading: IO[bytes] = os.fdopen(reading, "rb")
        self._stderr = os.dup(stderr.fileno()) if stderr is not None else os.open(os.devnull, os.O_WRONLY)

    def write(self, stream: int, data: bytes) -> None:
        os.write(self._writing if stream == 1 else self._stderr, data)

    def close(self) -> None:
        os.close(self._writing)
        os.close(self._stderr)
