"""The anomalies of Connect's leaders and tasks once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from support.reference import Matches, Row

SLACK_MS = 500  # the clocks of these histories are right
FENCING_MS = (1, 90_000)  # timeouts of fencings; they differ from those of tasks where a task that wrote has another one
OWN = ("connector", "generation", "restart", "task", "task-count")
Place = tuple[str, int]


class ConnectHistory:
    """Entries about a connector in the logs of partition leaders."""

    def __init__(self, ops: Sequence[Mapping[str, Any]]) -> None:
        rows = [entry for op in ops if op["f"] == "read-log" for entry in op.get("entries") or ()]
        self.rows: list[Row] = sorted(rows, key=place)

    def of(self, *kinds: str) -> list[Row]:
        return [row for row in self.rows if row["kind"] in kinds]

    @cached_property
    def sessions(self) -> list[Row]:
        return self.of("initialised")

    def session(self, row: Row) -> Row | None:
        """The initialisation of the producer that wrote an entry."""
        mine = [session for session in self.sessions if session["producer_id"] == row["producer_id"]]
        return max((session for session in mine if session["producer_epoch"] <= row["producer_epoch"]), key=epoch, default=None)

    def is_task(self, session: Row | None) -> bool:
        return session is not None and not session["name"].startswith("connect-cluster-")

    def transactions(self, session: Row) -> list[tuple[Row, bool]]:
        """The first entries of a session's transactions, and whether they were committed."""
        transactions: list[tuple[Row, bool]] = []
        over = True
        for row in self.of("transaction"):
            if row["name"] == session["name"] and self.session(row) is session and not self.stale(row):
                if row["number"] == 1 and over:
                    transactions.append((row, False))
                    over = False
                elif row["number"] == 2 and transactions:
                    transactions[-1] = transactions[-1][0], True
                over = over or row["number"] > 1
        return transactions

    def stale(self, row: Row) -> bool:
        """True if a coordinator has an entry after a later producer's initialisation."""
        later = [session for session in self.sessions if session["name"] == row["name"] and session["offset"] < row["offset"]]
        return any(session["producer_epoch"] > row["producer_epoch"] for session in later)

    def fate(self, row: Row) -> str:
        if not row["transactional"]:
            return "plain"
        return next((marker["kind"] for marker in self.after(row, "COMMIT", "ABORT")), "open")

    def after(self, row: Row, *kinds: str) -> list[Row]:
        """Later entries of the same producer in the same partition."""
        same = [entry for entry in self.of(*kinds) if all(entry[key] == row[key] for key in ("partition", "producer_id"))]
        return [entry for entry in same if entry["offset"] > row["offset"]]

    def configured(self, kind: str) -> list[Row]:
        return [entry for entry in self.of(kind) if self.fate(entry) in ("plain", "COMMIT")]

    def since(self, row: Row) -> int:
        """Earliest time at which an entry of the configuration topic can be read."""
        return int(self.after(row, "COMMIT")[0]["timestamp"] if row["transactional"] else row["timestamp"])

    def until(self, row: Row) -> int | None:
        """Time at which it surely can be read: once the coordinator has written that its transaction is complete."""
        if not row["transactional"]:
            return None
        marker = self.after(row, "COMMIT")[0]
        same = [
            other
            for other in self.of("COMMIT", "ABORT")
            if producer(other) == producer(marker) and other["partition"] == row["partition"]
        ]
        ends = [entry for entry in self.of("transaction") if entry["number"] > 3 and producer(entry) == producer(marker)]
        ends = [entry for entry in ends if not self.stale(entry)]
        number = [place(other) for other in same].index(place(marker))
        return int(ends[number]["timestamp"]) if number < len(ends) else None

    def rounds(self) -> list[tuple[Row | None, Row, list[Row]]]:
        """Task-count records with the one before and the configurations between."""
        rounds = []
        counts = self.configured("task-count")
        for before, count in zip([None, *counts], counts, strict=False):
            start = before["offset"] if before else -1
            between = [
                generation for generation in self.configured("generation") if start < generation["offset"] < count["offset"]
            ]
            if between:
                rounds.append((before, count, between))
        return rounds

    def bumping(self) -> bool:
        """True if every commit raises the epoch."""
        began = [
            (
                row,
                next(
                    entry
                    for entry in self.of("transaction")
                    if entry["name"] == row["name"] and entry["offset"] == row["offset"] + 1
                ),
            )
            for session in self.sessions
            for row, committed in self.transactions(session)
            if committed
        ]
        return all(end["producer_epoch"] > row["producer_epoch"] for row, end in began)

    def may_continue(self, session: Row) -> bool:
        before = [
            earlier for earlier in self.sessions if earlier["name"] == session["name"] and earlier["offset"] < session["offset"]
        ]
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


