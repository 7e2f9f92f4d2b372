"""Example runs for the report's tests, written as docs/history.md and docs/run-directory.md say.

Run as a program (`PYTHONPATH=tests python -m support.report_example FOLDER`), it writes every example and its report below
the folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api import record_id
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from support.written_once import written_once

START = 5_000_000_000_000
MS = 1_000_000
Row = dict[str, Any]


# --------------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------------
def op(process: int, number: int, at_ms: float, took_ms: float | None, **fields: Any) -> Row:
    """A row of history.parquet; `index` is given when the run is written."""
    time = START + int(at_ms * MS)
    row: Row = {"process": process, "slot": process, "op": number, "node": f"c{process}", "role": "writer", "final": False}
    row |= {"f": "txn", "type": "ok", "intent": "commit", "time": time, "isolation": "read_committed"}
    row |= {"end": None if took_ms is None else time + int(took_ms * MS), "mops": [], "errors": [], "strange": []}
    row |= {"transactional_id": f"fp-{process}", "decided": None, "detail": None}
    return row | fields


def sends(process: int, number: int, at_ms: float, offsets: Mapping[str, int | None]) -> list[Row]:
    """Sent records of one transaction: partition -> offset, None when it was never acknowledged."""
    began = START + int(at_ms * MS)
    return [
        {"kind": 0, "partition": p, "v": record_id(process, number, seq), "offset": offset, "began": began + seq * 5 * MS}
        | {"ended": None if offset is None else began + seq * 5 * MS + 3 * MS}
        for seq, (p, offset) in enumerate(offsets.items())
    ]


def reads(at_ms: float, records: Iterable[tuple[str, int, int]]) -> list[Row]:
    """Polled records: (partition, offset, v)."""
    ended = START + int(at_ms * MS)
    return [{"kind": 1, "partition": p, "v": v, "offset": o, "began": None, "ended": ended} for p, o, v in records]


def error(call: str, name: str, code: int, text: str, at_ms: float, **flags: bool) -> Row:
    row = {"call": call, "name": name, "code": code, "text": text, "time": START + int(at_ms * MS)}
    return row | {"fatal": False, "retriable": False, "abortable": False} | flags


def fault(number: int, kind: str, at_s: float, lasts_s: float | None, **fields: Any) -> Row:
    begun = START + int(at_s * 1e9)
    row: Row = {"id": number, "kind": kind, "role": "leader:t-0", "targets": ["n2"], "pairs": [], "planned_ns": begun - 5 * MS}
    row |= {
        "injected_ns": begun,
        "healed_ns": 0 if lasts_s is None else begun + int(lasts_s * 1e9),
        "effective": True,
        "note": "",
    }
    row |= {"evidence": {"before": {"n2": 812}, "during": {"n2": None}}}
    row |= {"healing": {"started": ["n2"], "after": {"n2": 907}, "answers": {"n2": True}}}
    return row | fields


def steady(seconds: float, writers: int, seed: int, stalled: tuple[float, float] = (0, 0), each_ms: float = 110) -> list[Row]:
    """Operations of transactional writers in an ordinary run; during `stalled` (seconds) nothing commits."""
    rng, rows, offset = Random(seed), [], 0
    for process in range(writers):
        at, number = rng.uniform(5, 60), 0
        while at < seconds * 1000:
            inside = stalled[0] * 1000 <= at < stalled[1] * 1000
            took = rng.uniform(900, 1600) if inside else each_ms * rng.uniform(0.5, 1.3)
            kind = "info" if inside and rng.random() < 0.6 else "fail" if rng.random() < (0.5 if inside else 0.04) else "ok"
            offset += 4
            mops = sends(process, number, at + 1, {f"t-{p}": offset + p if kind == "ok" else None for p in range(4)})
            met = [error("commit", "_TIMED_OUT", -185, "Local: Timed out", at + took - 2, retriable=True)] if inside else []
            rows.append(op(process, number, at, took, type=kind, mops=mops, errors=met))
            at, number = at + took + rng.uniform(1, 15), number + 1
    return rows


def final_reads(at_s: float, process: int, rows: list[Row]) -> list[Row]:
    """A final reader that goes through everything committed."""
    seen = [(m["partition"], m["offset"], m["v"]) for r in rows if r["type"] == "ok" for m in r["mops"] if m["kind"] == 0]
    base = {"role": "final", "final": True, "intent": None}
    made = []
    for number, low in enumerate(range(0, len(seen), 400)):
        at = at_s * 1000 + number * 30
        made.append(op(process, number, at, 25, f="poll", mops=reads(at + 24, seen[low : low + 400]), **base))
    end = at_s * 1000 + len(made) * 30
    detail = json.dumps({"t-0": [0, 900, 900]})
    return [*made, op(process, len(made), end, 4, f="final-read", detail=detail, **base)]


# --------------------------------------------------------------------------------------------------
# Documents
# --------------------------------------------------------------------------------------------------
PROPERTIES = (
    ("lost-write", "acks=all with idempotence promises that an acknowledged record stays (KIP-98)"),
    ("duplicate", "an idempotent producer's retries are deduplicated by sequence number (KIP-98)"),
    ("aborted-read", "read_committed returns no record of an aborted transaction (KIP-98)"),
    ("torn-transaction", "all records of a transaction become visible, or none (KIP-98)"),
    ("poll-skip", "an assigned consumer returns the visible records of a partition in order, leaving none out"),
    ("lso-stall", "once every transaction timeout has passed, the last stable offset reaches the high watermark (KIP-98)"),
)


def properties(compared: int, **changed: Mapping[str, Any]) -> list[Row]:
    """Every property held over `compared`, except as changed (underscores for dashes)."""
    rows = []
    for name, contract in PROPERTIES:
        row = {"name": name, "verdict": "held", "count": 0, "compared": compared, "reason": "", "contract": contract}
        rows.append(row | changed.get(name.replace("-", "_"), {}))
    return rows


def plan(**fields: Any) -> Row:
    jars = {f"{name}-4.3.0.jar": "9f2c" * 16 for name in ("kafka-clients", "kafka_2.13", "kafka-server", "kafka-raft")}
    settings = {"min.insync.replicas": "2", "default.replication.factor": "3", "transaction.state.log.min.isr": "2"}
    document: Row = {
        "schema": 1,
        "run": "k3f9x2",
        "campaign": "first",
        "test": "steady",
        "seed": 7,
        "created": "2026-11-21T02:00:00Z",
        "command": "fencepost campaign campaigns/first.toml --only steady --seed 7",
        "fencepost": "0.1.0",
        "expect": ["valid"],
        "time_s": 30.0,
        "rate": 0.0,
        "cluster": {
            "kind": "local",
            "options": {"brokers": 3},
            "description": {"kafka": "4.3.0", "network": "namespaces", "jars": jars, "broker_settings": settings},
        },
        "workload": {"kind": "transactions", "options": {"writers": 8, "readers": 2, "abort_share": 0.2}},
        "client": {
            "kind": "librdkafka",
            "version": "2.16.0",
            "producer": {"acks": "all", "enable.idempotence": True, "socket.timeout.ms": 1000, "transaction.timeout.ms": 15000},
            "consumer": {"isolation.level": "read_committed", "enable.auto.commit": False},
        },
        "topics": {"t": {"partitions": 4, "replication": 3, "settings": {"min.insync.replicas": "2"}}},
        "contract": {"acks": "all", "idempotence": "true", "transactional": "true", "isolation": "read_committed"},
        "schedule": [],
        "unavailable": {},
        "machine": {"cpus": 2, "memory_gib": 24, "kernel": "6.1.0", "java": "17.0.15", "python": "3.11.7"},
    }
    return document | fields


def verdict(rows: list[Row], faults: list[Row], **fields: Any) -> Row:
    kinds = [row["type"] for row in rows]
    txns = [row for row in rows if row["f"] == "txn"]
    counts = {"operations": len(rows), "ok": kinds.count("ok"), "fail": kinds.count("fail"), "info": kinds.count("info")}
    counts |= {"transactions": len(txns), "committed": sum(r["type"] == "ok" for r in txns)}
    counts |= {"aborted": sum(r["type"] == "fail" for r in txns), "sent": 4 * len(txns), "read": 4 * len(txns)}
    counts |= {"final_read": 4 * counts["committed"], "partitions": 4, "processes": len({r["process"] for r in rows})}
    counts |= {"faults": len(faults), "faults_without_effect": sum(f["effective"] is False for f in faults)}
    document: Row = {
        "schema": 1,
        "verdict": "valid",
        "reason": f"6 properties held; {counts['committed']} committed transactions were compared with what 2 readers saw.",
        "run": "k3f9x2",
        "campaign": "first",
        "test": "steady",
        "expect": ["valid"],
        "expectation_met": True,
        "weakened": [],
        "properties": properties(counts["final_read"]),
        "allowed": [],
        "findings": [],
        "counts": counts,
        "progress": {"longest_gap_s": 0.0, "recovery_s": 0.0, "faults": []},
        "timing": {"merge_s": 0.4, "check_s": 6.1},
        "checker": {"spark": "4.3.0", "master": "local[2]"},
    }
    return document | fields


def write(folder: Path, planned: Row, judged: Row, rows: list[Row] | None, faults: list[Row] | None, anomalies: int = 0) -> Path:
    """Write a run's directory; None leaves a file out."""
    folder.mkdir(parents=True, exist_ok=True)
    judged = judged | {key: planned[key] for key in ("run", "campaign", "test", "expect")}
    (folder / "plan.json").write_text(json.dumps(planned), "utf-8")
    (folder / "verdict.json").write_text(json.dumps(judged), "utf-8")
    if rows is not None:
        pq.write_table(pa.Table.from_pylist(rows, OPS_SCHEMA), folder / "history.parquet")
    if faults is not None:
        texts = [{**f, "evidence": json.dumps(f["evidence"]), "healing": json.dumps(f["healing"])} for f in faults]
        pq.write_table(pa.Table.from_pylist(texts, FAULTS_SCHEMA), folder / "faults.parquet")
        pq.write_table(pa.table({"id": list(range(anomalies))}), folder / "anomalies.parquet")
    return folder


