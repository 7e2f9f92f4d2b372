"""Guards of the machine's transitions: what has to hold of state, request and answer, each with its sentence and its KIP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.checkers.wire.states import FRESH, NO_PRODUCER, Answer, Phase, Request, State

HANDLING = "KIP-98, Transaction Coordinator Request Handling"


@dataclass(frozen=True, slots=True)
class Situation:
    """A request in a state, with its answer. last_epoch: the last epoch that a client gets."""

    state: State
    request: Request
    answer: Answer
    last_epoch: int

    @property
    def exhausted(self) -> bool:
        return self.state.epoch >= self.last_epoch

    def may_have(self, producer: int) -> bool:
        """True if the transactional id has this producer id; where nobody saw which one it was given: may have it."""
        if self.state.producer == FRESH:
            return producer not in (NO_PRODUCER, self.state.last[0])
        return producer == self.state.producer

    @property
    def by_epoch(self) -> bool:
        """True if an EndTxn that comes once more is known by the epoch before (KIP-890)."""
        return self.state.second and self.request.second


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard.

    name: a short name, unique.
    sentence: what holds.
    source: who says so.
    """

    name: str
    sentence: str
    source: str
    holds: Callable[[Situation], bool]


OWN_PRODUCER = Guard(
    "producer",
    "the request names the producer id of the transactional id",
    f"{HANDLING}, step 1 of each request",
    lambda s: s.request.producer == s.state.producer,
)
OTHER_PRODUCER = Guard(
    "other producer",
    "only a request with another producer id than that of the transactional id, or of an id that is not known, is refused for it",
    f"{HANDLING}, step 1 of each request",
    lambda s: s.state.phase is Phase.DEAD or s.request.producer != s.state.producer,
)
OWN_EPOCH = Guard(
    "epoch",
    "the request has the current epoch of the transactional id",
    f"{HANDLING}, step 2 of each request",
    lambda s: s.request.epoch == s.state.epoch,
)
OTHER_EPOCH = Guard(
    "other epoch",
    "only a request with another epoch than the current one is refused for it",
    f"{HANDLING}, step 2 of each request",
    lambda s: s.request.epoch != s.state.epoch,
)
LEFT_PRODUCER = Guard(
    "producer left",
    "the request names the producer id whose epochs were exhausted by the transaction that is being completed",
    "KIP-890, part 2: the next producer id is there when the markers are written",
    lambda s: s.state.second and s.request.producer == s.state.last[0] != s.state.producer,
)
NAMED_EXHAUSTED = Guard(
    "last epoch before a first one",
    "the request has the last epoch of a client, and the transactional id the first one of a producer id",
    "KIP-890, part 2: the epoch before is that of the producer id before",
    lambda s: s.request.epoch == s.last_epoch and s.state.epoch == 0,
)
BEYOND = Guard(
    "beyond the last epoch",
    "the coordinator itself has raised the epoch above the last one that a client gets",
    "KIP-360; KIP-890, part 2",
    lambda s: s.state.epoch > s.last_epoch,
)
SAME_PRODUCER = Guard(
    "producer kept",
    "an id keeps its producer id until its epochs are exhausted, or the id expires",
    f"{HANDLING}, InitProducerId, steps 3 and 4; KIP-360",
    lambda s: s.may_have(s.answer.producer),
)
NEW_PRODUCER = Guard(
    "new producer",
    "a producer id that the transactional id had before is not given again",
    "KIP-98, on producer ids: unique, and never assigned twice",
    lambda s: s.answer.producer not in (s.state.producer, s.state.last[0]),
)
GROWS = Guard(
    "epoch grows",
    "InitProducerId gives a higher epoch than the transactional id had",
    f"{HANDLING}, InitProducerId, step 3",
    lambda s: s.answer.epoch > s.state.epoch,
)
GIVEN_TO_CLIENTS = Guard(
    "epoch of a client",
    "no client gets an epoch above 32766: the coordinator keeps the one above it, to fence",
    "KIP-360",
    lambda s: s.answer.epoch <= s.last_epoch,
)
FIRST_EPOCH = Guard(
    "first epoch",
    "a new producer id begins with epoch 0",
    f"{HANDLING}, InitProducerId, step 3",
    lambda s: s.answer.epoch == 0,
)
EXHAUSTED = Guard(
    "exhausted",
    "a known id gets another producer id only when its epochs are exhausted",
    "KIP-360",
    lambda s: s.exhausted,
)
NAMED_CURRENT = Guard(
    "named current",
    "an InitProducerId that names a producer id and epoch names the current ones",
    "KIP-360: only the latest epoch of a producer may ask for the next",
    lambda s: s.request.producer == NO_PRODUCER or s.request.named == (s.state.producer, s.state.epoch),
)
NAMED_OLD = Guard(
    "named old",
    "only an InitProducerId that names others than the current producer id and epoch is fenced",
    "KIP-360: only the latest epoch of a producer may ask for the next",
    lambda s: s.request.producer != NO_PRODUCER and s.request.named != (s.state.producer, s.state.epoch),
)
NAMED_LAST = Guard(
    "named last",
    "a request that comes once more names the producer id and epoch before the current ones",
    "KIP-360 (InitProducerId); KIP-890 (EndTxn)",
    lambda s: s.request.named == s.state.last and s.request.producer != NO_PRODUCER,
)
ONE_BEFORE = Guard(
    "one epoch before",
    "the request has the epoch before the current one, of the same producer id",
    "KAFKA-20785",
    lambda s: (s.request.producer, s.request.epoch) == (s.state.producer, s.state.epoch - 1),
)
ANSWERED_CURRENT = Guard(
    "current epoch answered",
    "the answer has the current producer id and epoch",
    "KIP-360 (InitProducerId); KIP-890 (EndTxn)",
    lambda s: s.answer.producer == NO_PRODUCER or (s.may_have(s.answer.producer) and s.answer.epoch == s.state.epoch),
)
ANSWERED_NEXT = Guard(
    "next epoch answered",
    "the answer to EndTxn has the next epoch; where epochs are exhausted, a new producer id and epoch 0",
    "KIP-890, part 2: each transaction has an epoch of its own",
    lambda s: (
        (s.answer.producer not in (s.state.producer, s.state.last[0]) and s.answer.epoch == 0)
        if s.exhausted
        else s.answer.named == (s.state.producer, s.state.epoch + 1)
    ),
)
COMMITS = Guard(
    "commit",
    "the request commits",
    f"{HANDLING}, EndTxn, steps 3 and 5: what is decided follows the request",
    lambda s: s.request.committed,
)
ABORTS = Guard(
    "abort",
    "the request aborts",
    f"{HANDLING}, EndTxn, steps 3 and 5: what is decided follows the request",
    lambda s: not s.request.committed,
)
FIRST_PROTOCOL = Guard(
    "first protocol",
    "an EndTxn before version 5 keeps the epoch",
    "KIP-98; KIP-890, part 2",
    lambda s: not s.request.second,
)
SECOND_PROTOCOL = Guard(
    "second protocol", "an EndTxn from version 5 on asks for the next epoch", "KIP-890, part 2", lambda s: s.request.second
)
BY_EPOCH = Guard(
    "repetition by epoch",
    "of a transaction that was ended by the second protocol, an EndTxn that comes once more is known by the epoch before",
    "KIP-890, part 2",
    lambda s: s.by_epoch,
)
BY_DIRECTION = Guard(
    "repetition by direction",
    "of a transaction that was ended by the first protocol, an EndTxn that comes once more has the current epoch",
    f"{HANDLING}, EndTxn, steps 3b and 3c",
    lambda s: not s.by_epoch,
)
INCLUDED = Guard(
    "included",
    "the partitions are in the transaction already",
    "KIP-890: the leader asks the coordinator before the first record",
    lambda s: s.request.partitions <= s.state.partitions,
)
BEGAN = Guard(
    "epoch of the transaction",
    "the record has the epoch in which its transaction began",
    "KIP-98, Coordinator-side Transaction Expiration: leaders refuse an old epoch once they have the marker",
    lambda s: s.request.epoch == s.state.began,
)
