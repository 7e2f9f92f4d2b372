"""Damages to what was on the wire (`wire.parquet`) of a generated history; the history and what its clients were told stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.lawful_wire import Row, as_table, lawful_wire, named

NEEDS_TRANSACTIONS = "needs two transactions of one producer that were acknowledged"
Change = Callable[[list[Row], Random], "str | None"]


@dataclass(frozen=True)
class WireDamage:
    """A damage that changes the rows of a lawful record in place."""

    change: Change

    def __call__(self, rows: HistoryRows, rng: Random) -> DamagedHistory | None:
        if rows.table.num_rows == 0 or rows.sends.empty or (rows.sends["offset"] < 0).any():
            return None
        history = named(rows)
        wire = lawful_wire(history)
        what = self.change(wire, rng)
        if what is None:
            return None
        return DamagedHistory(history, what, partitions=frozenset(rows.sends["partition"]), wire=as_table(wire))


def _ends(wire: Sequence[Row], version: int, committed: bool | None = None) -> list[Row]:
    wanted = (row for row in wire if row["api"] == "EndTxn" and row["version"] == version)
    return [row for row in wanted if committed is None or row["committed"] == committed]


def _insert(wire: list[Row], behind: Row, **changes: Any) -> None:
    """The same request once more, after its answer."""
    later = dict.fromkeys(("arrived_ns", "forwarded_ns", "answered_ns"), behind["answered_ns"] + 1)
    wire.append({**behind, **later, "returned_ns": None, **changes})


def both(wire: list[Row], rng: Random) -> str | None:
    """A transaction is committed after its abort was acknowledged."""
    if not (aborts := _ends(wire, 3, committed=False)):
        return None
    end = rng.choice(aborts)
    _insert(wire, end, committed=True)
    return f"EndTxn (commit) of {end['transactional_id']} is answered NONE after EndTxn (abort) was"


def back(wire: list[Row], rng: Random) -> str | None:
    """An InitProducerId is answered with the epoch that the id has."""
    ends = _ends(wire, 5)
    if not ends:
        return None
    end = rng.choice(ends)
    given = {"answer_producer_id": end["producer_id"], "answer_producer_epoch": end["producer_epoch"]}
    _insert(wire, end, api="InitProducerId", version=4, producer_id=None, producer_epoch=None, committed=None, **given)
    return f"InitProducerId of {end['transactional_id']} is answered with epoch {end['producer_epoch']}, which it had before"


def outdated(wire: list[Row], rng: Random) -> str | None:
    """AddPartitionsToTxn of an epoch that is over is granted."""
    if not (ends := _ends(wire, 5)):
        return None
    end = rng.choice(ends)
    added = json.dumps([{"topic": "t", "partition": 0}])
    no_answer = {"answer_producer_id": None, "answer_producer_epoch": None, "committed": None}
    _insert(wire, end, api="AddPartitionsToTxn", version=3, partitions=added, **no_answer)
    return f"AddPartitionsToTxn of {end['transactional_id']} in epoch {end['producer_epoch']} is granted after that epoch"


def nothing(wire: list[Row], rng: Random) -> str | None:
    """A commit is granted where no transaction was begun."""
    begun = [row for row in wire if row["api"] == "AddPartitionsToTxn"]
    first = {row["transactional_id"]: row for row in reversed(begun)}
    ends = {row["transactional_id"]: row for row in reversed(_ends(wire, 3))}
    names = sorted(name for name in first if ends[name]["committed"])
    if not names:
        return None
    name = rng.choice(names)
    wire.remove(first[name])
    return f"the first AddPartitionsToTxn of {name} is gone, and its EndTxn (commit) is granted"


def disowned(wire: list[Row], rng: Random) -> str | None:
    """The EndTxn of an acknowledged commit never was on the wire."""
    if not (ends := _ends(wire, 3, committed=True)):
        return None
    end = rng.choice(ends)
    wire.remove(end)
    return f"EndTxn (commit) of {end['transactional_id']} was never answered"


def unwritten(wire: list[Row], rng: Random) -> str | None:
    """The Produce of acknowledged records was refused."""
    writes = [row for row in wire if row["api"] == "Produce"]
    if not writes:
        return None
    write = rng.choice(writes)
    refused = {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER", "base_offset": -1}
    answer = [{**place, **refused} for place in json.loads(write["answer_partitions"])]
    write |= {"error": refused["error"], "answer_partitions": json.dumps(answer)}
    return f"a Produce of {write['transactional_id']} is refused"


def reused(wire: list[Row], rng: Random) -> str | None:
    """Other records with sequence numbers that were used are granted."""
    writes = [row for row in wire if row["api"] == "Produce"]
    if not writes:
        return None
    write = rng.choice(writes)
    other = json.loads(write["partitions"])
    other[0]["batches"][0]["crc"] ^= 1
    _insert(wire, write, partitions=json.dumps(other))
    return f"a batch of {write['transactional_id']} comes once more with other records, and is granted"


def _damage(name: str, change: Change, expects: str, *accompanying: str) -> PlantedDamage:
    return PlantedDamage(name, WireDamage(change), (expects,), accompanying, NEEDS_TRANSACTIONS)


BOTH = _damage("wire-both-ends", both, "protocol-violation", "unproven-ack")
BACK = _damage("wire-epoch-back", back, "protocol-violation")
OUTDATED = _damage("wire-old-epoch", outdated, "protocol-violation")
NOTHING = _damage("wire-commit-of-nothing", nothing, "protocol-violation")
DISOWNED = _damage("wire-no-end", disowned, "unproven-ack", "protocol-violation")
UNWRITTEN = _damage("wire-refused-records", unwritten, "unproven-ack", "protocol-violation")
REUSED = _damage("wire-sequence-reuse", reused, "sequence-reuse")