def edited(folder: Path, **fields: object) -> Path:
    """A run whose verdict was changed after it was written."""
    path = folder / "verdict.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")
    return folder


def ordered(rows: list[Row]) -> list[Row]:
    """In order of time, with their index."""
    rows.sort(key=lambda row: (row["time"], row["process"]))
    for index, row in enumerate(rows):
        row["index"] = index
    return rows


# --------------------------------------------------------------------------------------------------
# Runs
# --------------------------------------------------------------------------------------------------
@written_once
def valid(folder: Path) -> Path:
    """Two faults, and nothing wrong; one property had no chance to fail."""
    rows = steady(30, 8, seed=1, stalled=(12, 15))
    rows = ordered(rows + final_reads(33, 8, rows))
    pause = {"evidence": {"before": {"n1": "S"}, "during": {"n1": "T"}}, "healing": {"after": {"n1": "S"}}}
    faults = [fault(0, "kill", 4, 3), fault(1, "pause", 12, 3, targets=["n1"], role="controller", **pause)]
    idle = {"verdict": "not exercised", "compared": 0, "reason": "no reader polled while the run went on"}
    judged = verdict(
        rows, faults, progress={"longest_gap_s": 2.9, "recovery_s": 0.4, "faults": [{"id": 0, "gap_s": 2.9, "recovery_s": 0.4}]}
    )
    judged["properties"] = properties(judged["counts"]["final_read"], poll_skip=idle)
    judged["unseen"] = curve(rows, [(12, 0), (15, 240), (15.5, 0)])
    judged["findings"] = [legal_cycle(number, rows[40 * number], rows[40 * number + 1]) for number in range(1, 9)]
    judged["allowed"] = [
        {
            "name": "G0",
            "verdict": "violated",
            "count": 12,
            "compared": 900,
            "reason": "",
            "contract": "legal in Kafka: a partition holds whole batches",
        }
    ]
    return write(folder, plan(), judged, rows, faults)


