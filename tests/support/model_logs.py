"""The logs of the small model of brokers (`support.broker_model`) as rows of `stored.parquet`."""

from __future__ import annotations

from support.client_model import ModelHistory
from support.log_model import LogModel


def with_logs(history: ModelHistory) -> LogModel:
    """A history of the model with what its brokers have in their logs: `judged` judges both. Coordinators' logs are not kept."""
    m = LogModel()
    m.h.ops = history.ops
    producers = {name: number for number, name in enumerate(history.brokers.ids)}
    for partition, entries in history.brokers.logs.items():
        for entry in entries:
            producer = producers.get(entry.owner, -1)
            if entry.v is None:
                kind = "COMMIT" if entry.committed else "ABORT"
                m.append(partition, kind, True, producer_id=producer, producer_epoch=entry.epoch, coordinator_epoch=0)
            elif entry.owner is None:
                m.append(partition, "record", False, v=entry.v)
            else:
                m.record(partition, producer, entry.epoch)["v"] = entry.v
    return m
