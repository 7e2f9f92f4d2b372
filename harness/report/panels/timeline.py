"""The data behind the timeline: operations per worker, faults, findings, throughput and what was unseen, small enough to inline.

Times are whole microseconds since the start of the run, which JavaScript's numbers hold exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.harness.report import unseen
from fencepost.harness.report.documents import NEVER, Doc, Ints, Ops, ReportData, writes
from fencepost.harness.report.panels import faults
from fencepost.harness.report.text import shortened
from fencepost.harness.visible_text import visible

MOST_OPS = 30_000
_DETAILED = 300_000  # operations: in a longer history only those of findings show their records
_MOPS, _ERRORS, _BINS, _NAMED, _VALUE = 6, 3, 3_000, 200, 40
_OUTCOMES = ("ok", "fail", "info")
_PROCESS_BITS, _PROCESS_MASK = 32, (1 << 32) - 1
_ROLES = ("writer", "member", "instance", "reader", "final", "harness")


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    drawn = timeline(run)
    sampled = drawn is not None and len(drawn["ops"]["index"]) < drawn["total"]
    return {"timeline": drawn, "sampled": sampled, "unseen": unseen.words(run)}


def timeline(run: ReportData) -> dict[str, Any] | None:
    """Everything `timeline.js` draws, or None when there is no operation to draw."""
    ops = run.ops
    if ops is None or not len(ops):
        return None
    drawn_ops = thinned(ops.index, _named(run.findings), MOST_OPS)
    rows, row_of = _rows(ops)
    return {
        "end": _us(run.end_ns, run.origin_ns),
        "total": len(ops),
        "rows": rows,
        "ops": _columns(ops, drawn_ops, row_of, run.origin_ns),
        **_insides(run, ops, drawn_ops, _named(run.findings)),
        "faults": [_fault(fault, run) for fault in run.faults or () if fault.get("injected_ns")],
        "findings": [_finding(finding, run) for finding in run.findings if (finding.get("time") or 0) > 0],
        "unseen": unseen.points(run),
        "throughput": throughput(ops, run.origin_ns, run.end_ns),
        "gap": _relative(longest_gap(ops), run.origin_ns),
        "finalAt": _us(int(ops.time[ops.final].min()), run.origin_ns) if ops.final.any() else None,
    }


def shown(index: Ints, findings: Sequence[Doc]) -> Ints:
    """Positions of the operations whose records are shown, of all that there are."""
    named = _named(findings)
    drawn_ops = thinned(index, named, MOST_OPS)
    return drawn_ops[_detailed(index, drawn_ops, named)]


def _detailed(index: Ints, drawn_ops: Ints, named: set[int]) -> Ints:
    """The positions, among the operations that are drawn, of those that show their records."""
    return np.arange(len(drawn_ops)) if len(index) <= _DETAILED else np.flatnonzero(np.isin(index[drawn_ops], list(named)))


def _named(findings: Sequence[Doc]) -> set[int]:
    return {index for finding in findings for index in finding.get("operations", ())[:_NAMED]}


def thinned(index: Ints, named: set[int], most: int) -> Ints:
    """Positions to inline: all of them when they are few, else those of findings and an even sample of the rest."""
    if len(index) <= most:
        return np.arange(len(index))
    of_findings = np.flatnonzero(np.isin(index, np.fromiter(named, dtype=np.int64)))[:most]
    room = max(1, most - len(of_findings))
    return np.union1d(of_findings, np.linspace(0, len(index) - 1, room, dtype=np.int64))


def _us(ns: int, origin_ns: int) -> int:
    return (ns - origin_ns) // 1000


def _rows(ops: Ops) -> tuple[list[dict[str, Any]], Ints]:
    """A row per worker (its processes follow one another), and each operation's row."""
    process = ops.process.astype(np.int64)
    worker = np.where(ops.slot >= 0, ops.slot, -2 - process)
    pairs, first, code = _distinct(worker << _PROCESS_BITS | process & _PROCESS_MASK)
    process = ops.process[first]
    workers, earliest, inverse = np.unique(pairs >> _PROCESS_BITS, return_index=True, return_inverse=True)
    begun = first[earliest]
    places = [_place(str(ops.role[at])) for at in begun]
    order = sorted(range(len(workers)), key=lambda k: (places[k], int(workers[k])))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    by_worker = np.lexsort((process, inverse))
    processes = np.split(process[by_worker], np.cumsum(np.bincount(inverse))[:-1])
    rows = []
    for k in order:
        node, role = str(ops.node[begun[k]]), str(ops.role[begun[k]])
        label = _label(node, processes[k].tolist())
        rows.append({"label": visible(label), "role": visible(role), "processes": processes[k].tolist()})
    return rows, rank[inverse][code]


