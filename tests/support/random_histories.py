"""Small random histories, in some of which most things go wrong, and contracts under which they are judged."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fencepost.harness.api import record_id, record_ids
from support.histories import COMMITTED, STEP, UNCOMMITTED, History
from support.reference import Contract

MOVES = ("assign", "assign", "assign", "subscribe", "crash")
Ops = list[dict[str, Any]]
ENDS = 50  # where every final read ends that is complete


def varied_history(rng: Random) -> Ops:
    """Sends in transactions and outside, offsets known and unknown, gaps; readers at both levels; final reads of some partitions.

    Half of the histories are lawful but for what comes by chance: every reader gets what is visible to it, in order.
    """
    h = History()
    partitions = [f"t-{number}" for number in range(rng.randint(1, 3))]
    free = {partition: iter(sorted(rng.sample(range(40), 24))) for partition in partitions}
    lawful, outside = rng.random() < 0.5, rng.choice([0.0, 0.0, 0.3, 1.0])
    sent: list[tuple[int, tuple[Any, ...]]] = []
    for _ in range(rng.randint(2, 8)):
        index = _writer(rng, h, free, lawful, rng.random() < outside)
        sent += [(index, mop) for mop in h.ops[index]["mops"]]
        if rng.random() < 0.4:
            _poll(rng, h, sent, lawful, rng.choice((5, 6)))
    for reader in (5, 6, 7):
        for _ in range(rng.randrange(3)):
            _poll(rng, h, sent, lawful, reader)
    if rng.random() < 0.3:
        settled = {partition: rng.choice([(50, 50), (20, 50), (-1, 50), (30, -1)]) for partition in partitions}
        h.settle(settled, type="ok" if set(settled.values()) == {(50, 50)} else "info")
    if rng.random() < 0.7:
        _final_reads(rng, h, sent, lawful, partitions)
    if rng.random() < 0.08:  # after the final read
        _writer(rng, h, free, lawful, rng.random() < outside)
    if rng.random() < 0.25:
        swallow(rng, h.ops)
    if rng.random() < 0.1:
        _uncommit(rng, h.ops)
    return _initialised(rng, h.ops) if rng.random() < 0.3 else h.ops


def moving_history(rng: Random) -> Ops:
    """A history whose readers are assigned anew, subscribe, seek, crash, and get and lose partitions as members of a group."""
    h = History()
    h.ops = varied_history(rng)
    for op in h.ops:
        op["end"] = op["end"] or op["time"] + STEP - 1  # else what else was read is unknown
    partitions = sorted({mop[1] for op in h.ops for mop in op["mops"]}) or ["t-0"]
    readers = [op for op in h.ops if op["f"] == "poll" and not op["final"]]
    ops: Ops = []
    for op in h.ops:
        if op in readers and rng.random() < 0.4:
            ops.append(_move(rng, op, partitions))
        ops.append(_rebalanced(rng, op, partitions) if op in readers else op)
    ops += [_seek(rng, op, partitions) for op in readers if rng.random() < 0.3]
    ops.sort(key=lambda op: op["time"])
    return [{**op, "index": number} for number, op in enumerate(ops)]


def open_history(rng: Random) -> Ops:
    """A history whose transactions go on sending while others do their work."""
    ops = varied_history(rng)
    for number, op in enumerate(ops):
        if op["f"] == "txn" and op["end"] and op["mops"] and rng.random() < 0.7:
            own = [other["time"] for other in ops[number + 1 :] if other["process"] == op["process"]]
            free = min([*own, max(other["time"] for other in ops)]) - op["end"] - 1  # until its process goes on
            later, cut = max(0, min(free, rng.randint(1, 8) * STEP)), rng.randrange(len(op["mops"]) + 1)
            op["mops"] = [mop if at < cut else _later(mop, later) for at, mop in enumerate(op["mops"])]
            op["decided"], op["end"] = (time + later if time else time for time in (op["decided"], op["end"]))
    return ops


def _later(mop: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    """A send, later."""
    return (*mop[:4], *(time + by if time else time for time in mop[4:]))


def blind_history(rng: Random) -> Ops:
    """A history, with moves or without, that lacks what some polls returned, and where some records were acknowledged."""
    ops = moving_history(rng) if rng.random() < 0.3 else varied_history(rng)
    for op in ops:
        if op["f"] == "poll" and not op["final"] and rng.random() < 0.3:
            _forget_polls(rng, op)
        elif op["f"] == "txn" and rng.random() < 0.3:  # its acknowledgements have no offsets, or there are none
            unknown = op["type"] == "info" and rng.random() < 0.7
            op["mops"] = [(*mop[:3], None, mop[4], None if unknown else mop[5]) for mop in op["mops"]]
    keep_finals = rng.random() < 0.2
    ops = [op for op in ops if keep_finals or not op["final"]]
    return [{**op, "index": number} for number, op in enumerate(ops)]


def _forget_polls(rng: Random, op: dict[str, Any]) -> None:
    """An operation loses what its last poll returned, or one in the middle; or it never completes."""
    mops = op["mops"]
    if rng.random() < 0.3:
        op.update(type="info", end=None, mops=[])
        return
    cut = rng.randrange(len(mops) + 1)
    op["mops"] = mops[:cut] + (mops[rng.randint(cut, len(mops)) :] if rng.random() < 0.3 else [])
    several = sorted({mop[1] for mop in mops[:cut]} & {mop[1] for mop in op["mops"][cut:]})
    detail = {**json.loads(op["detail"] or "{}"), **({"parted": several} if several else {}), "unheard": True}
    op.update(type="info", detail=json.dumps(detail))


def undecided_history(rng: Random, lose: bool) -> tuple[Ops, bool]:
    """A lawful history without final reads, with transactions of unknown outcome and polls without known result.

    lose: one record of a committed transaction is returned to nobody. The second answer: whether the history shows that this
    transaction committed.
    """
    h, logs, positions = History(), {f"t-{number}": [] for number in range(rng.randint(1, 2))}, {}
    logs: dict[str, list[int | None]]  # None: a marker, or a record that no reader gets
    lost: list[tuple[int, int]] = []
    for process in (5, 6, 7):
        some = [partition for partition in logs if rng.random() < 0.8] or ["t-0"]
        sought = {"seek_to_beginning": True} if rng.random() < 0.5 else {}
        h.add(process, "assign", detail=json.dumps({"partitions": some, **sought}))
        positions[process] = dict.fromkeys(some, 0)
    for _ in range(rng.randint(4, 14)):
        if rng.random() < 0.5:
            _decided_or_not(rng, h, logs, lost if lose else [(0, 0)])
        else:
            _poll_on(rng, h, logs, positions)
    return h.ops, any(_shown(h.ops, index) for index, v in lost if v)


def _decided_or_not(rng: Random, h: History, logs: dict[str, list[int | None]], lost: list[tuple[int, int]]) -> None:
    """A transaction over some partitions; the first one that committed loses a record, unless one is in `lost`."""
    type = rng.choice(["ok", "ok", "info", "info", "fail"])
    chosen = [partition for partition in logs for _ in range(rng.randint(0, 2))] or ["t-0"]
    places = {partition: len(logs[partition]) for partition in logs}
    sends: dict[str, list[int | None]] = {}
    for partition in chosen:
        sends.setdefault(partition, []).append(places[partition] + len(sends.get(partition, [])))
    index = h.txn(rng.randrange(3), sends, type)
    committed = type == "ok" or (type == "info" and rng.random() < 0.7)
    mops = h.ops[index]["mops"]
    gone = rng.choice(mops)[2] if committed and not lost and rng.random() < 0.5 else None
    lost += [(index, gone)] if gone is not None else []
    for _, partition, v, *_rest in mops:
        logs[partition].append(v if committed and v != gone else None)
    for partition in sends:
        logs[partition].append(None)
    if type == "info" or rng.random() < 0.3:
        h.ops[index]["mops"] = [(*mop[:3], None, mop[4], None if type == "info" else mop[5]) for mop in mops]
    if type == "info":
        h.ops[index]["decided"] = h.ops[index]["time"]


def _poll_on(rng: Random, h: History, logs: dict[str, list[int | None]], positions: dict[int, dict[str, int]]) -> None:
    """A consumer goes on from where it is. The history may lack what it got."""
    process = rng.choice(list(positions))
    reads: dict[str, list[tuple[int, int]]] = {}
    for partition, start in positions[process].items():
        stop = min(len(logs[partition]), start + rng.randint(0, 4))
        reads[partition] = [(at, v) for at in range(start, stop) if (v := logs[partition][at]) is not None]
        positions[process][partition] = stop
    if rng.random() < 0.25:
        h.add(process, "poll", type="info", detail=json.dumps({"unheard": True}), role="reader")
    else:
        h.poll(process, {partition: some for partition, some in reads.items() if some})


def _shown(ops: Ops, index: int) -> bool:
    """True if a transaction ended ok, or a reader got a record of it."""
    mine = {mop[2] for mop in ops[index]["mops"]}
    return ops[index]["type"] == "ok" or any(mop[0] == 1 and mop[2] in mine for op in ops for mop in op["mops"])


def _initialised(rng: Random, ops: Ops) -> Ops:
    """Writers initialise transactional ids before their first transactions, some of them the same; and now and then anew, or
    another process does it."""
    writers: dict[int, list[dict[str, Any]]] = {}
    for op in ops:
        if op["f"] == "txn":
            writers.setdefault(op["process"], []).append(op)
    ids = {process: rng.choice("ab") for process in writers}
    for process, own in writers.items():
        for op in own:
            op["transactional_id"] = ids[process]
    calls = [_initialise(rng, own[0], process, ids[process], "ok") for process, own in writers.items()]
    for op in (op for op in ops if rng.random() < 0.15):
        process = rng.choice([8, *writers])
        calls.append(_initialise(rng, op, process, ids.get(process, "a"), rng.choice(["ok", "ok", "info", "fail"])))
    merged = sorted([*calls, *ops], key=lambda op: int(op["time"]))
    return [{**op, "index": number} for number, op in enumerate(merged)]


def _initialise(rng: Random, before: dict[str, Any], process: int, transactional_id: str, type: str) -> dict[str, Any]:
    """A call right before an operation begins, or before its commit is called."""
    late = rng.random() < 0.5 and before["decided"] and process != before["process"]
    start = before["decided"] if late else before["time"]
    call = {"f": "initialise", "type": type, "process": process, "transactional_id": transactional_id, "mops": []}
    nothing = {"decided": None, "intent": None, "detail": None, "final": False}
    return {**before, **call, **nothing, "time": start - 2, "end": start - 1}


def _move(rng: Random, op: dict[str, Any], partitions: list[str]) -> dict[str, Any]:
    """A reader's assignment, subscription or crash right before an operation."""
    f, some = rng.choice(MOVES), [partition for partition in partitions if rng.random() < 0.7]
    seek = {"seek_to_beginning": True} if f == "assign" and rng.random() < 0.4 else {}
    detail = None if f == "crash" else json.dumps({"partitions": some, **seek})
    type = rng.choice(["ok", "ok", "ok", "info", "fail"])
    return {**op, "f": f, "type": type, "time": op["time"] - 2, "end": op["time"] - 1, "mops": [], "detail": detail}


