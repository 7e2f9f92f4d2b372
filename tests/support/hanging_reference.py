"""The anomalies of open transactions once more, slowly and obviously: every pair of answers, every transaction, every read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.reference import FlatHistory, Matches, Row

QUIET_NS, WAIT_NS = 3_000_000_000, 10_000_000_000


def answers(h: FlatHistory) -> list[Row]:
    """Answers of coordinators and leaders, with begin, end, and since when there was no fault."""
    rows = [op for op in h.ops if op["f"] == "list-transactions" and op["type"] == "ok"]
    made = [{**json.loads(op["detail"]), "begin": op["time"], "end": op["end"]} for op in rows]
    return [{**answer, "since": answer["begin"] - round(answer["quiet_s"] * 1e9)} for answer in made]


def lasted(first: Row, last: Row) -> int:
    return last["begin"] - max(first["end"], last["since"] + QUIET_NS)


def named(answer: Row, wanted: Row) -> Row | None:
    """The transaction of an answer that is the wanted one, in the same state."""
    keys = ("transactional_id", "producer_id", "state", "started_ms")
    return next(
        (transaction for transaction in answer["transactions"] if all(transaction[key] == wanted[key] for key in keys)), None
    )


def known(answer: Row, place: Row) -> bool:
    """True if a coordinator has the transaction that is open on a partition."""
    mine = [transaction for transaction in answer["transactions"] if transaction["producer_id"] == place["producer_id"]]
    return any(
        transaction["state"].startswith("Prepare")
        or (transaction["state"] == "Ongoing" and place["partition"] in transaction["partitions"])
        for transaction in mine
    )


def hanging_transactions(h: FlatHistory) -> Matches:
    """The partitions of every transaction that hangs."""
    matches, given = set(), answers(h)
    for at, first in enumerate(given):
        for last in given[at:]:
            for transaction in first["transactions"]:
                if not named(last, transaction) or not transaction["state"].startswith(("Ongoing", "Prepare")):
                    continue
                bound = transaction["timeout_ms"] * 1_000_000 + WAIT_NS if transaction["state"] == "Ongoing" else WAIT_NS
                there = {place["partition"] for place in last["open"] if place["producer_id"] == transaction["producer_id"]}
                matches |= there | set(transaction["partitions"]) if lasted(first, last) > bound else set()
            for place in first["open"]:
                before = any(place in earlier["open"] for earlier in given[:at])
                both = place in last["open"] and before and not known(first, place) and not known(last, place)
                matches |= {place["partition"]} if both and lasted(first, last) > WAIT_NS else set()
    return matches


def ends_by(h: FlatHistory, transactional_id: str, when: int) -> list[Row]:
    """The transactions of an id that may still be open at a time."""
    mine = [op for op in h.ops if op["f"] == "txn" and op["transactional_id"] == transactional_id]
    done = [op for op in mine if op["type"] == "ok" and op["intent"] == "commit" and op["end"] < when]

    def over(op: Row) -> bool:
        after = [operation for operation in done if op["end"] is not None and operation["time"] >= op["end"]]
        other = [
            operation
            for operation in done
            if op["end"] is None and operation["process"] != op["process"] and operation["time"] > op["time"]
        ]
        return op in done or bool(after or other)

    return [op for op in mine if not over(op)]


def misreported_transactions(h: FlatHistory) -> Matches:
    """The partitions of every transaction about which answers cannot be true."""
    matches, given = set(), answers(h)
    ids = {op["transactional_id"] for op in h.ops if op["f"] == "txn"}
    for at, answer in enumerate(given):
        for after in given[at + 1 :]:
            if answer["begin"] - answer["since"] < QUIET_NS or after["since"] > answer["begin"]:
                continue
            for stated in answer["transactions"]:
                if stated["state"] != "Ongoing" or stated["transactional_id"] not in ids or not named(after, stated):
                    continue
                earliest = next(earlier for earlier in given if named(earlier, stated))
                left = [op for op in ends_by(h, stated["transactional_id"], answer["begin"]) if op["time"] <= earliest["end"]]
                matches |= set() if left else set(stated["partitions"])
            for place in answer["open"]:
                if place in after["open"] and any(_above(h, read, place, answer["begin"]) for read in h.reads):
                    matches.add(place["partition"])
    return matches


def _above(h: FlatHistory, read: Row, place: Row, before: int) -> bool:
    """True if a read at read_committed was above an open transaction."""
    there = read["p"] == place["partition"] and read["offset"] is not None and read["offset"] >= place["offset"]
    return there and h.committed(read) and read["ended"] < before


TWINS: dict[str, Callable[[FlatHistory], Matches]] = {
    "hanging-transaction": hanging_transactions,
    "misreported-transaction": misreported_transactions,
}


def by_records(findings: Sequence[Mapping[str, Any]]) -> dict[str, Matches]:
    """The checker's findings in the form that the functions here return."""
    matches: dict[str, Matches] = {name: set() for name in TWINS}
    for finding in findings:
        matches[finding["anomaly"]] |= (
            {record["partition"] for record in finding["records"]} if finding["anomaly"] in matches else set()
        )
    return matches
