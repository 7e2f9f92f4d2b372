"""Small random histories of source connectors, mostly lawful, with trouble of every kind now and then."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from support.histories import History

TARGETS, OFFSETS = ("t-0", "t-1"), ("fp-connect-offsets-0", "t-offsets-0")


def source_history(rng: Random) -> list[dict[str, Any]]:
    """Transactions of two producers with records of three sources and their offsets; a final read, and the leaders' logs."""
    logs: dict[str, list[dict[str, Any]]] = {name: [] for name in (*TARGETS, *OFFSETS)}
    positions, store = dict.fromkeys("abc", 0), rng.choice(OFFSETS)
    h, altered = History(), rng.random() < 0.4
    most = rng.choice([1, 1, 3])  # records that a position gives
    first_protocol = rng.random() < 0.4  # in which an instance has one epoch
    for number in range(rng.randint(2, 6)):
        epoch = number // 3 if first_protocol else number
        _transaction(rng, logs, positions, store, epoch, most)
        if altered and rng.random() < 0.6:
            h.add(3, "rest", role="conductor", detail=_alteration(rng, logs, positions, store, epoch))
    h.final({partition: [] for partition in TARGETS})
    final = next(op for op in h.ops if op["final"] and op["f"] == "poll" and op["isolation"] == "read_committed")
    final["entries"] = [
        {**row, "producer_id": None, "producer_epoch": None, "transactional": None}
        for partition in TARGETS
        for row in visible_in(logs[partition])
        if rng.random() < 0.98
    ]
    for rows in logs.values():
        h.add(-1, "read-log", isolation=None, entries=rows)
    return h.ops


def _transaction(
    rng: Random, logs: dict[str, list[dict[str, Any]]], positions: dict[str, int], store: str, epoch: int, most: int
) -> None:
    """A transaction of a producer, as Connect makes it, or with one of its faults."""
    producer = {"producer_id": rng.choice([7, 8]), "producer_epoch": epoch, "transactional": rng.random() < 0.95}
    fate = rng.choice(["COMMIT", "COMMIT", "COMMIT", "ABORT"])
    used = set()
    for name in rng.sample("abc", rng.randint(1, 2)):
        first = positions[name] - (rng.random() < 0.1)
        last = first + rng.randint(0, 3)
        for number in range(max(0, first), last + 1):
            for kind in _kinds(name, number, most):
                if rng.random() < 0.97:
                    used.add(partition := rng.choice(TARGETS))
                    _append(logs, partition, kind, name, number, producer)
        if rng.random() < 0.92:
            _append(logs, store, "offset", name, last - rng.choice([0] * 12 + [1, 3]), producer)
            used.add(store)
        positions[name] = last + 1 if fate == "COMMIT" or not producer["transactional"] else positions[name]
    for partition in sorted(used) if producer["transactional"] else ():
        _append(logs, partition, fate, "", -1, producer)


def _kinds(name: str, number: int, most: int) -> list[str]:
    """The records of a position: always as many, so that a position that is read again gives the same."""
    count = 1 + (number + ord(name)) % most
    return [f"record {place + 1}/{count}" for place in range(count)] if count > 1 else ["record"]


def _alteration(rng: Random, logs: dict[str, list[dict[str, Any]]], positions: dict[str, int], store: str, epoch: int) -> str:
    """Other offsets of some sources, or of none (-1), in a transaction without records; the request. Now and then it does not say
    everything, or has no effect."""
    producer = {"producer_id": 9, "producer_epoch": epoch, "transactional": rng.random() < 0.95}
    reset = rng.random() < 0.3
    moved = {name: -1 if reset else max(0, positions[name] + rng.randint(-4, 4)) for name in rng.sample("abc", rng.randint(1, 3))}
    fate = rng.choice(["COMMIT"] * 5 + ["ABORT"])
    for name, number in moved.items():
        _append(logs, store, "offset", name, number, producer)
        positions[name] = number + 1 if fate == "COMMIT" else positions[name]
    if producer["transactional"]:
        _append(logs, store, fate, "", -1, producer)
    entries = {} if rng.random() < 0.05 else {"altered": [] if reset else [list(pair) for pair in moved.items()]}
    return json.dumps({"method": "DELETE" if reset else "PATCH", "path": "/connectors/source/offsets", **entries})


def _append(
    logs: dict[str, list[dict[str, Any]]], partition: str, kind: str, name: str, number: int, producer: dict[str, Any]
) -> None:
    row = {"partition": partition, "offset": len(logs[partition]), "timestamp": 0, "kind": kind, "name": name, "number": number}
    logs[partition].append({**row, **producer})


def visible_in(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records that are not in an aborted transaction."""
    visible = []
    for at, row in enumerate(rows):
        fates = [
            marker["kind"]
            for marker in rows[at:]
            if marker["producer_id"] == row["producer_id"] and marker["kind"] in ("COMMIT", "ABORT")
        ]
        if row["kind"].startswith(("record", "strange")) and (not row["transactional"] or fates[:1] != ["ABORT"]):
            visible.append(row)
    return visible
