"""The right loop of examples/applications with one thing wrong in it, which CHEAT names.

early: offsets are committed before the transaction. resend: a commit whose answer is lost is taken for a failure, and the batch
is sent again. jump: the read position is sometimes set forward. skip: one input of so
many (SKIPPED) has no output.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "applications"))

import confluent_loop as right
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

CHEAT, SKIPPED = os.environ["CHEAT"], int(os.environ.get("SKIPPED", "1000"))
WORK_S = 0.05
produced, begun = itertools.count(), itertools.count()
produce, transaction = right.produce, right.committed


def early(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    consumer.commit(offsets=right.after(batch), asynchronous=False)
    time.sleep(WORK_S)
    return transaction(consumer, producer, batch)


def resend(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    try:
        producer.begin_transaction()
        for message in batch:
            produce(producer, message)
        producer.send_offsets_to_transaction(right.after(batch), consumer.consumer_group_metadata(), right.CALL_S)
        if next(begun) % 10 == 9:
            producer.commit_transaction(right.CALL_S)  # it worked, and its answer got lost
            raise TimeoutError
        producer.commit_transaction(right.CALL_S)
        return True
    except TimeoutError:
        return transaction(consumer, producer, batch)
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


def jump(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    done = transaction(consumer, producer, batch)
    if done and random.random() < 0.05:
        place = right.after(batch)[0]
        right.seek(consumer, TopicPartition(place.topic, place.partition, place.offset + 3))
    return done


def skipping(producer: Producer, message: Message) -> None:
    if (next(produced) + 1) % SKIPPED:
        produce(producer, message)


if __name__ == "__main__":
    if CHEAT == "skip":
        right.produce = skipping
    else:
        right.committed = {"early": early, "resend": resend, "jump": jump}[CHEAT]
    sys.exit(right.main())
