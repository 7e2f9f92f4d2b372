"""Rights of the clients of a cluster with an authorizer."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """An access control entry of the clients' principal.

    permission: `allow` or `deny`, which wins.
    operation: `write`, `read`, ...
    resource: `topic`, `group`, `transactional id` or `cluster`.
    name: the name of the resource; `*`: every resource of the kind.
    """

    permission: str
    operation: str
    resource: str
    name: str

    @property
    def what(self) -> str:
        """`write on topic orders`, `read on every group`."""
        which = f"every {self.resource}" if self.name == "*" else f"{self.resource} {self.name}"
        return f"{self.operation} on {which}"

    @property
    def denied(self) -> Right:
        """The entry that forbids what this one allows."""
        return replace(self, permission="deny")

    def __str__(self) -> str:
        return f"{self.permission} {self.what}"