def _seek(rng: Random, op: dict[str, Any], partitions: list[str]) -> dict[str, Any]:
    """A reader's seek in some partitions right before an operation."""
    some = {partition: rng.choice([0, rng.randrange(12), 40, None]) for partition in partitions if rng.random() < 0.6}
    rebalances = [["assigned", [rng.choice(partitions)]]]
    told = {"rebalances": rebalances} if rng.random() < 0.1 else {}
    f = "committed" if told and not some else "seek"  # whichever call comes next tells of a rebalance
    said = None if rng.random() < 0.1 else json.dumps({"offsets" if f == "committed" else "positions": some, **told})
    type = rng.choice(["ok", "ok", "ok", "info", "fail"])
    return {**op, "f": f, "type": type, "time": op["time"] - 4, "end": op["time"] - 3, "mops": [], "detail": said}


def _rebalanced(rng: Random, op: dict[str, Any], partitions: list[str]) -> dict[str, Any]:
    """An operation of several polls, in some of which the group moves partitions."""
    events = [
        [rng.choice(["assigned", "assigned", "revoked", "lost"]), [partition for partition in partitions if rng.random() < 0.6]]
    ]
    events += [[rng.choice(["assigned", "revoked"]), [rng.choice(partitions)]]] if rng.random() < 0.2 else []
    cut = rng.randrange(len(op["mops"]) + 1)
    mops = [mop if number < cut else (*mop[:5], mop[5] + 1) for number, mop in enumerate(op["mops"])]
    detail = json.dumps({"rebalances": events}) if rng.random() < 0.4 else None
    return {**op, "mops": mops, "detail": detail, "type": "info" if rng.random() < 0.1 else op["type"]}


