"""The anomalies of Connect's leaders and tasks once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from support.reference import Found, Row

SLACK_MS = 500  # the clocks of these histories are right
FENCING_MS = (1, 90_000)  # timeouts of fencings; they are told from tasks where a task that wrote has another one
OWN = ("connector", "generation", "restart", "task", "task-count")
Place = tuple[str, int]


class ConnectHistory:
    """What the leaders of partitions have of a connector."""

    def __init__(self, ops: Sequence[Mapping[str, Any]]) -> None:
        rows = [entry for op in ops if op["f"] == "read-log" for entry in op.get("entries") or ()]
        self.rows: list[Row] = sorted(rows, key=place)

    def of(self, *kinds: str) -> list[Row]:
        return [one for one in self.rows if one["kind"] in kinds]

    @cached_property
    def sessions(self) -> list[Row]:
        return self.of("initialised")

    def session(self, row: Row) -> Row | None:
        """The initialisation of the producer that wrote an entry."""
        mine = [one for one in self.sessions if one["producer_id"] == row["producer_id"]]
        return max((one for one in mine if one["producer_epoch"] <= row["producer_epoch"]), key=epoch, default=None)

    def is_task(self, session: Row | None) -> bool:
        return session is not None and not session["name"].startswith("connect-cluster-")

    def transactions(self, session: Row) -> list[tuple[Row, bool]]:
        """The first entries of a session's transactions, and whether they were committed."""
        found: list[tuple[Row, bool]] = []
        over = True
        for row in self.of("transaction"):
            if row["name"] == session["name"] and self.session(row) is session and not self.stale(row):
                if row["number"] == 1 and over:
                    found.append((row, False))
                    over = False
                elif row["number"] == 2 and found:
                    found[-1] = found[-1][0], True
                over = over or row["number"] > 1
        return found

    def stale(self, row: Row) -> bool:
        """Whether a coordinator has an entry after a later producer's initialisation."""
        later = [one for one in self.sessions if one["name"] == row["name"] and one["offset"] < row["offset"]]
        return any(one["producer_epoch"] > row["producer_epoch"] for one in later)

    def fate(self, row: Row) -> str:
        if not row["transactional"]:
            return "plain"
        return next((one["kind"] for one in self.after(row, "COMMIT", "ABORT")), "open")

    def after(self, row: Row, *kinds: str) -> list[Row]:
        """Later entries of the same producer in the same partition."""
        same = [one for one in self.of(*kinds) if all(one[key] == row[key] for key in ("partition", "producer_id"))]
        return [one for one in same if one["offset"] > row["offset"]]

    def configured(self, kind: str) -> list[Row]:
        return [one for one in self.of(kind) if self.fate(one) in ("plain", "COMMIT")]

    def since(self, row: Row) -> int:
        """When an entry of the configuration topic can be read at the earliest."""
        return int(self.after(row, "COMMIT")[0]["timestamp"] if row["transactional"] else row["timestamp"])

    def until(self, row: Row) -> int | None:
        """When it surely can be read: once the coordinator has written that its transaction is complete."""
        if not row["transactional"]:
            return None
        marker = self.after(row, "COMMIT")[0]
        same = [
            one
            for one in self.of("COMMIT", "ABORT")
            if producer(one) == producer(marker) and one["partition"] == row["partition"]
        ]
        ends = [one for one in self.of("transaction") if one["number"] > 3 and producer(one) == producer(marker)]
        ends = [one for one in ends if not self.stale(one)]
        number = [place(one) for one in same].index(place(marker))
        return int(ends[number]["timestamp"]) if number < len(ends) else None

    def rounds(self) -> list[tuple[Row | None, Row, list[Row]]]:
        """Task-count records with the one before and the configurations between."""
        found = []
        counts = self.configured("task-count")
        for before, count in zip([None, *counts], counts, strict=False):
            start = before["offset"] if before else -1
            between = [one for one in self.configured("generation") if start < one["offset"] < count["offset"]]
            if between:
                found.append((before, count, between))
        return found

    def bumping(self) -> bool:
        """Whether every commit raises the epoch."""
        began = [
            (
                row,
                next(one for one in self.of("transaction") if one["name"] == row["name"] and one["offset"] == row["offset"] + 1),
            )
            for session in self.sessions
            for row, committed in self.transactions(session)
            if committed
        ]
        return all(end["producer_epoch"] > row["producer_epoch"] for row, end in began)

    def may_continue(self, session: Row) -> bool:
        before = [one for one in self.sessions if one["name"] == session["name"] and one["offset"] < session["offset"]]
        last = self.transactions(before[-1])[-1:] if before else []
        return bool(last) and not last[0][1] and not self.bumping()


def place(row: Row) -> Place:
    return row["partition"], row["offset"]


