"""Versions of requests, as a client of some generation sends them."""

from __future__ import annotations

from collections.abc import Mapping

FIRST, TV1, TV2 = "first", "tv1", "tv2"
PROFILES: Mapping[str, Mapping[str, int]] = {
    FIRST: {  # Kafka 0.11.0, with KIP-98
        "InitProducerId": 0, "AddPartitionsToTxn": 0, "AddOffsetsToTxn": 0, "TxnOffsetCommit": 0, "EndTxn": 0, "Produce": 3,
    },
    TV1: {  # the newest that know no transaction.version 2 (KIP-360, KIP-588, the first part of KIP-890)
        "InitProducerId": 5, "AddPartitionsToTxn": 3, "AddOffsetsToTxn": 4, "TxnOffsetCommit": 4, "EndTxn": 4, "Produce": 11,
    },
    TV2: {  # transaction.version 2 (the second part of KIP-890): an epoch for each transaction
        "InitProducerId": 5, "AddPartitionsToTxn": 3, "AddOffsetsToTxn": 4, "TxnOffsetCommit": 5, "EndTxn": 5, "Produce": 12,
    },
}  # fmt: skip
MEANINGS: Mapping[str, str] = {
    FIRST: "as Kafka 0.11.0 sends them (KIP-98)",
    TV1: "the newest without transaction.version 2 (KIP-360, KIP-588)",
    TV2: "with transaction.version 2 (KIP-890)",
}


def fitted(profile: str, ranges: Mapping[str, tuple[int, int]]) -> tuple[dict[str, int], str]:
    """The versions of a profile, no newer than a cluster takes; and why they cannot be sent, empty when they can.

    ranges: the lowest and highest version of each request that a broker takes.
    """
    chosen = {}
    for name, version in PROFILES[profile].items():
        low, high = ranges.get(name, (-1, -1))
        if high < 0:
            return {}, f"the brokers take no {name}"
        if version < low:
            return {}, f"the brokers take {name} from version {low} on, not {version}"
        chosen[name] = min(version, high)
    if profile == TV2 and chosen["EndTxn"] < PROFILES[TV2]["EndTxn"]:
        return (
            {},
            f"the brokers take EndTxn up to version {chosen['EndTxn']}: transaction.version 2 needs {PROFILES[TV2]['EndTxn']}",
        )
    return chosen, ""
