"""Requests of an operation to the harness at an exact moment: a fault between two calls, its transaction ended from outside.

A worker asks over its standard output (`RemoteOperator`), the performer does it and answers over the worker's standard input
(`OperatorService`). Faults that workers ask for share one lane, which a worker reserves before its transaction begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.harness.api import Cluster, HarnessError, Outcome, TopicSpec

if TYPE_CHECKING:  # workers import this module too, and structlog, rich and asyncio take as long as all that they need
    from fencepost.harness.perform.fault_runner import FaultRunner

ANSWER_S = 60.0  # longer than RESERVED_S and the harness's own patience
RESERVE_S = 30.0  # how long a reservation is waited for
RESERVED_S = 30.0  # how long a reservation holds without a strike
DOOMED = "doomed"  # in the names of topics that are made to be deleted
ID = "{id}"  # in an option: the transactional id of the slot

Answer = Mapping[str, Any]
NOTHING: Answer = {}


class RemoteOperator:
    """`harness.api.Operator` of one slot.

    report: sends a JSON object to the harness.
    transactional_id: of the slot's present client; None: it has none.
    """

    def __init__(self, report: Callable[[dict[str, Any]], None], transactional_id: Callable[[], str | None]) -> None:
        self._report, self._transactional_id = report, transactional_id
        self._answers: dict[int, Answer] = {}
        self._changed = threading.Condition()
        self._number = 0

    def reserve(self) -> bool:
        return bool(self._ask({"do": "reserve"}).get("done"))

    def strike(self, kind: str, lasts_s: float = 0.0, **options: Any) -> bool:
        own = self._transactional_id() or ""
        named = {name: value.replace(ID, own) if isinstance(value, str) else value for name, value in options.items()}
        return bool(self._ask({"do": "strike", "kind": kind, "lasts_s": lasts_s, "options": named}).get("done"))

    def make_topic(self) -> str:
        name = f"{self._transactional_id()}-{DOOMED}-{self._number}"
        return name if self._ask({"do": "make_topic", "topic": name}).get("done") else ""

    def delete_topic(self, name: str) -> bool:
        return bool(self._ask({"do": "delete_topic", "topic": name}).get("done"))

    def finish(self, commit: bool) -> Outcome:
        answer = self._ask({"do": "finish", "transactional_id": self._transactional_id(), "commit": commit})
        return Outcome.OK if answer.get("done") else Outcome.INFO

    def answered(self, answer: Answer) -> None:
        """Take an answer of the harness."""
        with self._changed:
            self._answers[int(answer["number"])] = answer
            self._changed.notify_all()

    def _ask(self, request: dict[str, Any]) -> Answer:
        """Send a request; returns the answer, or `NOTHING` when none comes in time."""
        with self._changed:
            number = self._number = self._number + 1
        self._report({"operate": {**request, "number": number}})
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers, ANSWER_S)
            return self._answers.pop(number, NOTHING)


class OperatorService:
    """Carries out requests of workers. Safe to use from several threads, each of which may have to wait.

    note: takes what went wrong, in words.
    """

    def __init__(self, cluster: Cluster, runner: FaultRunner, note: Callable[[str], None]) -> None:
        self._cluster, self._runner, self._note = cluster, runner, note
        self._free = threading.Semaphore(1)
        self._changing = threading.Lock()
        self._holder: tuple[int, int] | None = None  # slot and number of the reservation

    def answer(self, slot: int, request: Mapping[str, Any]) -> Answer:
        """The answer to one request of a slot's worker: its number, and whether it was done."""
        number = int(request["number"])
        acts = {
            "reserve": self._reserve,
            "strike": self._strike,
            "finish": self._finish,
            "make_topic": self._make_topic,
            "delete_topic": self._delete_topic,
        }
        return {"number": number, "done": acts[str(request["do"])](slot, request)}

    def _reserve(self, slot: int, request: Mapping[str, Any]) -> bool:
        if not self._free.acquire(timeout=RESERVE_S):
            return False
        holder = (slot, int(request["number"]))
        with self._changing:
            self._holder = holder
        expiry = threading.Timer(RESERVED_S, self._expire, [holder])
        expiry.daemon = True
        expiry.start()
        return True

    def _expire(self, holder: tuple[int, int]) -> None:
        """Free a reservation that was not used: its worker may have died."""
        with self._changing:
            unused, self._holder = self._holder == holder, None if self._holder == holder else self._holder
        if unused:
            self._free.release()

    def _strike(self, slot: int, request: Mapping[str, Any]) -> bool:
        with self._changing:
            reserved = self._holder is not None and self._holder[0] == slot
            if reserved:
                self._holder = None
        if not reserved:
            return False
        kind, options, lasts_s = str(request["kind"]), request["options"], float(request["lasts_s"])
        try:
            return self._runner.strike_now(kind, options, lasts_s, self._free.release) is True
        except HarnessError as error:  # no such fault, or wrong options
            self._note(f"{kind} cannot be injected for c{slot}: {error}")
            self._free.release()
            return False

    def _make_topic(self, slot: int, request: Mapping[str, Any]) -> bool:
        topic = TopicSpec(partitions=1, replication=min(3, len(self._cluster.brokers)))
        try:
            self._cluster.admin().create_topics({str(request["topic"]): topic})
        except HarnessError as error:
            self._note(f"no topic for c{slot}: {error}")
            return False
        return True

    def _delete_topic(self, slot: int, request: Mapping[str, Any]) -> bool:
        name = str(request["topic"])
        if f"-{DOOMED}-" not in name:  # never one of the workload's
            return False
        try:
            self._cluster.admin().delete_topic(name)
        except HarnessError as error:
            self._note(f"{name} may not be deleted: {error}")
            return False
        return True

    def _finish(self, slot: int, request: Mapping[str, Any]) -> bool:
        """End the open transaction of an id by the producer id and epoch that the coordinator has stored."""
        name, commit = str(request["transactional_id"]), bool(request["commit"])
        try:
            state = self._cluster.admin().transactions([name]).get(name)
            if state is None or state.state != "Ongoing":
                return False
            self._cluster.admin().end_transaction(name, state.producer_id, state.epoch, commit)
        except HarnessError:
            return False
        return True
