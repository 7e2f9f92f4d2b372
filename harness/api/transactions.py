"""Transactions of a cluster, as its coordinators and leaders describe them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fencepost.harness.api.clusters import TransactionState
from fencepost.harness.api.stored_kinds import UNDER_WAY


@dataclass(frozen=True, kw_only=True)
class CoordinatedTransaction(TransactionState):
    """The transaction of a transactional id, as its coordinator has it.

    transactional_id: its transactional id. Of a transaction that is over, only the producer id is known besides.
    """

    transactional_id: str

    @property
    def under_way(self) -> bool:
        return self.state in UNDER_WAY


@dataclass(frozen=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open on a partition, as its leader has it.

    partition: `topic-number`.
    producer_id: id of its producer.
    epoch: epoch of its producer.
    offset: offset of its first record there.
    """

    partition: str
    producer_id: int
    epoch: int
    offset: int


@dataclass(frozen=True, kw_only=True)
class TransactionListing:
    """The answers of all coordinators, and after them of the leaders of some partitions.

    coordinated: the transactions that coordinators have.
    opened: the transactions that leaders have open.
    silent: brokers and partitions without an answer.
    """

    coordinated: tuple[CoordinatedTransaction, ...]
    opened: tuple[OpenTransaction, ...]
    silent: tuple[str, ...] = ()

    @property
    def under_way(self) -> bool:
        """True if any transaction is open or being completed, as far as is known."""
        return bool(self.opened) or any(transaction.under_way for transaction in self.coordinated)


@runtime_checkable
class ListingTransactions(Protocol):
    """A running cluster whose coordinators and leaders can be asked which transactions are under way."""

    def transaction_listing(self, partitions: Iterable[str], within_s: float = 2.0) -> TransactionListing:
        """Ask all brokers what they coordinate, then the leaders of these partitions, each for so long at most."""