def curve(rows: list[Row], corners: list[tuple[float, int]], count: int = 200) -> list[list[int]]:
    """`unseen` of a verdict: straight lines between corners (seconds since the start, records), 0 before and after them."""
    last = max(row["end"] or row["time"] for row in rows if not row["final"])
    times = np.linspace(START, last, count).astype(np.int64)
    seen = np.interp((times - START) / 1e9, *zip(*corners, strict=True), left=0, right=corners[-1][1])
    return [[time, int(unseen)] for time, unseen in zip(times.tolist(), seen.tolist(), strict=True)]


def legal_cycle(number: int, first: Row, second: Row) -> Row:
    """A finding that the settings permit."""
    ends = [{"partition": "t-0", "offset": 5, "v": 1, "operation": row["index"], "role": "sent"} for row in (first, second)]
    steps = [{"from": a["index"], "to": b["index"], "kind": "ww", "why": "t-0"} for a, b in ((first, second), (second, first))]
    document = {"id": number, "anomaly": "G0", "forbidden": False, "sentence": f"T1 before T2 before T1, number {number}."}
    document |= {"operations": [first["index"], second["index"]], "records": ends, "time": first["time"], "faults": []}
    return document | {"cycle": {"vertices": [first["index"], second["index"]], "edges": steps}}


