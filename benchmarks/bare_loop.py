"""The bare loop, a program without fencepost on the same cluster: confluent-kafka, and two readings of the clock.

`python -m benchmarks.bare_loop ORDERS` (JSON, the fields of `Orders`) says `ready` when its producer is open, begins at the
first line on standard input, ends at the second, and then writes `[ended, latency, lead]` of each operation (nanoseconds of
CLOCK_MONOTONIC; `lead` is from the operation's begin to its first record) to the file that it was given.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer

CALL_S = 10.0
KEY = b"0/123456"


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The orders of a bare loop: `records` of `size` bytes per operation, in a transaction when there is a `transactional.id`."""

    producer: Mapping[str, Any]
    topic: str
    partitions: int
    records: int
    size: int
    out: str


def transaction(producer: Producer, orders: Orders, rng: Random) -> int:
    """One transaction over as many partitions as possible, as the workload `transactions` does; when its first record left."""
    value = b"." * orders.size
    partitions = rng.sample(range(orders.partitions), min(orders.records, orders.partitions))
    partitions += rng.choices(range(orders.partitions), k=orders.records - len(partitions))
    producer.begin_transaction()
    first = time.monotonic_ns()
    for partition in partitions:
        producer.produce(orders.topic, value, KEY, partition)
        producer.poll(0)
    producer.commit_transaction(CALL_S)
    return first


def burst(producer: Producer, orders: Orders, rng: Random) -> int:
    """Records to one partition and the wait for their answers, as the workload `idempotent` does."""
    value = b"." * orders.size
    partition = rng.randrange(orders.partitions)
    first = time.monotonic_ns()
    for _ in range(orders.records):
        producer.produce(orders.topic, value, KEY, partition)
        producer.poll(0)
    if producer.flush(CALL_S):
        raise TimeoutError(f"records without an answer after {CALL_S:.0f} s")
    return first


def loop(operation: Callable[[], int], stop: threading.Event) -> list[tuple[int, int, int]]:
    """One operation after the other until it is stopped."""
    done = []
    while not stop.is_set():
        began = time.monotonic_ns()
        first = operation()
        ended = time.monotonic_ns()
        done.append((ended, ended - began, first - began))
    return done


def _listen(stop: threading.Event) -> None:
    sys.stdin.readline()
    stop.set()


def main() -> None:
    orders, stop = Orders(**json.loads(sys.argv[1])), threading.Event()
    producer = Producer(dict(orders.producer))
    transactional = "transactional.id" in orders.producer
    if transactional:
        producer.init_transactions(CALL_S)
    print("ready", flush=True)
    sys.stdin.readline()
    threading.Thread(target=_listen, args=(stop,), daemon=True).start()
    operation, rng = (transaction if transactional else burst), Random(os.getpid())
    done = loop(lambda: operation(producer, orders, rng), stop)
    Path(orders.out).write_text(json.dumps(done))
    os._exit(0)  # as fencepost's workers do


if __name__ == "__main__":
    main()
