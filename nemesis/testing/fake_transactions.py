"""The transactions of a fake cluster: epochs of transactional ids, and which partitions have an open transaction, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

from fencepost.harness.api import (
    ActiveProducer,
    ClusterError,
    CoordinatedTransaction,
    OpenTransaction,
    TransactionListing,
    TransactionState,
)

FIRST_PRODUCER_ID, LAST_EPOCH = 1000, 32767


class FakeTransactions:
    """`Admin`'s part about transactions. ids: transactional id -> its state; open: partition -> its producers.

    Tests fill both; `begin` opens a transaction as a producer does.
    """

    def __init__(self, done: Callable[[str, object], None]) -> None:
        self._done = done
        self._next = FIRST_PRODUCER_ID
        self.silent: list[str] = []
        self.ids: dict[str, TransactionState] = {}
        self.open: dict[str, tuple[ActiveProducer, ...]] = {}

    def begin(self, transactional_id: str, *partitions: str) -> ActiveProducer:
        """A producer with this id has an open transaction in these partitions."""
        producer_id, epoch = self._initialised(transactional_id)
        self.ids[transactional_id] = replace(
            self.ids[transactional_id], state="Ongoing", started_ms=1, partitions=tuple(partitions)
        )
        producer = ActiveProducer(producer_id=producer_id, epoch=epoch, first_offset=0)
        self.open |= {name: (*self.open.get(name, ()), producer) for name in partitions}
        return producer

    def transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionState]:
        return {name: self.ids[name] for name in transactional_ids if name in self.ids}

    def producers(self, partitions: Iterable[str]) -> dict[str, tuple[ActiveProducer, ...]]:
        return {name: self.open.get(name, ()) for name in partitions}

    def transaction_listing(self, partitions: Iterable[str], within_s: float = 2.0) -> TransactionListing:
        """Nobody is silent but those whom a test adds to `silent`."""
        coordinated = [CoordinatedTransaction(transactional_id=name, **asdict(state)) for name, state in self.ids.items()]
        opened = [
            OpenTransaction(partition=name, producer_id=producer.producer_id, epoch=producer.epoch, offset=producer.first_offset)
            for name in partitions
            for producer in self.open.get(name, ())
            if producer.first_offset is not None
        ]
        return TransactionListing(coordinated=tuple(coordinated), opened=tuple(opened), silent=tuple(self.silent))

    def hang(self, partition: str, producer_id: int = 7) -> ActiveProducer:
        """A transaction is open on a partition, and no coordinator knows of it."""
        producer = ActiveProducer(producer_id=producer_id, epoch=0, first_offset=0)
        self.open[partition] = (*self.open.get(partition, ()), producer)
        return producer

    def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        """The next epoch, or after the last one another producer id; its open transaction ends."""
        self._done("fence_producer", transactional_id)
        return self._initialised(transactional_id)

    def raise_epoch(self, transactional_id: str, epoch: int) -> None:
        while self._initialised(transactional_id)[1] < epoch:
            pass

    def end_transaction(self, transactional_id: str, producer_id: int, epoch: int, commit: bool) -> None:
        """Raises ClusterError unless that producer has an open transaction."""
        self._done("end_transaction", (transactional_id, commit))
        state = self.ids.get(transactional_id)
        if state is None or (state.producer_id, state.epoch, state.state) != (producer_id, epoch, "Ongoing"):
            raise ClusterError(f"the transaction of {transactional_id} was not ended: error 48")
        self._close(producer_id)
        word = "CompleteCommit" if commit else "CompleteAbort"
        self.ids[transactional_id] = replace(state, state=word, started_ms=-1, partitions=())

    def abort_on_partition(self, partition: str, producer: ActiveProducer) -> None:
        self._done("abort_on_partition", partition)
        self.open[partition] = tuple(
            replace(listed, first_offset=None) if listed == producer else listed for listed in self.open[partition]
        )

    def _initialised(self, transactional_id: str) -> tuple[int, int]:
        old = self.ids.get(transactional_id)
        if old is None or old.epoch >= LAST_EPOCH - 1:
            producer_id, epoch, self._next = self._next, 0, self._next + 1
        else:
            producer_id, epoch = old.producer_id, old.epoch + 1
        if old is not None:
            self._close(old.producer_id)
        self.ids[transactional_id] = TransactionState(state="Empty", producer_id=producer_id, epoch=epoch)
        return producer_id, epoch

    def _close(self, producer_id: int) -> None:
        """Its transaction is open nowhere any more."""
        for name, producers in self.open.items():
            self.open[name] = tuple(
                replace(producer, first_offset=None) if producer.producer_id == producer_id else producer
                for producer in producers
            )
