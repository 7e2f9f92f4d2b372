"""The cells of the matrix, and the options of the fault `protocol` that make each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

BEFORE, UNANSWERED, LATE = "before", "unanswered", "late"
POINTS: Mapping[str, str] = {
    BEFORE: "the request has not reached the broker",
    UNANSWERED: "the broker has answered, and the answer has not reached the client",
    LATE: "the request is delivered when the client has lost its connection and has gone on",
}
KILL, FREEZE, ONE_WAY, MOVE, DELIVERED, LOST, ERROR = "kill", "freeze", "one-way", "move", "late", "lost", "error"
ACTS: Mapping[str, str] = {
    KILL: "the broker is killed",
    FREEZE: "the broker is frozen",
    ONE_WAY: "packets from the broker to the other servers are dropped",
    MOVE: "the role moves to another broker",
    DELIVERED: "nothing else happens",
    LOST: "the request, or its answer, is lost",
    ERROR: "the client gets an error that allows it to try again",
}
LATE_MS = 1500  # when a late request is delivered
OWN_COORDINATOR = "coordinator:{transactional_id}"  # of the message that was caught
BROKERS = "broker"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A step of the protocol.

    name: as in cells.
    api: the request at which it is struck.
    sentence: which step it is.
    workload: that makes such requests often.
    code: an error with which its client tries again.
    peer: whether brokers send it.
    more: options of the fault.
    answers_only: it begins when an answer has come.
    """

    name: str
    api: str
    sentence: str
    workload: str = "transactions"
    code: str = "NOT_COORDINATOR"
    peer: str = "client"
    more: Mapping[str, Any] = field(default_factory=dict)
    answers_only: bool = False

    @property
    def moves_leaders(self) -> bool:
        """True if its broker is the leader of a partition; else it coordinates."""
        return self.api in ("Produce", "WriteTxnMarkers")


GAPS = (
    Gap(
        name="find-coordinator",
        api="FindCoordinator",
        sentence="a client asks for the coordinator of its transactional id",
        workload="fencing",
        code="COORDINATOR_NOT_AVAILABLE",
        more={"transactional_id": "*"},  # not the coordinator of a group
    ),
    Gap(name="init-producer-id", api="InitProducerId", sentence="a producer gets its id and epoch", workload="fencing"),
    Gap(name="add-partitions", api="AddPartitionsToTxn", sentence="partitions are added to a transaction"),
    Gap(name="produce", api="Produce", sentence="records are appended", code="NOT_LEADER_OR_FOLLOWER"),
    Gap(name="add-offsets", api="AddOffsetsToTxn", sentence="a group's offsets are added to a transaction", workload="pipeline"),
    Gap(name="txn-offset-commit", api="TxnOffsetCommit", sentence="offsets are sent into a transaction", workload="pipeline"),
    Gap(name="end-txn", api="EndTxn", sentence="a transaction is to be committed or aborted"),
    Gap(
        name="prepared",
        api="WriteTxnMarkers",
        sentence="the decision is logged, and the first marker is about to be written",
        code="NOT_LEADER_OR_FOLLOWER",
        peer=BROKERS,
    ),
    Gap(
        name="markers",
        api="WriteTxnMarkers",
        sentence="some markers are written, and the next one is about to be",
        code="NOT_LEADER_OR_FOLLOWER",
        peer=BROKERS,
        more={"nth": 2},
    ),
    Gap(
        name="next-begin",
        api="EndTxn",
        sentence="a transaction has ended, and the next one is about to begin",
        answers_only=True,
        more={"where": {"errorCode": 0}},
    ),
)
BY_NAME = {gap.name: gap for gap in GAPS}


@dataclass(frozen=True, kw_only=True, order=True)
class Cell:
    """A gap, a point in it and an act."""

    gap: str
    point: str
    act: str

    def __str__(self) -> str:
        return f"{self.gap}/{self.point}/{self.act}"

    @property
    def impossible(self) -> str:
        """The reason why it cannot be; empty when it can."""
        if BY_NAME[self.gap].answers_only and self.point != UNANSWERED:
            return "this gap begins with an answer that is on its way"
        if self.act == DELIVERED and self.point != LATE:
            return "late delivery is a point of its own"
        if self.point == LATE and self.act in (LOST, ERROR):
            return "nobody waits for the answer to a request that is delivered late"
        return ""

    @property
    def named(self) -> bool:
        """True if its messages name a transactional id."""
        return BY_NAME[self.gap].peer != BROKERS

    def options(self) -> dict[str, Any]:
        """The options of the fault `protocol`."""
        gap = BY_NAME[self.gap]
        matched = {"peer": gap.peer, **gap.more, "cell": str(self)}
        if self.act == LOST:
            return {"drop" if self.point == BEFORE else "lose": gap.api, **_on(self.point), **matched, **_once(matched)}
        if self.act == ERROR:
            return {"error": gap.api, "code": gap.code, **_on(self.point), **matched, **_once(matched)}
        if self.point == LATE:
            return {"late": gap.api, "delay_ms": LATE_MS, **matched, **_once(matched), **self._fired(gap)}
        return {"hold": gap.api, **_on(self.point), **matched, **self._fired(gap)}

    def _fired(self, gap: Gap) -> dict[str, Any]:
        """The fault that strikes at the first catch."""
        if self.act == MOVE and gap.moves_leaders:
            return {"fire": "move-leaders", "fire_target": "all"}
        if self.act == MOVE:
            return {"fire": "move-coordinator", "fire_target": OWN_COORDINATOR}
        fired: dict[str, dict[str, Any]] = {
            KILL: {"fire": "kill"},
            FREEZE: {"fire": "pause"},
            ONE_WAY: {"fire": "one-way", "fire_options": {"direction": "out"}},
        }
        return fired.get(self.act, {})


def _on(point: str) -> dict[str, str]:
    return {"on": "answer"} if point == UNANSWERED else {}


def _once(matched: Mapping[str, Any]) -> dict[str, int]:
    """One message is enough, unless the rule says which."""
    return {} if "nth" in matched else {"times": 1}


def of_text(text: str) -> Cell | None:
    """The cell of this name, behind which factors may follow (`crossing`); None: there is none."""
    parts = text.split("/")
    known = len(parts) >= 3 and parts[0] in BY_NAME and parts[1] in POINTS and parts[2] in ACTS
    return Cell(gap=parts[0], point=parts[1], act=parts[2]) if known else None


def all_cells() -> Iterator[Cell]:
    """All cells, in the order of the steps."""
    return (Cell(gap=gap.name, point=point, act=act) for gap in GAPS for point in POINTS for act in ACTS)
