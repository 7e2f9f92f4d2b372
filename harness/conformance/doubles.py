"""Stand-ins that a fault is given instead of the cluster: one remembers roles, one what was begun, one breaks a call off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness import api
from harness.api import Cluster, ClusterError

Remembered = dict[tuple[str, tuple[Any, ...]], str]
KNOWN: tuple[type, ...] = (
    *(api.Killable, api.Powered, api.Stoppable, api.Upgradable, api.Wipeable, api.Pausable, api.Fillable, api.Throttleable),
    *(api.Skewable, api.Partitionable, api.Losable, api.Slowable, api.Admin),
)
# What each call does cannot be told by what it returns, so it is written down. All others of these capabilities only look.
HURT = {
    *("kill", "stop", "pause", "drop", "lose", "slow", "throttle", "fill_disk", "skew", "lose_unsynced", "wipe"),
    *("reassign", "elect", "unregister", "set_topic_settings"),
}
MEND = {"start", "resume", "undrop", "unlose", "unslow", "unthrottle", "clear_disk", "use_version", "create_topics"}
ENDS = {"lose": "unlose", "slow": "unslow", "throttle": "unthrottle"}  # what returns a number, and what ends it


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


class Noting(Double):
    """Notes in `begun` what is begun under a number, and by which call: nobody can see at a glance whether it has ended."""

    def __init__(self, cluster: Cluster, begun: list[tuple[str, int]]) -> None:
        super().__init__(cluster)
        self._begun = begun

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in ENDS:
            return found

        def begin(*arguments: Any, **options: Any) -> int:
            number: int = found(*arguments, **options)
            self._begun.append((name, number))
            return number

        return begin


class Breaking(Double):
    """After the first call that hurts, the n-th one that looks or hurts is refused: what is hurt by then is hurt.

    Calls that mend are let through. Of a capability that does not come with fencepost, what returns nothing is taken to hurt; but
    as it may mend as well, only the same call is refused then, beside those that look. `first`: the call that hurt; `broke`: the
    one that was refused; both empty until then.
    """

    def __init__(self, cluster: Cluster, needs: Iterable[type], number: int) -> None:
        super().__init__(cluster)
        self._hurts = _calls(needs)
        self._number, self._since = number, 0
        self.first = self.broke = ""

    def __getattr__(self, name: str) -> Any:
        return self.watched(name, super().__getattr__(name))

    def admin(self) -> Any:
        return _BreakingAdmin(self, self._cluster.admin())

    def watched(self, name: str, found: Any) -> Any:
        """The call, if it is one that looks or hurts, so that it may be refused."""
        return self._refusable(name, found) if name in self._hurts else found

    def _refusable(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            if self.first and (name in HURT or name == self.first or not self._hurts[name]):
                self._since += 1
                if self._since == self._number:
                    self.broke = name
                    raise ClusterError(f"{name} was refused: the kit breaks this call off")
            answer = call(*arguments, **options)
            self.first = self.first or (name if self._hurts[name] else "")
            return answer

        return made


class _BreakingAdmin:
    def __init__(self, breaking: Breaking, admin: Any) -> None:
        self._breaking, self._admin = breaking, admin

    def __getattr__(self, name: str) -> Any:
        return self._breaking.watched(name, getattr(self._admin, name))


def _calls(needs: Iterable[type]) -> dict[str, bool]:
    """Every call of a capability that looks or hurts -> whether it hurts."""
    strange = {name: returned in (None, "None") for name, returned in _returns(needs).items()}
    known = {name: name in HURT for name in _returns(KNOWN)}
    return {name: hurts for name, hurts in {**strange, **known}.items() if name not in MEND}


def _returns(capabilities: Iterable[type]) -> dict[str, Any]:
    """The calls of capabilities, those that they have from others too, with what each is annotated to return."""
    return {
        name: one.__annotations__.get("return")
        for capability in capabilities
        for base in capability.__mro__
        for name, one in vars(base).items()
        if callable(one) and not name.startswith("_") and hasattr(one, "__annotations__")
    }
