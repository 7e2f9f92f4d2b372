"""The loop of confluent_loop.py, done wrong: outputs are in a transaction, and offsets are committed outside of it.

fencepost run -w application --set 'command={python} {examples}/applications/confluent_loop_wrong.py' -n kill,target=instance

The consumer commits once a second what it has handed out. Whoever takes over the partitions of an instance that was killed
processes again what came after the last of these commits (`reprocessed`), and never gets what was handed out before it and not
yet committed by the producer (`unprocessed`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import confluent_loop as right
from confluent_kafka import Consumer, KafkaException, Message, Producer

right.CONSUMER |= {"enable.auto.commit": True, "auto.commit.interval.ms": 1000}


def committed(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    """Perform a transaction without the offsets."""
    try:
        producer.begin_transaction()
        for message in batch:
            right.produce(producer, message)
        right.commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


if __name__ == "__main__":
    right.committed = committed
    sys.exit(right.main())