def zombie_tasks(h: ConnectHistory) -> Matches:
    """Places where the producers were initialised that wrote too late."""
    late = [entry for entry in h.of("transaction") if entry["number"] in (2, 4) and h.stale(entry)]
    for record in h.of("record"):
        mine = [row for row in h.of("record", "COMMIT", "ABORT") if row["partition"] == record["partition"]]
        before = [
            h.session(row) for row in mine if row["offset"] < record["offset"] and row["producer_id"] == record["producer_id"]
        ]
        own = h.session(record)
        if h.fate(record) == "COMMIT" and own and any(row and epoch(row) > epoch(own) for row in before):
            late.append(record)
    sessions = [h.session(entry) for entry in late]
    for before, count, between in h.rounds():
        if before is None or skipped(before, between):
            continue
        for session in h.sessions:
            old = session["timestamp"] + SLACK_MS < h.since(between[-1])
            begun = [row for row, committed in h.transactions(session) if committed]
            if old and any(row["timestamp"] > h.since(count) + SLACK_MS for row in begun):
                sessions.append(session)
    return {place(owner) for owner in sessions if owner is not None and h.is_task(owner)}


def unfenced_starts(h: ConnectHistory) -> Matches:
    starts = set()
    for session in h.sessions:
        now = session["timestamp"]
        if not h.is_task(session) or not h.transactions(session) or h.may_continue(session):
            continue
        there = [generation for generation in h.configured("generation") if generation["number"] > 0]
        there = [generation for generation in there if (h.until(generation) or now) + SLACK_MS < now]
        counts = [count for count in h.configured("task-count") if there and count["offset"] > there[-1]["offset"]]
        if there and not any(h.since(count) <= now + SLACK_MS for count in counts):
            starts.add(place(session))
    return starts


def config_topic_writers(h: ConnectHistory) -> Matches:
    matches = set()
    for entry in h.rows:
        if "-connect-configs-" not in entry["partition"] or entry["kind"] not in OWN or h.fate(entry) not in ("plain", "COMMIT"):
            continue
        own = h.session(entry)
        before = [h.session(row) for row in h.rows if row["partition"] == entry["partition"] and row["offset"] < entry["offset"]]
        leaders = [epoch(row) for row in before if row and not h.is_task(row)]
        if not entry["transactional"] or own is None or max(leaders, default=-1) > epoch(own):
            matches.add(place(entry))
    return matches


def promises(h: ConnectHistory) -> Matches:
    """Places of task-count records without a whole round of fencing, of fences that none needed, of records without a session."""
    matches = set()
    for before, count, between in h.rounds():
        if before is None:
            continue
        if not skipped(before, between):
            first, last = h.since(between[0]) - SLACK_MS, h.since(count) + SLACK_MS
            fenced = {
                session["name"].rpartition("-")[2]
                for session in h.sessions
                if first <= session["timestamp"] <= last and h.is_task(session)
            }
            if not {str(task) for task in range(before["number"])} <= fenced:
                matches.add(place(count))
        elif any(h.transactions(session) and session["number"] not in FENCING_MS for session in h.sessions if h.is_task(session)):
            span = h.since(between[0]) - SLACK_MS, h.since(count) + SLACK_MS
            known = [generation for generation in h.configured("generation") if h.since(generation) <= span[1]]
            idle = [
                session
                for session in h.sessions
                if h.is_task(session) and session["number"] in FENCING_MS and not h.transactions(session)
            ]
            if all(generation["number"] <= 1 for generation in known):
                matches |= {place(session) for session in idle if span[0] < session["timestamp"] < span[1]}
    strangers = [record for record in h.of("record") if h.fate(record) == "COMMIT" and h.session(record) is None]
    return matches | {place(record) for record in strangers[:1]}


TWINS: Mapping[str, Callable[[ConnectHistory], Matches]] = {
    "zombie-task": zombie_tasks,
    "unfenced-start": unfenced_starts,
    "config-topic-writer": config_topic_writers,
    "connect-promise": promises,
}


def by_records(findings: Sequence[Mapping[str, Any]], h: ConnectHistory) -> dict[str, Matches]:
    """Findings in the form of their twins' answers."""
    entries = {place(entry): entry for entry in h.rows}
    matches: dict[str, Matches] = {name: set() for name in TWINS}
    for finding in findings:
        sent = [entries[place(row)] for row in finding["records"] if row["role"] == "sent"]
        if finding["anomaly"] == "zombie-task":
            matches["zombie-task"] |= {place(h.session(row) or row) for row in sent}
        elif finding["anomaly"] in matches:
            matches[finding["anomaly"]] |= {place(row) for row in sent}
    return matches
