"""A client that plays a script: which call fails, how often, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.api import CallError, Polled


def error(call: str, name: str = "_TIMED_OUT", **flags: bool) -> CallError:
    return CallError(call, name, -185, f"{name} (scripted)", **flags)


class FakeClient:
    """Delivers at once; calls listed in `script` raise the next of their errors until none is left."""

    def __init__(self, script: Mapping[str, list[CallError]] | None = None, polled: list[list[Polled]] | None = None) -> None:
        self.script = {call: list(errors) for call, errors in (script or {}).items()}
        self.polled = list(polled or [])
        self.calls: list[str] = []
        self.sent: list[tuple[str, bytes]] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.script.get(name):
            raise self.script[name].pop(0)

    def begin(self) -> None:
        self._call("begin")

    def send(self, partition: str, key: bytes, value: bytes, done: Callable[[int | None, CallError | None], None]) -> None:
        self._call("send")
        self.sent.append((partition, value))
        undelivered = self.script.get("deliver")
        done(None, undelivered.pop(0)) if undelivered else done(len(self.sent) - 1, None)

    def flush(self, timeout_s: float) -> None:
        self._call("flush")

    def commit(self, timeout_s: float) -> None:
        self._call("commit")

    def abort(self, timeout_s: float) -> None:
        self._call("abort")

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        self._call("poll")
        return self.polled.pop(0) if self.polled else []
