"""The loop of confluent_loop.py, done wrong: outputs are in a transaction, and offsets are committed outside of it.

fencepost run -w application --set 'command=python examples/applications/confluent_loop_wrong.py' -n kill,target=client

An instance that is killed between the two commits leaves outputs without the offset, and whoever takes its partitions over
processes the same records again: `reprocessed`. With WHEN=before the offset is committed first, and what the transaction then
does not commit is never read again: `unprocessed`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import confluent_loop as right
from confluent_kafka import Consumer, KafkaException, Message, Producer

BEFORE = os.environ.get("WHEN", "after") == "before"


def committed(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    """One transaction, and the offsets on their own."""
    try:
        if BEFORE:
            consumer.commit(offsets=right.after(batch), asynchronous=False)
        producer.begin_transaction()
        for message in batch:
            right.produce(producer, message)
        right.commit(producer)
        if not BEFORE:
            consumer.commit(offsets=right.after(batch), asynchronous=False)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


if __name__ == "__main__":
    right.committed = committed
    sys.exit(right.main())