@written_once
def foreign(folder: Path) -> Path:
    """A history from elsewhere: values of its own, a record that was lost, and one that was never sent."""
    sent = sends(0, 0, 11, {"orders": 0}) + sends(0, 1, 41, {"orders": 1})
    got = reads(90, [("orders", 0, sent[0]["v"]), ("orders", 2, -2)])
    nobody = {"node": None, "transactional_id": None}  # other harnesses name neither
    rows = [op(0, 0, 10, 20, mops=sent[:1], **nobody), op(0, 1, 40, 20, mops=sent[1:], **nobody)]
    rows = ordered([*rows, op(1, 0, 80, 10, f="poll", role="reader", intent=None, mops=got, **nobody)])
    lost = {"partition": "orders", "offset": 1, "v": sent[1]["v"], "operation": 1, "role": "missing", "value": "ord-2"}
    finding = {"id": 1, "anomaly": "lost-write", "forbidden": True, "operations": [1, 2], "records": [lost], "faults": []}
    finding |= {"sentence": "Nobody read orders@1 (value ord-2).", "time": rows[1]["time"]}
    judged = verdict(
        rows, [], verdict="invalid", expectation_met=False, findings=[finding], unseen=curve(rows, [(0.05, 1), (1, 1)])
    )
    judged["properties"] = properties(2, lost_write={"verdict": "violated", "count": 1})
    values = {"v": [sent[0]["v"], sent[1]["v"], -2], "partition": ["orders"] * 3, "value": ["ord-1", "ord-2", EVIL]}
    write(folder, plan(test="foreign"), judged, rows, [], anomalies=1)
    pq.write_table(pa.table(values), folder / "values.parquet")
    return folder


