"""The conductor of a source connector: its requests to Connect, one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol
from urllib.parse import quote

from fencepost.harness.api import Operation, Outcome, PlannedOperation
from fencepost.harness.api.connect import release
from fencepost.workloads.support import connect_records
from fencepost.workloads.support.connect_refusals import NO_CLASS, refused_keys

NAME, NUMBERED = "source", "fencepost.NumberedSource"  # of the connector; the class of the one that comes along
STATUS_S = 1.0  # between two looks at the connector's state
Change = Literal[
    "tasks",
    "restart",
    "restart-task",
    "pause",
    "stop",
    "delete",
    "own-offsets",
    "alter-offsets",
    "reset-offsets",
    "preflight",
    "overrides",
    "unsigned",
]
Asking = Generator[PlannedOperation, Operation | None, None]  # is sent each operation when it has ended
UNKEEPABLE = (  # what the numbered source answers, so that a configuration which asks for more has to be refused
    {"exactly.once.support": "required", "answer.exactly.once": "unsupported"},
    {"exactly.once.support": "required", "answer.exactly.once": "null"},
    {"transaction.boundary": "connector", "answer.boundaries": "unsupported"},
    {"transaction.boundary": "connector", "answer.boundaries": "null"},
)
OVERRIDES = {  # of the connector's clients, which KIP-618 has ignored
    "producer.override.transactional.id": connect_records.OVERRIDDEN,
    "consumer.override.isolation.level": "read_uncommitted",
}
INTERNAL: tuple[tuple[str, str, Any], ...] = (  # requests of one worker to another, which are signed (KIP-507)
    ("PUT", "/fence", None),
    ("POST", "/tasks", []),
)
JUDGED_SETTINGS = ("connect.protocol", "transactional.id", "producer.transactional.id", "consumer.isolation.level")  # of workers
ALTER_TRIES = 8  # of a request that is refused until all tasks have stopped
ALTERED_BY = 40  # at most so many positions to and fro
OFFSETS_SINCE, UNASKABLE = (3, 5), (404, 405, 500)  # the first release that shows stored offsets (KIP-875); it does not
REFUSED, MOST_VALIDATIONS = "Connect refuses the configuration of the connector (`config` of the workload): ", 5
BAD_REQUEST, MOST_REFUSALS = 400, 5  # a connector's own check may fail once or twice for something that is not there yet


class Conducted(Protocol):
    """What a conductor knows of its workload: options of `workloads.connect.Connect`, and what they come to."""

    @property
    def connector(self) -> str: ...

    @property
    def offset_position(self) -> str | tuple[str, ...]: ...

    @property
    def version(self) -> str: ...

    @property
    def upgrades(self) -> tuple[str, ...]: ...

    @property
    def rest(self) -> tuple[str, ...]: ...

    @property
    def tasks(self) -> int: ...

    @property
    def restart_failed(self) -> bool: ...

    @property
    def changes(self) -> tuple[Change, ...]: ...

    @property
    def change_every_s(self) -> float: ...

    @property
    def most_changes(self) -> int: ...

    @property
    def worker_settings(self) -> Mapping[str, Any]: ...

    def configuration(self, topic: str, tasks: int, moved: bool = False) -> dict[str, str]: ...

    def moved(self, stored: Mapping[str, Any], by: int, topic: str = "") -> tuple[dict[str, Any], list[Any]]: ...

    def unplaced(self, stored: Mapping[str, Any]) -> str: ...


@dataclass
class Conductor:
    """The requests of one conductor to Connect, one after the other."""

    workload: Conducted
    topic: str
    rng: Random
    own: bool = False  # the connector has an offsets topic of its own by now
    overriding: bool = False  # its configuration has OVERRIDES by now
    tasks: int = 0  # how many the last request has set
    asks_offsets: bool = field(init=False)  # whether stored offsets tell their positions is not known yet

    def __post_init__(self) -> None:
        theirs = self.workload.connector != NUMBERED and bool(self.workload.offset_position)
        self.asks_offsets = theirs and min(map(release, (self.workload.version, *self.workload.upgrades))) >= OFFSETS_SINCE

    @property
    def name(self) -> str:
        """The connector's; on workers of somebody's own one that nobody else has."""
        return f"{self.topic}-{NAME}" if self.workload.rest else NAME

    def operations(self) -> Asking:
        """Create the connector; then look at it again and again, restart what has failed, and change it now and then."""
        yield from self._validated()
        yield from self._created()
        for look in itertools.count(1):
            seen = yield self._planned("GET", "/status", think_s=STATUS_S)
            if self.asks_offsets:
                yield from self._offsets_read()
            if self.workload.restart_failed and seen and failed(seen.value.get("answer")):
                yield self._planned("POST", "/restart?includeTasks=true&onlyFailed=true")
            over = seen is not None and seen.closing
            if not over and self._due(look):
                yield from self._change(self.rng.choice(self.workload.changes))

    def _due(self, look: int) -> bool:
        """Return whether a change follows this look at the connector's state."""
        number, rest = divmod(look, max(1, round(self.workload.change_every_s / STATUS_S)))
        allowed = not self.workload.most_changes or number <= self.workload.most_changes
        return bool(self.workload.changes) and not rest and allowed

    def _validated(self) -> Asking:
        """The configuration, judged by the connector itself; what is refused twice for the same reasons ends the run with them.

        A numbered source is not asked: its configuration is ours.
        """
        before: list[str] = []
        for _ in range(0 if self.workload.connector == NUMBERED else MOST_VALIDATIONS):
            ended = yield self._validation()
            wrong = refused_keys(ended.value.get("answer")) if ended else []
            if ended is None or (not wrong and "status" in ended.value):
                return  # it has nothing against it, or cannot say
            if wrong and (wrong == before or NO_CLASS in wrong[0]):
                ended.broken = f"{REFUSED}{'; '.join(wrong)}"
            before = wrong

    def _validation(self) -> PlannedOperation:
        config = {"name": self.name, **self.workload.configuration(self.topic, self.workload.tasks)}
        path = f"/connector-plugins/{quote(self.workload.connector)}/config/validate"
        return PlannedOperation(f="rest", mops=(), request={"method": "PUT", "path": path, "body": config}, think_s=STATUS_S)

    def _offsets_read(self) -> Asking:
        """The connector's stored offsets, until there are any; if none of them tells its position, that ends the run."""
        ended = yield self._planned("GET", "/offsets")
        stored = offsets_in(ended.value.get("answer")) if ended else []
        self.asks_offsets = not stored and ended is not None and ended.value.get("status") not in UNASKABLE
        reasons = [self.workload.unplaced(offset) for offset in stored]
        if ended is not None and reasons and all(reasons):
            ended.broken = reasons[0]

    def _created(self) -> Asking:
        """The connector. One that is refused for its configuration, again and again, ends the run with the reason."""
        refused = 0
        while (ended := (yield self._configured(self.workload.tasks, think_s=STATUS_S))) and ended.outcome is not Outcome.OK:
            refused = refused + 1 if ended.value.get("status") == BAD_REQUEST else 0
            if refused == MOST_REFUSALS:
                answer = ended.value.get("answer")
                reason = answer.get("message") if isinstance(answer, dict) else answer
                reason = reason or "no reason is given"
                ended.broken = f"{REFUSED}{reason}"

    def _change(self, change: Change) -> Asking:
        pause = self.rng.uniform(0.5, 3.0)
        if change == "tasks":
            others = [count for count in range(1, 2 * self.workload.tasks + 1) if count != self.tasks]
            yield self._configured(self.rng.choice(others))
        elif change == "own-offsets":
            self.own = True
            yield self._configured(self.workload.tasks)
        elif change == "restart":
            yield self._planned("POST", "/restart?includeTasks=true")
        elif change == "restart-task":
            yield self._planned("POST", "/tasks/0/restart")
        elif change in ("alter-offsets", "reset-offsets"):
            yield from self._until_ok(lambda: self._planned("PUT", "/stop", think_s=pause))
            yield from self._other_offsets(change)
            yield from self._until_ok(lambda: self._planned("PUT", "/resume", think_s=pause))
        elif change == "preflight":
            yield from self._preflight()
        elif change == "overrides":
            self.overriding = True
            yield self._configured(self.workload.tasks)
        elif change == "unsigned":
            method, path, body = self.rng.choice(INTERNAL)
            yield self._planned(method, path, body)
        elif change in ("pause", "stop"):
            yield self._planned("PUT", f"/{change}")
            yield from self._until_ok(lambda: self._planned("PUT", "/resume", think_s=pause))
        else:
            yield self._planned("DELETE", "")
            yield from self._until_ok(lambda: self._configured(self.workload.tasks, think_s=pause))

    def _preflight(self) -> Asking:
        """A connector that is to be refused; deleted, if it is not."""
        config = {**self.workload.configuration(self.topic, 1), "topic": f"{self.topic}-refused", **self.rng.choice(UNKEEPABLE)}
        ended = yield self._planned("PUT", "-refused/config", config)
        if ended and ended.outcome is not Outcome.FAIL:
            yield self._planned("DELETE", "-refused")

    def _other_offsets(self, change: Change) -> Asking:
        """Alter or reset the offsets of a connector that is stopped, or about to be (KIP-875)."""
        for _ in range(ALTER_TRIES):
            seen = yield self._planned("GET", "/offsets", think_s=STATUS_S)
            stored = [offset for offset in offsets_in(seen.value.get("answer") if seen else None) if self._can_move(offset)]
            if not stored:
                continue
            ended = yield self._reset() if change == "reset-offsets" else self._alteration(stored)
            if ended and ended.outcome is not Outcome.FAIL:
                return

    def _can_move(self, stored: Mapping[str, Any]) -> bool:
        """Return whether a stored offset tells its source and position as the workload says."""
        try:
            return bool(self.workload.moved(stored, 0, self.topic))
        except connect_records.NOTHING:
            return False

    def _reset(self) -> PlannedOperation:
        return self._planned("DELETE", "/offsets", altered=[])

    def _alteration(self, stored: Sequence[Mapping[str, Any]]) -> PlannedOperation:
        """Other positions for some of the sources that have one."""
        chosen = self.rng.sample(stored, self.rng.randint(1, len(stored)))
        moved = [self.workload.moved(offset, self.rng.randint(-ALTERED_BY, ALTERED_BY), self.topic) for offset in chosen]
        return self._planned(
            "PATCH", "/offsets", {"offsets": [offset for offset, _ in moved]}, altered=[entry for _, entry in moved]
        )

    def _until_ok(self, plan: Callable[[], PlannedOperation]) -> Asking:
        while (ended := (yield plan())) and ended.outcome is not Outcome.OK:
            pass

    def _configured(self, tasks: int, think_s: float = 0.0) -> PlannedOperation:
        self.tasks = tasks
        config = self.workload.configuration(self.topic, tasks, self.own) | (OVERRIDES if self.overriding else {})
        workers = {key: as_text(value) for key, value in self.workload.worker_settings.items() if key in JUDGED_SETTINGS}
        return self._planned("PUT", "/config", config, think_s, **({"workers": workers} if workers else {}))

    def _planned(self, method: str, path: str, body: Any = None, think_s: float = 0.0, **more: Any) -> PlannedOperation:
        request = {"method": method, "path": f"/connectors/{self.name}{path}", **({} if body is None else {"body": body}), **more}
        return PlannedOperation(f="rest", mops=(), request=request, think_s=think_s)


def offsets_in(answer: Any) -> list[Mapping[str, Any]]:
    """The stored offsets of an answer, each with its `partition` and `offset`."""
    offsets = answer.get("offsets") if isinstance(answer, dict) else None
    return [entry for entry in offsets or () if isinstance(entry, dict) and entry.get("offset") and entry.get("partition")]


def failed(status: Any) -> bool:
    """Return whether a connector or one of its tasks has failed, by the answer about its state."""
    if not isinstance(status, dict) or "connector" not in status:
        return False
    return any(part.get("state") == "FAILED" for part in (status["connector"] or {}, *(status.get("tasks") or ())))


def as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
