"""Abort transaction: an operator writes an abort marker into a partition, as `kafka-transactions.sh abort` does (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from typing import Any, ClassVar, Literal

from fencepost.harness.api import (
    ActiveProducer,
    Cluster,
    ClusterError,
    ClusterView,
    ListingTransactions,
    OpenTransaction,
    Receipt,
    clock,
)
from fencepost.nemesis.support import placement
from fencepost.nemesis.support.attempts import answer_or, attempt_each
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error

CONFIRMED_S = 1.0  # between the two looks that have to find the same transaction hanging


@dataclass(frozen=True, kw_only=True)
class AbortTransaction:
    """Writes an abort marker for a transaction that is open on a partition; its leader does, and the coordinator learns nothing.

    KIP-664 gives operators this for *hanging* transactions: open on a partition, while their coordinator knows of none there.
    Such a one is aborted safely, and no promise is weakened. `of = "open"` aborts what is under way all the same, as an operator
    may by mistake: then the transaction commits without those records. Whoever asks for it has to put
    `operator_aborts = "open"` into the test's contract. Evidence: the producers' open transactions before and during; `aborts`:
    on which partition, and when the marker was asked for (CLOCK_MONOTONIC ns).
    """

    needs: ClassVar[tuple[type, ...]] = (ListingTransactions,)
    of_transactions: ClassVar[bool] = True  # it aims at transactional ids of the workload

    target: str = "all"  # the partitions whose transactions are looked at: random (one), all, partition:orders-0
    of: Literal["hanging", "open"] = "hanging"  # which transactions are aborted; one of them each time

    def __post_init__(self) -> None:
        placement.check(self.target)

    def demanded_contract(self) -> Mapping[str, str]:
        """See `harness.api.DemandsContract`."""
        return {"operator_aborts": "open"} if self.of == "open" else {}

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Find one, and write the marker."""
        with no_target_on_error(self.target):
            candidates = self._matching(cluster, placement.find(self.target, cluster, rng))
            if not candidates:
                raise ClusterError(f"no transaction is {self.of}")
            chosen = rng.choice(candidates)
            before = open_producers(cluster, chosen.partition)
            producer = _producer_of(chosen, before)
        call = {"partition": chosen.partition, "began_ns": time.monotonic_ns()}
        problems = attempt_each(partial(cluster.admin().abort_on_partition, chosen.partition), [producer])
        during = open_producers(cluster, chosen.partition)
        effective = not problems and _offset_of(producer, during) != producer.first_offset
        return Receipt(
            role=self.target,
            targets=_leader(cluster, chosen.partition),
            evidence={
                "before": {chosen.partition: [asdict(listed) for listed in before]},
                "during": {chosen.partition: [asdict(listed) for listed in during]},
                "aborted": asdict(producer),
                "aborts": [call],
            },
            effective=effective,
            note="; ".join(problems) or ("" if effective else f"the transaction is still open on {chosen.partition}"),
        )

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Look once more; a marker cannot be taken back."""
        after = {
            name: [asdict(listed) for listed in open_producers(cluster, name)] for name in receipt.evidence.get("during", ())
        }
        return healed(receipt, {"after": after}, [])

    def _matching(self, cluster: Any, partitions: Sequence[str]) -> list[OpenTransaction]:
        """Open transactions that are meant: all, or those that two looks find hanging."""
        matching = _listed(cluster, partitions, self.of)
        if self.of == "hanging" and matching:
            clock.sleep(CONFIRMED_S)
            again = _listed(cluster, partitions, self.of)
            matching = [transaction for transaction in matching if transaction in again]
        return matching


def _listed(cluster: ListingTransactions, partitions: Sequence[str], of: str) -> list[OpenTransaction]:
    """Open transactions of partitions, all or those without a coordinator. Raises ClusterError where a coordinator is silent."""
    listing = cluster.transaction_listing(partitions)
    if of == "open":
        return list(listing.opened)
    if listing.silent:
        raise ClusterError(f"whether a transaction hangs is not known: no answer from {', '.join(listing.silent)}")
    under_way = {transaction.producer_id for transaction in listing.coordinated if transaction.under_way}
    return [transaction for transaction in listing.opened if transaction.producer_id not in under_way]


def open_producers(cluster: Cluster, partition: str) -> list[ActiveProducer]:
    """The producers with an open transaction on a partition, by its leader; none when nobody answers."""
    producers = answer_or({}, cluster.admin().producers, [partition]).get(partition, ())
    return [producer for producer in producers if producer.first_offset is not None]


def _producer_of(chosen: OpenTransaction, producers: Sequence[ActiveProducer]) -> ActiveProducer:
    """The producer of an open transaction. Raises ClusterError when it has none any more."""
    for producer in producers:
        if (producer.producer_id, producer.epoch, producer.first_offset) == (chosen.producer_id, chosen.epoch, chosen.offset):
            return producer
    raise ClusterError(f"the transaction on {chosen.partition} has ended meanwhile")


def _offset_of(producer: ActiveProducer, producers: Sequence[ActiveProducer]) -> int | None:
    return next((candidate.first_offset for candidate in producers if candidate.producer_id == producer.producer_id), None)


def _leader(cluster: Cluster, partition: str) -> tuple[str, ...]:
    topic, _, number = partition.rpartition("-")
    leader = answer_or("", cluster.roles().leader, topic, int(number))
    return (leader,) if leader else ()
