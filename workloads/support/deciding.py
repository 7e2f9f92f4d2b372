"""The end of a transaction, for every workload: commit or abort, what the client answers, and the outcome that follows."""

from __future__ import annotations

import time
from collections.abc import Callable

from fencepost.harness.api import CallError, Client, Operation, Outcome
from fencepost.workloads.support import outcomes
from fencepost.workloads.support.polling import note

CALL_S = 10.0  # one call of commit, abort or flush
PAUSE_S = 0.05  # before the same call again: some clients answer at once
NEW_PRODUCER = "new-producer"  # of `RECOVERIES`


def committed(op: Operation, client: Client, bound_s: float) -> Outcome:
    """Commit. A refused commit that can be aborted is, and an unconfirmed one where the client's documentation says so.

    bound_s: how long a call that is to be repeated is.
    """
    op.decided = time.monotonic_ns()
    error = decide(op, client.commit, bound_s)
    if error is None:
        return Outcome.OK
    if error.fatal or not (error.abortable or (error.unconfirmed and op.recovery != NEW_PRODUCER)):
        op.renew = True
        return outcomes.judge("commit", error, "not aborted").outcome
    refused = decide(op, client.abort, bound_s)
    op.renew = refused is not None
    after = "not aborted" if refused else "aborted" if error.abortable else "unconfirmed"
    return outcomes.judge("commit", error, after).outcome


def aborted(op: Operation, client: Client, why: CallError | None, bound_s: float) -> Outcome:
    """Abort, on purpose (`why` None) or because a call failed; a fatal error leaves nothing to abort."""
    if why is not None:
        note(op, why)
    if why is not None and why.fatal:
        op.renew = True
    else:
        op.renew = decide(op, client.abort, bound_s) is not None
    return outcomes.judge(why.call if why else "abort", why, "transaction").outcome


def never_begun(op: Operation, error: CallError) -> Outcome:
    """The transaction could not begin: the producer is of no use any more."""
    note(op, error)
    op.renew = True
    return outcomes.judge("begin", error, "transaction").outcome


def decide(op: Operation, call: Callable[[float], None], bound_s: float) -> CallError | None:
    """Call commit or abort, again while the client says that it must be called again; the last error, or None.

    With the recovery `new-producer` it is called once.
    """
    deadline = time.monotonic() + (0.0 if op.recovery == NEW_PRODUCER else bound_s)
    while True:
        try:
            call(CALL_S)
        except CallError as error:
            note(op, error)
            if not error.retriable or time.monotonic() + PAUSE_S > deadline:
                return error
            time.sleep(PAUSE_S)
        else:
            return None


def think(op: Operation) -> None:
    """The pause before the next micro-operation."""
    if op.planned.think_s > 0:  # a sleep of nothing still gives the processor away
        time.sleep(op.planned.think_s)
