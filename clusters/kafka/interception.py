"""Rules of the proxies before a cluster's brokers: `Interceptable` (docs/proxy.md)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import structlog

from fencepost.clusters.kafka.occurrences import IDS, SHARED, Occurrences
from fencepost.clusters.kafka.options import NO_PROXY
from fencepost.harness.api import CampaignError, Catch, ClusterError
from fencepost.harness.proxy.control import Control

EVENT = "event:"
STATE = "state"  # the key of a rule that asks for the state of an id
FROM_BROKERS = "WriteTxnMarkers"  # that only brokers send
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
    """A rule, and where it holds.

    own: as the proxies take it, but for the brokers.
    nodes: before which brokers it holds; none: all.
    replaced: the brokers whose proxy has ended since, and whether the rule holds at the one in its place.
    """

    own: Mapping[str, Any]
    nodes: Sequence[str]
    placed: list[_Placed] = field(default_factory=list)
    occurrences: Occurrences | None = None
    replaced: dict[str, bool] = field(default_factory=dict)

    def rest(self, acted: int) -> dict[str, Any] | None:
        """What is left of it where another proxy has acted so often; None: nothing."""
        if (acted and "nth" in self.own) or acted >= self.own.get("times", acted + 1):
            return None
        return {**self.own, **({"times": self.own["times"] - acted} if "times" in self.own else {})}

    def share(self, controls: Iterable[Control]) -> None:
        """Have these proxies told of what the others have seen of what ends a hold."""
        if self.occurrences:
            self.occurrences.close()
        if (until := str(self.own.get("until", ""))).startswith(SHARED):
            self.occurrences = Occurrences(until, dict.fromkeys(controls))


class Interceptor:
    """The rules of one run. Safe to use from several threads.

    controls: of each broker, the proxy before it; several brokers may have one.
    between_brokers: brokers reach each other through the proxies, too.
    """

    def __init__(self, *, between_brokers: bool = True) -> None:
        self.between_brokers = between_brokers
        self.controls: dict[str, Control] = {}
        self._replaced: set[str] = set()  # brokers whose proxy had ended, and was started again
        self._rules: dict[int, _Rule] = {}
        self._ids: Occurrences | None = None  # what each proxy knows of the states of ids; None: no rule asks for it
        self._numbers, self._lock = 0, threading.Lock()

    def intercept(self, rule: Mapping[str, Any], nodes: Iterable[str] = ()) -> int:
        """See `harness.api.Interceptable`. A proxy that has ended has no rule; those of the others hold."""
        if not self.between_brokers and (rule.get("connection_of") == "broker" or rule.get("api") == FROM_BROKERS):
            raise ClusterError(
                "the proxies of this cluster stand before clients alone: they see nothing that a broker sends to another"
            )
        wanted = [self._checked(node) for node in nodes]
        own = dict(rule)
        with self._lock:
            self._numbers += 1
            number = self._numbers
            if str(own.get("until", "")).startswith(EVENT):  # events of several rules must not be one
                own["until"] = _event(number)
            self._rules[number] = _Rule(own, wanted)
            if STATE in own and self._ids is None:
                self._share_ids()
        try:
            self._place(self._rules[number])
        except CampaignError as error:
            self.withdraw(number)
            raise ClusterError(f"the proxy refuses the rule: {'; '.join(error.mistakes)}") from error
        except BaseException:
            self.withdraw(number)
            raise
        return number

    def _place(self, rule: _Rule) -> None:
        by_control = self._by_control(rule.nodes)
        rule.share(self._usable().values())  # before anything can be held for it
        silent = []
        for control, names in by_control.items():
            try:
                rule.placed.append(_Placed(control, control.add({**rule.own, **({"node": names} if names else {})})))
            except ClusterError as error:
                if _runs(control):
                    raise
                silent.append(str(error))
        if not rule.placed:
            raise ClusterError("; ".join(silent))
        if silent:
            log.warning("rule not at every proxy", why=silent)

    def proxied(self) -> dict[str, bool]:
        """See `harness.api.Interceptable`."""
        return {node: node not in self._replaced and _records(control) for node, control in self.controls.items()}

    def replace(self, node: str, control: Control) -> None:
        """Note that a broker's proxy had ended, and that another has taken its place: it gets the rules in force."""
        old, self.controls[node] = self.controls[node], control
        self._replaced.add(node)
        if self._ids:
            self._share_ids()
        for number, rule in list(self._rules.items()):
            if rule.nodes and node not in rule.nodes:
                continue
            ended = [placed for placed in rule.placed if placed.control is old]
            for placed in ended:
                placed.end()
            there = any(placed.control is control for placed in rule.placed)  # it stands before several brokers
            acted = sum(len(placed.catches) for placed in ended)
            rule.replaced[node] = there or self._placed_again(number, rule, (old, control), acted)

    def _placed_again(self, number: int, rule: _Rule, change: tuple[Control, Control], acted: int) -> bool:
        """Put what is left of a rule at the proxy in the place of one that has ended; whether it holds there."""
        rest, control = rule.rest(acted), change[1]
        if rest is None:
            return False
        rule.share(self.controls.values())
        names = [name for name in rule.nodes if self.controls[name] in change]
        try:
            placed = _Placed(control, control.add({**rest, **({"node": names} if names else {})}))
        except (ClusterError, CampaignError) as error:
            log.warning("rule not at the proxy that was started again", why=str(error))
            return False
        rule.placed.append(placed)
        if number not in self._rules:  # it was withdrawn meanwhile
            _tried(placed, lambda at: at.control.remove(at.number))
        return True

    def _share_ids(self) -> None:
        """Have each proxy told what the others know of the states of ids, from now on."""
        if self._ids:
            self._ids.close()
        self._ids = Occurrences(IDS, dict.fromkeys(self.controls.values()))

    def replaced(self, number: int) -> dict[str, bool]:
        """See `harness.api.Interceptable`."""
        rule = self._rules.get(number)
        return dict(rule.replaced) if rule else {}

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
        if self._ids:
            self._ids.close()
            self._ids = None

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

    def _by_control(self, nodes: Sequence[str]) -> dict[Control, list[str]]:
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

    def replaced(self, number: int) -> dict[str, bool]:
        return self.interceptor.replaced(number)

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


def _records(control: Control) -> bool:
    """True if a proxy runs, and has written all that passed it."""
    try:
        return control.status().get("record_error") is None
    except ClusterError:
        return False


def _event(number: int) -> str:
    return f"{EVENT}rule-{number}"


def _catch(number: int, caught: Mapping[str, Any]) -> Catch:
    """A catch as its proxy tells of it."""
    known = {name: caught[name] for name in _OF_CATCH if caught.get(name) is not None}
    return Catch(**{**known, "number": number})


def _released(catch: Catch) -> Catch:
    """A catch when its rule has ended."""
    return replace(catch, state="released", released_ns=time.monotonic_ns()) if catch.state == HELD else catch
