"""The client of one node's watcher: one request at a time, over a connection that is made again when it drops.

A request whose connection dropped is sent again until it is answered. The watcher does not repeat a request that it has done, and
refuses requests of an older connection (`remote/watcher.py`). So a dropped connection is never an outcome. No answer until the
deadline is an error of the harness, and says nothing about the node.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import paramiko
import structlog

from fencepost.clusters.fault_tools.answer_shapes import OF_FUNCTIONS, OF_WATCHERS, Begun, Nothing
from fencepost.clusters.ssh.host import CONNECTION_ERRORS, MOST_ANSWER, SshHost, answer, exit_status, unreachable
from fencepost.clusters.ssh.remote.watcher_process import NO_WATCHER
from fencepost.harness.api import ClusterError
from fencepost.harness.api.beneath import appending, log_file
from fencepost.harness.system.answers import WrongAnswer, shaped, shown

T = TypeVar("T")
log = structlog.get_logger()
_ANSWER_S, _END_S = 10.0, 40.0
MOST_LOG = 4 << 30  # bytes of a node's log
_RETRY_S = 0.2
LONG = 2000  # characters of an error there


class WatcherClient:
    """Sends requests to a watcher and renews its lease. Safe to use from several threads.

    log: the local copy of the node's log.
    """

    def __init__(self, node: str, host: SshHost, run: str, lease_s: float, log: Path) -> None:
        self.node, self.host, self.run = node, host, run
        self.lease_s, self._log = lease_s, log
        self._log_place = log.parents[2], str(log.relative_to(log.parents[2]))  # beneath the run's directory
        self.begun = False
        self._request_lock, self._fetch_lock = threading.Lock(), threading.Lock()
        self._channel: paramiko.Channel | None = None
        self._pending = b""
        self._epoch, self._last_request = 0, 0
        self._over = threading.Event()
        self.clock_jumps: tuple[float, ...] = ()  # of the host, in seconds
        self._fetched = 0  # bytes of the node's log; the local copy may be cut
        self._lease_thread = threading.Thread(target=self._renew_lease, daemon=True, name=f"lease-{node}")
        self.rules_trouble = ""  # why packets cannot be dropped there

    def begin(self, settings: dict[str, Any]) -> None:
        """Start the watcher on the host, and renew its lease from now on. Raises ClusterError."""
        request = json.dumps({**settings, "lease_s": self.lease_s}).encode()
        try:
            reply: dict[str, Any] = self.host.ask(dict[str, Any], "serve", self.run, feed=lambda stdin: stdin.write(request))
        except CONNECTION_ERRORS as error:
            raise ClusterError(f"the connection to {self.host.address} ended while {self.node} began: {error}") from error
        if "error" in reply:
            why = shown(reply["error"], LONG)
            raise ClusterError(
                f"{self.node} ({self.host.address}): {why}. Does another run use these ports (`port` names others), "
                "or has the host no such address (`addresses` names them)?"
            )
        self.rules_trouble = self._shaped(reply, Begun, "serve").rules_trouble
        os.close(appending(*self._log_place))
        self.begun = True
        self._lease_thread.start()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The watcher's answer, of the shape that belongs to the request.

        Raises ClusterError with what went wrong there, or when nothing answers for two leases' time.
        """
        limit_s = 2 * self.lease_s
        with self._request_lock:
            deadline = time.monotonic() + limit_s
            self._last_request += 1
            while True:
                try:
                    return self._checked(do, self._exchange({"do": do, "request_number": self._last_request, **request}))
                except CONNECTION_ERRORS as error:
                    self._channel = None
                    self.host.drop()
                    if time.monotonic() > deadline:
                        raise ClusterError(unreachable(self.host, f"{do} {self.node}", limit_s, error)) from error
                    log.warning("connection dropped", node=self.node, during=do, error=str(error) or type(error).__name__)
                    time.sleep(_RETRY_S)

    def run_on_data(self, function: Callable[[Path], T]) -> T:
        """The result of a function on the node's data (`remote.watcher.DATA_FUNCTIONS`). Raises ClusterError."""
        result: T = self._shaped(self.ask("on_data", name=function.__name__).get("result"), OF_FUNCTIONS[function], "on_data")
        return result

    def _checked(self, do: str, reply: dict[str, Any]) -> dict[str, Any]:
        if "error" in reply:
            raise ClusterError(f"{self.node} ({self.host.address}): {shown(reply['error'], LONG)}")
        self._shaped(reply, OF_WATCHERS.get(do, Nothing), do)
        return reply

    def _shaped(self, reply: Any, shape: Any, do: str) -> Any:
        try:
            return shaped(reply, shape)
        except WrongAnswer as error:
            text = f"{self.node} ({self.host.address}) answers `{do}` with what cannot be understood: {error}"
            raise ClusterError(text) from error

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._channel is None:
            self._epoch += 1
            self._pending = b""
            self._channel = self.host.channel(self.host.program("bridge", self.run))
            self._channel.settimeout(_ANSWER_S)
        self._channel.sendall(json.dumps({**request, "epoch": self._epoch}).encode() + b"\n")
        while b"\n" not in self._pending:
            read = self._channel.recv(1 << 16)
            if not read:
                raise self._ended(self._channel)
            self._pending += read
            if len(self._pending) > MOST_ANSWER:
                raise ClusterError(f"{self.node} ({self.host.address}): an answer of more than {MOST_ANSWER >> 20} MiB")
        line, _, self._pending = self._pending.partition(b"\n")
        response: dict[str, Any] = answer(line, f"{self.node} ({self.host.address})", dict[str, Any])
        return response

    def _ended(self, channel: paramiko.Channel) -> Exception:
        """The meaning of a bridge's end: the watcher has ended, or only the connection is gone."""
        if exit_status(channel, _ANSWER_S) == NO_WATCHER:
            return ClusterError(
                f"the watcher of {self.node} ({self.host.address}) has ended, and the broker with it: nothing reached it "
                f"for {self.lease_s:g} s (its lease), or somebody ended it"
            )
        return EOFError("the connection ended")

    # ---- the lease; every renewal fetches the log

    def _renew_lease(self) -> None:
        """Renew until the end; a failure is logged once, and raised by the next request."""
        while not self._over.wait(self.lease_s / 6):
            try:
                self.fetch_log()
            except (ClusterError, OSError) as error:
                log.error("lease not renewed", node=self.node, error=str(error))
                if self._over.wait(self.lease_s):
                    return

    def fetch_log(self) -> None:
        """Fetch what the node has written to its log since."""
        with self._fetch_lock:
            while read := self._renewed():
                if self._fetched + len(read) > MOST_LOG:
                    raise ClusterError(f"the log of {self.node} is larger than {MOST_LOG >> 20} MiB; the rest is not fetched")
                with log_file(*self._log_place) as file:
                    file.write(read)
                self._fetched += len(read)

    def _renewed(self) -> bytes:
        """What is new of the node's log, or the beginning of that."""
        answer = self.ask("renew", log=self._fetched)
        self.clock_jumps = tuple(answer["jumps"])
        return self._decoded(answer["log"])

    def _decoded(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except ValueError as error:
            raise ClusterError(f"{self.node} ({self.host.address}) sends a log that is no base64: {text[:60]!r}") from error

    def end(self) -> None:
        """End and remove everything on the host. Raises ClusterError."""
        self._over.set()
        self._lease_thread.join()  # or its last renewal would fail
        self.ask("end")
        with self._request_lock:
            channel, self._channel = self._channel, None
            assert channel is not None
            channel.settimeout(_END_S)
            with channel, suppress(*CONNECTION_ERRORS):
                channel.recv(1)  # it ends when all is removed
