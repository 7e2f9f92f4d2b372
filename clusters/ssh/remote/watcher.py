"""One node's watcher: runs the broker, applies faults to it and to its host, and probes, as long as its lease is renewed.

Requests come over a socket in the run's directory, as JSON objects, one per line; each is answered by one, a failure by
{"error": text}. Every request renews the lease. A request has the `epoch` of its connection: after a request of a newer
connection, those of older ones are refused, so that a request that was delayed with its connection is never done late. A request
also has a number: the request that was answered last is not done again, but answered as before.
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

from fencepost.clusters.fault_tools import disks, faketime, unsynced_data
from fencepost.clusters.fault_tools.probes import ProbePorts
from fencepost.clusters.kafka import log_segments, node_directory
from fencepost.clusters.ssh.remote import disk_mounts, host_rules
from fencepost.clusters.ssh.remote.host_delays import HostDelays
from fencepost.clusters.ssh.remote.host_rules import DROP, Rule, Rules
from fencepost.clusters.ssh.remote.root_programs import ProgramError
from fencepost.harness.system import processes
from fencepost.harness.system.wall_clock import WallClock

SOCKET, LOG, CONFIG, DATA = "socket", "server.log", "server.properties", "data"
CLOCK, SKEWED = "clock", "skewed"  # the clock's offset; the process id of the last broker with libfaketime
RUN_VARIABLE = "FENCEPOST_RUN_HERE"  # in the environment of every process that a watcher starts: the run's directory
NODES, CLIENTS = 0, 1  # ports for probes: with other nodes, with clients
_POLL_S = 0.2
_SEND_S = 2.0  # for an answer; a connection that hangs must not keep the lease from ending
MOST_JUMPS = 100  # `answer_shapes.LogPart`
_LOG_BYTES = 1 << 18  # bytes of the log per answer
DATA_FUNCTIONS: dict[str, Callable[[Path], Any]] = {
    function.__name__: function
    for function in (
        node_directory.wipe,
        node_directory.stored_bytes,
        log_segments.stored_records,
        unsynced_data.lose_unsynced,
        disks.free,
        disks.fill,
        disks.clear,
    )
}

Answer = dict[str, Any]


class Watcher:
    """Serves until its lease ends, a request ends it, or its parent is gone. The caller cleans up.

    settings: `address` and `port` of the node (probes use the ports 3 and 4 above), `lease_s`, `token` and `sudo` for rules.
    """

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        self._run, self._lease_s = run, float(settings["lease_s"])
        self._ports = ProbePorts(*((settings["address"], settings["port"] + 3 + peers) for peers in (NODES, CLIENTS)))
        self._settings = settings
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(SOCKET)  # relative, since such a path may not be long
        self._listener.listen(8)
        self._pending: dict[socket.socket, bytes] = {}
        self._broker: subprocess.Popen[bytes] | None = None
        self._epoch, self._over = 0, False
        self._last: tuple[int | None, Answer] = None, {}  # the number of the last request, and its answer
        self._clock: dict[str, str] = {}  # environment variables of a broker whose clock can be set
        self._wall_clock, self._jumps = WallClock(), list[float]()  # of this host, which no fault sets
        self._rules: Rules | None = None
        self._delays: HostDelays | None = None
        self.rules_trouble = ""  # why packets cannot be dropped here
        try:
            self._rules = host_rules.drops(settings["token"], settings["sudo"])
        except ProgramError as error:
            self.rules_trouble = str(error)

    def serve(self) -> None:
        parent = os.getppid()
        deadline = time.monotonic() + self._lease_s
        while not self._over and os.getppid() == parent and time.monotonic() < deadline:
            ready, _, _ = select.select([self._listener, *self._pending, *self._ports.sockets], [], [], _POLL_S)
            self._ports.receive()
            self._look_at_the_clock()
            for readable in ready:
                if readable is self._listener:
                    connection = self._listener.accept()[0]
                    connection.settimeout(_SEND_S)
                    self._pending[connection] = b""
                elif readable in self._pending and self._read(readable):
                    deadline = time.monotonic() + self._lease_s

    def _look_at_the_clock(self) -> None:
        if (jumped_s := self._wall_clock.jumped_s()) and len(self._jumps) < MOST_JUMPS:
            self._jumps.append(jumped_s)

    def _read(self, connection: socket.socket) -> bool:
        """Answer the complete requests that have arrived; whether there was any."""
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
            self._last = number, self._perform(**request)
        return self._last[1]

    def _perform(self, do: str, **request: Any) -> Answer:
        method: Callable[..., Answer] = getattr(self, f"do_{do}")
        try:
            return method(**request)
        except Exception as error:  # noqa: BLE001 - the client reports it; it is no reason to end the broker
            return {"error": f"{type(error).__name__}: {error}"}

    # ---- the broker

    def do_start(self, argv: list[str]) -> Answer:
        """Start the broker; nothing if it runs."""
        if self._broker is None or self._broker.poll() is not None:
            with open(self._run / LOG, "ab") as log:
                environment = {**os.environ, **self._clock, RUN_VARIABLE: str(self._run)}
                self._broker = subprocess.Popen(
                    argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            if self._clock:
                remove_clock_state(self._run)
                (self._run / SKEWED).write_text(str(self._broker.pid))
        return self.do_status()

    def do_signal(self, number: int) -> Answer:
        """Send it a signal; nothing if it is dead."""
        if self._broker is not None and self._broker.poll() is None:
            self._broker.send_signal(number)
        return {}

    def do_status(self) -> Answer:
        """Its process id while it lives, its exit status after that, the kernel's letter for it (empty when it is gone)."""
        if self._broker is None:
            return {"pid": None, "status": None, "state": ""}
        status = self._broker.poll()
        pid = self._broker.pid if status is None else None
        return {"pid": pid, "status": status, "state": processes.state(pid) if pid else ""}

    # ---- its clock

    def do_prepare_clock(self) -> Answer:
        """Start brokers with libfaketime from now on; why their clocks cannot be set, else empty."""
        trouble, library = faketime.trouble(), faketime.library()
        if not trouble:
            self._clock = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self._run / CLOCK), **faketime.ENVIRONMENT}
        return {"trouble": trouble}

    def do_skew(self, ahead_s: float) -> Answer:
        faketime.write_offset(self._run / CLOCK, ahead_s)
        return {}

    # ---- its data

    def do_mount(self, size_mb: int) -> Answer:
        """Mount a disk for the data; why there can be none, else empty."""
        try:
            disk_mounts.mount(self._run / DATA, size_mb, self._settings["sudo"])
        except ProgramError as error:
            return {"trouble": str(error)}
        return {"trouble": ""}

    def do_on_data(self, name: str) -> Answer:
        """The result of one of `DATA_FUNCTIONS` on the node's data."""
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
        """Delay what `address` sends, as far as these rules match it."""
        delays = self._host_delays()
        delays.set_matches(address, rules)
        delays.slow(number, address, **how)
        return {}

    def do_unslow(self, number: int, address: str) -> Answer:
        return {"counted": self._host_delays().unslow(number, address)}

    def _host_delays(self) -> HostDelays:
        if self._delays is None:
            self._delays = HostDelays(self._run, self._settings)
        return self._delays

    def do_missing_capabilities(self) -> Answer:
        """The network capabilities that this host lacks, found out by a trial, each with the reason."""
        no_loss = self._usable_rules().trouble(do=DROP, share=0.5)
        try:
            self._host_delays()
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
        """The clock by which probes are timed."""
        return {"ns": time.monotonic_ns()}

    # ---- the lease

    def do_renew(self, log: int) -> Answer:
        """The broker's log beyond `log` bytes, or the beginning of that; the jumps of the host's clock so far, in seconds."""
        try:
            with open(self._run / LOG, "rb") as file:
                file.seek(log)
                return {"log": base64.b64encode(file.read(_LOG_BYTES)).decode(), "jumps": self._jumps}
        except FileNotFoundError:
            return {"log": "", "jumps": self._jumps}

    def do_end(self) -> Answer:
        """End; everything is removed after this answer."""
        self._over = True
        return {}

    def undo(self) -> None:
        """End all drops and delays, and thaw the broker."""
        with suppress(ProgramError):  # `clean_up` removes all rules at once
            for name in self._rules.names() if self._rules else ():
                self._usable_rules().remove(name)
        with suppress(ProgramError):
            if self._delays:
                self._delays.end()
        self.do_signal(signal.SIGCONT)


def remove_clock_state(run: Path) -> None:
    """Remove what libfaketime has left of a dead broker."""
    with suppress(FileNotFoundError):
        faketime.remove_shared_memory(int((run / SKEWED).read_text()))
