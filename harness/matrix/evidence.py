"""What the receipt of a fault of the matrix says. It may come from anywhere: what has another form than ours is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Caught(msgspec.Struct, frozen=True):
    """A message that the fault caught."""

    node: str
    api: str
    time_ns: int
    client_id: str | None = None


class Fired(msgspec.Struct, frozen=True):
    """A fault that it fired."""

    kind: str
    effective: bool | None = None
    options: dict[str, Any] | None = None

    @property
    def role(self) -> str:
        """The role of its target: `broker` of `broker:n1`."""
        return str((self.options or {}).get("target", "")).partition(":")[0]


class _Evidence(msgspec.Struct):
    fired: Fired | None = None
    during: list[Caught] | None = None


class _Healing(msgspec.Struct):
    after: list[Caught] | None = None


class Evidence(msgspec.Struct, frozen=True):
    """The evidence of a fault.

    fired: the fault that it fired; None: none.
    catch: the message at which it struck; None: it caught none.
    readable: False: it is not of the form that a run leaves.
    """

    fired: Fired | None = None
    catch: Caught | None = None
    readable: bool = True


def evidence_of(receipt: Mapping[str, Any]) -> Evidence:
    """What a receipt says of its fault."""
    try:
        evidence = msgspec.convert(receipt.get("evidence") or {}, _Evidence)
        healing = msgspec.convert(receipt.get("healing") or {}, _Healing)
    except (msgspec.ValidationError, RecursionError):
        return Evidence(readable=False)
    catch = next(iter(evidence.during or healing.after or ()), None)
    return Evidence(fired=evidence.fired, catch=catch)
