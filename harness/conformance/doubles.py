"""Test doubles of the cluster: one adds what faults share, one fixes roles, one refuses a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.harness.api import Admin, Cluster, ClusterError, SharedState
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.effects import Effect, calls_of, effects_of
from fencepost.harness.api.faults import State

RoleHolders = dict[tuple[str, tuple[Any, ...]], str]  # (role, its arguments) -> node


class Double:
    """Everything is the real cluster's, unless a subclass overrides it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


class HostedCluster(Double):
    """The cluster as the host of the faults passes it to them, with what they share."""

    def __init__(self, cluster: Cluster, state: SharedState) -> None:
        super().__init__(cluster)
        self._state = state

    def shared(self, kind: type[State]) -> State:
        return self._state.get(kind)


class FixedRoles(Double):
    """A role stays with the node that had it when it was first asked for, so that one seed means one choice."""

    def __init__(self, cluster: Cluster, holders: RoleHolders) -> None:
        super().__init__(cluster)
        self._holders = holders

    def roles(self) -> Any:
        return _Roles(self._cluster, self._holders)


class _Roles:
    def __init__(self, cluster: Cluster, holders: RoleHolders) -> None:
        self._cluster, self._holders = cluster, holders

    def __getattr__(self, name: str) -> Callable[..., str]:
        def holder(*which: Any) -> str:
            if (name, which) not in self._holders:
                self._holders[name, which] = getattr(self._cluster.roles(), name)(*which)
            return self._holders[name, which]

        return holder


class RefusingCluster(Double):
    """After the first call that hurts, refuses the n-th one that looks or hurts. What is hurt by then is hurt.

    Calls that undo or prepare something are never refused. A call that declares no effect (of a capability that a plug-in brings)
    is taken to hurt when it returns nothing; as it may also undo something, it is refused only when it was the first call that
    hurt. `first`: the call that hurt; `refused`: the call that was refused; both empty until then.
    """

    def __init__(self, cluster: Cluster, needs: Iterable[type], number: int) -> None:
        super().__init__(cluster)
        interfaces = [*needs, *CAPABILITIES, Admin]
        undeclared = {name: call for name, call in calls_of(interfaces).items() if "effect" not in vars(call)}
        self._guessed = {name for name, call in undeclared.items() if call.__annotations__.get("return") in (None, "None")}
        guesses = {name: Effect.CHANGES if name in self._guessed else Effect.LOOKS for name in undeclared}
        self._effects = {**guesses, **effects_of(interfaces)}
        self._number, self._since = number, 0
        self.first = self.refused = ""

    def __getattr__(self, name: str) -> Any:
        return self.refusable(name, super().__getattr__(name))

    def admin(self) -> Any:
        return _RefusingAdmin(self, self._cluster.admin())

    def refusable(self, name: str, call: Any) -> Any:
        """The call, wrapped so that it may be refused if it looks or hurts."""
        effect = self._effects.get(name)
        if effect is None or not (effect.hurts or effect is Effect.LOOKS):
            return call

        def made(*arguments: Any, **options: Any) -> Any:
            if self.first and (name not in self._guessed or name == self.first):
                self._since += 1
                if self._since == self._number:
                    self.refused = name
                    raise ClusterError(f"{name} was refused: the kit breaks this call off")
            answer = call(*arguments, **options)
            self.first = self.first or (name if effect.hurts else "")
            return answer

        return made


class _RefusingAdmin:
    def __init__(self, cluster: RefusingCluster, admin: Any) -> None:
        self._refusing, self._admin = cluster, admin

    def __getattr__(self, name: str) -> Any:
        return self._refusing.refusable(name, getattr(self._admin, name))
