"""Rules of the proxies before a cluster's brokers: `Interceptable` (docs/proxy.md)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import structlog

from fencepost.clusters.kafka.occurrences import SHARED, Occurrences
from fencepost.clusters.kafka.options import NO_PROXY
from fencepost.harness.api import CampaignError, Catch, ClusterError
from fencepost.harness.proxy.control import Control

EVENT = "event:"
HELD, ENDED = "held", "ended"
_KEPT = (HELD, "caught")  # states of what a proxy has and nobody else
_OF_CATCH = tuple(field.name for field in fields(Catch))
log = structlog.get_logger()


@dataclass
class _Placed:
    """A rule at one proxy: its number there, what it has caught as far as is known, and whether the proxy has ended."""

    control: Control
    number: int
    catches: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False

    def look(self) -> list[dict[str, Any]]:
        """What it has caught. What an ended proxy held has ended with it."""
        if not self.ended:
            try:
                self.catches = self.control.catches(self.number)
            except (ClusterError, CampaignError):
                self.end()
        return self.catches

    def end(self) -> None:
        """The proxy has ended."""
        self.ended = True
        self.catches = [{**catch, "state": ENDED} if catch["state"] in _KEPT else catch for catch in self.catches]


@dataclass
class _Rule:
    placed: list[_Placed] = field(default_factory=list)
    occurrences: Occurrences | None = None


class Interceptor:
    """The rules of one run. Safe to use from several threads.

    controls: of each broker, the proxy before it; several brokers may have one.
    """

    def __init__(self) -> None:
        self.controls: dict[str, Control] = {}
        self._replaced: set[str] = set()  # brokers whose proxy had ended, and was started again
        self._rules: dict[int, _Rule] = {}
        self._numbers, self._lock = 0, threading.Lock()

    def intercept(self, rule: Mapping[str, Any], nodes: Iterable[str] = ()) -> int:
        """See `harness.api.Interceptable`. A proxy that has ended has no rule; those of the others hold."""
        wanted = [self._checked(node) for node in nodes]
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._rules[number] = _Rule()
        own = dict(rule)
        if str(own.get("until", "")).startswith(EVENT):  # events of several rules must not be one
            own["until"] = _event(number)
        try:
            self._place(number, own, wanted)
        except CampaignError as error:
            self.withdraw(number)
            raise ClusterError(f"the proxy refuses the rule: {'; '.join(error.mistakes)}") from error
        except BaseException:
            self.withdraw(number)
            raise
        return number

    def _place(self, number: int, rule: Mapping[str, Any], nodes: list[str]) -> None:
        by_control = self._by_control(nodes)
        holders = self._rules[number]
        if str(rule.get("until", "")).startswith(SHARED):  # before anything can be held for it
            holders.occurrences = Occurrences(str(rule["until"]), dict.fromkeys(self._usable().values()))
        silent = []
        for control, names in by_control.items():
            try:
                holders.placed.append(_Placed(control, control.add({**rule, **({"node": names} if names else {})})))
            except ClusterError as error:
                if _runs(control):
                    raise
                silent.append(str(error))
        if not holders.placed:
            raise ClusterError("; ".join(silent))
        if silent:
            log.warning("rule not at every proxy", why=silent)

    def proxied(self) -> dict[str, bool]:
        """See `harness.api.Interceptable`."""
        return {node: node not in self._replaced and _runs(control) for node, control in self.controls.items()}

    def replace(self, node: str, control: Control) -> None:
        """Note that a broker's proxy had ended, and that another has taken its place."""
        old, self.controls[node] = self.controls[node], control
        self._replaced.add(node)
        for rule in list(self._rules.values()):
            for placed in rule.placed:
                if placed.control is old:
                    placed.end()

    def caught(self, number: int) -> list[Catch]:
        """See `harness.api.Interceptable`."""
        rule = self._rules.get(number)
        found = [catch for placed in list(rule.placed) for catch in placed.look()] if rule else []
        return [_catch(number, catch) for number, catch in enumerate(sorted(found, key=lambda catch: catch["time_ns"]), 1)]

    def release(self, number: int) -> None:
        """See `harness.api.Interceptable`."""
        for placed in self._standing(number):
            _tried(placed, lambda at: at.control.event(_event(number).removeprefix(EVENT)))

    def withdraw(self, number: int) -> list[Catch]:
        """See `harness.api.Interceptable`."""
        self.release(number)
        catches = self.caught(number)
        for placed in self._standing(number):
            _tried(placed, lambda at: at.control.remove(at.number))  # what it still holds goes on
        rule = self._rules.pop(number, None)
        if rule and rule.occurrences:
            rule.occurrences.close()
        return [_released(catch) for catch in catches]

    def withdraw_all(self) -> None:
        """Withdraw what faults have left."""
        for number in list(self._rules):
            self.withdraw(number)

    def _standing(self, number: int) -> list[_Placed]:
        """The rule at each proxy that is not known to have ended."""
        rule = self._rules.get(number)
        return [placed for placed in rule.placed if not placed.ended] if rule else []

    def _checked(self, node: str) -> str:
        if node not in self._usable():
            raise ClusterError(f"no proxy stands before {node}; there are those of {', '.join(self.controls)}")
        return node

    def _usable(self) -> dict[str, Control]:
        if not self.controls:
            raise ClusterError(f"nothing can be done to messages: {NO_PROXY}")
        return self.controls

    def _by_control(self, nodes: list[str]) -> dict[Control, list[str]]:
        """The proxies of some nodes, with those that are meant of each; of all nodes without any."""
        wanted: dict[Control, list[str]] = {}
        for node, control in self._usable().items():
            if node in nodes or not nodes:
                wanted.setdefault(control, []).extend([node] if nodes else [])
        return wanted


class BehindProxies:
    """`Interceptable`, by an interceptor."""

    interceptor: Interceptor

    def intercept(self, rule: Mapping[str, Any], nodes: Iterable[str] = ()) -> int:
        return self.interceptor.intercept(rule, nodes)

    def proxied(self) -> dict[str, bool]:
        return self.interceptor.proxied()

    def caught(self, number: int) -> list[Catch]:
        return self.interceptor.caught(number)

    def release(self, number: int) -> None:
        self.interceptor.release(number)

    def withdraw(self, number: int) -> list[Catch]:
        return self.interceptor.withdraw(number)


def _tried(placed: _Placed, ask: Any) -> None:
    """Ask a proxy to let go of something. One that has ended holds nothing."""
    try:
        ask(placed)
    except (ClusterError, CampaignError):
        if _runs(placed.control):
            raise
        placed.end()


def _runs(control: Control) -> bool:
    try:
        control.status()
    except ClusterError:
        return False
    return True


def _event(number: int) -> str:
    return f"{EVENT}rule-{number}"


def _catch(number: int, caught: Mapping[str, Any]) -> Catch:
    """A catch as its proxy tells of it."""
    known = {name: caught[name] for name in _OF_CATCH if caught.get(name) is not None}
    return Catch(**{**known, "number": number})


def _released(catch: Catch) -> Catch:
    """A catch when its rule has ended."""
    return replace(catch, state="released", released_ns=time.monotonic_ns()) if catch.state == HELD else catch
