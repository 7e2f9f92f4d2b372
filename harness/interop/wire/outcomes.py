"""The outcome of a transaction, by the EndTxn requests that reached its coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.harness.api import Outcome
from fencepost.harness.interop.wire.requests import NONE, Seen

NOTHING_DONE = frozenset({"CONCURRENT_TRANSACTIONS"})  # the client has to ask again
REFUSALS = frozenset(
    {
        *("INVALID_TXN_STATE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"),
        *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"),
    }
)
"""Answers to EndTxn after which nothing was logged (the transitions of docs/wire.md). Any other error may have come too late."""


@dataclass(frozen=True)
class Ending:
    """The outcome of a transaction.

    decided: when commit was first called (ns); None: never.
    end: when it was answered (ns); None: not.
    """

    type: Outcome
    intent: str
    decided: int | None
    end: int | None


def ending(calls: Sequence[Seen]) -> Ending:
    """The outcome of a transaction. calls: the EndTxn requests about it, in the order in which they came.

    Without any nobody has ended it: a coordinator aborts it, or never does. Neither is an anomaly of its own.
    """
    commits = [call for call in calls if call.committed]
    aborts = [call for call in calls if not call.committed]
    decided = commits[0].arrived if commits else None
    if done := _succeeded(commits):
        return Ending(Outcome.OK, "commit", decided, done.answered)
    if done := _succeeded(aborts):
        kind, intent = (Outcome.FAIL, "commit") if commits else (Outcome.OK, "abort")
        return Ending(kind, intent, decided, done.answered)
    if not commits:
        return Ending(Outcome.INFO, "abort" if aborts else "commit", None, None)
    definite = [call for call in commits if call.error not in NOTHING_DONE]
    if definite and all(call.error in REFUSALS for call in definite):
        return Ending(Outcome.FAIL, "commit", decided, definite[-1].answered)
    return Ending(Outcome.INFO, "commit", decided, None)


def _succeeded(calls: Sequence[Seen]) -> Seen | None:
    return next((call for call in calls if call.error == NONE), None)
