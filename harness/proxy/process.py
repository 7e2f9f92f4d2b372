"""The process of a proxy. It ends with the `with` block, or with this process, whatever becomes of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO, Any

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.fetching.java import java
from fencepost.harness.proxy.control import Control
from fencepost.harness.proxy.rules import Rule
from fencepost.harness.system import lifeline

MAIN = "fencepost.proxy.Proxy"
HEAP_MB = 512
FRAME_BYTES = 32 << 20  # what is longer is passed on in pieces, unread
START_S, END_S = 60.0, 30.0
SPAN = 1 << 32  # of numbers of requests and connections: a proxy that takes the place of an ended one begins at a multiple of it
# The young generation is small, so that what is allocated is soon in memory that was used before, and in caches.
_FLAGS = (
    "-XX:+UseSerialGC", "-Xmn8m", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
    "-Dsun.net.httpserver.nodelay=true",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A broker behind the proxy.

    upstream: its address, HOST:PORT.
    listen: the address at which connections to it are taken; port 0: any that is free.
    node: its name in the record.
    """

    upstream: str
    listen: str = "127.0.0.1:0"
    node: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a proxy.

    brokers: what it leads to.
    rewrite: whether addresses of brokers in answers become those of listeners; else traffic is redirected to it by other means.
    advertise: the host at which clients reach its listeners, with `rewrite`.
    control: the address of its HTTP interface.
    record: the directory of its record; None: the newest lines in memory.
    node: the name of the record's file, and of a broker alone.
    rules: in force before the first connection.
    tls: Kafka's settings `ssl.*` towards `client` and `broker`; without any that side is plain.
    first: the number before that of the first request and connection.
    """

    brokers: Sequence[Broker]
    rewrite: bool = False
    advertise: str = "127.0.0.1"
    control: str = "127.0.0.1:0"
    record: Path | None = None
    node: str = "proxy"
    rules: Sequence[Rule] = ()
    tls: Mapping[str, Mapping[str, str]] | None = None
    most_frame_bytes: int = FRAME_BYTES
    first: int = 0

    def document(self) -> dict[str, Any]:
        """The configuration as the program takes it."""
        brokers = [{key: value for key, value in vars(broker).items() if value is not None} for broker in self.brokers]
        return {
            **{key: getattr(self, key) for key in ("rewrite", "advertise", "control", "node", "most_frame_bytes", "first")},
            "brokers": brokers,
            "record": None if self.record is None else str(self.record.absolute()),
            "rules": [rule.document() for rule in self.rules],
            "tls": self.tls or {},
        }

    def line(self) -> bytes:
        """The first line of the program's input."""
        return json.dumps(self.document()).encode() + b"\n"


def command(classpath: str, heap_mb: int = HEAP_MB, program: str = "") -> list[str]:
    """The command of the program, for who starts it elsewhere: the first line of its input is `Settings.line()`.

    Not an argument, which everybody on the machine can read: it may have passwords. It ends with its input.
    program: its Java; default: this machine's.
    """
    return [program or java()[0], f"-Xmx{heap_mb}m", *_FLAGS, "-cp", classpath, MAIN, "-"]


class ProxyProcess:
    """A running proxy, as long as the `with` block lasts.

    classpath: `jars.classpath(VERSION)`, or `jars.with_proxy` of jars that are there.
    log: takes what the Java virtual machine says; None: our standard error.
    prefix: words before the command, such as those that enter a network namespace. Its control must be reached from here.
    """

    def __init__(
        self,
        settings: Settings,
        classpath: str,
        log: IO[bytes] | int | None = subprocess.DEVNULL,
        heap_mb: int = HEAP_MB,
        prefix: Sequence[str] = (),
    ) -> None:
        self._command, self._settings, self._log = [*prefix, *command(classpath, heap_mb)], settings, log

    def __enter__(self) -> ProxyProcess:
        """Raises CampaignError when the proxy refuses its settings, a rule or an address; ClusterError when it does not start."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=self._log, start_new_session=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):  # it may have ended already
            self._process.stdin.write(self._settings.line())
            self._process.stdin.flush()
        deadline = Timer(START_S, self._process.kill)
        deadline.start()
        line = next((line for line in self._process.stdout if line.startswith(b"{")), b"")  # before it, what the JVM warns of
        deadline.cancel()
        try:
            answer = started(line)
        except CampaignError:
            self.end()
            raise
        except ClusterError as error:
            self.end()
            raise ClusterError(f"{error}: {self._command[0]} ended with exit {self._process.returncode}") from error
        self.control = Control(answer["control"])
        self.brokers: list[dict[str, str]] = answer["brokers"]
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    @property
    def address(self) -> str:
        """The address of the first listener."""
        return self.brokers[0]["listen"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        return self._process.wait()

    def end(self) -> None:
        """End it, as the `with` block does."""
        lifeline.cut(self._process, END_S)
        with suppress(OSError):
            if self._process.stdout is not None:
                self._process.stdout.close()


def started(line: bytes) -> dict[str, Any]:
    """What the program says when it listens: `control`, its address, and `brokers`, the listeners.

    Raises CampaignError when it refuses its settings, a rule or an address; ClusterError when it has not started.
    """
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ClusterError("the proxy has not started") from error
    if "errors" in answer:
        raise CampaignError(answer["errors"])
    return answer
