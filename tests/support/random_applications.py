"""Small random histories of programs of somebody's own, mostly lawful, with trouble of every kind now and then."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from harness.api.record_ids import key_number_of
from support.histories import History

INPUTS, OUTPUTS = ("in-0", "in-1"), ("out-0", "out-1")
END = 90


def application_history(rng: Random) -> list[dict[str, Any]]:
    """Input transactions, the outputs that a reader and the final readers got, the program's group, what it declares."""
    h, given = History(), inputs(rng)
    sent = _inputs(h, rng, given)
    committed = [one for one in sent if one[3] == "ok"]
    outputs = _outputs(rng, sorted(committed if rng.random() < 0.8 else sent))
    h.add(6, "poll", role="reader", outputs=_rows(h, outputs if rng.random() < 0.7 else _troubled(rng, outputs)))
    shown = {partition: [one[1] for one in committed if one[0] == partition] for partition in INPUTS}
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
    return h.ops


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
    """An output of each input, with now and then one more, one less, one of nobody or two in the wrong order."""
    made = [v for _, _, v, _ in sent]
    trouble = rng.choice(["", "", "twice", "not at all", "nobody", "order"])
    at = rng.randrange(len(made)) if made else 0
    if made and trouble == "twice":
        made.insert(rng.randrange(len(made)), made[at])
    elif made and trouble == "not at all":
        made.pop(at)
    elif trouble == "nobody":
        made.insert(at, rng.choice([-1, 77 << 39]))
    elif trouble == "order":
        rng.shuffle(made)
    return [(rng.choice(OUTPUTS), offset, v) for offset, v in enumerate(made)]


def _counts(rng: Random, outputs: list[tuple[str, int, int]], keys: dict[int, Any]) -> list[dict[str, Any]]:
    """What each output says of the program's state: how many of its key there were; now and then a wrong number, or nothing."""
    counted, rows = dict[Any, int](), []
    trouble, at = rng.choice(["", "", "more", "less", "nothing"]), rng.randrange(len(outputs) + 1)
    for number, (partition, offset, v) in enumerate(outputs):
        key = keys.get(v)
        counted[key] = counted.get(key, 0) + 1 + {"more": 1, "less": -1}.get(trouble, 0) * (number == at)
        if trouble != "nothing" or number != at:
            rows.append({"partition": partition, "offset": offset, "count": counted[key]})
    return rows


def _troubled(rng: Random, outputs: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """What a reader got that is not what is there in the end."""
    return [*outputs, (rng.choice(OUTPUTS), END + 1, outputs[0][2] if outputs else -1)]


def _rows(h: History, outputs: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    return [{"partition": partition, "offset": offset, "v": v, "ended": h.now} for partition, offset, v in outputs]
