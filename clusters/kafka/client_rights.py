"""The rights of clients on clusters with an authorizer (`acls = true`), and taking some of them away.

Brokers, controllers and the harness talk over listeners without authentication, and their principal may do everything. Clients
have a listener of their own (SASL_PLAINTEXT, PLAIN), where they are `User:clients`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from fencepost.clusters.kafka import protocol_acls
from fencepost.clusters.kafka.protocol import Place
from fencepost.clusters.kafka.roles import ask_all
from fencepost.harness.api import ClusterError, Right

USER, PASSWORD = "clients", "fencepost"  # no secret: the cluster lives for one run, and is reached from its own network only
PRINCIPAL, SUPER_USER = f"User:{USER}", "User:ANONYMOUS"
EVERY = "*"
CONNECTION = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
_OPERATIONS = {
    "topic": ("read", "write", "create", "delete", "describe", "describe configs"),
    "group": ("read", "describe", "delete"),
    "transactional id": ("write", "describe"),
}
GRANTED = (
    *(Right("allow", operation, resource, EVERY) for resource, operations in _OPERATIONS.items() for operation in operations),
    Right("allow", "idempotent write", "cluster", "kafka-cluster"),
)
_ASK_S = 3.0

Change = Callable[[str, Callable[[Place], None]], None]  # what failed, in words, and the request to a broker


def listener_properties(listener: str) -> dict[str, str]:
    """The server.properties beside the listeners' protocols for an authorizer and clients with a password."""
    own = f"listener.name.{listener.lower()}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": SUPER_USER,
        "sasl.enabled.mechanisms": "PLAIN",
        f"{own}.plain.sasl.jaas.config": f'{module} required user_{USER}="{PASSWORD}";',
    }


class ClientRights:
    """The rights of clients. Safe to use from several threads.

    brokers: the addresses of those that are asked for the rights.
    change: asks a broker that answers for a change.
    """

    def __init__(self, brokers: Mapping[str, Place], change: Change) -> None:
        self._brokers, self._change = brokers, change
        self._lock = threading.Lock()
        self._numbers = 0
        self._revoked: dict[int, tuple[Right, ...]] = {}

    def rights(self) -> dict[str, tuple[Right, ...]]:
        """The rights of clients as each broker that answers has them."""
        return ask_all(lambda address: protocol_acls.rights(address, PRINCIPAL, _ASK_S), self._brokers)

    def restored(self) -> str:
        """Give clients all that they have from the start; what is not so yet at some broker, in words."""
        known = self.rights()
        behind = [name for name in self._brokers if set(known.get(name, ())) != set(GRANTED)]
        if not behind:
            return ""
        try:
            self._restore({right for some in known.values() for right in some if right.permission == "deny"})
        except ClusterError as error:
            return str(error)
        return f"rights not known to {', '.join(behind)}"

    def revoke(self, names: Iterable[str], operation: str, resource: str) -> int:
        """See `harness.api.Authorizing`."""
        taken = tuple(Right("allow", operation, resource, name) for name in names)
        with self._lock:
            if again := [right for right in taken for some in self._revoked.values() if right in some]:
                raise ClusterError(f"the right to {again[0].what} has been taken away already")
            for right in taken:
                self._set(right, there=False)
            self._numbers += 1
            self._revoked[self._numbers] = taken
            return self._numbers

    def regrant(self, number: int) -> None:
        """See `harness.api.Authorizing`."""
        with self._lock:
            for right in self._revoked.get(number, ()):
                self._set(right, there=True)
            self._revoked.pop(number, None)

    def _restore(self, denied: Collection[Right]) -> None:
        with self._lock:
            self._create(GRANTED)
            self._delete(sorted(denied))
            self._revoked.clear()

    def _set(self, right: Right, there: bool) -> None:
        """A right to every name is removed itself; one name is forbidden beside it."""
        own = right if right.name == EVERY else right.denied
        if there is (own is right):
            self._create([own])
        else:
            self._delete([own])

    def _create(self, wanted: Sequence[Right]) -> None:
        self._change("rights not given", partial(protocol_acls.create, principal=PRINCIPAL, wanted=wanted, timeout_s=_ASK_S))

    def _delete(self, unwanted: Sequence[Right]) -> None:
        self._change(
            "rights not taken away", partial(protocol_acls.delete, principal=PRINCIPAL, unwanted=unwanted, timeout_s=_ASK_S)
        )
