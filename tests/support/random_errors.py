"""Random histories of errors: processes of one or two transactional ids, with misuse, faults and all classes of errors; and the
counts of some rows of KIP-98's table, slowly."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from support.fencing_reference import REFUSED
from support.histories import History

CALLS = ("begin", "deliver", "send", "flush", "send_offsets", "commit", "abort")
NAMES = (*REFUSED, "INVALID_TXN_STATE", "_TIMED_OUT", "TOPIC_AUTHORIZATION_FAILED", "_CONFLICT", "DUPLICATE_SEQUENCE_NUMBER")
FLAGS = ({"fatal": True}, {"retriable": True}, {"abortable": True}, {})
MISUSES = {
    "begin twice": ("begin", "a transaction is open already"),
    "commit outside": ("commit", "no transaction is open: commit"),
    "abort outside": ("abort", "no transaction is open: abort"),
    "offsets outside": ("send_offsets", "no transaction is open: offsets"),
    "send outside": ("send", "no transaction is open: a record"),
}
FENCED = "another instance has initialised, and the coordinator refuses the old epoch"
LEADER = "another instance has initialised, and a partition's leader refuses the old epoch"
STATE = "nobody has initialised since, and the calls were made in order"
AFTER_FATAL = "an earlier call of the same instance had a fatal error"
DUPLICATE = "a sequence number was seen before: the record is there"
ROWS = (FENCED, LEADER, STATE, AFTER_FATAL, DUPLICATE, *(situation for _, situation in MISUSES.values()))
DOUBTED = (LEADER, AFTER_FATAL, "no transaction is open: a record")
CALM_NS = 15_000_000_000
Op = dict[str, Any]
Span = tuple[int, int | None]


def errors_history(rng: Random) -> list[Op]:
    """Operations one after the other, of two processes with one id and one with another."""
    h = History()
    for _ in range(rng.randint(3, 14)):
        process = rng.randrange(3)
        own = {"transactional_id": "shared" if process < 2 else "alone"}
        h.now += rng.choice([0, 0, 0, 20_000_000_000])
        drawn = rng.random()
        if drawn < 0.3:
            h.add(process, "initialise", type=rng.choice(["ok", "ok", "info"]), **own)
        elif drawn < 0.5:
            _misuse(rng, h, process, own)
        else:
            _transaction(rng, h, process, own)
    h.final({})
    return h.ops


def _misuse(rng: Random, h: History, process: int, own: dict[str, Any]) -> None:
    name, refused = rng.choice([*MISUSES]), rng.random() < 0.5
    errors = [_error(h, MISUSES[name][0], "_STATE", rng.choice(FLAGS))] if refused else []
    detail = f'{{"misuse": "{name}", "reached": {"true" if rng.random() < 0.9 else "false"}}}'
    h.add(process, "misuse", type="fail" if refused else "ok", errors=errors, detail=detail, **own)


def _transaction(rng: Random, h: History, process: int, own: dict[str, Any]) -> None:
    errors = [_error(h, rng.choice(CALLS), rng.choice(NAMES), rng.choice(FLAGS)) for _ in range(rng.choice([0, 1, 1, 2]))]
    if rng.random() < 0.2:
        name = rng.choice(REFUSED)
        errors = [_error(h, "deliver", name, {}), _error(h, rng.choice(("commit", "send_offsets")), name, rng.choice(FLAGS))]
    kind = rng.choice(["fail", "info"]) if errors else "ok"
    h.txn(process, {"t-0": None}, kind, errors=errors, **own)


def _error(h: History, call: str, name: str, flags: dict[str, bool]) -> dict[str, Any]:
    plain = {"fatal": False, "retriable": False, "abortable": False}
    return {"call": call, "name": name, "code": 0, "text": "", "time": h.now + 7, **plain, **flags}


def counted(ops: list[Op], faults: list[Span]) -> tuple[Counter[tuple[str, bool]], set[tuple[int, str, bool]]]:
    """How often each of `ROWS` was met (True) and violated; and the violations: operation, row, whether it is beyond doubt."""
    counts: Counter[tuple[str, bool]] = Counter()
    violations: set[tuple[int, str, bool]] = set()
    for number, op in enumerate(ops):
        if op["f"] not in ("txn", "misuse", "initialise") or op["transactional_id"] is None:
            continue
        calm = all(began > op["end"] or (ended is not None and ended < op["time"] - CALM_NS) for began, ended in faults)
        for row, met in _rows_of(ops, number):
            counts[row, met] += 1
            if not met:
                violations.add((number, row, row not in DOUBTED and (calm or row != STATE)))
    return counts, violations


def _rows_of(ops: list[Op], number: int) -> list[tuple[str, bool]]:
    """The rows that the answers of one operation are about, in order."""
    op, found = ops[number], []
    misuse = _misuse_of(op)
    known = _instance(ops, number) is not None
    broken, denied, of_records = _broken(ops, number), False, []
    for error in op["errors"]:
        if error["call"] in ("deliver", "send", "flush"):
            of_records.append(error["name"])
        if error["call"] == "deliver":  # no call of its own: flush or commit says so too
            denied = denied or "AUTHORIZATION" in error["name"]
            continue
        final = error["fatal"] or (error["name"] == "_STATE")
        misused = bool(misuse) and error["call"] == MISUSES[misuse][0]
        if misused and not broken:
            found.append((MISUSES[misuse][1], True))
        if broken and op["f"] != "initialise":
            found.append((AFTER_FATAL, final or not (error["retriable"] or error["abortable"])))
        deciding = error["call"] in ("commit", "abort")
        if _fenced(ops, number) and error["name"] in REFUSED and error["call"] != "begin":
            repeats = error["call"] != "abort" and error["name"] in of_records
            goes_on = error["retriable"] or error["abortable"]
            met = (final or error["abortable"]) and not error["retriable"] if repeats else final or not goes_on
            found.append((LEADER if repeats else FENCED, met))
        if deciding and _undisturbed(ops, number) and not (broken or denied or misused):
            found.append((STATE, error["name"] != "INVALID_TXN_STATE"))
        if error["name"] == "DUPLICATE_SEQUENCE_NUMBER":
            found.append((DUPLICATE, False))
        denied = denied or "AUTHORIZATION" in error["name"]
        broken = broken or (known and (error["fatal"] if misused else final))
    if op["type"] == "ok" and known and op["f"] == "txn":
        if broken:
            found.append((AFTER_FATAL, False))
        elif _undisturbed(ops, number):
            found.append((STATE, True))
    if op["type"] == "ok" and misuse:
        if known and broken:
            found.append((AFTER_FATAL, False))
        else:
            found.append((MISUSES[misuse][1], False))
    return found


def _misuse_of(op: Op) -> str:
    reached = op["f"] == "misuse" and '"reached": true' in op["detail"]
    return next((name for name in MISUSES if reached and f'"{name}"' in op["detail"]), "")


def _instance(ops: list[Op], number: int) -> int | None:
    """The last `initialise` of the operation's process before it."""
    mine = [at for at in range(number) if ops[at]["f"] == "initialise" and ops[at]["process"] == ops[number]["process"]]
    return mine[-1] if mine else None


