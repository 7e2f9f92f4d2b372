"""Recovery: what shows that a client works again after the last fault was healed."""

from __future__ import annotations

from typing import TypedDict

WITHOUT_ANSWER = ("poll", "seek", "assign", "subscribe")
"""Operations that end ok although no broker answered. A `poll` that returned a record shows that one did."""


class RecoveryPlan(TypedDict):
    """The time for clients to succeed again after the last fault was healed, in seconds.

    grace_s: from then on, no operation that begins has to wait for a broker's start, a connection or a group any more.
    bound_s: by then, an operation that began after `grace_s` has ended.
    """

    grace_s: float
    bound_s: float
