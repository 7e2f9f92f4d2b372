"""The transactions that are under way, asked of every coordinator and of the leader of every partition (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.clusters.kafka import protocol_transactions as protocol
from fencepost.clusters.kafka.protocol import Place, WireError
from fencepost.clusters.kafka.roles import WireRoles, ask_all
from fencepost.harness.api import (
    ActiveProducer,
    ClusterError,
    CoordinatedTransaction,
    OpenTransaction,
    TransactionListing,
    TransactionState,
)
from fencepost.harness.api.stored_kinds import UNDER_WAY


def transaction_listing(roles: WireRoles, partitions: Iterable[str], within_s: float) -> TransactionListing:
    """Ask all brokers what they coordinate, and then the leaders of these partitions what is open there."""
    wanted = list(partitions)
    answers = ask_all(lambda address: _coordinated(address, within_s), roles.brokers)
    silent = [node for node in roles.brokers if node not in answers]
    opened = _opened(roles, set(wanted), within_s) if wanted else {}
    return TransactionListing(
        coordinated=tuple(transaction for answer in answers.values() for transaction in answer),
        opened=tuple(transaction for some in opened.values() for transaction in some),
        silent=(*silent, *(partition for partition in wanted if partition not in opened)),
    )


def _coordinated(address: Place, within_s: float) -> list[CoordinatedTransaction]:
    """The transactions that a broker coordinates; of those under way all details. Raises OSError, also if any has just moved."""
    listed = protocol.list_transactions(address, within_s)
    ids = [name for name, (state, _) in listed.items() if state in UNDER_WAY]
    described = protocol.describe_transactions(address, ids, within_s) if ids else {}
    if gone := [name for name in ids if name not in described]:
        raise WireError(f"{', '.join(gone)} not told")
    made = {name: TransactionState(state=state, producer_id=number, epoch=-1) for name, (state, number) in listed.items()}
    return [CoordinatedTransaction(transactional_id=name, **vars(state)) for name, state in {**made, **described}.items()]


def _opened(roles: WireRoles, wanted: set[str], within_s: float) -> dict[str, list[OpenTransaction]]:
    """The open transactions on partitions, without partitions whose leader does not answer."""
    try:
        known = [each for each in roles.partitions().values() if each.name in wanted and each.leader in roles.names]
    except ClusterError:
        return {}
    led: dict[Place, list[tuple[str, int]]] = {}
    for partition in known:
        led.setdefault(roles.brokers[roles.names[partition.leader]], []).append((partition.topic, partition.number))
    leaders = {str(address): address for address in led}
    answers = ask_all(lambda address: protocol.producers_of(address, led[address], within_s), leaders)
    by_partition = {name: pair for answer in answers.values() for name, pair in answer.items()}
    return {name: _open_on(name, producers) for name, (error, producers) in by_partition.items() if not error}


def _open_on(partition: str, producers: Iterable[ActiveProducer]) -> list[OpenTransaction]:
    return [
        OpenTransaction(partition=partition, producer_id=producer.producer_id, epoch=producer.epoch, offset=producer.first_offset)
        for producer in producers
        if producer.first_offset is not None
    ]
