"""The processes of all nodes, brokers and clients: their state, and signals to them."""

from __future__ import annotations

import signal
import subprocess
from typing import Protocol

from fencepost.harness.api import ClusterError
from fencepost.harness.system import processes

_KILL_S = 20.0


class NodeProcess(Protocol):
    """A node's process: the part of `subprocess.Popen` that is used here."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...
    def send_signal(self, number: int, /) -> None: ...


class NodeProcesses:
    """Node name -> its present process."""

    def __init__(self) -> None:
        self._of: dict[str, NodeProcess] = {}

    def add(self, node: str, process: NodeProcess) -> None:
        self._of[node] = process

    def pid(self, node: str) -> int | None:
        """The process id while it lives, else None. Raises ClusterError for a node that never was."""
        if node not in self._of:
            raise ClusterError(f"no node {node} has been started; there are {', '.join(sorted(self._of)) or 'none'}")
        process = self._of[node]
        return process.pid if process.poll() is None else None

    def status(self, node: str) -> int | None:
        """The exit status of a process that ended, else None."""
        return self._of[node].poll()

    def kill(self, node: str) -> None:
        """SIGKILL, and wait until the kernel has it gone; nothing if it is dead already."""
        if self.pid(node) is None:
            return
        process = self._of[node]
        process.kill()
        try:
            process.wait(_KILL_S)
        except subprocess.TimeoutExpired as e:
            raise ClusterError(f"{node} (pid {process.pid}) still there {_KILL_S:.0f} s after SIGKILL") from e

    def send(self, node: str, number: signal.Signals) -> None:
        """Send a signal; nothing if the process is dead."""
        if self.pid(node) is not None:
            self._of[node].send_signal(number)

    def state(self, node: str) -> str:
        """The kernel's letter for the process (proc(5)); empty when it is gone."""
        pid = self.pid(node)
        return "" if pid is None else processes.state(pid)

    def names(self) -> tuple[str, ...]:
        return tuple(self._of)

    def kill_all(self) -> None:
        for process in self._of.values():
            if process.poll() is None:
                process.kill()
        for node in self._of:
            self.kill(node)
