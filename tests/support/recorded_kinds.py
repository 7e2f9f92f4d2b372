"""Small recorded runs of every kind of workload: lines, manifest, plan, and what else lies beside them; not merged, not judged.

Most of them come from the random histories of the checks' own tests: those in which nothing goes wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.model.lawful_history import CONTRACT, write_lawful
from fencepost.harness.api.history import STORED, schema
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import write_plan
from support.connect_histories import random_story
from support.deleted_topics import DeletedTopics
from support.histories import History
from support.random_applications import application_history
from support.random_histories import moving_history, varied_history
from support.random_pipelines import pipeline_history
from support.random_sources import source_history
from support.recorded_lines import attest, write_lines

Ops = Sequence[Mapping[str, Any]]
CONNECT = {"connect": "enabled", "transactional": "false"}
OUTSIDE = {"transactional": "false", "idempotence": "true"}


@dataclass(frozen=True)
class Recording:
    """A run that is to be recorded.

    ops: its operations.
    contract: laid over that of transactions.
    receipts: of its faults.
    stored: rows of `stored.parquet`; None: the cluster shows no logs.
    """

    ops: Ops
    contract: Mapping[str, str] = field(default_factory=dict)
    receipts: Sequence[Mapping[str, Any]] = ()
    stored: Sequence[Mapping[str, Any]] | None = None


def record(folder: Path, recording: Recording) -> Path:
    """Write the run's directory, as it is when the run has ended."""
    folder.mkdir(parents=True)
    plan: dict[str, Any] = {"schema": 1, "run": "recorded", "contract": {**CONTRACT, **recording.contract}, "manifest": True}
    plan["schedule"] = [
        {"id": receipt["id"], "at_s": 0.1, "lasts_s": 0.1, "kind": receipt["kind"], "options": {}, "lane": "main", "seed": 1}
        for receipt in recording.receipts
    ]
    write_plan(folder, plan)
    write_lines(folder, "recorded", recording.ops)
    receipts = ({"planned_ns": 0, **receipt} for receipt in recording.receipts)
    lines = "".join(json.dumps(_parsed(receipt)) + "\n" for receipt in receipts)
    (folder / RunFile.LINES / RunFile.FAULT_LINES).write_text(lines)
    if recording.stored is not None:
        pq.write_table(pa.Table.from_pylist([*recording.stored], schema=schema(STORED)), folder / RunFile.STORED)
    attest(folder)
    return folder


def _parsed(receipt: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: json.loads(receipt[name]) for name in ("evidence", "healing") if isinstance(receipt.get(name), str)}
    return {**receipt, **texts}


# --------------------------------------------------------------------------------------------------
# Kinds
# --------------------------------------------------------------------------------------------------
def transactions(rng: Random) -> Recording:
    return Recording(lawful(rng))


def outside(rng: Random) -> Recording:
    """Sends outside transactions, all of which succeed."""
    ops = lawful(rng)
    gone = {mop["v"] for op in ops if op["f"] == "txn" and op["type"] != "ok" for mop in op["mops"]}
    some = [{**op, "mops": [mop for mop in op["mops"] if mop["v"] not in gone]} for op in ops]
    some = [op for op in some if op["f"] != "txn" or op["type"] == "ok"]
    return Recording([{**op, "f": "send", "intent": None, "decided": None} if op["f"] == "txn" else op for op in some], OUTSIDE)


def groups(rng: Random) -> Recording:
    """Readers in a group, whose partitions are given anew now and then: the position is where the group has it."""
    ops = lawful(rng)
    for op in ops:
        if op["f"] == "poll" and not op["final"] and (op["op"] == 0 or rng.random() < 0.3):
            op["detail"] = json.dumps({"rebalances": [["assigned", ["t-0", "t-1"]]]})
    return Recording(ops, {"consumption": "subscribed"})


def odd(rng: Random) -> Recording:
    """A history in which most things go wrong."""
    return Recording(moving_history(rng), {"consumption": "recorded"}) if rng.random() < 0.5 else Recording(varied_history(rng))


def lawful(rng: Random) -> list[dict[str, Any]]:
    """A lawful history of a few writers, whose reader polls a few records at a time."""
    shape = {"transactions": rng.randint(8, 30), "partitions": 2, "processes": rng.randint(1, 4), "sends": rng.randint(1, 3)}
    with TemporaryDirectory() as folder:
        write_lawful(Path(folder), seed=rng.randrange(1 << 20), **shape)
        ops = pq.read_table(Path(folder) / RunFile.HISTORY).to_pylist()
    return [part for op in ops for part in (_parts(op, rng) if op["f"] == "poll" else [op])]


