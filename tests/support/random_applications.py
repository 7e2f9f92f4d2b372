"""Small random histories of programs of somebody's own, mostly lawful, with trouble of every kind now and then."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fencepost.harness.api.record_ids import key_number_of
from support.histories import History

INPUTS, OUTPUTS = ("in-0", "in-1"), ("out-0", "out-1")
END = 90


def application_history(rng: Random) -> list[dict[str, Any]]:
    """Input transactions, the outputs that a reader and the final readers got, the program's group, what it declares."""
    h, given = History(), inputs(rng)
    sent = _inputs(h, rng, given)
    committed = [record for record in sent if record[3] == "ok"]
    outputs = _outputs(rng, sorted(committed if rng.random() < 0.8 else sent))
    h.add(6, "poll", role="reader", outputs=_rows(h, outputs if rng.random() < 0.7 else _troubled(rng, outputs)))
    shown = {partition: [record[1] for record in committed if record[0] == partition] for partition in INPUTS}
    h.final({**shown, **{partition: [] for partition in OUTPUTS}})
    finals = [op for op in h.ops if op["final"] and op["f"] == "poll" and op["isolation"] == "read_committed"]
    finals[0]["outputs"] = _rows(h, outputs)
    keys = rng.choice([1, 1, 3])
    finals[0]["counts"] = _counts(rng, outputs, {v: (partition, v >> 39, key_number_of(v, keys)) for partition, _, v, _ in sent})
    group = rng.choice(["", "g"])
    ends = {partition: rng.choice([END, END, 6]) for partition in INPUTS}
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": group, "offsets": ends}))
    declared = {"group": group, "outputs": rng.choice([[1, 1], [1, 1], [0, 1], [1, 2]]), "output_partitions": [*OUTPUTS]}
    declared |= {
        "keys": keys,
        "counts": rng.random() < 0.7,
        "ordered": rng.random() < 0.5,
        "drained": rng.random() < 0.8,
        "waited_s": 1.0,
    }
    h.add(-1, "drain", isolation=None, detail=json.dumps(declared))
    below = [(partition, offset, v) for partition, offset, v, _ in sorted(committed) if not group or offset < ends[partition]]
    if rng.random() < 0.8:
        _stores(h, rng, [(f"{partition}/{v >> 39}/{key_number_of(v, keys)}", v) for partition, _, v in below])
    return h.ops


def _stores(h: History, rng: Random, processed: list[tuple[str, int]]) -> None:
    """A changelog in two partitions, and copies of a store, mostly what the inputs make of it; processed: (key, v) in order."""
    kind, logs, counts = rng.choice(["counted", "last"]), {"log-0": [], "log-1": []}, dict[str, int]()
    for name, v in processed:
        counts[name] = counts.get(name, 0) + 1 + (rng.random() < 0.03)
        _append(rng, logs[f"log-{name.partition('/')[0][-1]}"], (kind, name, counts[name] if kind == "counted" else v))
    if rng.random() < 0.2:
        odd = rng.choice([(kind, "in-0/9/0", 1), ("strange", "in-1/0/0", -1), ("removed", "in-1/9/0", -1)])
        _append(rng, logs[f"log-{odd[1][3]}"], odd)
    for partition, rows in logs.items():
        given = rows[1:] if rng.random() < 0.1 else rows
        entries = [{"partition": partition, **entry} for entry in given]
        h.add(-1, "read-log", isolation=None, role="harness", entries=entries, type="ok" if rng.random() < 0.9 else "info")
        for node, role in (("c2", "active"), ("c3", "standby")):
            _copy(h, rng, (f"{node}:{partition}", role), rows)


def _append(rng: Random, log: list[dict[str, Any]], content: tuple[str, str, int]) -> None:
    """A record of a changelog, in a transaction that may be tried twice, or be open at the end, or in none."""
    endings = rng.choice([[""], ["COMMIT"], ["COMMIT"], ["COMMIT"], ["ABORT", "COMMIT"], ["ABORT", "COMMIT"]])
    for ending in endings if rng.random() < 0.97 else ["open"]:
        producer = (7 if ending != "open" else 8) if ending else -1
        row = {"timestamp": 0, "producer_id": producer, "producer_epoch": 0, "transactional": bool(ending)}
        for kind, name, number in [content, (ending, "", -1)] if ending in ("COMMIT", "ABORT") else [content]:
            log.append({**row, "offset": len(log), "kind": kind, "name": name, "number": number})


