"""The transaction protocol that the producers of a run really spoke, by what the brokers' logs hold.

With the second protocol (KIP-890) the epoch of a producer rises with each transaction; with the first it stays. So two
markers of one producer and one epoch in a partition are the first protocol.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.api.stored_kinds import MARKERS
from fencepost.harness.api.words import plural

NAMES = {1: "TV1 (KIP-98)", 2: "TV2 (KIP-890)"}


def spoken(stored: Path) -> str:
    """`TV1 (KIP-98): 12 producers`, or both with their numbers; empty when the logs do not show it."""
    numbers = producers(stored)
    return ", ".join(f"{NAMES[protocol]}: {plural(count, 'producer')}" for protocol, count in sorted(numbers.items()))


def producers(stored: Path) -> Counter[int]:
    """The number of producers that spoke each protocol; empty when the logs do not show it, or cannot be read."""
    try:
        table = pq.read_table(stored, columns=["partition", "offset", "producer_id", "producer_epoch", "kind"])
    except (OSError, pa.ArrowException):
        return Counter()  # the page says elsewhere what could not be read
    markers = table.filter(pc.is_in(table["kind"], pa.array(MARKERS))).group_by(["partition", "offset", "producer_id"])
    epochs = markers.aggregate([("producer_epoch", "max")])  # the same on every broker
    return Counter(_protocols(epochs).values())


def _protocols(epochs: pa.Table) -> dict[int, int]:
    """Producer id -> protocol, of those with two markers in a partition at least."""
    keys = ["partition", "producer_id", "producer_epoch_max"]
    in_one_epoch = epochs.group_by(keys).aggregate([("offset", "count")])
    in_all = epochs.group_by(keys[:2]).aggregate([("offset", "count")])
    shown = set(in_all.filter(pc.greater(in_all["offset_count"], 1))["producer_id"].to_pylist())
    first = set(in_one_epoch.filter(pc.greater(in_one_epoch["offset_count"], 1))["producer_id"].to_pylist())
    return {producer: 1 if producer in first else 2 for producer in shown}
