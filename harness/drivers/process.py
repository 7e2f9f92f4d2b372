"""The process of a driver: requests go in, answers and events come out, one thread on either side.

The thread that calls reads the answers itself: between its requests nothing is read, as nothing is called back between the calls
of a client in this process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from fencepost.harness.api import CallError
from fencepost.harness.drivers import frames
from fencepost.harness.system.parent_death import die_with

PROTOCOL = 1
GONE, BROKEN = "_DRIVER_GONE", "_DRIVER_BROKEN"
_END_S = 5.0

Event = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Hello:
    """A driver's own description. transactions: the newest transaction protocol that it speaks (1, 2), None for none."""

    client: str
    version: str
    runtime: str
    capabilities: frozenset[str]
    transactions: int | None


class DriverProcess:
    """A running driver. on_event gets each event, from within `call`. stderr: where its log goes, ours by default."""

    def __init__(self, argv: Sequence[str], on_event: Event = lambda _: None, stderr: IO[bytes] | None = None) -> None:
        self.on_event = on_event
        self._argv, self._stderr = list(argv), stderr or sys.stderr.buffer
        self._id = 0
        self.library = ""  # known from `start` on
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, None while there is none."""
        return self._popen.pid if self._popen and self._popen.poll() is None else None

    def start(self) -> Hello:
        """Start it anew and agree on the protocol. Raises CallError when it does not start, or does not speak it."""
        self.end()
        try:
            self._popen = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                preexec_fn=die_with(os.getpid()),
            )
        except OSError as error:
            raise CallError("hello", GONE, 0, f"{self._argv[0]} cannot be started: {error.strerror}", fatal=True) from error
        hello = _hello(self.call("hello", protocols=[PROTOCOL]))
        self.library = hello.client
        return hello

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Make one call and wait for its answer, however long that takes. Raises CallError: the client's, `GONE` or `BROKEN`."""
        self._id += 1
        popen = self._popen
        if popen is None:
            raise CallError(name, GONE, 0, "the driver is not running", fatal=True)
        try:
            self._ask(popen, frames.packed({"id": self._id, "call": name, **arguments}))
            return self._answer(name, popen.stdout)  # type: ignore[arg-type]
        except (BrokenPipeError, EOFError):
            raise CallError(name, GONE, 0, self._ending(), fatal=True) from None
        except frames.FrameError as error:
            self.end()
            raise CallError(name, BROKEN, 0, f"not the protocol of drivers: {error}", fatal=True) from error

    def _ask(self, popen: subprocess.Popen[bytes], request: bytes) -> None:
        """Write a request. What a driver that has ended wrote before is read all the same: it says why it is of no use."""
        try:
            popen.stdin.write(request)  # type: ignore[union-attr]
            popen.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            with suppress(subprocess.TimeoutExpired):
                popen.wait(_END_S)
                return
            raise

    def _answer(self, call: str, stdout: IO[bytes]) -> dict[str, Any]:
        while True:
            message = frames.read(stdout)
            if message is None:
                raise EOFError
            if "event" in message:
                self.on_event(message)
                continue
            if message.get("id") != self._id:
                raise frames.FrameError(f"an answer to request {message.get('id')} instead of {self._id}")
            if (error := message.get("error")) is not None:
                raise call_error(call, error)
            return _results(message)

    def end_input(self) -> None:
        """Close its standard input: it shall end by itself."""
        if self._popen is not None:
            _close(self._popen.stdin)

    def end(self) -> None:
        """Kill it, if it runs."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            for pipe in (self._popen.stdin, self._popen.stdout):
                _close(pipe)
            self._popen = None

    def _ending(self) -> str:
        """The end of the process, in words."""
        popen, self._popen = self._popen, None
        assert popen is not None
        try:
            code = popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            popen.kill()
            return "the driver closed its standard output, and is killed"
        return f"the driver was ended by signal {-code}" if code < 0 else f"the driver ended (exit {code})"


def call_error(call: str, error: Any) -> CallError:
    """A driver's error as a CallError. Raises FrameError when it is none."""
    try:
        flags = {flag: _flag(error.get(flag, False)) for flag in ("fatal", "retriable", "abortable", "unconfirmed")}
        return CallError(call, str(error["name"]), int(error.get("code") or 0), str(error.get("text", "")), **flags)
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise frames.FrameError(f"an error without name, code and text: {error!r}") from wrong


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _results(message: Mapping[str, Any]) -> dict[str, Any]:
    results = message.get("ok")
    if not isinstance(results, dict):
        raise frames.FrameError(f"an answer with neither `ok` nor `error`: {dict(message)!r}")
    return results


def _hello(answer: Mapping[str, Any]) -> Hello:
    if answer.get("protocol") != PROTOCOL:
        text = f"it speaks version {answer.get('protocol')} of the protocol of drivers, fencepost speaks {PROTOCOL}"
        raise CallError("hello", BROKEN, 0, text, fatal=True)
    try:
        return Hello(
            client=str(answer.get("client", "")),
            version=str(answer.get("version", "")),
            runtime=str(answer.get("runtime", "")),
            capabilities=frozenset(map(str, answer.get("capabilities") or ())),
            transactions={None: None, 1: 1, 2: 2}[answer.get("transactions")],
        )
    except (KeyError, TypeError) as error:
        raise CallError("hello", BROKEN, 0, f"a hello that cannot be understood: {answer!r}", fatal=True) from error


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:  # what was not written yet is lost with the driver
        return
