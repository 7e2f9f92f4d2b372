"""Occasions that several checks need alike (`Check.occasions`): any one of them may break the promise."""

from __future__ import annotations

from fencepost.harness.api.occasions import Occasion

LEADERS = (Occasion.LEADER_MOVED, Occasion.SERVER_STRUCK)
"""What is in a log, and where: a new leader may lack it, or have something else there."""
SENDING = (*LEADERS, Occasion.CLIENT_STRUCK)
"""Requests that are sent again, to the same leader or to another one."""
READING = (*SENDING, Occasion.GROUP_REBALANCED)
"""Readers that go on elsewhere, or at another position."""
READING_PAST_ABORTS = (Occasion.TRANSACTION_ABORTED, *READING)
"""Readers that leave something out, as they do with what is aborted."""
WORK = (
    Occasion.INSTANCE_DIED,
    Occasion.WORK_ABORTED,
    Occasion.WORK_UNANSWERED,
    Occasion.WORK_SUPERSEDED,
    Occasion.GROUP_REBALANCED,
)
"""Work that somebody has to take up again: the same instance or another one."""
LEFT_OPEN = (Occasion.CLIENT_DIED, Occasion.INSTANCE_DIED, Occasion.COORDINATOR_MOVED, Occasion.SERVER_STRUCK)
"""Transactions of which nobody may take care any more."""
DECIDING = (
    *(Occasion.COORDINATOR_MOVED, Occasion.LEADER_MOVED, Occasion.SERVER_STRUCK),
    *(Occasion.CLIENT_DIED, Occasion.COMMIT_UNANSWERED, Occasion.PRODUCER_FENCED),
)
"""Decisions that a coordinator has to take up again, or to take for a producer that is gone."""
STRUCK = (Occasion.CLIENT_STRUCK, Occasion.SERVER_STRUCK)
"""Workers of Kafka Connect, or anybody, that have to start again or to wait."""