def _parts(op: dict[str, Any], rng: Random) -> list[dict[str, Any]]:
    """A poll as several ones, which got its records one after the other."""
    size, count = rng.randint(1, 4), len(op["mops"])
    starts = range(0, max(1, count), size)
    step = (op["end"] - op["time"]) // (2 * len(starts))
    return [
        {
            **op,
            "op": op["op"] * 1000 + number,
            "time": op["time"] + 2 * number * step,
            "end": op["end"] if number == len(starts) - 1 else op["time"] + (2 * number + 1) * step,
            "mops": op["mops"][start : start + size],
        }
        for number, start in enumerate(starts)
    ]


def fencing(rng: Random) -> Recording:
    """Instances of one transactional id, each of which takes over from the one before, which is then told that it is fenced."""
    h, stored, given = History(), list[dict[str, Any]](), {"transactional_id": "id"}
    epoch, shown = 0, 0
    for process in rng.choice([(0, 1), (0, 1, 2), (0, 1, 0), (0, 1, 0, 1), (0, 1, 2, 1)]):
        for _ in range(rng.choice([1, 1, 2])):
            h.add(process, "initialise", **given)
            epoch += 1
            for _ in range(rng.randint(1, 3)):
                offset = len(stored)
                h.txn(process, {"t-0": [offset]}, **given)
                stored += [_stored(offset, epoch, h.v("t-0", offset)), _stored(offset + 1, epoch, None, "COMMIT")]
        if process and rng.random() < 0.7:
            error = {"call": "commit", "name": "_FENCED", "code": 0, "text": "", "time": h.now + 1, "fatal": True}
            h.txn(process - 1, {"t-0": [None]}, "fail", errors=[{**error, "retriable": False, "abortable": False}], **given)
        if rng.random() < 0.7:
            h.poll(5, {"t-0": [*range(shown, len(stored), 2)]})
            shown = len(stored)
    h.final({"t-0": [*range(0, len(stored), 2)]})
    return Recording(h.ops, {}, (), stored)


def _stored(offset: int, epoch: int, v: int | None, kind: str = "record") -> dict[str, Any]:
    own = {"node": "n1", "partition": "t-0", "offset": offset, "leader_epoch": 1, "producer_id": 7, "producer_epoch": epoch}
    return {**own, "sequence": 0, "timestamp": 1000, "kind": kind, "v": v}


def listed(rng: Random) -> Recording:
    """Transactions of long duration, about which coordinators and leaders are asked now and then."""
    h, second = History(), 1_000_000_000
    start, asked = h.now, []
    offset, shown = 0, []
    for number in range(rng.randint(2, 4)):
        begun = h.now = start + number * 30 * second
        for at in sorted(rng.sample(range(4, 26), rng.randint(1, 4))):
            asked.append((begun + at * second, begun, offset, number))
        index = h.txn(0, {"t-0": [offset]}, transactional_id="id")
        last = {"time": begun, "end": begun + 28 * second, "decided": begun + 27 * second}
        h.ops[index] |= {**last, "mops": [(*mop[:4], begun + 1, begun + 2) for mop in h.ops[index]["mops"]]}
        shown.append(offset)
        offset += 2
    h.now = start + 200 * second
    for now, begun, at, number in asked:
        transaction = {"producer_id": 1, "epoch": number, "transactional_id": "id", "state": "Ongoing", "timeout_ms": 60_000}
        transaction |= {"started_ms": begun // 1_000_000, "partitions": ["t-0"]}
        opened = {"partition": "t-0", "producer_id": 1, "epoch": number, "offset": at}
        detail = {"transactions": [transaction], "open": [opened], "silent": [], "quiet_s": (now - start) / second}
        times = {"time": now, "end": now + 1_000_000}
        h.add(-1, "list-transactions", isolation=None, role="harness", detail=json.dumps(detail), **times)
    h.now = start + 200 * second
    h.settle({"t-0": (offset, offset)})
    h.final({"t-0": shown})
    return Recording(h.ops)


def pipeline(rng: Random) -> Recording:
    return Recording(pipeline_history(rng), {"consumption": "recorded"})


def application(rng: Random) -> Recording:
    return Recording(application_history(rng), {"application": "exactly-once"})


def source(rng: Random) -> Recording:
    return Recording(source_history(rng), CONNECT)


def tasks(rng: Random) -> Recording:
    return Recording(random_story(rng).ops, CONNECT)


def deleted(rng: Random) -> Recording:
    story = DeletedTopics(rng.randrange(1 << 30))
    return Recording(story.ops, story.contract, story.receipts)


KINDS: Mapping[str, Callable[[Random], Recording]] = {
    each.__name__: each
    for each in (transactions, outside, groups, fencing, listed, odd, pipeline, application, source, tasks, deleted)
}
