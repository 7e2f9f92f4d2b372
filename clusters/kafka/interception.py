"""Rules of the proxies before a cluster's brokers: `Interceptable` (docs/proxy.md)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from fencepost.clusters.kafka.options import NO_PROXY
from fencepost.harness.api import CampaignError, Catch, ClusterError
from fencepost.harness.proxy.control import Control

EVENT = "event:"
_OF_CATCH = tuple(field.name for field in fields(Catch))


class Interceptor:
    """The rules of one run. Safe to use from several threads.

    controls: of each broker, the proxy before it; several brokers may have one.
    """

    def __init__(self) -> None:
        self.controls: dict[str, Control] = {}
        self._rules: dict[int, list[tuple[Control, int]]] = {}  # number of a rule -> its numbers at the proxies
        self._numbers, self._lock = 0, threading.Lock()

    def intercept(self, rule: Mapping[str, Any], nodes: Iterable[str] = ()) -> int:
        """See `harness.api.Interceptable`."""
        wanted = [self._checked(node) for node in nodes]
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._rules[number] = []
        own = dict(rule)
        if str(own.get("until", "")).startswith(EVENT):  # events of several rules must not be one
            own["until"] = _event(number)
        try:
            for control, names in self._by_control(wanted).items():
                self._rules[number].append((control, control.add({**own, **({"node": names} if names else {})})))
        except CampaignError as error:
            self.withdraw(number)
            raise ClusterError(f"the proxy refuses the rule: {'; '.join(error.mistakes)}") from error
        except BaseException:
            self.withdraw(number)
            raise
        return number

    def proxied(self) -> dict[str, bool]:
        """See `harness.api.Interceptable`."""
        return {node: _runs(control) for node, control in self.controls.items()}

    def caught(self, number: int) -> list[Catch]:
        """See `harness.api.Interceptable`."""
        found = [catch for control, at in self._rules.get(number, ()) for catch in control.catches(at)]
        return [_catch(number, catch) for number, catch in enumerate(sorted(found, key=lambda catch: catch["time_ns"]), 1)]

    def release(self, number: int) -> None:
        """See `harness.api.Interceptable`."""
        for control, _ in self._rules.get(number, ()):
            control.event(_event(number).removeprefix(EVENT))

    def withdraw(self, number: int) -> list[Catch]:
        """See `harness.api.Interceptable`."""
        self.release(number)
        catches = self.caught(number)
        for control, at in self._rules.pop(number, ()):
            control.remove(at)  # what it still holds goes on
        return [_released(catch) for catch in catches]

    def withdraw_all(self) -> None:
        """Withdraw what faults have left."""
        for number in list(self._rules):
            self.withdraw(number)

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
    return replace(catch, state="released", released_ns=time.monotonic_ns()) if catch.state == "held" else catch