def swallow(rng: Random, ops: Ops) -> None:
    """One record vanishes from every read, acknowledged at the place of another record of its producer, mostly an older one."""
    sent = [mop for op in ops for mop in op["mops"] if mop[0] == 0 and mop[3] is not None]
    pairs = [
        (first, second)
        for first in sent
        for second in sent
        if first[1] == second[1] and _producer(first) == _producer(second) and first is not second
    ]
    if not pairs:
        return
    older, gone = sorted(rng.choice(pairs), key=lambda mop: mop[2], reverse=rng.random() < 0.2)
    for op in ops:
        left = [mop for mop in op["mops"] if mop[0] == 0 or mop[2] != gone[2]]
        op["mops"] = [(*mop[:3], older[3], *mop[4:]) if mop is gone else mop for mop in left]


def _uncommit(rng: Random, ops: Ops) -> None:
    """A transaction whose commit returned ok was not committed: no read_committed reader gets anything of it."""
    committed = [op for op in ops if op["f"] == "txn" and op["type"] == "ok" and any(mop[0] == 0 for mop in op["mops"])]
    if not committed:
        return
    gone = {mop[2] for mop in rng.choice(committed)["mops"] if mop[0] == 0}
    for op in ops:
        if op["isolation"] == COMMITTED:
            op["mops"] = [mop for mop in op["mops"] if mop[0] == 0 or mop[2] not in gone]


