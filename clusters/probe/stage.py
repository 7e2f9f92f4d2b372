"""Where a probe takes place: a topic, and transactional ids of its own for each occasion."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fencepost.clusters.probe.producer import OK, Producer
from fencepost.clusters.probe.wire import TRANSACTION, Unreached, Wire

ATTEMPTS = 40  # to catch a transaction between its decision and its end
UNKNOWN_ID = 1 << 40  # a producer id that no coordinator has given


@dataclass(frozen=True)
class Stage:
    """The topic, and the prefix of transactional ids and of the group.

    partitions: how many the topic has.
    profile: name of the request versions (`profiles.PROFILES`).
    """

    wire: Wire
    topic: str
    partitions: int
    prefix: str
    profile: str
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def stranger(self) -> Producer:
        """A producer whose transactional id no coordinator knows."""
        name = f"{self.prefix}{self.profile}-{next(self._numbers)}"
        return Producer(self.wire, name, self.topic, f"{self.prefix}group", UNKNOWN_ID, 0)

    def producer(self) -> Producer:
        """An initialised producer with a transactional id of its own."""
        return self.stranger().ready()

    def zombie(self, begun: bool = False) -> Producer:
        """A producer whose transactional id has been initialised once more since."""
        old = self.producer()
        if begun:
            old.begun()
        old.ready()
        return old

    def misnamed(self) -> Producer:
        """A producer with the right transactional id, and the producer id of another one."""
        other = self.producer()
        return replace(self.producer(), producer_id=other.producer_id)

    def early(self) -> Producer:
        """A producer with an epoch that its coordinator has not given yet."""
        own = self.producer()
        return replace(own, epoch=own.epoch + 5)

    def deciding(self, commit: bool) -> Iterator[Producer]:
        """Producers whose EndTxn has just been answered, and whose markers may not all be written yet."""
        for _ in range(ATTEMPTS):
            producer = self.producer().begun(*range(self.partitions))
            name, after = producer.end(commit)
            if name == OK:
                yield after
                after.end(False)  # where the request came too late, it may have begun another transaction

    def elsewhere(self, producer: Producer) -> str:
        """The answer to InitProducerId of a broker that is not the coordinator. Raises Unreached if there is one broker."""
        own = self.wire.coordinator(TRANSACTION, producer.name)
        others = [place for place in self.wire.brokers().values() if (place.host, place.port) != (own.host, own.port)]
        if not others:
            raise Unreached("the cluster has one broker, which coordinates everything")
        fields = {"transactionalId": producer.name, "transactionTimeoutMs": 10_000}
        return self.wire.messages.error(producer.at(others[0], "InitProducerId", fields)["errorCode"])


def caught(answers: Iterator[str]) -> str:
    """The first answer that shows that the transaction was being ended. Raises Unreached when every one came too late."""
    seen = set()
    for answer in answers:
        if answer != OK:
            return answer
        seen.add(answer)
    raise Unreached(f"every transaction of {ATTEMPTS} was over before the next request came (answered {', '.join(sorted(seen))})")
