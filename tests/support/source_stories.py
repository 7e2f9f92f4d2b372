"""What a connector wrote to a topic and to its offsets topic, by hand, and the verdict on it."""

from __future__ import annotations

from fencepost.checkers.engine.registry import installed_checks
from support.histories import History
from support.judging import judge_here
from support.random_sources import visible_in
from support.source_reference import TWINS

CHECKS = [check for check in installed_checks()[0] if check.name in TWINS]
CONTRACT = {"connect": "enabled", "transactional": "false"}


def row(partition, offset, name, number, kind="record", producer=7, epoch=0):
    """An entry; producer None: outside transactions."""
    own = {"producer_id": producer, "producer_epoch": epoch} if producer else {"producer_id": -1, "producer_epoch": -1}
    place = {"partition": partition, "offset": offset, "timestamp": 0, "kind": kind, "name": name, "number": number}
    return {**place, **own, "transactional": bool(producer)}


def connector(folder, target, stored, contract=None, **rest):
    """The verdict on a connector that wrote these entries to t-0 and to its offsets topic."""
    h = History()
    for request in rest.get("requests", ()):
        h.add(3, "rest", role="conductor", detail=request)
    h.final({"t-0": []})
    if rest.get("cut_short"):
        h.cut_short("t-0")
    final = next(op for op in h.ops if op["final"] and op["f"] == "poll" and op["isolation"] == "read_committed")
    unknown = {"producer_id": None, "producer_epoch": None, "transactional": None}
    final["entries"] = [{**entry, **unknown} for entry in visible_in(target)]
    h.add(-1, "read-log", type=rest.get("read", "ok"), isolation=None, entries=[*target, *stored])
    return judge_here(folder, h.ops, {**CONTRACT, **(contract or {})}, CHECKS)


def commit(partition, offset, epoch=0):
    return row(partition, offset, "", -1, "COMMIT", epoch=epoch)