def _producer(mop: tuple[Any, ...]) -> int:
    return int(record_ids.process_of(mop[2]))


def varied_contract(rng: Random, groups: float = 0.0) -> tuple[Contract, dict[str, str]]:
    """A contract as the reference and as the checker read it. groups: how likely readers are members of a group."""
    chances = (0.2, 0.2, 0.8, 0.7, groups, 0.15)
    contract = Contract(*(rng.random() < chance for chance in chances))
    texts = {
        "readers": "all" if contract.readers else "own",
        "isolation": UNCOMMITTED if contract.uncommitted else COMMITTED,
        "transactional": str(contract.ordered).lower(),
        "idempotence": str(contract.ordered).lower(),
        "consumption": "subscribed" if contract.groups else "assigned",
        "first_poll": "beginning" if contract.from_start else "anywhere",
        "retention": "60000" if contract.deletes else "none",
    }
    return contract, texts


def _writer(rng: Random, h: History, free: dict[str, Any], lawful: bool, outside: bool) -> int:
    """One operation that sends to some partitions; returns its index."""
    chosen = [partition for partition in free if rng.random() < 0.7] or [next(iter(free))]
    sends = {p: [next(free[p]) if rng.random() < 0.85 else None for _ in range(rng.randint(1, 2))] for p in chosen}
    type = rng.choice(["ok", "ok", "ok", "fail", "info"])
    process = rng.randrange(3)
    if outside:
        extra: dict[str, Any] = {"end": None} if type == "info" and rng.random() < 0.5 else {}
        return h.send(process, sends if type != "fail" else {p: [None] for p in chosen}, type, **extra)
    extra = {"intent": "abort", "decided": None} if type == "fail" else {}
    if type == "info":
        extra = rng.choice([{}, {"end": None, "decided": None}, {"decided": None, "intent": "abort"}])
    index = h.txn(process, sends, type, **extra)
    op = h.ops[index]
    if op["type"] == "info" and op["intent"] == "abort" and index % 2:  # its worker was killed
        op["end"] = None
    if rng.random() < 0.2:  # it goes on while others do their work
        later = rng.randint(1, 4) * STEP
        op["decided"], op["end"] = (time + later if time else time for time in (op["decided"], op["end"]))
    if rng.random() < 0.15:  # its acknowledgements have no offsets
        op["mops"] = [(*mop[:3], None, *mop[4:]) for mop in op["mops"]]
    if type == "info" and not lawful and rng.random() < 0.2:  # it stopped before its last send
        op["mops"][-1] = (*op["mops"][-1][:3], None, None, None)
    return index


