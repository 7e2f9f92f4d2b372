"""Stands for the package aiokafka.

A consumer that finds the start of its partition only after it was asked for metadata, and a producer whose record `lost` fails.
"""

import asyncio
from typing import NamedTuple

__version__ = "0"
ConsumerRebalanceListener = object


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class OutOfOrderSequenceNumber(Exception):
    errno = 45


class Sent(NamedTuple):
    partition: int
    offset: int


class AIOKafkaProducer:
    def __init__(self, *, bootstrap_servers=None, client_id=None, transactional_id=None, request_timeout_ms=1):
        self.client = self._sender = self

    async def start(self):
        pass

    async def begin_transaction(self):
        pass

    async def send(self, topic, value, key, partition, timestamp, headers):
        fate = asyncio.get_running_loop().create_future()
        if value == b"lost":
            fate.set_exception(OutOfOrderSequenceNumber())
        else:
            fate.set_result(Sent(partition, 3))
        return fate

    async def flush(self):
        pass

    commit_transaction = abort_transaction = close = flush


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