def producer(row: Row) -> tuple[int, int]:
    return row["producer_id"], row["producer_epoch"]


def epoch(row: Row) -> int:
    return int(row["producer_epoch"])


def skipped(before: Row, between: Sequence[Row]) -> bool:
    return before["number"] == 1 and between[-1]["number"] == 1


def zombie_tasks(h: ConnectHistory) -> Found:
    """Places where the producers were initialised that wrote too late."""
    late = [one for one in h.of("transaction") if one["number"] in (2, 4) and h.stale(one)]
    for one in h.of("record"):
        mine = [row for row in h.of("record", "COMMIT", "ABORT") if row["partition"] == one["partition"]]
        before = [h.session(row) for row in mine if row["offset"] < one["offset"] and row["producer_id"] == one["producer_id"]]
        own = h.session(one)
        if h.fate(one) == "COMMIT" and own and any(row and epoch(row) > epoch(own) for row in before):
            late.append(one)
    found = [h.session(one) for one in late]
    for before, count, between in h.rounds():
        if before is None or skipped(before, between):
            continue
        for session in h.sessions:
            old = session["timestamp"] + SLACK_MS < h.since(between[-1])
            begun = [row for row, committed in h.transactions(session) if committed]
            if old and any(row["timestamp"] > h.since(count) + SLACK_MS for row in begun):
                found.append(session)
    return {place(one) for one in found if one is not None and h.is_task(one)}


def unfenced_starts(h: ConnectHistory) -> Found:
    found = set()
    for session in h.sessions:
        now = session["timestamp"]
        if not h.is_task(session) or not h.transactions(session) or h.may_continue(session):
            continue
        there = [one for one in h.configured("generation") if one["number"] > 0]
        there = [one for one in there if (h.until(one) or now) + SLACK_MS < now]
        counts = [one for one in h.configured("task-count") if there and one["offset"] > there[-1]["offset"]]
        if there and not any(h.since(one) <= now + SLACK_MS for one in counts):
            found.add(place(session))
    return found


def config_topic_writers(h: ConnectHistory) -> Found:
    found = set()
    for one in h.rows:
        if "-connect-configs-" not in one["partition"] or one["kind"] not in OWN or h.fate(one) not in ("plain", "COMMIT"):
            continue
        own = h.session(one)
        before = [h.session(row) for row in h.rows if row["partition"] == one["partition"] and row["offset"] < one["offset"]]
        leaders = [epoch(row) for row in before if row and not h.is_task(row)]
        if not one["transactional"] or own is None or max(leaders, default=-1) > epoch(own):
            found.add(place(one))
    return found


def promises(h: ConnectHistory) -> Found:
    """Places of task-count records without a whole round of fencing, of fences that none needed, of records without a session."""
    found = set()
    for before, count, between in h.rounds():
        if before is None:
            continue
        if not skipped(before, between):
            first, last = h.since(between[0]) - SLACK_MS, h.since(count) + SLACK_MS
            fenced = {
                one["name"].rpartition("-")[2] for one in h.sessions if first <= one["timestamp"] <= last and h.is_task(one)
            }
            if not {str(task) for task in range(before["number"])} <= fenced:
                found.add(place(count))
        elif any(h.transactions(one) and one["number"] not in FENCING_MS for one in h.sessions if h.is_task(one)):
            span = h.since(between[0]) - SLACK_MS, h.since(count) + SLACK_MS
            known = [one for one in h.configured("generation") if h.since(one) <= span[1]]
            idle = [one for one in h.sessions if h.is_task(one) and one["number"] in FENCING_MS and not h.transactions(one)]
            if all(one["number"] <= 1 for one in known):
                found |= {place(one) for one in idle if span[0] < one["timestamp"] < span[1]}
    strangers = [one for one in h.of("record") if h.fate(one) == "COMMIT" and h.session(one) is None]
    return found | {place(one) for one in strangers[:1]}


TWINS: Mapping[str, Callable[[ConnectHistory], Found]] = {
    "zombie-task": zombie_tasks,
    "unfenced-start": unfenced_starts,
    "config-topic-writer": config_topic_writers,
    "connect-promise": promises,
}


def by_records(findings: Sequence[Mapping[str, Any]], h: ConnectHistory) -> dict[str, Found]:
    """Findings in the form of their twins' answers."""
    entries = {place(one): one for one in h.rows}
    found: dict[str, Found] = {name: set() for name in TWINS}
    for one in findings:
        sent = [entries[place(row)] for row in one["records"] if row["role"] == "sent"]
        if one["anomaly"] == "zombie-task":
            found["zombie-task"] |= {place(h.session(row) or row) for row in sent}
        elif one["anomaly"] in found:
            found[one["anomaly"]] |= {place(row) for row in sent}
    return found