def _distinct(values: Ints) -> tuple[Ints, Ints, Ints]:
    """The different values in the order of their first appearance, where each first appears, and the number of each value.

    By hashing: sorting millions of operations for a few different values would take a hundred times as long.
    """
    encoded = pa.array(values).dictionary_encode()
    code = encoded.indices.to_numpy()
    new = np.r_[True, code[1:] > np.maximum.accumulate(code)[:-1]]
    return encoded.dictionary.to_numpy(), np.flatnonzero(new), code


def _place(role: str) -> int:
    return _ROLES.index(role) if role in _ROLES else len(_ROLES)


def _label(node: str, processes: list[int]) -> str:
    if processes == [-1]:
        return node or "harness"
    name = f"p{processes[0]}" if len(processes) == 1 else f"p{processes[0]}…{processes[-1]}"
    return f"{node} {name}".strip()


def _columns(ops: Ops, drawn_ops: Ints, row_of: Ints, origin_ns: int) -> dict[str, Any]:
    kinds, f = np.unique(ops.f[drawn_ops], return_inverse=True)
    intents, intent = np.unique(ops.intent[drawn_ops], return_inverse=True)
    outcome = np.full(len(drawn_ops), _OUTCOMES.index("info"))
    for code, name in enumerate(_OUTCOMES):
        outcome[ops.type[drawn_ops] == name] = code
    start, end = ops.time[drawn_ops], ops.end[drawn_ops]
    return {
        "row": row_of[drawn_ops].tolist(),
        "start": ((start - origin_ns) // 1000).tolist(),
        "length": np.where(end == NEVER, NEVER, (end - start) // 1000).tolist(),
        "outcome": outcome.tolist(),
        "index": ops.index[drawn_ops].tolist(),
        "process": ops.process[drawn_ops].tolist(),
        "op": ops.op[drawn_ops].tolist(),
        "f": f.tolist(),
        "intent": intent.tolist(),
        "fs": [visible(str(kind)) for kind in kinds],
        "intents": [visible(str(word)) for word in intents],
    }


def _insides(run: ReportData, ops: Ops, drawn_ops: Ints, named: set[int]) -> dict[str, Any]:
    """The first records of each operation (`send t-0@17` as [kind, partition, offset]), how many there are, and its errors.

    `values`: position among the operations -> what its records are called where the history comes from; of findings' only.
    """
    at = _detailed(ops.index, drawn_ops, named)
    table = ops.table(drawn_ops[at], ("mops", "errors"))
    mops = table["mops"].combine_chunks()
    mops = mops.chunk(0) if isinstance(mops, pa.ChunkedArray) else mops
    bounds, inner = mops.offsets.to_numpy(), mops.values
    partition = inner.field("partition").dictionary_encode()
    shown, starts = _first_of_each(bounds)
    columns = (inner.field("kind"), partition.indices.fill_null(NEVER), inner.field("offset").fill_null(NEVER))
    numbers = list(chain.from_iterable(zip(*(column.take(shown).to_pylist() for column in columns), strict=True)))
    spans = dict(zip(at.tolist(), zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True), strict=True))
    packed: list[list[int]] = [[] for _ in drawn_ops]
    for place, (start, stop) in zip(at.tolist(), pairwise(starts), strict=True):
        packed[place] = numbers[3 * start : 3 * stop]
    counts = np.full(len(drawn_ops), NEVER)
    counts[at] = np.diff(bounds)
    of_findings = np.flatnonzero(np.isin(ops.index[drawn_ops], list(named))).tolist()
    return {
        "partitions": [visible(name) for name in partition.dictionary.to_pylist()],
        "mops": packed,
        "mopCount": counts.tolist(),
        "errors": _errors(table["errors"], at.tolist()),
        "values": _values(run, inner.field("v"), {place: spans[place] for place in of_findings}),
    }


def _first_of_each(bounds: Ints) -> tuple[Any, list[int]]:
    """The positions of the first records of each operation, and where each operation begins among these; `bounds` is where it
    begins among all records.
    """
    counts = np.minimum(np.diff(bounds), _MOPS)
    starts = np.r_[0, np.cumsum(counts)]
    return pa.array(np.repeat(bounds[:-1] - starts[:-1], counts) + np.arange(starts[-1])), starts.tolist()


def _values(run: ReportData, identities: Any, spans: Mapping[int, tuple[int, int]]) -> dict[str, list[str]]:
    """The names of the first records of some operations (where they lie among `identities`, by position)."""
    first = {position: identities[low : min(high, low + _MOPS)].to_pylist() for position, (low, high) in spans.items()}
    known = run.originals(v for ids in first.values() for v in ids if v is not None)
    return {
        str(p): [visible(shortened(known.get(v, ""), _VALUE)) for v in ids] for p, ids in first.items() if known.keys() & set(ids)
    }


def _errors(column: Any, places: Sequence[int]) -> dict[str, list[list[str]]]:
    """Errors of the operations that had any: place among the inlined ones -> [call, name, text] each."""
    by_place = {}
    for at in np.flatnonzero(pc.list_value_length(column).fill_null(0).to_numpy()).tolist():
        errors = column[at].as_py()
        shown_errors = [[visible(str(error[key] or "")) for key in ("call", "name", "text")] for error in errors[:_ERRORS]]
        more = len(errors) - _ERRORS
        by_place[str(places[at])] = [*shown_errors, ["", f"and {more} more", ""]] if more > 0 else shown_errors
    return by_place


def _fault(fault: Doc, run: ReportData) -> dict[str, Any]:
    return {
        "id": fault["id"],
        "label": visible(faults.name(fault)),
        "start": _us(fault["injected_ns"], run.origin_ns),
        "end": _us(fault.get("healed_ns") or run.end_ns, run.origin_ns),
        "effective": fault.get("effective"),
        "remark": visible(", ".join(faults.remarks(fault))),
    }


def _finding(finding: Doc, run: ReportData) -> dict[str, Any]:
    return {
        "id": finding.get("id", 0),
        "anomaly": visible(str(finding.get("anomaly", "?"))),
        "sentence": visible(str(finding.get("sentence", ""))),
        "forbidden": bool(finding.get("forbidden", True)),
        "time": _us(finding["time"], run.origin_ns),
        "operations": list(finding.get("operations", ()))[:_NAMED],
    }


def throughput(ops: Ops, origin_ns: int, end_ns: int) -> dict[str, Any]:
    """Writes that ended per second by outcome (an operation without completion counts when it began)."""
    span_s = max(1e-3, (end_ns - origin_ns) / 1e9)
    width_s = max(1.0, float(np.ceil(span_s / _BINS)))
    bins = int(span_s // width_s) + 1
    chosen = writes(ops)
    when = np.where(ops.end == NEVER, ops.time, ops.end)[chosen]
    slot = np.clip(((when - origin_ns) / (width_s * 1e9)).astype(np.int64), 0, bins - 1)
    counted = {name: np.bincount(slot[ops.type.among(name)[chosen]], minlength=bins).tolist() for name in _OUTCOMES}
    return {"bin": int(width_s * 1e6), **counted}


def longest_gap(ops: Ops) -> tuple[int, int] | None:
    """The longest time (ns, from and to) without a successful commit or send in the main phase."""
    chosen = writes(ops)
    done = ops.end[chosen & ops.type.among("ok") & ~ops.intent.among("abort") & (ops.end != NEVER)]
    if not chosen.any():
        return None
    edges = [ops.time[chosen].min(), max(int(ops.end[chosen].max()), int(ops.time[chosen].max()))]
    moments = np.sort(np.concatenate([edges, done]))
    widest = int(np.argmax(np.diff(moments)))
    return int(moments[widest]), int(moments[widest + 1])


def _relative(span: tuple[int, int] | None, origin_ns: int) -> list[int] | None:
    return None if span is None else [_us(span[0], origin_ns), _us(span[1], origin_ns)]
