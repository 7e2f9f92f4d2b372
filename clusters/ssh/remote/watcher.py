"""One node's watcher: hurts the broker, its clock, its data and its packets, and probes - as long as its lease is renewed.

It is asked over a socket in the run's directory, one JSON object per line, each answered by one; what fails is answered by
{"error": text}. Every request renews the lease. Each bears the `epoch` of its connection: what an older connection still had
in its pipes when a newer one spoke is refused, so that a request that was delayed with its connection is never done late. And it
bears a number: the one that was answered last is not done again, but answered as before.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusters.fault_tools import disks, faketime, unsynced_data
from clusters.fault_tools.probes import ProbePorts
from clusters.kafka import node_directory
from clusters.ssh.remote import disk_mounts, host_rules
from clusters.ssh.remote.host_delays import HostDelays
from clusters.ssh.remote.host_rules import DROP, Rule, Rules
from clusters.ssh.remote.root_programs import ProgramError

SOCKET, LOG, CONFIG, DATA = "socket", "server.log", "server.properties", "data"
CLOCK, SKEWED = "clock", "skewed"  # how far the broker's clock is ahead; process ids of those whose clock was ours to set
RUN_VARIABLE = "FENCEPOST_RUN_HERE"  # in the environment of all that a watcher starts: the run's directory
NODES, CLIENTS = 0, 1  # ports for probes, by whom they are for
_LOOK_S = 0.2
_TAKE_S = 2.0  # for an answer to be taken; a connection that hangs must not keep the lease from ending
_MOST = 1 << 18  # bytes of the log per answer
DATA_FUNCTIONS: dict[str, Callable[[Path], Any]] = {
    one.__name__: one for one in (node_directory.wipe, unsynced_data.lose_unsynced, disks.free, disks.fill, disks.clear)
}

Answer = dict[str, Any]


class Watcher:
    """Serves until its lease ends, it is told to end, or its parent is gone. The caller cleans up.

    settings: `address` and `port` of the node (probes use the ports 3 and 4 above), `lease_s`, `token` and `sudo` for rules.
    """

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        self._run, self._lease_s = run, float(settings["lease_s"])
        self._ports = ProbePorts(*((settings["address"], settings["port"] + 3 + whom) for whom in (NODES, CLIENTS)))
        self._settings = settings
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(SOCKET)  # relative, since such a path may not be long
        self._listener.listen(8)
        self._pending: dict[socket.socket, bytes] = {}
        self._broker: subprocess.Popen[bytes] | None = None
        self._epoch, self._over = 0, False
        self._last: tuple[int | None, Answer] = None, {}  # the number of the last request, and its answer
        self._clock: dict[str, str] = {}  # what a broker has in its environment whose clock may be set
        self._rules: Rules | None = None
        self._slowness: HostDelays | None = None
        self.rules_trouble = ""  # why packets cannot be dropped here
        try:
            self._rules = host_rules.drops(settings["token"], settings["sudo"])
        except ProgramError as error:
            self.rules_trouble = str(error)

    def serve(self) -> None:
        parent = os.getppid()
        deadline = time.monotonic() + self._lease_s
        while not self._over and os.getppid() == parent and time.monotonic() < deadline:
            ready, _, _ = select.select([self._listener, *self._pending, *self._ports.sockets], [], [], _LOOK_S)
            self._ports.receive()
            for one in ready:
                if one is self._listener:
                    connection = self._listener.accept()[0]
                    connection.settimeout(_TAKE_S)
                    self._pending[connection] = b""
                elif one in self._pending and self._read(one):
                    deadline = time.monotonic() + self._lease_s

    def _read(self, connection: socket.socket) -> bool:
        """Answer what has arrived whole; whether anything was asked."""
        try:
            read = connection.recv(1 << 16)
            *lines, self._pending[connection] = (self._pending[connection] + read).split(b"\n")
            for line in lines:
                connection.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
        except OSError:
            read, lines = b"", []
        if not read:
            connection.close()
            del self._pending[connection]
        return bool(lines)

    def _answer(self, request: dict[str, Any]) -> Answer:
        epoch = request.pop("epoch")
        if epoch < self._epoch:
            return {"error": "asked over a connection that was given up"}
        self._epoch = epoch
        number = request.pop("request_number", None)
        if number is None or number != self._last[0]:
            self._last = number, self._done(**request)
        return self._last[1]

    def _done(self, do: str, **request: Any) -> Answer:
        act: Callable[..., Answer] = getattr(self, f"do_{do}")
        try:
            return act(**request)
        except Exception as error:  # noqa: BLE001 - the asker's to see, and no reason to end the broker
            return {"error": f"{type(error).__name__}: {error}"}

    # ---- the broker

    def do_start(self, argv: list[str]) -> Answer:
        """Nothing if it runs."""
        if self._broker is None or self._broker.poll() is not None:
            with open(self._run / LOG, "ab") as log:
                marked = {**os.environ, **self._clock, RUN_VARIABLE: str(self._run)}
                self._broker = subprocess.Popen(
                    argv, env=marked, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            if self._clock:
                remove_clock_state(self._run)
                (self._run / SKEWED).write_text(str(self._broker.pid))
        return self.do_status()

    def do_signal(self, number: int) -> Answer:
        """Nothing if it is dead."""
        if self._broker is not None and self._broker.poll() is None:
            self._broker.send_signal(number)
        return {}

    def do_status(self) -> Answer:
        """Its process id while it lives, its exit status after that, the kernel's letter for it (empty when it is gone)."""
        if self._broker is None:
            return {"pid": None, "status": None, "state": ""}
        status = self._broker.poll()
        pid = self._broker.pid if status is None else None
        return {"pid": pid, "status": status, "state": _state(pid) if pid else ""}

    # ---- its clock

    def do_prepare_clock(self) -> Answer:
        """Let the clock of a broker that starts from now on be set; why it cannot be, else empty."""
        trouble, library = faketime.trouble(), faketime.library()
        if not trouble:
            self._clock = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self._run / CLOCK), **faketime.ENVIRONMENT}
        return {"trouble": trouble}

    def do_skew(self, ahead_s: float) -> Answer:
        faketime.write_offset(self._run / CLOCK, ahead_s)
        return {}

    # ---- its data

    def do_mount(self, size_mb: int) -> Answer:
        """Give its data a disk of its own; why it cannot have one, else empty."""
        try:
            disk_mounts.mount(self._run / DATA, size_mb, self._settings["sudo"])
        except ProgramError as error:
            return {"trouble": str(error)}
        return {"trouble": ""}

    def do_on_data(self, name: str) -> Answer:
        """What one of `DATA_FUNCTIONS` tells that was done to the node's data."""
        return {"result": DATA_FUNCTIONS[name](self._run / DATA)}

    # ---- the network

    def do_drop(self, name: str, rules: list[Rule]) -> Answer:
        self._usable_rules().add(name, rules)
        return {}

    def do_undrop(self, name: str) -> Answer:
        self._usable_rules().remove(name)
        return {}

    def do_count(self) -> Answer:
        return {"packets": self._usable_rules().packets()}

    def _usable_rules(self) -> Rules:
        if self._rules is None:
            raise ProgramError(self.rules_trouble)
        return self._rules

    def do_slow(self, number: int, address: str, how: dict[str, float], rules: list[Rule]) -> Answer:
        """Hold back what `address` sends, as far as these rules are about it."""
        slowness = self._slow()
        slowness.about(address, rules)
        slowness.slow(number, address, **how)
        return {}

    def do_unslow(self, number: int, address: str) -> Answer:
        return {"counted": self._slow().unslow(number, address)}

    def _slow(self) -> HostDelays:
        if self._slowness is None:
            self._slowness = HostDelays(self._run, self._settings)
        return self._slowness

    def do_missing_capabilities(self) -> Answer:
        """Capabilities that packets here have not, found out by trying, each with the reason."""
        no_loss = self._usable_rules().trouble(do=DROP, share=0.5)
        try:
            self._slow()
            no_delay = ""
        except (ProgramError, OSError) as error:
            no_delay = str(error)
        return {"missing_capabilities": {name: why for name, why in (("Losable", no_loss), ("Slowable", no_delay)) if why}}

    def do_send(self, by: int, series: str, to: dict[str, list[Any]], packets: int, size: int) -> Answer:
        self._ports.send(series, to, packets, size, by)
        return {}

    def do_received(self, series: str, known: int) -> Answer:
        return {"received": self._ports.received(series, known)}

    def do_clock(self) -> Answer:
        """What the clock shows that probes tell the time by."""
        return {"ns": time.monotonic_ns()}

    # ---- the lease

    def do_renew(self, log: int) -> Answer:
        """What the broker wrote beyond `log` bytes, or the beginning of it."""
        try:
            with open(self._run / LOG, "rb") as file:
                file.seek(log)
                return {"log": base64.b64encode(file.read(_MOST)).decode()}
        except FileNotFoundError:
            return {"log": ""}

    def do_end(self) -> Answer:
        """Be done; what is left is removed after this answer."""
        self._over = True
        return {}

    def undo(self) -> None:
        """Let every packet through and the broker go on."""
        with suppress(ProgramError):  # whoever cleans up removes all rules at once
            for name in self._rules.names() if self._rules else ():
                self._usable_rules().remove(name)
        with suppress(ProgramError):
            if self._slowness:
                self._slowness.end()
        self.do_signal(signal.SIGCONT)


def remove_clock_state(run: Path) -> None:
    """Remove what a dead broker whose clock could be set has left on this host."""
    with suppress(FileNotFoundError):
        faketime.remove_shared_memory(int((run / SKEWED).read_text()))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
