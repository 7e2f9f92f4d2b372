#!/usr/bin/env python3
"""A driver around the harness' own client of librdkafka: the same client as in the worker's process, but for the protocol."""

from __future__ import annotations

import os
import sys
from base64 import b64decode
from typing import Any

from harness.api import CAPABILITIES, CallError, ClientSettings, Delivered, Outgoing, Rebalance
from harness.drivers import frames
from workloads.clients.librdkafka import Librdkafka

ERROR = ("name", "code", "text", "fatal", "retriable", "abortable")


class Driver:
    """Answers requests with the calls of one client."""

    def __init__(self, out: Any) -> None:
        self.out, self.client = out, None

    def write(self, message: dict[str, Any]) -> None:
        self.out.write(frames.packed(message))
        self.out.flush()

    def answer(self, request: dict[str, Any]) -> None:
        number, call = request.pop("id"), request.pop("call")
        try:
            found = getattr(self, call)(**request) if hasattr(self, call) else self.plain(call, request)
        except CallError as error:
            self.write({"id": number, "error": {name: getattr(error, name) for name in ERROR}})
        else:
            self.write({"id": number, "ok": found or {}})

    def plain(self, call: str, request: dict[str, Any]) -> None:
        if not hasattr(self.client, call):
            raise CallError(call, "UNSUPPORTED", 0, "no such call")
        if "timeout_ms" in request:
            request["timeout_s"] = request.pop("timeout_ms") / 1000
        getattr(self.client, call)(**request)

    def hello(self, protocols: list[int], **_: Any) -> dict[str, Any]:
        names = {"client": "librdkafka", "version": Librdkafka.version, "runtime": f"Python {sys.version.split()[0]}"}
        return {"protocol": 1, **names, "capabilities": sorted(CAPABILITIES), "transactions": 1}

    def check(self, producer: dict[str, Any], consumer: dict[str, Any]) -> dict[str, Any]:
        unknown = [[side, key, "unknown"] for side, given in (("producer", producer), ("consumer", consumer)) for key in given]
        return {"refused": [one for one in unknown if one[1].startswith("no.such")]}

    def open(self, name: str, bootstrap: str, timeout_ms: int, group: str, **settings: Any) -> None:
        consumer = settings["consumer"]
        if consumer and "fetch.max.wait.ms" in consumer:
            consumer["fetch.wait.max.ms"] = consumer.pop("fetch.max.wait.ms")
        self.client = Librdkafka(ClientSettings(name=name, bootstrap=bootstrap, **settings))
        self.client.open(timeout_ms / 1000)

    def send(self, record: int, key: str | None, value: str | None, **where: Any) -> None:
        def done(result: Delivered | CallError) -> None:
            if isinstance(result, Delivered):
                partition = int(result.partition.rpartition("-")[2])
                self.write({"event": "delivered", "record": record, "partition": partition, "offset": result.offset})
            else:
                error = {name: getattr(result, name) for name in ERROR}
                self.write({"event": "delivered", "record": record, "error": error})

        headers = [(name, b64decode(text)) for name, text in where.pop("headers")]
        plain = {"key": key and b64decode(key), "value": value and b64decode(value)}
        self.client.send(Outgoing(**where, **plain, headers=headers), done)

    def position(self, partitions: list[str]) -> dict[str, Any]:
        return {"positions": self.client.position(partitions)}

    def committed(self, partitions: list[str], timeout_ms: int) -> dict[str, Any]:
        return {"offsets": self.client.committed(partitions, timeout_ms / 1000)}

    def group(self) -> dict[str, Any]:
        self.metadata = self.client.group()
        return {"group": {"group_id": "kept here"}}

    def send_offsets(self, offsets: dict[str, int], group: Any, timeout_ms: int) -> None:
        self.client.send_offsets(offsets, self.metadata, timeout_ms / 1000)

    def subscribe(self, topics: list[str]) -> None:
        def rebalanced(event: Rebalance) -> None:
            self.write({"event": "rebalanced", "kind": event.kind, "partitions": event.partitions})

        self.client.subscribe(topics, rebalanced)

    def poll(self, timeout_ms: int, limit: int) -> dict[str, Any]:
        found = self.client.poll(timeout_ms / 1000, limit)
        places = [record.partition.rpartition("-") for record in found]
        rows = [
            [topic, int(number), one.offset, one.key, one.value, one.headers, one.timestamp_ms]
            for (topic, _, number), one in zip(places, found, strict=True)
        ]
        return {"records": rows, "ends": dict(self.client.ends())}


def main() -> None:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    driver = Driver(out)
    while (request := frames.read(sys.stdin.buffer)) is not None:
        driver.answer(request)
    os._exit(0)


if __name__ == "__main__":
    main()
