"""Small random histories of pipelines, mostly lawful, with trouble of every kind now and then."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from support.histories import History
from support.random_histories import STEP

Ops = list[dict[str, Any]]
Inputs = dict[str, list[tuple[int, int]]]  # partition -> offset and identity of its committed records
INPUTS, OUTPUTS = ("in-0", "in-1"), ("out-0", "out-1")
END = 60


def pipeline_history(rng: Random) -> Ops:
    """Input records, transactions of a few members, the final read of most of it, and the group's offsets."""
    h, free = History(), {partition: iter(range(0, END, 2)) for partition in (*INPUTS, *OUTPUTS)}
    given: Inputs = {partition: [] for partition in INPUTS}
    for _ in range(rng.randint(1, 4)):
        sends = {partition: [next(free[partition]) for _ in range(rng.randint(1, 3))] for partition in INPUTS}
        h.txn(0, sends, rng.choice(["ok", "ok", "ok", "fail"]))
    for op in h.ops:
        for _, partition, v, offset, *_ in op["mops"]:
            given[partition] += [(offset, v)] if op["type"] == "ok" else []
    next_offset = dict.fromkeys(INPUTS, 0)
    for _ in range(rng.randint(2, 9)):
        _transaction(rng, h, given, free, next_offset)
    _final_reads(rng, h)
    if rng.random() < 0.9:
        ends = {partition: offset + rng.choice([0, 0, 0, 0, 1, -1]) for partition, offset in next_offset.items() if offset}
        ends |= {partition: None for partition in ends if rng.random() < 0.05}
        h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": ends}))
    return h.ops


def _transaction(
    rng: Random, h: History, given: dict[str, list[tuple[int, int]]], free: Any, next_offset: dict[str, int]
) -> None:
    """One member processes the next records of a partition; sometimes others, and sometimes one that was processed before."""
    member, partition = rng.choice((2, 3, 4)), rng.choice(INPUTS)
    start = next_offset[partition] if rng.random() < 0.85 else rng.randrange(END // 2)
    batch = [record for record in given[partition] if record[0] >= start][: rng.randint(1, 3)]
    if not batch:
        return
    if rng.random() < 0.4:
        offsets = {at: rng.choice([next_offset[at], next_offset[at], next_offset[at] - 2]) for at in INPUTS}
        detail: dict[str, Any] = {"offsets": {at: offset if offset > 0 else None for at, offset in offsets.items()}}
        detail |= {"rebalances": [["assigned", [partition]]]} if offsets[INPUTS[0]] == offsets[INPUTS[1]] else {}
        h.add(rng.choice((2, 3, 4)), "committed", detail=json.dumps(detail))
    type = rng.choice(["ok", "ok", "ok", "ok", "fail", "info"])
    made = [{out: [next(free[out])] for out in OUTPUTS if rng.random() < 0.5} for _ in batch]
    sends: dict[str, list[int]] = {}
    for outputs in made:
        for out, offsets in outputs.items():
            sends.setdefault(out, []).extend(offsets)
    extra = {"end": None, "decided": None} if type == "info" and rng.random() < 0.5 else {}
    op = h.ops[h.txn(member, sends, type, **extra)]
    if op["end"] is None and op["index"] % 2:
        op["intent"] = "abort"
    named = {(mop[1], mop[3]): mop[2] for mop in op["mops"]}
    op["chains"] = []
    for (offset, v), outputs in zip(batch, made, strict=True):
        records = [named[out, place] for out, places in outputs.items() for place in places]
        op["chains"] += [{"partition": partition, "offset": offset, "v": v, "output": output} for output in records or [None]]
    op["offsets"] = [{"partition": partition, "offset": batch[-1][0] + 1}]
    if rng.random() < 0.3:
        op["detail"] = json.dumps({"rebalances": [["assigned", [rng.choice(INPUTS)]]]})
    op["time"] -= rng.choice([0, 0, 0, STEP])  # some overlap
    if rng.random() < 0.2:  # a member fetches the offset while it is under way, or is being decided
        begin = op["time"] + rng.choice([1, STEP // 2])
        document = json.dumps({"offsets": {partition: batch[-1][0] + 1}})
        h.add(rng.choice((2, 3, 4, 9)), "committed", detail=document, time=begin, end=begin + rng.choice([1, STEP]))
    if type == "ok" and rng.random() < 0.95:
        next_offset[partition] = batch[-1][0] + 1


def _final_reads(rng: Random, h: History) -> None:
    """A complete read_committed final read; now and then it lacks a record, has one of an aborted transaction, or is missing."""
    if rng.random() < 0.1:
        return
    sent = [(op["type"], mop) for op in h.ops for mop in op["mops"] if mop[0] == 0]
    shown: dict[str, list[tuple[int, int]]] = {partition: [] for partition in (*INPUTS, *OUTPUTS)}
    for type, (_, partition, v, offset, *_) in sent:
        likely = {"ok": 0.97, "fail": 0.03}.get(type, 0.5)
        if offset is not None and rng.random() < likely:
            shown[partition].append((offset, v))
    h.now += 100 * STEP
    h.poll(90, {partition: sorted(some) for partition, some in shown.items() if some}, final=True, role="final")
    spans = {partition: [0, END, END] for partition in shown if rng.random() < 0.97}
    h.add(90, "final-read", isolation="read_committed", final=True, role="final", detail=json.dumps(spans))
