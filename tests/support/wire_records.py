"""Records of proxies, written by hand: one broker, one clock that goes on by 10 with each request."""

from __future__ import annotations

import json

TOPIC = "t"


class Record:
    """Lines of a proxy. Each call is a request, answered 5 later, unless `answered` says otherwise."""

    def __init__(self):
        self.lines, self.now, self.number = [], 1000, 0

    def ask(self, api, version=3, connection=1, error="NONE", answered=True, given=None, body=None, **fields):
        """A request and its answer. given: other fields of the answer."""
        self.now, self.number = self.now + 10, self.number + 1
        head = {"at": "request", "n": self.number, "node": "n1", "connection": connection, "client": "1.2.3.4:5"}
        head |= {"client_id": "app", "correlation": self.number, "api": api, "version": version, "arrived_ns": self.now}
        self.lines.append({**head, "body": body, **fields})
        if answered:
            answer = {"at": "answer", "n": self.number, "answered_ns": self.now + 5, "returned_ns": self.now + 6, "error": error}
            self.lines.append({**answer, "body": None, **(given or {})})
        return self

    def initialise(self, transactional_id="a", producer=(7, 0)):
        granted = {"producer_id": producer[0], "producer_epoch": producer[1]}
        return self.ask("InitProducerId", transactional_id=transactional_id, given=granted)

    def add(self, producer=(7, 0), transactional_id="a", partition=0):
        named = {"transactional_id": transactional_id, "producer_id": producer[0], "producer_epoch": producer[1]}
        return self.ask("AddPartitionsToTxn", partitions=[{"topic": TOPIC, "partition": partition}], **named)

    def produce(self, first, offset, producer=(7, 0), partition=0, error="NONE", records=1, transactional=True, **more):
        """A batch, and where it was appended (offset None: its answer is not known)."""
        head = {"producer_id": producer[0], "epoch": producer[1], "first_sequence": first, "records": records}
        head |= {"crc": more.pop("crc", 100 + first), "base_offset": 0, "transactional": transactional}
        place = {"topic": TOPIC, "partition": partition}
        answer = {**place, "base_offset": offset} if error == "NONE" else {**place, "error": error}
        body = {"acks": more.pop("acks", -1), "timeoutMs": 1}
        given = {"partitions": [answer]}
        partitions = [{**place, "batches": [head]}]
        return self.ask(
            "Produce", 9, error=error, answered=offset is not None or error != "NONE", given=given, body=body,
            partitions=partitions, producer_id=producer[0], producer_epoch=producer[1], **more,
        )  # fmt: skip

    def end(self, commit=True, producer=(7, 0), transactional_id="a", **more):
        named = {"transactional_id": transactional_id, "producer_id": producer[0], "producer_epoch": producer[1]}
        return self.ask("EndTxn", committed=commit, **{**named, **more})

    def transaction(self, sends, commit=True, producer=(7, 0), transactional_id="a"):
        """sends: (first sequence number, offset) or (first sequence number, offset, partition)."""
        self.add(producer, transactional_id)
        for first, offset, *partition in sends:
            self.produce(first, offset, producer, *partition)
        return self.end(commit, producer, transactional_id)

    def fetch(self, offset, batches=(), aborted=(), level=1, connection=9, partition=0, client_id="app", **answer):
        """A Fetch from an offset. batches: `got(...)`."""
        place = {"topic": TOPIC, "partition": partition}
        answer = {**place, "high_watermark": 99, "aborted": list(aborted), "batches": list(batches), **answer}
        body = {"replicaId": -1, "isolationLevel": level, "sessionId": 0, "sessionEpoch": -1}
        given = {"partitions": [answer]}
        return self.ask(
            "Fetch",
            12,
            connection=connection,
            client_id=client_id,
            partitions=[{**place, "offset": offset}],
            body=body,
            given=given,
        )

    def read(self, *batches, start=0, **more):
        """A reader that goes through batches, one Fetch each, and is at the end of them."""
        for batch in batches:
            self.fetch(start, [batch], **more)
            start = batch["last_offset"] + 1
        return self.fetch(start, **more)

    def write(self, directory, name="proxy"):
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.jsonl").write_text(as_text(numbered(self.lines)))
        return directory


def numbered(lines, first=0, node="n1"):
    """Lines as a proxy numbers them, with the first and the last one. first: the number before that of the first request."""
    begin, end = {"at": "begin", "nodes": [node], "first": first}, {"at": "end", "lines": len(lines) + 2}
    return [{"line": number, **line} for number, line in enumerate([begin, *lines, end])]


def as_text(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def got(first, offset, producer=(7, 0), records=1, transactional=True, **more):
    """A batch as a reader gets it."""
    head = {"producer_id": producer[0], "epoch": producer[1], "first_sequence": first, "records": records, "crc": 100 + first}
    return {**head, "base_offset": offset, "last_offset": offset + records - 1, "transactional": transactional, **more}


def marker(offset, kind="COMMIT", producer=(7, 0)):
    return got(-1, offset, producer, control=kind)
