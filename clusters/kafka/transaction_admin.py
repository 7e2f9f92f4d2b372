"""The part of `Admin` that is about transactions: what coordinators and leaders know of them, and what operators do to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from fencepost.clusters.kafka import protocol_transactions as protocol
from fencepost.clusters.kafka.protocol import Place
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.harness.api import ActiveProducer, ClusterError, TransactionState

T = TypeVar("T")

_ASK_S, _LOOK_S, _WITHIN_S, _PAUSE_S = 3.0, 1.0, 8.0, 0.05
_FENCING_TIMEOUT_MS = 6000  # below every broker's transaction.max.timeout.ms


class TransactionAdmin:
    """Asks coordinators and leaders, found anew each time; while they move, again until 8 s have passed."""

    _roles: WireRoles

    def transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionState]:
        states: dict[str, TransactionState] = {}
        for name in transactional_ids:
            states |= self._of_coordinator(name, partial(protocol.describe_transactions, ids=[name], timeout_s=_LOOK_S))
        return states

    def producers(self, partitions: Iterable[str]) -> dict[str, tuple[ActiveProducer, ...]]:
        return {
            name: self._of_leader(
                name, lambda address, topic, number: protocol.describe_producers(address, topic, number, _LOOK_S)
            )
            for name in partitions
        }

    def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        return self._of_coordinator(
            transactional_id, lambda address: protocol.init_producer(address, transactional_id, _FENCING_TIMEOUT_MS, _ASK_S)
        )

    def raise_epoch(self, transactional_id: str, epoch: int) -> None:
        current = -1
        while current < epoch:
            current = self._of_coordinator(transactional_id, partial(_raised, transactional_id=transactional_id, epoch=epoch))

    def end_transaction(self, transactional_id: str, producer_id: int, epoch: int, commit: bool) -> None:
        self._of_coordinator(
            transactional_id,
            lambda address: protocol.end_transaction(address, transactional_id, (producer_id, epoch), commit, _ASK_S),
        )

    def abort_on_partition(self, partition: str, producer: ActiveProducer) -> None:
        self._of_leader(
            partition, lambda address, topic, number: protocol.write_abort_marker(address, topic, number, producer, _ASK_S)
        )

    def _of_leader(self, partition: str, call: Callable[[Place, str, int], T]) -> T:
        topic, _, number = partition.rpartition("-")
        return self._again(lambda: call(self._roles.brokers[self._roles.leader(topic, int(number))], topic, int(number)))

    def _of_coordinator(self, transactional_id: str, call: Callable[[Place], T]) -> T:
        return self._again(lambda: call(self._roles.brokers[self._roles.transaction_coordinator(transactional_id)]))

    def _again(self, call: Callable[[], T]) -> T:
        """The answer, or ClusterError; asked again while a refusal is temporary, never after silence, which may mean done."""
        deadline = time.monotonic() + _WITHIN_S
        while True:
            try:
                return call()
            except protocol.RefusedError as error:
                if error.code not in protocol.RETRIABLE or time.monotonic() > deadline:
                    raise ClusterError(str(error)) from error
            except OSError as error:
                raise ClusterError(f"no answer about a transaction: {error}") from error
            time.sleep(_PAUSE_S)


def _raised(address: Place, transactional_id: str, epoch: int) -> int:
    """The epoch that an id has when it has been initialised often enough, by one coordinator as long as it answers."""
    while True:
        _, current = protocol.init_producer(address, transactional_id, _FENCING_TIMEOUT_MS, _ASK_S)
        if current >= epoch:
            return current
