"""The process of a driver: requests go in, answers and events come out, one thread on either side.

The thread that calls reads the answers itself: between its requests nothing is read, as nothing is called back between the calls
of a client in this process. No wait is without end, and when a driver ends all that it has started ends with it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from fencepost.harness.api import CallError
from fencepost.harness.drivers import frames
from fencepost.harness.drivers.answers import HelloAnswer, call_error, results
from fencepost.harness.drivers.pipes import FramePipes, Patience, SilenceError
from fencepost.harness.system import processes
from fencepost.harness.system.answers import WrongAnswer, shaped
from fencepost.harness.system.parent_death import die_with

PROTOCOL = 1
GONE, BROKEN = "_DRIVER_GONE", "_DRIVER_BROKEN"
HELLO_S = 60.0
ANSWER_S = 120.0  # to any other request: docs/client-drivers.md
CLOSE_S = 30.0
MARK = "FENCEPOST_DRIVER"  # in the environment of a driver and of all that it starts
_END_S = 5.0

Event = Callable[[Mapping[str, Any]], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Hello:
    """A driver's own description. transactions: the newest transaction protocol that it speaks (1, 2), None for none."""

    client: str
    version: str
    runtime: str
    capabilities: frozenset[str]
    transactions: int | None


class DriverProcess:
    """A running driver.

    on_event: gets each event, from within `call`.
    stderr: where its log goes, ours by default.
    on_wait: called several times a second while an answer is awaited.
    """

    def __init__(
        self,
        argv: Sequence[str],
        on_event: Event = lambda _: None,
        stderr: IO[bytes] | None = None,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_event = on_event
        self._argv, self._stderr, self._on_wait = list(argv), stderr or sys.stderr.buffer, on_wait
        self._id = 0
        self._mark = secrets.token_hex(16)
        self._gone = False  # had ended at the step before
        self.library = ""  # known from `start` on
        self._popen: subprocess.Popen[bytes] | None = None
        self._pipes: FramePipes | None = None
        _ALL.add(self)

    @property
    def pid(self) -> int | None:
        """Its process id, None while there is none."""
        return self._popen.pid if self._popen and self._popen.poll() is None else None

    def start(self) -> Hello:
        """Start it anew and agree on the protocol. Raises CallError when it does not start, or does not speak it."""
        self.end()
        self._gone = False
        try:
            self._popen = popen = subprocess.Popen(
                self._argv,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, MARK: self._mark},
                preexec_fn=die_with(os.getpid()),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            text = f"{self._argv[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
            raise CallError("hello", GONE, 0, text, fatal=True) from error
        assert popen.stdin is not None
        assert popen.stdout is not None
        self._pipes = FramePipes(popen.stdin.fileno(), popen.stdout.fileno())
        hello = self._hello(self.call("hello", protocols=[PROTOCOL]))
        self.library = hello.client
        return hello

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Make one call and wait for its answer. Raises CallError: the client's, `GONE` or `BROKEN`."""
        self._id += 1
        limit_s = {"hello": HELLO_S, "close": CLOSE_S}.get(name, ANSWER_S)
        if self._pipes is None:
            raise CallError(name, GONE, 0, "the driver is not running", fatal=True)
        patience = Patience(limit_s, self._look)
        try:
            self._ask(self._pipes, frames.packed({"id": self._id, "call": name, **arguments}), patience)
            return self._answer(name, self._pipes, patience)
        except (BrokenPipeError, EOFError):
            raise CallError(name, GONE, 0, self._ending(), fatal=True) from None
        except SilenceError:
            raise self.broken(name, f"no answer to `{name}` within {limit_s:.0f} s") from None
        except frames.FrameError as error:
            raise self.broken(name, f"not the protocol of drivers: {error}") from error

    def answer(self, shape: type[T], name: str, /, **arguments: Any) -> T:
        """Make one call and wait for an answer of this shape. Raises CallError, as `call` does."""
        results_ = self.call(name, **arguments)
        try:
            return shaped(results_, shape)
        except WrongAnswer as error:
            raise self.broken(name, f"an answer to `{name}` that cannot be understood: {error}") from error

    def broken(self, call: str, text: str) -> CallError:
        """End it, since it breaks its protocol; the error of the call."""
        self.end()
        return CallError(call, BROKEN, 0, text, fatal=True)

    def _look(self, idle: bool) -> None:
        """At each step of a wait: a driver that has ended answers no more, although others may hold its standard output open.

        What it wrote before its end is there in the step after, at the latest.
        """
        self._on_wait()
        if idle and self._gone:
            raise EOFError
        self._gone = self.pid is None

    def _ask(self, pipes: FramePipes, request: bytes, patience: Patience) -> None:
        """Write a request. What a driver that has ended wrote before is read all the same: it says why it is of no use."""
        try:
            pipes.send(request, patience)
        except BrokenPipeError:
            with suppress(subprocess.TimeoutExpired):
                assert self._popen is not None
                self._popen.wait(_END_S)
                return
            raise

    def _answer(self, call: str, pipes: FramePipes, patience: Patience) -> dict[str, Any]:
        while True:
            message = pipes.receive(patience)
            if message is None:
                raise EOFError
            if "event" in message:
                self.on_event(message)
                continue
            if message.get("id") != self._id:
                raise frames.FrameError(f"an answer to request {str(message.get('id'))[:20]} instead of {self._id}")
            if (error := message.get("error")) is not None:
                raise call_error(call, error)
            return results(message)

    def _hello(self, answer: Mapping[str, Any]) -> Hello:
        if (version := answer.get("protocol")) != PROTOCOL:
            text = f"it speaks version {str(version)[:20]} of the protocol of drivers, fencepost speaks {PROTOCOL}"
            raise self.broken("hello", text)
        try:
            known = shaped(answer, HelloAnswer)
        except WrongAnswer as error:
            raise self.broken("hello", f"a hello that cannot be understood: {error}") from error
        return Hello(known.client, known.version, known.runtime, frozenset(known.capabilities or ()), known.transactions)

    def end_input(self) -> None:
        """Close its standard input: it shall end by itself."""
        if self._popen is not None:
            _close(self._popen.stdin)

    def end(self) -> None:
        """Kill it, if it runs, and all that it has started."""
        popen, self._popen, self._pipes = self._popen, None, None
        if popen is not None:
            started = _descendants(popen.pid)  # while they can be told: a process amid exec shows no environment
            popen.kill()
            popen.wait()
            for pid in started:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.kill_started()
            for pipe in (popen.stdin, popen.stdout):
                _close(pipe)

    def kill_started(self) -> None:
        """Kill every process that has its mark, in whatever process group; again, until none has started another."""
        mark = f"{MARK}={self._mark}".encode()
        quiet = 0
        for _ in range(_ROUNDS):
            quiet = 0 if [pid for pid in processes.process_ids() if _killed(pid, mark)] else quiet + 1
            if quiet == _QUIET:
                return
            time.sleep(_PAUSE_S)

    def _ending(self) -> str:
        """The end of the process, in words."""
        popen = self._popen
        assert popen is not None
        try:
            code = popen.wait(_END_S)
            text = f"the driver was ended by signal {-code}" if code < 0 else f"the driver ended (exit {code})"
        except subprocess.TimeoutExpired:
            text = "the driver closed its standard output, and is killed"
        self.end()
        return text


_ALL: weakref.WeakSet[DriverProcess] = weakref.WeakSet()
_ROUNDS = 20  # of processes that start others while they are killed
_QUIET, _PAUSE_S = 2, 0.02  # rounds without any, apart: a process amid exec shows no environment


def kill_all() -> None:
    """Kill what all drivers of this process have started, before it leaves without an end of its own."""
    for process in list(_ALL):
        if process.pid is not None:
            process.kill_started()


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, those that they have started, and so on."""
    children: dict[int, list[int]] = {}
    for other in processes.process_ids():
        with suppress(OSError):
            if (status := processes.status(other)) is not None:
                children.setdefault(status.parent, []).append(other)
    started = list(children.get(pid, ()))
    for child in started:
        started += children.get(child, ())
    return started


def _killed(pid: int, mark: bytes) -> bool:
    """Kill a process that has the mark in its environment; returns whether it had."""
    with suppress(OSError):
        if mark in processes.content(pid, "environ").split(b"\0") and processes.state(pid) not in ("", processes.ZOMBIE):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:  # what was not written yet is lost with the driver
        return
