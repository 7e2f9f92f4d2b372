"""The values of the machine: the state of a transactional id at its coordinator, a request about it, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NO_PRODUCER, NO_EPOCH = -1, -1
FRESH = -2
"""A producer id that was given in an answer which nobody saw."""
LAST_EPOCH = 32766
"""The last epoch that a client gets (KIP-360): then its transactional id is given another producer id."""
NONE, BUSY, STATE, MAPPING = "NONE", "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"
FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
Producer = tuple[int, int]
NOBODY: Producer = (NO_PRODUCER, NO_EPOCH)


class Phase(str, Enum):
    """The phase of a transactional id, by Kafka's names of its states.

    UNKNOWN: nothing is known of it. DEAD: the coordinator does not know the id.
    """

    UNKNOWN = "Unknown"
    DEAD = "Dead"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    FENCING = "PrepareEpochFence"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    def __repr__(self) -> str:
        return str(self.value)


IDLE = (Phase.EMPTY, Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT)
"""Phases in which no transaction is open."""
ENDING = (Phase.FENCING, Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT)
"""Phases in which a transaction is decided, and its markers are not all written."""
KNOWN = (Phase.EMPTY, Phase.ONGOING, *ENDING, Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT)
"""Phases of an id that the coordinator knows."""
MAPPED = (Phase.DEAD, *KNOWN)


class Api(str, Enum):
    """A request that changes the state of a transactional id, by Kafka's name."""

    INIT = "InitProducerId"
    PARTITIONS = "AddPartitionsToTxn"
    OFFSETS = "AddOffsetsToTxn"
    PRODUCE = "Produce"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"

    def __repr__(self) -> str:
        return str(self.value)


ADDING = (Api.PARTITIONS, Api.OFFSETS)
"""Requests to the coordinator that add partitions (KIP-98)."""
IMPLYING = (Api.PRODUCE, Api.COMMIT_OFFSETS)
"""Requests to other brokers, which add partitions by themselves (KIP-890)."""
SECOND_FROM = {Api.PRODUCE: 12, Api.COMMIT_OFFSETS: 5, Api.END: 5}
"""Versions of requests from which they belong to the second protocol (KIP-890)."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a transactional id.

    producer, epoch: the producer id, and its epoch.
    last: the producer id and epoch before, by which a repeated request is known (KIP-360, KIP-890), or that a forgotten id had;
        NOBODY: none.
    partitions: those of the transaction.
    began: the epoch in which its records are written.
    second: the transaction was ended by the second protocol, which gave the next epoch.
    """

    phase: Phase
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    last: Producer = NOBODY
    partitions: frozenset[str] = frozenset()
    began: int = NO_EPOCH
    second: bool = False

    def __str__(self) -> str:
        if self.phase in (Phase.UNKNOWN, Phase.DEAD):
            return str(self.phase.value)
        return f"{self.phase.value} (producer id {self.producer} in epoch {self.epoch})"


UNKNOWN, DEAD = State(Phase.UNKNOWN), State(Phase.DEAD)


@dataclass(frozen=True, slots=True)
class Request:
    """A request about a transactional id.

    producer, epoch: of an InitProducerId those that its sender had; none, of one that begins.
    committed: of an EndTxn.
    partitions: those that are added or written to; `group NAME` for the offsets of a group.
    """

    api: Api
    version: int = 0
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    committed: bool = False
    partitions: frozenset[str] = frozenset()

    @property
    def named(self) -> Producer:
        return self.producer, self.epoch

    @property
    def second(self) -> bool:
        """True if it belongs to the second protocol (KIP-890)."""
        return self.api in SECOND_FROM and self.version >= SECOND_FROM[self.api]

    def __str__(self) -> str:
        direction = {True: " (commit)", False: " (abort)"}[self.committed] if self.api is Api.END else ""
        what = f" of {', '.join(sorted(self.partitions))}" if self.partitions else ""
        who = f" by producer id {self.producer} in epoch {self.epoch}" if self.producer != NO_PRODUCER else ""
        return f"{self.api.value}{direction}{what}{who}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. producer, epoch: of InitProducerId and of EndTxn from version 5."""

    error: str = NONE
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH

    @property
    def named(self) -> Producer:
        return self.producer, self.epoch

    def __str__(self) -> str:
        given = f" with producer id {self.producer} and epoch {self.epoch}" if self.producer != NO_PRODUCER else ""
        return f"{self.error}{given}"