@written_once
def torn(folder: Path, **fields: Any) -> Path:
    """Torn transactions under a cut between clients and one broker, as the test expects."""
    rows = steady(30, 12, seed=2, stalled=(9, 11.5))
    rows = ordered(rows + final_reads(36, 12, rows))
    guilty = [r for r in rows if r["f"] == "txn" and r["type"] == "ok" and r["time"] > START + 8_500 * MS][::40][:3]
    reader = next(r for r in rows if r["final"])
    hidden = {m["v"] for row in guilty for m in row["mops"][:2]}
    for row in rows:
        row["mops"] = [m for m in row["mops"] if m["kind"] == 0 or m["v"] not in hidden]
    for row in guilty:
        at = (row["time"] - START) / MS
        row["errors"] = [
            error(
                "commit",
                "_TIMED_OUT",
                -185,
                "Local: Timed out: EndTxn timed out in flight after 1000 ms",
                at + 40,
                retriable=True,
            ),
            error(
                "commit",
                "_TRANSPORT",
                -195,
                "Local: Broker transport failure: n1:9092 closed the connection",
                at + 60,
                retriable=True,
            ),
        ]
    cut = {"targets": [], "role": "clients", "pairs": [f"c{n}>n1" for n in range(12)]}
    before, during = {f"c{n}>n1": True for n in range(12)}, {f"c{n}>n1": False for n in range(12)}
    cut["evidence"], cut["healing"] = (
        {"before": before, "during": during},
        {"after": before, "dropped": {"c0>n1": 412, "c1>n1": 380}},
    )
    nodes = ["n1", "n2", "n3", *(f"c{n}" for n in range(12))]
    cut["reach"] = {"nodes": nodes, "before": [], "during": cut["pairs"], "after": []}
    faults = [fault(0, "cut-clients", 3, 2.4, **cut), fault(1, "cut-clients", 9, 2.5, **cut)]
    useless = {"evidence": {"before": {"n2": "S"}, "during": {"n2": "S"}}, "healing": {"after": {"n2": "S"}}}
    faults.append(fault(2, "pause", 20, 2, effective=False, note="still running while it should have been frozen", **useless))
    findings = [torn_finding(number, row, reader) for number, row in enumerate(guilty, 1)]
    judged = verdict(
        rows,
        faults,
        verdict="invalid",
        reason=f"3 transactions of {sum(r['f'] == 'txn' for r in rows):,} are visible in part only (torn-transaction).",
        test="torn",
        expect=["torn-transaction"],
        expectation_met=True,
        weakened=["1 of 3 faults had no effect"],
        findings=findings,
        progress={"longest_gap_s": 2.1, "recovery_s": 0.3, "faults": []},
    )
    judged["properties"] = properties(judged["counts"]["final_read"], torn_transaction={"verdict": "violated", "count": 3})
    planned = plan(test="torn", expect=["torn-transaction"], unavailable={"Skewable": "clocks of namespaces cannot be set apart"})
    return write(folder, planned, judged | fields, rows, faults, anomalies=3)


def torn_finding(number: int, row: Row, reader: Row) -> Row:
    records = [
        {"partition": m["partition"], "offset": m["offset"], "v": m["v"], "operation": row["index"] if k < 2 else reader["index"]}
        | {"role": "missing" if k < 2 else "read"}
        for k, m in enumerate(row["mops"])
    ]
    sentence = (
        f"The transaction of process {row['process']}, operation {row['op']}, committed, but only 2 of its 4 records "
        f"are visible: t-0@{row['mops'][0]['offset']} and t-1@{row['mops'][1]['offset']} were acknowledged and never returned."
    )
    finding = {"id": number, "anomaly": "torn-transaction", "forbidden": True, "sentence": sentence, "records": records}
    return finding | {"operations": [row["index"], reader["index"]], "time": row["time"], "faults": [1]}


@written_once
def unknown(folder: Path) -> Path:
    """The final read never came to its end, and one check failed."""
    rows = ordered(steady(20, 4, seed=3, stalled=(15, 20)))
    faults = [fault(0, "kill", 14, None, effective=None, healing={}, note="n2 did not answer within 30 s of healing")]
    why = {"verdict": "not exercised", "compared": 0, "reason": "no completed final read of t-2 and t-3"}
    broken = {"verdict": "unknown", "compared": 0, "reason": "the check failed: OutOfMemoryError in stage 12"}
    judged = verdict(rows, faults, verdict="unknown", expectation_met=False)
    judged["reason"] = "The final read did not reach the end of 2 of 4 partitions, so nothing can be called lost."
    judged["properties"] = properties(400, lost_write=why, torn_transaction=why, poll_skip=broken)
    return write(folder, plan(test="no-final-read"), judged, rows, faults)


def empty(folder: Path) -> Path:
    """The run broke before its first operation; nothing but the two documents is there."""
    judged = verdict([], [], verdict="unknown", expectation_met=False, reason="Nothing was compared at all.", properties=[])
    return write(folder, plan(test="empty"), judged, None, None)


