"""The Kafka requests about rights: what a principal may do, and changes of it (KIP-140, patterns of KIP-290).

Written to a socket like those of `protocol.py`. DescribeAcls is answered by the broker itself, as it has the rights now; a broker
passes CreateAcls and DeleteAcls on to the controller. Names are literal; `*` stands for every name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from fencepost.clusters.kafka.protocol import Place, Reply, WireError, ask, string
from fencepost.harness.api import Right

_DESCRIBE, _CREATE, _DELETE = 29, 30, 31
_ANY, _LITERAL = 1, 3
_RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactional id": 5}
_OPERATIONS = {
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "describe": 8,
    "describe configs": 10,
    "idempotent write": 12,
}
_PERMISSIONS = {"deny": 2, "allow": 3}
_WORDS = [{number: word for word, number in table.items()} for table in (_PERMISSIONS, _OPERATIONS, _RESOURCES)]
_NULL = struct.pack(">h", -1)
_EVERYWHERE = string("*")  # hosts


def rights(address: Place, principal: str, timeout_s: float = 5.0) -> tuple[Right, ...]:
    """The rights of a principal as the broker at `address` has them. Raises WireError when it has no authorizer."""
    which = struct.pack(">b", _ANY)
    wanted = which + _NULL + which + string(principal) + _NULL + 2 * which
    reply = ask(address, _DESCRIBE, 1, wanted, timeout_s)
    _, error = reply.numbers(">ih")
    _demand_none("rights not told", [(error, reply.text())])
    return tuple(sorted(right for some in reply.array(lambda: _of_resource(reply)) for right in some))


def _of_resource(reply: Reply) -> list[Right]:
    kind, name, _ = reply.number(">b"), reply.text(), reply.number(">b")
    rows = reply.array(lambda: (reply.text(), reply.text(), reply.numbers(">bb")))
    return [_right(permission, operation, kind, name) for _, _, (operation, permission) in rows]


def _right(permission: int, operation: int, kind: int, name: str) -> Right:
    """The right in words; an unknown code stays a number."""
    words = [table.get(code, str(code)) for table, code in zip(_WORDS, (permission, operation, kind), strict=True)]
    return Right(words[0], words[1], words[2], name)


def create(address: Place, principal: str, wanted: Iterable[Right], timeout_s: float = 5.0) -> None:
    """Let these rights (or prohibitions) be; one that is there is no error. Raises WireError when any is refused."""
    entries = [
        struct.pack(">b", _RESOURCES[right.resource])
        + string(right.name)
        + struct.pack(">b", _LITERAL)
        + string(principal)
        + _EVERYWHERE
        + struct.pack(">bb", _OPERATIONS[right.operation], _PERMISSIONS[right.permission])
        for right in wanted
    ]
    reply = ask(address, _CREATE, 1, struct.pack(">i", len(entries)) + b"".join(entries), timeout_s)
    reply.number(">i")  # throttle time
    _demand_none("rights not given", reply.array(lambda: (reply.number(">h"), reply.text())))


def delete(address: Place, principal: str, unwanted: Iterable[Right], timeout_s: float = 5.0) -> None:
    """Let these rights (or prohibitions) be no more; one that is not there is no error. Raises WireError when any is refused."""
    filters = [
        struct.pack(">b", _RESOURCES[right.resource])
        + string(right.name)
        + struct.pack(">b", _LITERAL)
        + string(principal)
        + _NULL
        + struct.pack(">bb", _OPERATIONS[right.operation], _PERMISSIONS[right.permission])
        for right in unwanted
    ]
    reply = ask(address, _DELETE, 1, struct.pack(">i", len(filters)) + b"".join(filters), timeout_s)
    reply.number(">i")  # throttle time
    _demand_none("rights not taken away", reply.array(lambda: _deleted(reply)))


def _deleted(reply: Reply) -> tuple[int, str]:
    answer = reply.number(">h"), reply.text()
    reply.array(
        lambda: (
            *(reply.number(">h"), reply.text(), reply.number(">b"), reply.text(), reply.number(">b")),
            *(reply.text(), reply.text(), reply.numbers(">bb")),
        )
    )
    return answer


def _demand_none(what: str, answers: Iterable[tuple[int, str]]) -> None:
    if refused := [f"error {error} {text}".strip() for error, text in answers if error]:
        raise WireError(f"{what}: {'; '.join(dict.fromkeys(refused))}")
