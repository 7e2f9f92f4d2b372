"""Runs platformatic.mjs with a release of @platformatic/kafka, which is fetched once, by npm.

fencepost example platformatic fetch
fencepost run -w application --set 'command={python} {examples}/applications/platformatic.py' \
    --contract application=at-least-once -n kill,target=client

A version is another release than 2.12.1: `platformatic.py fetch 1.27.0`, `platformatic.py 1.27.0`.

Before the first instance joins, the group's offsets are set to the beginning of the input: the library's default for a partition
without an offset is its end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.harness.api import HarnessError
from fencepost.harness.drivers import families

VERSION = "2.12.1"
PROGRAM = Path(__file__).with_suffix(".mjs")
CALL_S, WHOLE_S = 10.0, 60.0


def begin() -> None:
    """Give the group an offset in each partition of the input; whoever comes later finds them."""
    env = os.environ
    admin = AdminClient({"bootstrap.servers": env["FENCEPOST_BOOTSTRAP"], **json.loads(env.get("FENCEPOST_CONNECTION", "{}"))})
    deadline = time.monotonic() + WHOLE_S
    while time.monotonic() < deadline:
        try:
            if all(place.offset >= 0 for place in _committed(admin, _input(admin))):
                return
            starts = [TopicPartition(place.topic, place.partition, 0) for place in _input(admin)]
            request = [ConsumerGroupTopicPartitions(env["FENCEPOST_GROUP"], starts)]
            [future.result(CALL_S) for future in admin.alter_consumer_group_offsets(request).values()]
        except KafkaException as error:  # a coordinator that is not there yet, or another instance was first
            print(f"no offsets yet: {error}", flush=True)
            time.sleep(0.5)
    sys.exit("the group has no offsets, and cannot be given any")


def _input(admin: AdminClient) -> list[TopicPartition]:
    name = os.environ["FENCEPOST_INPUT"]
    return [TopicPartition(name, number) for number in admin.list_topics(name, CALL_S).topics[name].partitions]


def _committed(admin: AdminClient, places: list[TopicPartition]) -> list[TopicPartition]:
    request = [ConsumerGroupTopicPartitions(os.environ["FENCEPOST_GROUP"], places)]
    (future,) = admin.list_consumer_group_offsets(request).values()
    offsets: list[TopicPartition] = future.result(CALL_S).topic_partitions
    return offsets


def run(version: str) -> None:
    """Become the program, which has to be there: an instance may have no network but the run's own."""
    if not any(one.directory.parent.name == "platformatic" and one.version == version for one in families.fetched()):
        sys.exit(f"the library is not there yet: fencepost example platformatic fetch {version}")
    try:
        node, memory, _, library = families.obtain(f"platformatic@{version}").command
    except HarnessError as error:
        sys.exit(f"{error}; first: fencepost example platformatic fetch {version}")
    begin()
    os.execv(node, [node, memory, str(PROGRAM), library])


def main(words: list[str]) -> None:
    version = next((word for word in words if word[0].isdigit()), VERSION)
    families.obtain(f"platformatic@{version}", print) if "fetch" in words else run(version)


if __name__ == "__main__":
    main(sys.argv[1:])
