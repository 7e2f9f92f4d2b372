"""Stand-ins that a fault is given instead of the cluster in some stories: one that remembers roles, one that breaks a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.api import Cluster, ClusterError

Remembered = dict[tuple[str, tuple[Any, ...]], str]


class Double:
    """Everything is the real cluster's, unless a subclass says otherwise."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


class Steadfast(Double):
    """Roles stay with whoever had them when they were first asked for, so that one seed means one choice."""

    def __init__(self, cluster: Cluster, remembered: Remembered) -> None:
        super().__init__(cluster)
        self._remembered = remembered

    def roles(self) -> Any:
        return _SteadfastRoles(self._cluster, self._remembered)


class _SteadfastRoles:
    def __init__(self, cluster: Cluster, remembered: Remembered) -> None:
        self._cluster, self._remembered = cluster, remembered

    def __getattr__(self, name: str) -> Callable[..., str]:
        def ask(*which: Any) -> str:
            if (name, which) not in self._remembered:
                self._remembered[name, which] = getattr(self._cluster.roles(), name)(*which)
            return self._remembered[name, which]

        return ask


class Breaking(Double):
    """After the first call that hurts, the n-th one that looks or hurts in the same way is refused: what is hurt by then is hurt.

    Other calls that change something are let through, for they may be the ones that heal.
    """

    def __init__(self, cluster: Cluster, needs: Iterable[type], number: int) -> None:
        super().__init__(cluster)
        self._calls = {name: one for need in needs for name, one in vars(need).items() if _is_call(name, one)}
        self._number, self._since, self._first = number, 0, ""
        self.broke = ""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return self._watched(name, found) if name in self._calls else found

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            changes = _changes(self._calls[name])
            if self._first and (name == self._first or not changes):
                self._since += 1
                if self._since == self._number:
                    self.broke = name
                    raise ClusterError(f"{name} was refused: the kit breaks this call off")
            answer = call(*arguments, **options)
            self._first = self._first or (name if changes else "")
            return answer

        return made


def _is_call(name: str, one: Any) -> bool:
    return callable(one) and not name.startswith("_")


def _changes(call: Any) -> bool:
    """Whether a capability's call changes something: it returns nothing."""
    return call.__annotations__.get("return") in (None, "None")
