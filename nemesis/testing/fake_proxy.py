"""The proxies of a fake cluster, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.harness.api import Catch

STATES = {"record": "recorded", "hold": "held", "delay": "released", "drop": "dropped", "lose": "lost", "late": "delivered"}
STATES |= {"repeat": "repeated", "error": "answered", "alter": "altered", "cut": "cut", "throttle": "throttled"}


@dataclass
class _Given:
    """A rule, the brokers before which it holds, and what it has caught."""

    rule: Mapping[str, Any]
    nodes: tuple[str, ...]
    catches: list[Catch] = field(default_factory=list)


class FakeProxy:
    """`Interceptable`: a rule catches one message at once, before each of its brokers that is awake.

    quiet: no message comes.
    restarts: brokers whose proxy was started again, and whether rules hold there.
    strikes: faults that other faults injected, with their options.
    """

    def __init__(self, brokers: Sequence[str], awake: Callable[[str], bool], done: Callable[[str, object], None]) -> None:
        self._brokers, self._awake, self._done = tuple(brokers), awake, done
        self.quiet = False
        self.restarts: dict[str, bool] = {}
        self.strikes: list[tuple[str, dict[str, Any]]] = []
        self._given: dict[int, _Given] = {}
        self._numbers = 0

    def intercept(self, rule: Mapping[str, Any], nodes: Iterable[str] = ()) -> int:
        wanted = tuple(nodes) or self._brokers
        self._done("intercept", wanted)
        self._numbers += 1
        self._given[self._numbers] = _Given(rule, wanted)
        return self._numbers

    def proxied(self) -> dict[str, bool]:
        return dict.fromkeys(self._brokers, True)

    def replaced(self, number: int) -> dict[str, bool]:
        return dict(self.restarts)

    def caught(self, number: int) -> list[Catch]:
        if number not in self._given:
            return []
        given = self._given[number]
        if not given.catches and not self.quiet:
            given.catches = [self._catch(given, at, node) for at, node in enumerate(filter(self._awake, given.nodes), 1)]
        return list(given.catches)

    def release(self, number: int) -> None:
        self._done("release", number)
        if number in self._given:
            given = self._given[number]
            given.catches = [
                replace(catch, state="released", released_ns=2) if catch.state == "held" else catch for catch in given.catches
            ]

    def withdraw(self, number: int) -> list[Catch]:
        self.release(number)
        return self._given.pop(number).catches if number in self._given else []

    def whole(self) -> bool:
        """True if no rule holds."""
        return not self._given

    def strike_now(self, kind: str, options: Mapping[str, Any], lasts_s: float) -> bool | None:
        """As the host of the faults would inject another one."""
        self.strikes.append((kind, dict(options)))
        return True

    def _catch(self, given: _Given, number: int, node: str) -> Catch:
        api = given.rule["api"] if isinstance(given.rule["api"], str) else given.rule["api"][0]
        state = STATES[given.rule["act"]]
        return Catch(number=number, node=node, client_id="w0", api=api, version=5, time_ns=1, state=state)