def _others(ops: list[Op], number: int) -> list[int]:
    """Initialisations of the same id by other processes."""
    own = ops[number]
    return [
        at
        for at, op in enumerate(ops)
        if op["f"] == "initialise" and op["process"] != own["process"] and op["transactional_id"] == own["transactional_id"]
    ]


def _fenced(ops: list[Op], number: int) -> bool:
    start = _instance(ops, number)
    return start is not None and any(start < at < number and ops[at]["type"] == "ok" for at in _others(ops, number))


def _undisturbed(ops: list[Op], number: int) -> bool:
    start = _instance(ops, number)
    if start is None:
        return False
    mine = [at for at in range(len(ops)) if ops[at]["f"] == "initialise" and ops[at]["process"] == ops[number]["process"]]
    again = [at for at in mine if at != start and (at > start or ops[at]["type"] != "ok")]
    rivals = [at for at in _others(ops, number) if at > start or ops[at]["type"] != "ok"]
    return not any(at < number for at in (*again, *rivals))


def _broken(ops: list[Op], number: int) -> bool:
    """Whether an earlier operation of the instance had a fatal error."""
    start = _instance(ops, number)
    if start is None:
        return False
    for op in (op for op in ops[start + 1 : number] if op["process"] == ops[number]["process"]):
        misuse = _misuse_of(op)
        for error in op["errors"] if op["f"] != "initialise" else ():
            misused = bool(misuse) and error["call"] == MISUSES[misuse][0]
            if error["call"] != "deliver" and (error["fatal"] or (error["name"] == "_STATE" and not misused)):
                return True
    return False