def _copy(h: History, rng: Random, who: tuple[str, str], log: list[dict[str, Any]]) -> None:
    """An instance's copy of a changelog up to a position."""
    position = len(log) if who[1] == "active" else rng.randint(0, len(log))
    held: dict[str, Any] = {}
    for at, entry in enumerate(log[:position]):
        ending = next((row["kind"] for row in log[at:] if row["kind"] in ("COMMIT", "ABORT")), "open")
        if entry["name"] and (not entry["transactional"] or (ending == "COMMIT" and entry["producer_id"] == 7)):
            held[entry["name"]] = entry
    rows = [{**entry, "offset": 1 + at} for at, entry in enumerate(held.values()) if entry["kind"] != "removed"]
    trouble = rng.choice([*[""] * 24, "altered", "lost", "more", "unknown"])
    if rows and trouble == "altered":
        rows[0]["number"] += 1
    elif rows and trouble == "lost":
        rows.pop()
    elif trouble == "more":
        rows.append({**dict.fromkeys(("timestamp", "producer_id", "producer_epoch", "transactional")), "kind": "counted"})
        rows[-1] |= {"offset": END, "name": "in-0/8/0", "number": 1}
    about = {"offset": 0, "kind": who[1], "name": "counts", "number": -1 if trouble == "unknown" else position}
    about |= dict.fromkeys(("timestamp", "producer_id", "producer_epoch", "transactional"))
    h.add(-1, "read-store", isolation=None, role="harness", entries=[{"partition": who[0], **entry} for entry in (about, *rows)])


def inputs(rng: Random) -> dict[str, Any]:
    return {partition: iter(range(0, END, 2)) for partition in INPUTS}


def _inputs(h: History, rng: Random, free: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    """Transactions of two writers; (partition, offset, v, outcome) of what they sent."""
    sent = []
    for _ in range(rng.randint(2, 5)):
        kind = rng.choice(["ok", "ok", "ok", "fail", "info"])
        sends = {partition: [next(free[partition]) for _ in range(rng.randint(1, 3))] for partition in INPUTS}
        number = h.txn(rng.randint(0, 1), sends, kind)
        sent += [(mop[1], mop[3], mop[2], kind) for mop in h.ops[number]["mops"]]
    return sent


def _outputs(rng: Random, sent: list[tuple[str, int, int, str]]) -> list[tuple[str, int, int]]:
    """An output of each input, with now and then one more, one less, a phantom or two in the wrong order."""
    made = [v for _, _, v, _ in sent]
    trouble = rng.choice(["", "", "twice", "not at all", "phantom", "order"])
    at = rng.randrange(len(made)) if made else 0
    if made and trouble == "twice":
        made.insert(rng.randrange(len(made)), made[at])
    elif made and trouble == "not at all":
        made.pop(at)
    elif trouble == "phantom":
        made.insert(at, rng.choice([-1, 77 << 39]))
    elif trouble == "order":
        rng.shuffle(made)
    return [(rng.choice(OUTPUTS), offset, v) for offset, v in enumerate(made)]


def _counts(rng: Random, outputs: list[tuple[str, int, int]], keys: dict[int, Any]) -> list[dict[str, Any]]:
    """The program's state with each output: how many of its key there were; now and then a wrong number, or nothing."""
    counted, rows = dict[Any, int](), []
    trouble, at = rng.choice(["", "", "more", "less", "nothing"]), rng.randrange(len(outputs) + 1)
    for number, (partition, offset, v) in enumerate(outputs):
        key = keys.get(v)
        counted[key] = counted.get(key, 0) + 1 + {"more": 1, "less": -1}.get(trouble, 0) * (number == at)
        if trouble != "nothing" or number != at:
            rows.append({"partition": partition, "offset": offset, "count": counted[key]})
    return rows


def _troubled(rng: Random, outputs: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Outputs with one more, which a reader got and which is not there in the end."""
    return [*outputs, (rng.choice(OUTPUTS), END + 1, outputs[0][2] if outputs else -1)]


def _rows(h: History, outputs: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    return [{"partition": partition, "offset": offset, "v": v, "ended": h.now} for partition, offset, v in outputs]
