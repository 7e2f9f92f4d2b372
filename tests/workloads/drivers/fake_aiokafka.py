"""Stands for the package aiokafka: a consumer that finds the start of its partition only after it was asked for metadata."""

import asyncio
from typing import NamedTuple

__version__ = "0"
AIOKafkaProducer = ConsumerRebalanceListener = object


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class State:
    highwater, lso, position = 7, 7, 7
    has_valid_position = False


class Assignment:
    active = True
    state = State()

    def __init__(self, partitions):
        self.tps = partitions

    def state_value(self, partition):
        return self.state


class AIOKafkaConsumer:
    def __init__(self, *, bootstrap_servers=None, client_id=None, group_id=None, enable_auto_commit=True, request_timeout_ms=1):
        self.subscription, self.assignment, self.refreshed = self, None, asyncio.Event()
        self._subscription = self._client = self

    async def start(self):
        pass

    def assign(self, partitions):
        self.assignment = Assignment(partitions)

    async def seek_to_beginning(self, partition):
        await self.refreshed.wait()
        self.assignment.state.has_valid_position = True

    def force_metadata_update(self):
        self.refreshed.set()

    async def getmany(self, timeout_ms, max_records):
        await asyncio.sleep(timeout_ms / 1000)
        return {}

    async def close(self):
        pass
