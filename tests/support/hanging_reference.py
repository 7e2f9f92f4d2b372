"""The anomalies of open transactions once more, slowly and obviously: every pair of answers, every transaction, every read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.reference import FlatHistory, Found, Row

QUIET_NS, WAIT_NS = 3_000_000_000, 10_000_000_000


def answers(h: FlatHistory) -> list[Row]:
    """What coordinators and leaders answered, with begin, end, and since when there was no fault."""
    rows = [op for op in h.ops if op["f"] == "list-transactions" and op["type"] == "ok"]
    made = [{**json.loads(op["detail"]), "begin": op["time"], "end": op["end"]} for op in rows]
    return [{**one, "since": one["begin"] - round(one["quiet_s"] * 1e9)} for one in made]


def lasted(first: Row, last: Row) -> int:
    return last["begin"] - max(first["end"], last["since"] + QUIET_NS)


def named(answer: Row, wanted: Row) -> Row | None:
    """The transaction of an answer that is the wanted one, in the same state."""
    keys = ("transactional_id", "producer_id", "state", "started_ms")
    return next((one for one in answer["transactions"] if all(one[key] == wanted[key] for key in keys)), None)


def known(answer: Row, place: Row) -> bool:
    """Whether a coordinator has the transaction that is open on a partition."""
    mine = [one for one in answer["transactions"] if one["producer_id"] == place["producer_id"]]
    return any(
        one["state"].startswith("Prepare") or (one["state"] == "Ongoing" and place["partition"] in one["partitions"])
        for one in mine
    )


def hanging_transactions(h: FlatHistory) -> Found:
    """The partitions of every transaction that hangs."""
    found, given = set(), answers(h)
    for at, first in enumerate(given):
        for last in given[at:]:
            for one in first["transactions"]:
                if not named(last, one) or not one["state"].startswith(("Ongoing", "Prepare")):
                    continue
                bound = one["timeout_ms"] * 1_000_000 + WAIT_NS if one["state"] == "Ongoing" else WAIT_NS
                there = {place["partition"] for place in last["open"] if place["producer_id"] == one["producer_id"]}
                found |= there | set(one["partitions"]) if lasted(first, last) > bound else set()
            for place in first["open"]:
                before = any(place in earlier["open"] for earlier in given[:at])
                both = place in last["open"] and before and not known(first, place) and not known(last, place)
                found |= {place["partition"]} if both and lasted(first, last) > WAIT_NS else set()
    return found


def ends_by(h: FlatHistory, transactional_id: str, when: int) -> list[Row]:
    """The transactions of an id that may still be open at a time."""
    mine = [op for op in h.ops if op["f"] == "txn" and op["transactional_id"] == transactional_id]
    done = [op for op in mine if op["type"] == "ok" and op["intent"] == "commit" and op["end"] < when]

    def over(op: Row) -> bool:
        after = [one for one in done if op["end"] is not None and one["time"] >= op["end"]]
        other = [one for one in done if op["end"] is None and one["process"] != op["process"] and one["time"] > op["time"]]
        return op in done or bool(after or other)

    return [op for op in mine if not over(op)]


def misreported_transactions(h: FlatHistory) -> Found:
    """The partitions of every transaction about which answers cannot be true."""
    found, given = set(), answers(h)
    ids = {op["transactional_id"] for op in h.ops if op["f"] == "txn"}
    for at, one in enumerate(given):
        for after in given[at + 1 :]:
            if one["begin"] - one["since"] < QUIET_NS or after["since"] > one["begin"]:
                continue
            for stated in one["transactions"]:
                if stated["state"] != "Ongoing" or stated["transactional_id"] not in ids or not named(after, stated):
                    continue
                earliest = next(earlier for earlier in given if named(earlier, stated))
                left = [op for op in ends_by(h, stated["transactional_id"], one["begin"]) if op["time"] <= earliest["end"]]
                found |= set() if left else set(stated["partitions"])
            for place in one["open"]:
                if place in after["open"] and any(_above(h, read, place, one["begin"]) for read in h.reads):
                    found.add(place["partition"])
    return found


def _above(h: FlatHistory, read: Row, place: Row, before: int) -> bool:
    """Whether a read at read_committed was above an open transaction."""
    there = read["p"] == place["partition"] and read["offset"] is not None and read["offset"] > place["offset"]
    return there and h.committed(read) and read["ended"] < before


TWINS: dict[str, Callable[[FlatHistory], Found]] = {
    "hanging-transaction": hanging_transactions,
    "misreported-transaction": misreported_transactions,
}


def by_records(findings: Sequence[Mapping[str, Any]]) -> dict[str, Found]:
    """The checker's findings in the form that the functions here return."""
    found: dict[str, Found] = {name: set() for name in TWINS}
    for one in findings:
        found[one["anomaly"]] |= {record["partition"] for record in one["records"]} if one["anomaly"] in found else set()
    return found
