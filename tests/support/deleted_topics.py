"""Random lawful histories of a source connector whose topics are deleted and created again now and then: a small model of Kafka.

A task polls some positions, sends them in a transaction, stores the last one with them, and goes on; now and then a transaction
is aborted, or the task is replaced by a new one, which reads the stored offsets that are there. What is sent to a topic lies in
its present incarnation; while there is none the task waits. A marker goes to every partition of the transaction that is there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from support.histories import History

EPOCH_MS = 1_790_000_000_000
TARGETS, OFFSETS = ("t-0", "t-1"), "o-0"
CONTRACT = {"connect": "enabled", "transactional": "false"}


@dataclass
class Topic:
    """A topic that is deleted and created again.

    deletions: (gone from, back at, known to all at), in order.
    """

    deletions: list[tuple[int, int, int]]

    def back(self, now: int) -> int:
        """Earliest time at which something can be written to it: now, or when it is there again."""
        return next((back for gone, back, _ in self.deletions if gone <= now < back), now)

    def incarnation(self, now: int) -> int:
        return sum(back <= now for _, back, _ in self.deletions)

    def exists(self, now: int) -> bool:
        return self.back(now) == now


@dataclass
class DeletedTopics:
    """One run.

    lie: `skip` or `repeat` one position in the first transaction that begins after `lie_at`.
    """

    seed: int
    deleted: tuple[str, ...] = ("t", "o")
    lie: str = ""
    lie_at: int = 0
    now: int = 0
    epoch: int = 0
    next: int = 0
    lied_at: int = -1  # the position that was skipped, or repeated
    rows: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)  # partition, incarnation, entry

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.topics = {name: Topic(self._deletions() if name in self.deleted else []) for name in ("t", "o")}
        while self.now < 30_000:
            self._step()

    def _deletions(self) -> list[tuple[int, int, int]]:
        times = sorted(self.rng.sample(range(2_000, 20_000), self.rng.choice([2, 4])))
        pairs = zip(times[::2], times[1::2], strict=True)
        return [(gone, back, back + self.rng.randint(0, 800)) for gone, back in pairs]

    def _step(self) -> None:
        self.now += self.rng.randint(1, 400)
        if self.rng.random() < 0.1:
            self.now = self.topics["o"].back(self.now + self.rng.randint(0, 500))  # who cannot read offsets cannot start
            self.next = self._stored() + 1
        self._transaction()

    def _transaction(self) -> None:
        self.epoch += 1
        began, numbers = self.now, list(range(self.next, self.next + self.rng.randint(1, 6)))
        lying = bool(self.lie) and self.lied_at < 0 and began >= self.lie_at
        numbers = self._lie(numbers) if lying else numbers
        written = set()
        for number in numbers:
            partition = TARGETS[number % 2]
            self._write(partition, "record", number)
            written.add(partition)
            self.now += self.rng.choice([0, 1, 50, 300])
        self._write(OFFSETS, "offset", numbers[-1])
        self.now += self.rng.choice([0, 5, 200])
        ends = "ABORT" if self.rng.random() < 0.1 and not lying else "COMMIT"
        for partition in (*written, OFFSETS):
            if self.topics[partition[0]].exists(self.now):
                self._write(partition, ends, -1)
        self.now += 1
        self.next = numbers[-1] + 1 if ends == "COMMIT" else self.next

    def _lie(self, numbers: list[int]) -> list[int]:
        self.lied_at = numbers[0] - (self.lie == "repeat")
        return [number + 1 for number in numbers] if self.lie == "skip" else [numbers[0] - 1, *numbers]

    def _write(self, partition: str, kind: str, number: int) -> None:
        topic = self.topics[partition[0]]
        self.now = topic.back(self.now)
        own = {"producer_id": 7, "producer_epoch": self.epoch, "transactional": True, "timestamp": EPOCH_MS + self.now}
        entry = {"partition": partition, "kind": kind, "name": "a" if number >= 0 else "", "number": number, **own}
        self.rows.append((partition, topic.incarnation(self.now), entry))

    def _present(self, partition: str, now: int) -> list[dict[str, Any]]:
        mine = [
            entry for home, number, entry in self.rows if home == partition and number == self.topics[home[0]].incarnation(now)
        ]
        return [{**entry, "offset": offset} for offset, entry in enumerate(mine)]

    def _stored(self) -> int:
        """The last committed offset that a new task reads; -1: none."""
        pending, stored = -1, -1
        for entry in self._present(OFFSETS, self.now):
            pending = entry["number"] if entry["kind"] == "offset" else pending
            stored = pending if entry["kind"] == "COMMIT" else stored
        return stored

    @property
    def quiet_since(self) -> int:
        """From when on nothing is deleted, and every broker knows all topics."""
        return max((known for topic in self.topics.values() for *_, known in topic.deletions), default=0)

    @property
    def contract(self) -> dict[str, str]:
        what = {"t": "records", "o": "offsets"}
        return {**CONTRACT, "topic_deletions": ",".join(what[name] for name in self.deleted)}

    @property
    def receipts(self) -> list[dict[str, Any]]:
        deletions = [(name, *times) for name, topic in self.topics.items() for times in topic.deletions]
        return [_receipt(number, *deletion) for number, deletion in enumerate(deletions)]

    @property
    def positions(self) -> list[int]:
        """Those of the records that a read_committed reader gets at the end."""
        return [record["number"] for name in TARGETS for record in visible(self._present(name, self.now + 60_000))]

    @property
    def ops(self) -> list[dict[str, Any]]:
        h = History()
        h.final({partition: [] for partition in TARGETS})
        logs = {partition: self._present(partition, self.now + 60_000) for partition in (*TARGETS, OFFSETS)}
        final = next(op for op in h.ops if op["final"] and op["f"] == "poll" and op["isolation"] == "read_committed")
        unknown = {"producer_id": None, "producer_epoch": None, "transactional": None}
        final["entries"] = [{**record, **unknown} for name in TARGETS for record in visible(logs[name])]
        h.add(-1, "read-log", isolation=None, entries=[row for rows in logs.values() for row in rows])
        return h.ops


def visible(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The committed records of a partition, as a read_committed reader gets them."""
    committed, pending = [], []
    for entry in log:
        pending += [entry] if entry["kind"] == "record" else []
        if entry["kind"] in ("COMMIT", "ABORT"):
            committed += pending if entry["kind"] == "COMMIT" else []
            pending = []
    return committed


def _receipt(number: int, topic: str, gone: int, back: int, known: int) -> dict[str, Any]:
    evidence = {"deletions": [{"topic": topic, "began_ms": EPOCH_MS + gone - 5}]}
    healing = {"again": {"known_ms": EPOCH_MS + known}}
    own = {"id": number, "kind": "delete-topic", "evidence": json.dumps(evidence), "healing": json.dumps(healing)}
    return {**own, "effective": True, "injected_ns": 1, "healed_ns": 2}