@written_once
def large(folder: Path, operations: int = 20_000, between: int = 300) -> Path:
    """Many operations, many faults, and more findings than a page shows at once: of one transaction in so many."""
    seconds = operations / 20 * 0.1
    rows = steady(seconds * 1.05, 20, seed=4, stalled=(seconds * 0.4, seconds * 0.42), each_ms=100)
    rows = ordered(rows + final_reads(seconds * 1.1, 20, rows))
    faults = [fault(n, ("kill", "pause", "isolate")[n % 3], 3 + n * seconds / 20, seconds / 30) for n in range(18)]
    findings = [
        torn_finding(n, row, rows[-1])
        for n, row in enumerate([r for r in rows if r["type"] == "ok" and r["f"] == "txn"][50::between], 1)
    ]
    judged = verdict(rows, faults, verdict="invalid", expectation_met=False, findings=findings[:60], test="large")
    judged["reason"] = f"{len(findings)} transactions are visible in part only (torn-transaction)."
    judged["properties"] = properties(9, torn_transaction={"verdict": "violated", "count": len(findings) + 40})
    return write(folder, plan(test="large"), judged, rows, faults, anomalies=len(findings) + 40)


EVIL = (
    "</script><script>document.documentElement.dataset.owned = 1</script>"
    '<img src=x onerror="document.documentElement.dataset.owned = 2">'
    "'\"><svg onload=alert(1)> {{ 7 * 7 }} {% raw %} --> ]]> \u2028\u2029\u202e \\ | `x` ``` [a](javascript:alert(1)) \x00\x07 http://evil.example/"
)


@written_once
def hostile(folder: Path) -> Path:
    """Every text that comes from a cluster, a record or a campaign tries to become markup or script."""
    evil = EVIL.replace("\x00", "")  # JSON and Parquet could hold it, but no Kafka name or setting does
    met = [error(evil, evil, -1, evil, 40, fatal=True)]
    odd = [{"partition": evil, "offset": 3, "why": evil, "raw": EVIL}]
    v = record_id(0, 0, 0)
    mops = [{"kind": 0, "partition": evil, "v": v, "offset": 17, "began": START, "ended": None}]
    texts = {"f": evil, "intent": evil, "node": evil, "role": evil, "isolation": evil, "transactional_id": evil}
    rows = ordered([op(0, 0, 10, 50, type="info", mops=mops, errors=met, strange=odd, **texts), op(1, 0, 30, None, mops=mops)])
    faults = [fault(0, evil, 0.01, 0.02, role=evil, targets=[evil], note=evil, evidence={evil: evil}, healing={"after": evil})]
    record = {"partition": evil, "offset": 17, "v": v, "operation": 0, "role": evil}
    finding = {"id": 1, "anomaly": evil, "forbidden": True, "sentence": evil, "operations": [0], "records": [record]}
    answer = {"name": evil, "verdict": evil, "count": 1, "compared": 1, "reason": evil, "contract": evil}
    judged = verdict(rows, faults, reason=evil, weakened=[evil], findings=[finding | {"time": rows[0]["time"], "faults": [0]}])
    judged |= {"verdict": "invalid", "expectation_met": False, "properties": [answer], "allowed": [answer]}
    planned = plan(
        test=evil, campaign=evil, run=evil, command=evil, expect=[evil], unavailable={evil: evil}, machine={evil: [evil]}
    )
    planned["client"]["producer"] = {evil: evil}
    planned["cluster"]["description"]["jars"] = {evil: evil}
    return write(folder, planned, judged, rows, faults, anomalies=1)


RUNS: dict[str, Callable[[Path], Path]] = {
    "valid": valid,
    "torn": torn,
    "unknown": unknown,
    "empty": empty,
    "large": large,
    "hostile": hostile,
    "foreign": foreign,
}


if __name__ == "__main__":
    from fencepost.harness.history.run_directory import open_run
    from fencepost.harness.report import render

    for name, build in RUNS.items():
        print(render(open_run(build(Path(sys.argv[1]) / name))))
