"""The rights of a fake cluster's clients, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fencepost.harness.api import ClusterError, Right

EVERY = "*"
GRANTED = tuple(
    Right("allow", operation, resource, EVERY)
    for resource, operation in (("group", "read"), ("topic", "read"), ("topic", "write"), ("transactional id", "write"))
)


class FakeRights:
    """`Authorizing`. deaf: brokers that never learn of a change."""

    def __init__(self, brokers: Iterable[str], answers: Callable[[str], bool], done: Callable[[str, object], None]) -> None:
        self._answers, self._done = answers, done
        self.deaf: set[str] = set()
        self._of: dict[str, set[Right]] = {node: set(GRANTED) for node in brokers}
        self._revoked: dict[int, tuple[Right, ...]] = {}
        self._numbers = 0

    def rights(self) -> dict[str, tuple[Right, ...]]:
        return {node: tuple(sorted(some)) for node, some in self._of.items() if self._answers(node)}

    def revoke(self, names: Iterable[str], operation: str, resource: str) -> int:
        """Raises ClusterError when it is taken away already."""
        taken = tuple(Right("allow", operation, resource, name) for name in names)
        self._done("revoke", [right.name for right in taken])
        if any(right in some for right in taken for some in self._revoked.values()):
            raise ClusterError(f"the right to {taken[0].what} has been taken away already")
        self._set(taken, there=False)
        self._numbers += 1
        self._revoked[self._numbers] = taken
        return self._numbers

    def regrant(self, number: int) -> None:
        self._done("regrant", number)
        self._set(self._revoked.pop(number, ()), there=True)

    def mend(self) -> None:
        """Give back everything."""
        for number in list(self._revoked):
            self.regrant(number)

    def whole(self) -> bool:
        """Return whether clients have all their rights, and no prohibition."""
        return all(some == set(GRANTED) for some in self._of.values())

    def _set(self, rights: Iterable[Right], there: bool) -> None:
        for node in self._of.keys() - self.deaf:
            for right in rights:
                if right.name == EVERY:
                    (self._of[node].add if there else self._of[node].discard)(right)
                else:
                    (self._of[node].discard if there else self._of[node].add)(right.denied)
