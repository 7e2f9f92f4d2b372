"""Requests to the brokers of a cluster, at chosen versions: who is the coordinator, and what a broker answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.guarded import GuardedAddress, guarded_address
from fencepost.clusters.probe.messages import Messages
from fencepost.harness.api import ClusterError

ASK_S, WITHIN_S, PAUSE_S = 5.0, 20.0, 0.02
APIS: Mapping[str, int] = {
    "Produce": 0,
    "Metadata": 3,
    "FindCoordinator": 10,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
    "DescribeTransactions": 65,
}
MOVED = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_LEADER_OR_FOLLOWER")
BUSY = "CONCURRENT_TRANSACTIONS"
TRANSACTION, GROUP = protocol.TRANSACTION, protocol.GROUP
_METADATA, _DESCRIBE = 7, 0  # versions that every broker from 3.0 on has
FEATURE = "transaction.version"


class Unreached(ClusterError):
    """The situation of an answer cannot be brought about on this cluster, or not at these versions."""


@dataclass(frozen=True)
class Wire:
    """A cluster's brokers.

    bootstrap: `host:port`, several with commas.
    settings: settings of clients of librdkafka by which brokers are reached (TLS, SASL).
    versions: version of each request that is sent, by its name.
    """

    messages: Messages
    bootstrap: str
    settings: Mapping[str, Any] = field(repr=False)
    versions: Mapping[str, int] = field(default_factory=dict)
    _known: dict[str, GuardedAddress] = field(default_factory=dict, repr=False)

    def ask(self, place: GuardedAddress, name: str, version: int | None = None, /, **fields: Any) -> dict[str, Any]:
        """The fields of a broker's response. Raises OSError, UnknownMessage."""
        api, chosen = APIS[name], self.versions[name] if version is None else version
        encoded = self.messages.request(api, chosen, fields)
        reply = protocol.ask(place, api, chosen, encoded.body, ASK_S, encoded.flexible, encoded.plain_reply)
        return self.messages.response(api, chosen, reply.rest())

    def first(self) -> GuardedAddress:
        """A broker that answers, always the same one. Raises ClusterError."""
        if "" not in self._known:
            self._known[""] = self._answering()
        return self._known[""]

    def _answering(self) -> GuardedAddress:
        problem = "no broker is named"
        for place in (guarded_address(text.strip(), self.settings) for text in self.bootstrap.split(",")):
            try:
                protocol.metadata(place)
            except OSError as error:
                problem = f"{place.host}:{place.port}: {error}"
            else:
                return place
        raise ClusterError(f"no broker of {self.bootstrap} answers; {problem}")

    def brokers(self) -> dict[int, GuardedAddress]:
        """The brokers by their ids."""
        rows = self.ask(self.first(), "Metadata", _METADATA, topics=[])["brokers"]
        return {row["nodeId"]: GuardedAddress(row["host"], row["port"], self.settings) for row in rows}

    def leader(self, topic: str, number: int) -> GuardedAddress:
        """The leader of a partition, as it was when it was first asked for. Raises ClusterError while there is none."""
        name = f"{topic}-{number}"
        if name not in self._known:
            leaders = [one.leader for one in protocol.metadata(self.first()).partitions if one.name == name]
            brokers = self.brokers()
            if not leaders or leaders[0] not in brokers:
                raise ClusterError(f"{name} has no leader")
            self._known[name] = brokers[leaders[0]]
        return self._known[name]

    def coordinator(self, kind: int, key: str, anew: bool = False) -> GuardedAddress:
        """The coordinator of a transactional id or a group, as soon as there is one; asked for once, and `anew`.

        Raises ClusterError.
        """
        name = f"{kind} {key}"
        if anew or name not in self._known:
            self._known[name] = self._found(kind, key)
        return self._known[name]

    def _found(self, kind: int, key: str) -> GuardedAddress:
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                return self.brokers()[protocol.find_coordinator(self.first(), kind, key)]
            except (protocol.WireError, KeyError) as error:
                if time.monotonic() > deadline:
                    raise ClusterError(f"no coordinator of {key} within {WITHIN_S:g} s: {error}") from error
            time.sleep(PAUSE_S)

    def described(self, transactional_id: str) -> dict[str, Any]:
        """A transactional id as its coordinator describes it (KIP-664): `transactionState`, `producerId`, `producerEpoch`."""
        place = self.coordinator(TRANSACTION, transactional_id)
        answer = self.ask(place, "DescribeTransactions", _DESCRIBE, transactionalIds=[transactional_id])
        row: dict[str, Any] = answer["transactionStates"][0]
        return row

    def ranges(self) -> dict[str, tuple[int, int]]:
        """The lowest and the highest version of each request that a broker takes."""
        answer = self.ask(self.first(), "ApiVersions", 0)
        known = {row["apiKey"]: (row["minVersion"], row["maxVersion"]) for row in answer["apiKeys"]}
        return {name: known[key] for name, key in APIS.items() if key in known}

    def transaction_version(self) -> int:
        """The cluster's `transaction.version` (KIP-890); 0: it has none."""
        return protocol.features(self.first()).get(FEATURE, 0)
