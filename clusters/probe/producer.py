"""A producer that is nothing but its requests: it sends what it is asked to, in order or not, and returns the names of errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fencepost.clusters.kafka.guarded import GuardedAddress
from fencepost.clusters.probe.wire import BUSY, GROUP, MOVED, PAUSE_S, TRANSACTION, WITHIN_S, Unreached, Wire
from fencepost.harness.api import ClusterError

OK = "NONE"
TIMEOUT_MS = 10_000
_BATCHED = 4  # from this version on AddPartitionsToTxn is the brokers' own (KIP-890)
_TOPIC_IDS = 13  # from this version on Produce names topics by their ids (KIP-516)


@dataclass(frozen=True)
class Producer:
    """A transactional id with a producer id and an epoch, whether a coordinator has given them or not.

    topic: the topic that it writes to.
    group: the consumer group whose offsets it commits.
    """

    wire: Wire
    name: str
    topic: str
    group: str
    producer_id: int = -1
    epoch: int = -1

    # ---- requests: each returns the name of the error, or `NONE`

    def initialise(self, timeout_ms: int = TIMEOUT_MS, **fields: Any) -> tuple[str, Producer]:
        """InitProducerId, again while the transaction before is being ended; the error, and the producer afterwards."""
        answer = self._patient(
            "InitProducerId",
            dict(transactionalId=self.name, transactionTimeoutMs=timeout_ms, **fields),
            lambda row: row["errorCode"],
        )
        return answer[0], replace(self, producer_id=answer[1]["producerId"], epoch=answer[1]["producerEpoch"])

    def add_partitions(self, *numbers: int, patient: bool = True) -> str:
        """AddPartitionsToTxn."""
        topics = [{"name": self.topic, "partitions": list(numbers)}]
        own = {
            "v3AndBelowTransactionalId": self.name,
            "v3AndBelowProducerId": self.producer_id,
            "v3AndBelowProducerEpoch": self.epoch,
            "v3AndBelowTopics": topics,
        }
        if self.wire.versions["AddPartitionsToTxn"] >= _BATCHED:
            raise Unreached("AddPartitionsToTxn from version 4 on is sent by brokers only (KIP-890)")
        return self._patient("AddPartitionsToTxn", own, _of_partition, patient)[0]

    def add_offsets(self, patient: bool = True) -> str:
        """AddOffsetsToTxn."""
        fields = {**self._identity(), "groupId": self.group}
        return self._patient("AddOffsetsToTxn", fields, lambda row: row["errorCode"], patient)[0]

    def end(self, commit: bool, patient: bool = True) -> tuple[str, Producer]:
        """EndTxn; the error, and the producer afterwards: from version 5 on it has another epoch (KIP-890)."""
        fields = {**self._identity(), "committed": commit}
        name, answer = self._patient("EndTxn", fields, lambda row: row["errorCode"], patient)
        if name == OK and answer.get("producerEpoch", -1) >= 0:
            return name, replace(self, producer_id=answer["producerId"], epoch=answer["producerEpoch"])
        return name, self

    def produce(self, number: int, sequence: int) -> tuple[str, int]:
        """Produce of one transactional record; the error, and its offset."""
        if self.wire.versions["Produce"] >= _TOPIC_IDS:
            raise Unreached("Produce from version 13 on names topics by their ids: choose 12 or less")
        records = self.wire.messages.batch(self.producer_id, self.epoch, sequence, f"{self.name} {sequence}")
        place = self.wire.leader(self.topic, number)
        partition = {"index": number, "records": records}
        fields = {"transactionalId": self.name, "acks": -1, "timeoutMs": 5000}
        answer = self.wire.ask(place, "Produce", **fields, topicData=[{"name": self.topic, "partitionData": [partition]}])
        row = answer["responses"][0]["partitionResponses"][0]
        return self.wire.messages.error(row["errorCode"]), row["baseOffset"]

    def commit_offsets(self) -> str:
        """TxnOffsetCommit of one offset."""
        offset = {"partitionIndex": 0, "committedOffset": 1, "committedLeaderEpoch": -1, "committedMetadata": None}
        if self.wire.versions["TxnOffsetCommit"] < 2:
            del offset["committedLeaderEpoch"]
        topics = [{"name": self.topic, "partitions": [offset]}]
        place = self.wire.coordinator(GROUP, self.group)
        answer = self.wire.ask(place, "TxnOffsetCommit", **self._identity(), groupId=self.group, topics=topics)
        return self.wire.messages.error(answer["topics"][0]["partitions"][0]["errorCode"])

    # ---- how it gets into a situation

    def ready(self, timeout_ms: int = TIMEOUT_MS) -> Producer:
        """The producer after a successful InitProducerId. Raises Unreached."""
        name, made = self.initialise(timeout_ms)
        return made if _reached(name, f"InitProducerId of {self.name}") else self

    def begun(self, *numbers: int) -> Producer:
        """The same after a successful AddPartitionsToTxn. Raises Unreached."""
        _reached(self.add_partitions(*(numbers or (0,))), "AddPartitionsToTxn")
        return self

    def ended(self, commit: bool) -> Producer:
        """The producer of a transaction whose EndTxn succeeded and is complete. Raises Unreached."""
        name, after = self.end(commit)
        _reached(name, "EndTxn")
        self.await_state("CompleteCommit" if commit else "CompleteAbort", "Empty")
        return after

    def state(self) -> str:
        """The state of its transaction, as its coordinator describes it: `Ongoing`, `CompleteCommit`."""
        return str(self.wire.described(self.name)["transactionState"])

    def await_state(self, *states: str) -> str:
        """Wait for one of these states. Raises Unreached after 20 s."""
        deadline = time.monotonic() + WITHIN_S
        while (state := self.state()) not in states:
            if time.monotonic() > deadline:
                raise Unreached(f"the transaction was {state} for {WITHIN_S:g} s, not {' or '.join(states)}")
            time.sleep(PAUSE_S)
        return state

    def _identity(self) -> dict[str, Any]:
        return {"transactionalId": self.name, "producerId": self.producer_id, "producerEpoch": self.epoch}

    def _patient(
        self, request: str, fields: dict[str, Any], code: Callable[[dict[str, Any]], int], patient: bool = True
    ) -> tuple[str, dict[str, Any]]:
        """The answer of the coordinator, asked again while it moves, and if `patient` while it ends a transaction."""
        deadline, moved = time.monotonic() + WITHIN_S, False
        while True:
            answer = self.at(self.wire.coordinator(TRANSACTION, self.name, anew=moved), request, fields)
            name = self.wire.messages.error(code(answer))
            moved = name in MOVED
            if name not in (*MOVED, *([BUSY] if patient else [])) or time.monotonic() > deadline:
                return name, answer
            time.sleep(PAUSE_S)

    def at(self, place: GuardedAddress, request: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The answer of one broker. Raises ClusterError when there is none."""
        try:
            return self.wire.ask(place, request, **fields)
        except OSError as error:
            raise ClusterError(f"{request}: no answer of {place.host}:{place.port}: {error}") from error


def _of_partition(answer: dict[str, Any]) -> int:
    """The error code of the first partition that has one, in a response of AddPartitionsToTxn."""
    rows = [row for topic in answer["resultsByTopicV3AndBelow"] for row in topic["resultsByPartition"]]
    codes = [int(row["partitionErrorCode"]) for row in rows]
    return next((code for code in codes if code), 0)


def _reached(name: str, what: str) -> bool:
    if name != OK:
        raise Unreached(f"{what} was answered {name}")
    return True
