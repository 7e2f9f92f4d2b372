"""Histories of Connect's leaders and tasks: written as in the docstrings of `checkers.anomalies.connect_tasks`, and random."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

from support.histories import History

GROUP, CONNECTOR = "fp-connect", "source"
CONFIGS, TARGET, LEADERS = "fp-connect-configs-0", "t-0", 9
LEADER = f"connect-cluster-{GROUP}"
EPOCH_MS = 1_790_000_000_000
TASK_MS, FENCING_MS, LEADER_MS = 10_000, 90_000, 60_000
Producer = tuple[int, int]


class ConnectStory:
    """Steps of leaders and tasks, one after the other, as the leaders of the partitions have them.

    bumping: each commit raises the epoch of its producer (KIP-890).
    elsewhere: the workers, with their leaders, configurations and offsets, are on the second Kafka cluster, whose
      producers have ids that tasks have on the first one.
    """

    def __init__(self, bumping: bool = True, elsewhere: bool = False) -> None:
        self.bumping, self.elsewhere, self.now = bumping, elsewhere, 0
        self.logs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.beside: list[ConnectStory] = []  # other Connect clusters at the same Kafka cluster
        self.requests: list[str] = []
        self._producers: dict[str, list[Producer]] = defaultdict(list)  # transactional id -> its instances

    # -- steps -------------------------------------------------------------------------------------
    def initialise(self, transactional_id: str, timeout_ms: int) -> None:
        before = self._producers[transactional_id]
        producer = (before[-1][0], before[-1][1] + 1) if before else (100 + len(self._producers), 0)
        before.append(producer)
        self._coordinator(transactional_id, producer, "initialised", timeout_ms, 0)

    def start(self, task: int) -> None:
        self.initialise(task_id(task), TASK_MS)

    def fence(self, task: int) -> None:
        self.initialise(task_id(task), FENCING_MS)

    def lead(self) -> None:
        self.initialise(LEADER, LEADER_MS)

    def transaction(
        self, transactional_id: str, rows: Sequence[tuple[str, str, str, int]], instance: int = -1, end: int = 2
    ) -> int:
        """A transaction with rows (partition, kind, name, number); the offset of the first. instance: -1 the last one, -2 the one
        before. end: 2 committed, 3 aborted, 0 open."""
        producer = self._producers[transactional_id][instance]
        self._coordinator(transactional_id, producer, "transaction", 1, 1)
        offset = len(self.logs[rows[0][0]])
        for row in rows:
            self.append(*row, producer, 2)
        if end:
            after = (producer[0], producer[1] + (self.bumping and instance == -1))
            self._producers[transactional_id][instance] = after
            self._coordinator(transactional_id, after, "transaction", end, 5)
            for partition in dict.fromkeys(row[0] for row in rows):
                self.append(partition, "COMMIT" if end == 2 else "ABORT", "", -1, after, 10)
            self._coordinator(transactional_id, after, "transaction", end + 2, 15)
        return offset

    def configure(self, kind: str, number: int, instance: int = -1) -> int:
        return self.transaction(LEADER, [(CONFIGS, kind, CONNECTOR, number)], instance)

    def write(self, task: int, instance: int = -1, end: int = 2, position: int = 0) -> int:
        return self.transaction(task_id(task), [(TARGET, "record", "a", position)], instance, end)

    def haunt(self, task: int) -> int:
        """A record of the instance before the last one, which is committed with a transaction of this one."""
        offset = self.append(TARGET, "record", "a", 0, self._producers[task_id(task)][-2])
        self.write(task)
        return offset

    def append(
        self, partition: str, kind: str, name: str, number: int, producer: Producer | None = None, after_ms: int = 0
    ) -> int:
        """An entry, its offset; producer None: outside transactions."""
        place = {"partition": partition, "offset": len(self.logs[partition]), "timestamp": EPOCH_MS + self.now + after_ms}
        number_and_epoch = producer or (-1, -1)
        own = {"producer_id": number_and_epoch[0], "producer_epoch": number_and_epoch[1], "transactional": producer is not None}
        self.logs[partition].append({**place, **own, "kind": kind, "name": name, "number": number})
        return len(self.logs[partition]) - 1

    def _coordinator(self, transactional_id: str, producer: Producer, kind: str, number: int, after_ms: int) -> None:
        row = self.append(coordinator(transactional_id), kind, transactional_id, number, producer, after_ms)
        self.logs[coordinator(transactional_id)][row]["transactional"] = False

    # -- what becomes of it ------------------------------------------------------------------------
    @property
    def ops(self) -> list[dict[str, Any]]:
        h = History()
        for request in self.requests:
            h.add(3, "rest", role="conductor", detail=request)
        h.final({TARGET: []})
        for rows in self.logs.values():
            h.add(-1, "read-log", isolation=None, role="harness", entries=[self._placed(row) for row in rows])
        for story in self.beside:
            for rows in story.logs.values():
                h.add(-1, "read-log", isolation=None, role="harness", entries=[_of_other(row) for row in rows])
        return h.ops

    def _placed(self, row: dict[str, Any]) -> dict[str, Any]:
        """An entry with the names and numbers of the Kafka cluster that has it."""
        partition, producer = row["partition"], row["producer_id"]
        if not self.elsewhere or not (partition == coordinator(LEADER) or partition.startswith(f"{GROUP}-")):
            return row
        return {**row, "partition": f"second/{partition}", "producer_id": producer + 1 if producer >= 0 else producer}


def _of_other(row: dict[str, Any]) -> dict[str, Any]:
    """An entry as the second Connect cluster has it: other topics, ids and producers, and a connector of the same name."""
    partition, name = row["partition"], row["name"]
    if partition.startswith("__"):
        partition = f"__transaction_state-{int(partition.rpartition('-')[2]) + 20}"
    other = {"partition": partition.replace(GROUP, f"{GROUP}2").replace(TARGET, "t2-0"), "name": name.replace(GROUP, f"{GROUP}2")}
    return {**row, **other, "producer_id": row["producer_id"] + 500 if row["producer_id"] >= 0 else -1}


def task_id(task: int) -> str:
    return f"{GROUP}-{CONNECTOR}-{task}"


def coordinator(transactional_id: str) -> str:
    number = LEADERS if transactional_id == LEADER else transactional_id.rpartition("-")[2]
    return f"__transaction_state-{number}"


def plain_name(partition: str) -> str:
    """A partition as docstrings call it."""
    if partition.startswith("__"):
        return f"task-{partition.rpartition('-')[2]}"
    return partition.removeprefix("fp-connect-")


# --------------------------------------------------------------------------------------------------
# Docstrings
# --------------------------------------------------------------------------------------------------
class ConnectExample(ConnectStory):
    """The worked example of a check."""

    def __init__(self, check: Any) -> None:
        super().__init__()
        self.leading = 0
        self.text = inspect.getdoc(check.function) or ""
        lines = self.text.split("Example::")[1].strip("\n").split("\n\n")[0].splitlines()
        for line in lines[1:]:
            ms, who, does = re.split(r"\s{2,}", line.strip())
            self.now = int(ms)
            self._step(who, does)

    def _step(self, who: str, does: str) -> None:
        role, number = who.split()
        what, _, place = does.partition(" at ")
        words = what.split()
        if role == "leader":
            self._led(int(number), words)
        elif words[0] == "initialises":
            self.start(int(number))
        elif words[0] == "fenced":
            self.fence(int(number))
        else:
            offset = self.haunt(int(number)) if "before" in words else self.write(int(number))
            assert offset == int(place), does

    def _led(self, number: int, words: list[str]) -> None:
        if words[0] == "initialises":
            self.lead()
            self.leading = number
        else:
            self.configure(words[0], int(words[1]), number - self.leading - 1)

    def expected(self) -> set[tuple[str, str, int]]:
        (answer,) = re.findall(r"^Found: (.*?)\n\n", self.text, flags=re.MULTILINE | re.DOTALL)
        return {(role, name, int(offset)) for role, name, offset in re.findall(r"(sent|read) ([\w-]+)@(\d+)", answer)}


# --------------------------------------------------------------------------------------------------
# Random ones
# --------------------------------------------------------------------------------------------------
def random_story(rng: Random, elsewhere: bool = False) -> ConnectStory:
    """Leaders and up to three tasks that do now and then what they must not."""
    story = ConnectStory(rng.random() < 0.8, elsewhere)
    story.lead()
    story.configure("connector", 0)
    tasks, counted = 2, 0
    for _ in range(rng.randint(6, 24)):
        story.now += rng.choice([50, 700, 2000])
        step = rng.choice(["generation", "count", "count", "start", "start", "write", "write", "write", "trouble"])
        started = [task for task in range(3) if story.logs.get(coordinator(task_id(task)))]
        if step == "generation":
            tasks = rng.randint(0, 3)
            story.configure("generation", tasks)
        elif step == "count":
            for task in range(counted if rng.random() < 0.8 else 0):
                story.fence(task)
                story.now += 20
            story.now += rng.choice([20, 700])
            story.configure("task-count", tasks)
            counted = tasks
        elif step == "start":
            story.start(rng.randrange(3))
        elif step == "write" and started:
            story.write(rng.choice(started), end=rng.choice([2, 2, 2, 3]))
        elif step == "trouble":
            _trouble(story, rng, started)
    return story


def _trouble(story: ConnectStory, rng: Random, started: list[int]) -> None:
    again = [task for task in started if len(story._producers[task_id(task)]) > 1]
    kind = rng.choice(["zombie", "haunt", "lead", "dethroned", "outside", "state", "stranger"])
    if kind == "zombie" and again:
        story.write(rng.choice(again), instance=-2)
    elif kind == "haunt" and again:
        story.haunt(rng.choice(again))
    elif kind == "lead":
        story.lead()
    elif kind == "dethroned" and len(story._producers[LEADER]) > 1:
        story.configure("task-count", rng.randint(0, 3), instance=-2)
    elif kind in ("outside", "state"):
        story.append(CONFIGS, "connector" if kind == "outside" else "target-state", CONNECTOR, 0)
    elif kind == "stranger":
        partition = rng.choice([CONFIGS, TARGET])
        story.append(partition, "task" if partition == CONFIGS else "record", "source-0", 0, (77, 0))
        story.append(partition, "COMMIT", "", -1, (77, 0))
