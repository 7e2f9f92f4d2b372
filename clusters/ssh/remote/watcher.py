"""One node's watcher: starts, kills and freezes the broker, drops packets, probes - as long as its lease is renewed.

It is asked over a socket in the run's directory, one JSON object per line, each answered by one; what fails is answered by
{"error": text}. Every request renews the lease. Each bears the `epoch` of its connection: what an older connection still had
in its pipes when a newer one spoke is refused, so that a request that was delayed with its connection is never done late.
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
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusters.ssh.remote.rules import RuleError, Rules

SOCKET, LOG, CONFIG = "socket", "server.log", "server.properties"
MARK = "FENCEPOST_RUN_HERE"  # in the environment of all that a watcher starts: the run's directory
NODES, CLIENTS = "nodes", "clients"  # lanes of probes
_LOOK_S = 0.2
_TAKE_S = 2.0  # for an answer to be taken; a connection that hangs must not keep the lease from ending
_MOST = 1 << 18  # bytes of the log per answer
_REMEMBERED = 64

Answer = dict[str, Any]


class Lane:
    """A port for probes: who was heard with which."""

    def __init__(self, address: str, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, port))
        self.socket.setblocking(False)
        self._heard: OrderedDict[str, list[list[Any]]] = OrderedDict()

    def send(self, probe: str, to: list[list[Any]]) -> None:
        for _ in range(2):
            for address, port in to:
                try:
                    self.socket.sendto(probe.encode(), (address, port))
                except OSError:
                    continue  # a rule on leaving says so at once; it will be seen by not being heard

    def hear(self) -> None:
        while True:
            try:
                data, source = self.socket.recvfrom(64)
            except OSError:
                return
            self._heard.setdefault(data.decode(errors="replace"), []).append(list(source))
            while len(self._heard) > _REMEMBERED:
                self._heard.popitem(last=False)

    def heard(self, probe: str) -> list[list[Any]]:
        self.hear()
        return self._heard.get(probe, [])


class Watcher:
    """Serves until its lease ends, it is told to end, or its parent is gone. The caller cleans up.

    settings: `address` and `port` of the node (probes use the ports 3 and 4 above), `lease_s`, `token` and `sudo` for rules.
    """

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        self._run, self._lease_s = run, float(settings["lease_s"])
        self._lanes = {lane: Lane(settings["address"], settings["port"] + 3 + i) for i, lane in enumerate((NODES, CLIENTS))}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(SOCKET)  # relative, since such a path may not be long
        self._listener.listen(8)
        self._pending: dict[socket.socket, bytes] = {}
        self._broker: subprocess.Popen[bytes] | None = None
        self._epoch, self._over = 0, False
        self._rules: Rules | None = None
        self.unable = ""  # why packets cannot be dropped here
        try:
            self._rules = Rules(settings["token"], settings["sudo"])
        except RuleError as error:
            self.unable = str(error)

    def serve(self) -> None:
        parent = os.getppid()
        deadline = time.monotonic() + self._lease_s
        while not self._over and os.getppid() == parent and time.monotonic() < deadline:
            waited = [self._listener, *self._pending, *(lane.socket for lane in self._lanes.values())]
            ready, _, _ = select.select(waited, [], [], _LOOK_S)
            for lane in self._lanes.values():
                lane.hear()
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
        do: Callable[..., Answer] = getattr(self, f"do_{request.pop('do')}")
        try:
            return do(**request)
        except Exception as error:  # noqa: BLE001 - the asker's to see, and no reason to end the broker
            return {"error": f"{type(error).__name__}: {error}"}

    # ---- the broker

    def do_start(self, argv: list[str]) -> Answer:
        """Nothing if it runs."""
        if self._broker is None or self._broker.poll() is not None:
            with open(self._run / LOG, "ab") as log:
                marked = {**os.environ, MARK: str(self._run)}
                self._broker = subprocess.Popen(
                    argv, env=marked, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        return self.do_look()

    def do_signal(self, number: int) -> Answer:
        """Nothing if it is dead."""
        if self._broker is not None and self._broker.poll() is None:
            self._broker.send_signal(number)
        return {}

    def do_look(self) -> Answer:
        """Its process id while it lives, its exit status after that, the kernel's letter for it (empty when it is gone)."""
        if self._broker is None:
            return {"pid": None, "status": None, "state": ""}
        status = self._broker.poll()
        pid = self._broker.pid if status is None else None
        return {"pid": pid, "status": status, "state": _state(pid) if pid else ""}

    # ---- the network

    def do_drop(self, name: str, rules: list[dict[str, Any]]) -> Answer:
        self._able().add(name, rules)
        return {}

    def do_undrop(self, name: str) -> Answer:
        self._able().remove(name)
        return {}

    def do_count(self) -> Answer:
        return {"packets": self._able().packets()}

    def _able(self) -> Rules:
        if self._rules is None:
            raise RuleError(self.unable)
        return self._rules

    def do_send(self, lane: str, probe: str, to: list[list[Any]]) -> Answer:
        self._lanes[lane].send(probe, to)
        return {}

    def do_heard(self, lane: str, probe: str) -> Answer:
        return {"from": self._lanes[lane].heard(probe)}

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
        for name in list(self._rules.packets()) if self._rules else ():
            self._able().remove(name)
        self.do_signal(signal.SIGCONT)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