def _visible(h: History, sent: list[tuple[int, tuple[Any, ...]]], level: str, rng: Random, lawful: bool) -> dict[str, Any]:
    """Records that a reader gets now: partition -> (offset, v), mostly in order."""
    visible: dict[str, list[tuple[int, int]]] = {}
    for index, (_, partition, v, offset, *_rest) in sent:
        op = h.ops[index]
        hidden = level == COMMITTED and op["f"] == "txn" and (op["type"] == "fail" or (op["decided"] or 0) > h.now)
        if lawful and (hidden or (op["type"] == "info" and op["process"] == 2)):
            continue
        place = offset if offset is not None else v % 7 + 41
        if not lawful and rng.random() < 0.15:
            continue
        if not lawful and rng.random() < 0.05:
            place = rng.randrange(48)
        home = partition if lawful or rng.random() < 0.97 else "t-0"
        visible.setdefault(home, []).extend([(place, v)] * (2 if not lawful and rng.random() < 0.04 else 1))
    if not lawful and rng.random() < 0.05:
        visible.setdefault("t-0", []).append((rng.randrange(48), record_id(9, 999, 0)))
    return {partition: sorted(reads) if lawful or rng.random() < 0.8 else reads for partition, reads in visible.items()}


def _poll(rng: Random, h: History, sent: list[tuple[int, tuple[Any, ...]]], lawful: bool, reader: int) -> None:
    """The next records of a reader; a lawful one goes on behind what it got."""
    level = UNCOMMITTED if reader == 6 else COMMITTED
    reads = _visible(h, sent, level, rng, lawful)
    got = {(mop[1], mop[2]) for op in h.ops if op["process"] == reader for mop in op["mops"]}
    if lawful or rng.random() < 0.5:
        reads = {partition: [record for record in some if (partition, record[1]) not in got] for partition, some in reads.items()}
    reads = {partition: some[: rng.randint(0, 4)] for partition, some in reads.items()}
    h.poll(reader, {partition: some for partition, some in reads.items() if some}, level)


def _final_reads(rng: Random, h: History, sent: list[tuple[int, tuple[Any, ...]]], lawful: bool, partitions: list[str]) -> None:
    """Final reads at one level or both, complete in some partitions."""
    h.now += 10 * STEP
    for process, level in ((90, COMMITTED), (91, UNCOMMITTED)):
        if rng.random() < 0.15:
            continue
        h.poll(process, _visible(h, sent, level, rng, lawful), level, final=True, role="final")
        spans = [[0, ENDS, ENDS], [0, ENDS, ENDS], [0, 25, 25], [0, ENDS, ENDS - 1], [0, -1, -1]]
        ends = {partition: rng.choice(spans) for partition in partitions}
        h.add(process, "final-read", isolation=level, final=True, role="final", detail=json.dumps(ends))
