#!/usr/bin/env python3
"""Carrier: a driver for the client library confluent-kafka. Replace its calls by those of your library.

`fencepost client check ./carrier.py` puts it through every call. The page docs/client-drivers.md says what each must do.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import confluent_kafka as ck
from fencepost_driver import Driver, Failure, Request, Results, bytes_of, seconds, text_of, topic_and_number

POSITIONS = {"start": ck.OFFSET_BEGINNING, "end": ck.OFFSET_END}
NAMES = {"fetch.max.wait.ms": "fetch.wait.max.ms", "sasl.mechanism": "sasl.mechanisms"}  # where the library has a name of its own
STEP_S = 0.1


class Carrier(Driver):
    client, version = "confluent-kafka", ck.__version__
    capabilities = [
        "transactions", "idempotence", "assign", "ends", "partitioner", "headers",
        "offsets-in-transactions", "groups", "seek", "initialise", "leave", "isolation",
    ]  # fmt: skip
    transactions = 1

    def __init__(self) -> None:
        super().__init__()
        self.producer: Any = None
        self.consumer: Any = None
        self.settings: Request = {}
        self.members: list[Any] = []  # group metadata by the number that `group` gave
        self.ends: dict[str, int] = {}
        self.failed: Failure | None = None  # a consumer's fatal error

    # ---- settings, beginning and end

    def check(self, request: Request) -> Results:
        refused = []
        for side, make, beneath in (("producer", ck.Producer, {}), ("consumer", ck.Consumer, {"group.id": "check"})):
            for key, value in own_names(request[side]).items():
                try:
                    made = make({**beneath, "log_level": 0, key: value})
                except ck.KafkaException as error:
                    if "Failed to create" not in error.args[0].str():
                        refused.append([side, key, error.args[0].str()])
                else:
                    made.close() if side == "consumer" else None
        return {"refused": refused}

    def open(self, request: Request) -> Results:
        self.settings = request
        if request["producer"] is not None:
            self.make_producer(seconds(request))
        if request["consumer"] is not None:
            own = {"group.id": request["group"], "enable.auto.commit": False, "enable.partition.eof": True}
            self.consumer = call(ck.Consumer, {**self.common(), **own, **own_names(request["consumer"])})
        return None

    def common(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.settings["bootstrap"], "client.id": self.settings["name"]}

    def make_producer(self, timeout_s: float) -> None:
        identity = self.settings["transactional_id"]
        own = {"transactional.id": identity} if identity else {}
        self.producer = call(ck.Producer, {**self.common(), **own, **own_names(self.settings["producer"])})
        if identity:
            call(self.producer.init_transactions, timeout_s)

    def initialise(self, request: Request) -> Results:
        self.drop_producer()
        self.make_producer(seconds(request))
        return None

    def leave(self, request: Request) -> Results:
        if self.producer is not None:
            self.flush(request)
        return self.close(request)

    def close(self, request: Request) -> Results:
        self.drop_producer()
        if self.consumer is not None:
            self.consumer.close()
        self.consumer, self.ends, self.failed = None, {}, None
        return None

    def drop_producer(self) -> None:
        if self.producer is not None:
            self.producer.purge(in_queue=True, in_flight=True, blocking=False)
        self.producer = None

    # ---- producing

    def begin(self, request: Request) -> Results:
        call(self.producer.begin_transaction)
        return None

    def send(self, request: Request) -> Results:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.delivered(request["record"], message.partition(), message.offset())
            else:
                self.undelivered(request["record"], failure(error))

        to = {} if request["partition"] is None else {"partition": request["partition"]}
        headers = [(name, bytes_of(value)) for name, value in request["headers"]]
        content = {"key": bytes_of(request["key"]), "value": bytes_of(request["value"]), "headers": headers}
        call(self.producer.produce, request["topic"], on_delivery=delivered, **content, **to)
        call(self.producer.poll, 0)
        return None

    def flush(self, request: Request) -> Results:
        deadline = time.monotonic() + seconds(request)
        while len(self.producer) and time.monotonic() < deadline:
            call(self.producer.poll, STEP_S)
        if len(self.producer):
            raise Failure("_TIMED_OUT", -185, f"{len(self.producer)} records still in flight", retriable=True)
        return None

    def send_offsets(self, request: Request) -> Results:
        places = [place(partition, offset) for partition, offset in request["offsets"].items()]
        member = self.members[request["group"]["member"]]
        call(self.producer.send_offsets_to_transaction, places, member, seconds(request))
        return None

    def commit(self, request: Request) -> Results:
        call(self.producer.commit_transaction, seconds(request))
        return None

    def abort(self, request: Request) -> Results:
        call(self.producer.abort_transaction, seconds(request))
        return None

    # ---- consuming

    def assign(self, request: Request) -> Results:
        self.ends = {}
        call(self.consumer.assign, [place(*item) for item in request["positions"].items()])
        return None

    def subscribe(self, request: Request) -> Results:
        def event(kind: str) -> Any:
            return lambda _, places: self.rebalanced(kind, [f"{tp.topic}-{tp.partition}" for tp in places])

        call(self.consumer.subscribe, request["topics"], event("assigned"), event("revoked"), event("lost"))
        return None

    def seek(self, request: Request) -> Results:
        for item in request["positions"].items():
            call(self.consumer.seek, place(*item))
        return None

    def position(self, request: Request) -> Results:
        return {"positions": offsets(call(self.consumer.position, [place(name, 0) for name in request["partitions"]]))}

    def committed(self, request: Request) -> Results:
        places = [place(name, 0) for name in request["partitions"]]
        return {"offsets": offsets(call(self.consumer.committed, places, seconds(request)))}

    def group(self, request: Request) -> Results:
        self.members.append(call(self.consumer.consumer_group_metadata))  # it cannot leave this process
        return {"group": {"group_id": self.settings["group"], "member": len(self.members) - 1}}

    def poll(self, request: Request) -> Results:
        if self.failed is not None:
            raise self.failed
        first = call(self.consumer.poll, seconds(request))
        messages = [] if first is None else [first, *call(self.consumer.consume, request["limit"] - 1, 0)]
        return {"records": [row for message in messages if (row := self.record(message))], "ends": self.ends}

    def record(self, message: Any) -> list[Any] | None:
        """A message as a row; the end of a partition is noted, and an error that the library gets over is not shown."""
        error = message.error()
        if error is None:
            headers = [[name, text_of(value)] for name, value in message.headers() or ()]
            where = [message.topic(), message.partition(), message.offset()]
            return [*where, text_of(message.key()), text_of(message.value()), headers, message.timestamp()[1]]
        if error.code() == ck.KafkaError._PARTITION_EOF:
            self.ends[f"{message.topic()}-{message.partition()}"] = message.offset()
        elif fatal(error):
            self.failed = failure(error)  # for the next poll: what this one already has must not be lost
        return None


def call(function: Any, *arguments: Any, **named: Any) -> Any:
    """Call the library; its errors become failures with its own words."""
    try:
        return function(*arguments, **named)
    except ck.KafkaException as error:
        raise failure(error.args[0]) from error
    except BufferError as error:
        raise Failure("_QUEUE_FULL", -184, str(error), retriable=True) from error


def fatal(error: Any) -> bool:
    """The flag, which a consumer's error that comes with a message does not have."""
    return bool(error.fatal() or error.code() == ck.KafkaError._FATAL)


def failure(error: Any) -> Failure:
    flags = {"fatal": fatal(error), "retriable": error.retriable(), "abortable": error.txn_requires_abort()}
    return Failure(error.name(), error.code(), error.str(), **flags)


def own_names(settings: Request | None) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in (settings or {}).items()}


def place(partition: str, position: int | str) -> Any:
    topic, number = topic_and_number(partition)
    return ck.TopicPartition(topic, number, POSITIONS[position] if isinstance(position, str) else position)


def offsets(places: Any) -> dict[str, int | None]:
    return {f"{tp.topic}-{tp.partition}": tp.offset if tp.offset >= 0 else None for tp in places}


if __name__ == "__main__":
    sys.exit(Carrier().serve())
