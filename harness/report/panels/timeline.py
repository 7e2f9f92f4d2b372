"""The data behind the timeline: operations in lanes, faults, findings, brokers, curves, records' lives, small enough to inline.

Times are whole microseconds since the start of the run, which JavaScript's numbers hold exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.harness.page_text import number, shortened
from fencepost.harness.report import brokers, unseen
from fencepost.harness.report.broker_lines import broker_logs
from fencepost.harness.report.documents import NEVER, Doc, Ints, Ops, ReportData, slices
from fencepost.harness.report.lanes import partitioned
from fencepost.harness.report.lives import lives
from fencepost.harness.report.packed import differences, differences_within, packed
from fencepost.harness.report.panels import faults
from fencepost.harness.report.records import Records, records
from fencepost.harness.report.sampling import MOST_WINDOWS, Sample, sample
from fencepost.harness.report.series import OUTCOMES, charts, longest_gap
from fencepost.harness.report.wall_clock import wall_clock
from fencepost.harness.visible_text import visible

MOST_OPS, MOST_RECORDS = 30_000, 150_000
_DETAILED = 300_000  # operations: in a longer history only those of findings show their records
_NAMES_OF, _ERRORS, _NAMED, _VALUE, _PROCESSES, _SPANS = 6, 3, 200, 40, 60, 8
_ERROR_TEXT, _MOST_ERRORS = 300, 1_000
_SECOND = 1e9
_LOGGED_ROLES = {"leader": "leader", "elected": "coordinator", "controller": "controller"}
_PROCESS_BITS, _PROCESS_MASK = 32, (1 << 32) - 1
_ROLES = ("writer", "member", "instance", "reader", "final", "harness")


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    made = timeline(run)
    return {
        "timeline": made,
        "timeline_data": None if made is None else compact(made),
        "sampled": "" if made is None else made["sampled"],
        "charts": () if made is None else made["charts"],
        "brokers": "" if made is None else brokers.known(made["brokers"]) if made["brokers"] else "",
        "unseen": unseen.words(run),
    }


def timeline(run: ReportData) -> dict[str, Any] | None:
    """Everything that the page's script draws, or None when there is no operation to draw."""
    ops = run.ops
    if ops is None or not len(ops):
        return None
    named = _named(run.findings)
    drawn = drawn_sample(ops, run.findings, run.faults or ())
    rows, row_of = _rows(ops)
    table = records(ops, named)
    return {
        "end": _us(run.end_ns, run.origin_ns),
        "total": len(ops),
        "sampled": _sampled(drawn, len(ops), run.origin_ns),
        "windows": [[_us(begin, run.origin_ns), _us(end, run.origin_ns)] for begin, end in drawn.windows],
        "rows": rows,
        "ops": _columns(ops, drawn.positions, row_of, run.origin_ns),
        **_insides(run, ops, drawn.positions, table, named),
        "faults": _faults(run),
        "findings": [_finding(finding, run) for finding in run.findings],
        "brokers": brokers.rows(run, set(ops.node.names.tolist()), _placements(run)),
        "charts": charts(run, ops, table, row_of),
        "gap": _relative(longest_gap(ops), run.origin_ns),
        "finalAt": _us(int(ops.time[ops.final].min()), run.origin_ns) if ops.final.any() else None,
        "lives": lives(run, ops, table),
    }


def compact(made: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the page: columns packed, curves without their words."""
    ops, inside = made["ops"], made["records"]
    columns = {name: packed(np.array(ops[name])) for name in ("row", "process", "op", "length", "kind")}
    columns |= {name: packed(differences(ops[name])) for name in ("index", "start")}
    where = np.array(inside["where"], dtype=np.int64)
    small = {
        "ops": {**columns, **{name: ops[name] for name in ("fs", "intents")}},
        "records": {
            "count": packed(np.array(inside["count"])),
            "where": packed(where),
            "offset": packed(differences_within(np.array(inside["offset"], dtype=np.int64), where)),
        },
        "charts": [chart.drawn() for chart in made["charts"]],
        **_different_errors(made["errors"]),
    }
    return {**{key: value for key, value in made.items() if key != "sampled"}, **small}


def _different_errors(errors: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    """Each different error once, and the numbers of each operation's: errors of a stall are alike.

    Of more than `_MOST_ERRORS` different ones the further ones lose their texts, and at last their names.
    """
    numbers: dict[tuple[str, ...], int] = {}

    def number_of(error: Sequence[str]) -> int:
        room = len(numbers) // _MOST_ERRORS
        key = tuple(error) if not room or tuple(error) in numbers else (*error[:2], "")
        if room > 1 and key not in numbers:
            key = ("", "an error of another kind", "")
        return numbers.setdefault(key, len(numbers))

    by_place = {place: [number_of(error) for error in some] for place, some in errors.items()}
    return {"errors": by_place, "errorTexts": [list(error) for error in numbers]}


# --------------------------------------------------------------------------------------------------
# Which operations
# --------------------------------------------------------------------------------------------------
def drawn_sample(ops: Ops, findings: Sequence[Doc], receipts: Sequence[Doc]) -> Sample:
    """The operations that are drawn: densely around findings, and around the beginnings and ends of faults."""
    ordered = sorted(findings, key=lambda finding: not finding.get("forbidden", True))
    moments = [int(finding["time"]) for finding in ordered if (finding.get("time") or 0) > 0][: MOST_WINDOWS // 2]
    moments += [int(receipt[key]) for receipt in receipts for key in ("injected_ns", "healed_ns") if receipt.get(key)]
    return sample(ops, _named(findings), moments, MOST_OPS)


def shown(ops: Ops, findings: Sequence[Doc], receipts: Sequence[Doc]) -> Ints:
    """Positions of the operations whose records are shown, of all that there are."""
    positions = drawn_sample(ops, findings, receipts).positions
    return positions if len(ops) <= _DETAILED else positions[np.isin(ops.index[positions], list(_named(findings)))]


def _sampled(drawn: Sample, total: int, origin_ns: int) -> str:
    """What is drawn of a history with too many operations, in words; empty when all of them are."""
    if len(drawn.positions) == total:
        return ""
    most, count = drawn.uncertain
    parts = ["the operations of findings"]
    if count:
        parts.append(
            f"all {number(count)} fail and info" if most == count else f"{number(most)} of {number(count)} fail and info"
        )
    spans = [f"{max(0, begin - origin_ns) / _SECOND:.1f} to {(end - origin_ns) / _SECOND:.1f} s" for begin, end in drawn.windows]
    more = f", and at {len(spans) - _SPANS} more times" if len(spans) > _SPANS else ""
    dense = f" Exact, with every operation: {', '.join(spans[:_SPANS])}{more}." if spans else ""
    rest = f", and 1 of {number(drawn.every)} of the others" if drawn.every else ""
    count_drawn = number(len(drawn.positions))
    words = f"This history has {number(total)} operations, of which {count_drawn} are drawn: {', '.join(parts)}{rest}."
    return f"{words}{dense} The curves are computed from all of them."


def _named(findings: Sequence[Doc]) -> set[int]:
    return {index for finding in findings for index in finding.get("operations", ())[:_NAMED]}


def _us(ns: int, origin_ns: int) -> int:
    return (ns - origin_ns) // 1000


# --------------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------------
def _rows(ops: Ops) -> tuple[list[dict[str, Any]], Any]:
    """Lanes of workers, and each operation's row: those of one role and node that do not overlap share one."""
    pairs, first, code = _distinct((_pairs(ops, part) for part in slices(len(ops))), len(ops))
    _, earliest, inverse = np.unique(pairs >> _PROCESS_BITS, return_index=True, return_inverse=True)
    begun = first[earliest]
    lanes = _lanes(ops, begun, inverse, code)
    order = sorted(dict.fromkeys(lanes), key=lambda lane: (_place(lane[0]), *lane[1:]))
    number_of = {lane: place for place, lane in enumerate(order)}
    row_of_worker = np.array([number_of[lane] for lane in lanes], dtype=np.int32)
    row_of_pair = row_of_worker[inverse]
    processes: list[list[int]] = [[] for _ in order]
    for pair in np.lexsort((first,)).tolist():
        processes[row_of_pair[pair]].append(int(ops.process[first[pair]]))
    return [_row(lane, mine) for lane, mine in zip(order, processes, strict=True)], row_of_pair[code]


def _pairs(ops: Ops, part: slice) -> Ints:
    """Worker and process of some operations as one number; a process without a slot is a worker of its own."""
    process = ops.process[part].astype(np.int64)
    worker = np.where(ops.slot[part] >= 0, ops.slot[part], -2 - process)
    return worker << _PROCESS_BITS | process & _PROCESS_MASK


def _lanes(ops: Ops, begun: Ints, worker_of: Ints, code: Any) -> list[tuple[str, int, str, int]]:
    """For each worker its lane: (role, where the lane stands, node, number).

    begun: the position of its first operation.
    worker_of: the worker of each pair of worker and process.
    code: the pair of each operation.
    """
    ends = ops.time[begun] + 1
    for part in slices(len(ops)):
        np.maximum.at(ends, worker_of[code[part]], np.maximum(ops.end[part], ops.time[part]))
    groups: dict[tuple[str, str], list[int]] = {}
    for place, at in enumerate(begun.tolist()):
        groups.setdefault((str(ops.role[at]), str(ops.node[at])), []).append(place)
    lanes: list[tuple[str, int, str, int]] = [("", 0, "", 0)] * len(begun)
    for (role, node), members in groups.items():
        spans = [(int(ops.time[begun[place]]), int(ends[place])) for place in members]
        numbers = partitioned(spans)
        heads = dict(
            zip(reversed(numbers), reversed(members), strict=True)
        )  # of each lane the first: workers are in order of slots
        for place, lane in zip(members, numbers, strict=True):
            lanes[place] = (role, heads[lane], node, lane)
    return lanes


def _row(lane: tuple[str, int, str, int], processes: list[int]) -> dict[str, Any]:
    role, _, node, _ = lane
    return {
        "label": visible(_label(node, processes)),
        "role": visible(role),
        "node": visible(node),
        "processes": processes[:_PROCESSES],
        "more": max(0, len(processes) - _PROCESSES),
    }


def _place(role: str) -> int:
    return _ROLES.index(role) if role in _ROLES else len(_ROLES)


def _distinct(parts: Iterable[Ints], count: int) -> tuple[Ints, Ints, Any]:
    """The different values in the order of their first appearance, where each first appears, and the number of each value.

    parts: so many values, some at a time.

    By hashing: sorting millions of operations for a few different values would take a hundred times as long.
    """
    number_of: dict[int, int] = {}
    first: list[int] = []
    code, start = np.empty(count, dtype=np.int32), 0
    for part in parts:
        encoded = pa.array(part).dictionary_encode()
        inside, values = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        appears = np.flatnonzero(np.r_[True, inside[1:] > np.maximum.accumulate(inside)[:-1]])
        first += [start + at for value, at in zip(values, appears.tolist(), strict=True) if value not in number_of]
        numbers = np.array([number_of.setdefault(value, len(number_of)) for value in values], dtype=np.int32)
        code[start : start + len(part)] = numbers[inside]
        start += len(part)
    return np.array(list(number_of), dtype=np.int64), np.array(first, dtype=np.int64), code


def _label(node: str, processes: list[int]) -> str:
    if processes == [-1]:
        return node or "harness"
    name = f"p{processes[0]}" if len(processes) == 1 else f"p{processes[0]}…{processes[-1]}"
    return f"{node} {name}".strip()


# --------------------------------------------------------------------------------------------------
# Operations and their insides
# --------------------------------------------------------------------------------------------------
def _columns(ops: Ops, drawn: Ints, row_of: Ints, origin_ns: int) -> dict[str, Any]:
    """The columns of the operations that are drawn. kind: function, intent and outcome in one number."""
    kinds, f = np.unique(ops.f[drawn], return_inverse=True)
    intents, intent = np.unique(ops.intent[drawn], return_inverse=True)
    outcome = np.full(len(drawn), OUTCOMES.index("info"))
    for code, name in enumerate(OUTCOMES):
        outcome[ops.type[drawn] == name] = code
    start, end = ops.time[drawn], ops.end[drawn]
    return {
        "row": row_of[drawn].tolist(),
        "start": ((start - origin_ns) // 1000).tolist(),
        "length": np.where(end == NEVER, NEVER, (end - start) // 1000).tolist(),
        "index": ops.index[drawn].tolist(),
        "process": ops.process[drawn].tolist(),
        "op": ops.op[drawn].tolist(),
        "kind": ((f * len(intents) + intent) * len(OUTCOMES) + outcome).tolist(),
        "fs": [visible(str(kind)) for kind in kinds],
        "intents": [visible(str(word)) for word in intents],
    }


def _insides(run: ReportData, ops: Ops, drawn: Ints, table: Records, named: set[int]) -> dict[str, Any]:
    """The records of the operations that are drawn, and their errors.

    records: for each operation how many (NEVER: they are not on the page), and of each its place - twice the number of its
    partition, and 1 more where it was read - and its offset.
    values: position among the operations -> what its first records are called where the history comes from; of findings' only.
    """
    of_finding = np.isin(ops.index[drawn], list(named))
    inside = _with_records(drawn, table, of_finding)
    chosen = np.zeros(len(table.at), dtype=np.bool_)
    chosen[np.searchsorted(table.at, drawn[inside])] = True
    flat = table.of(chosen)
    counts = np.full(len(drawn), NEVER)
    counts[inside] = table.counts[chosen]
    return {
        "partitions": [visible(name) for name in table.partitions],
        "records": {
            "count": counts.tolist(),
            "where": 2 * table.partition[flat] + table.kind[flat],
            "offset": table.offset[flat],
        },
        "errors": _errors(ops, drawn, inside),
        "values": _values(run, drawn, table, inside & of_finding),
    }


def _with_records(drawn: Ints, table: Records, of_finding: Any) -> Any:
    """The operations (a mask over those drawn) whose records are on the page: findings' first, then what there is room for."""
    known = np.isin(drawn, table.at[table.counts >= 0])
    sizes = np.zeros(len(drawn), dtype=np.int64)
    sizes[known] = table.counts[np.searchsorted(table.at, drawn[known])]
    order = np.argsort(~of_finding, kind="stable")
    fits = np.empty(len(drawn), dtype=np.bool_)
    fits[order] = np.cumsum(sizes[order]) <= MOST_RECORDS
    return known & fits


def _errors(ops: Ops, drawn: Ints, inside: Any) -> dict[str, list[list[str]]]:
    """Errors of the operations that had any: place among the inlined ones -> [call, name, text] each."""
    places = np.flatnonzero(inside)
    column = ops.table(drawn[places], ("errors",))["errors"]
    by_place = {}
    for at in np.flatnonzero(pc.list_value_length(column).fill_null(0).to_numpy()).tolist():
        errors = column[at].as_py()
        shown_errors = [
            [visible(shortened(str(error[key] or ""), _ERROR_TEXT)) for key in ("call", "name", "text")]
            for error in errors[:_ERRORS]
        ]
        more = len(errors) - _ERRORS
        by_place[str(places[at])] = [*shown_errors, ["", f"and {more} more", ""]] if more > 0 else shown_errors
    return by_place


def _values(run: ReportData, drawn: Ints, table: Records, chosen: Any) -> dict[str, list[str]]:
    """The names of the first records of some operations, by position among those drawn."""
    if run.values is None:
        return {}
    begins = np.r_[0, np.cumsum(np.maximum(table.counts, 0))]
    first = {}
    for place in np.flatnonzero(chosen).tolist():
        at = int(np.searchsorted(table.at, drawn[place]))
        first[place] = table.v[begins[at] : min(begins[at + 1], begins[at] + _NAMES_OF)].tolist()
    names = run.originals(v for ids in first.values() for v in ids)
    return {
        str(p): [visible(shortened(names.get(v, ""), _VALUE)) for v in ids] for p, ids in first.items() if names.keys() & set(ids)
    }


# --------------------------------------------------------------------------------------------------
# Faults and findings
# --------------------------------------------------------------------------------------------------
def _faults(run: ReportData) -> list[dict[str, Any]]:
    """The faults that struck; those that overlap lie in different lanes."""
    struck = [fault for fault in run.faults or () if fault.get("injected_ns")]
    spans = [(fault["injected_ns"], max(fault["injected_ns"] + 1, fault.get("healed_ns") or run.end_ns)) for fault in struck]
    return [{**_fault(fault, run), "lane": lane} for fault, lane in zip(struck, partitioned(spans), strict=True)]


def _fault(fault: Doc, run: ReportData) -> dict[str, Any]:
    return {
        "id": fault["id"],
        "kind": visible(str(fault.get("kind") or "?")),
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
        "time": _us(finding["time"], run.origin_ns) if (finding.get("time") or 0) > 0 else None,
        "operations": list(finding.get("operations", ()))[:_NAMED],
        "faults": list(finding.get("faults", ())),
    }


def _placements(run: ReportData) -> list[brokers.Placement]:
    """The roles that brokers took on by their own logs; none without a clock that places these in the history."""
    clock = None if run.run is None else wall_clock(run.run, run.ops)
    if run.run is None or clock is None:
        return []
    return [
        brokers.Placement(at=clock.ns(each.ms), role=_LOGGED_ROLES[each.what], name=each.name, node=each.node)
        for log in broker_logs(run.run, ()).logs
        for each in log.placements
        if each.what in _LOGGED_ROLES and not (each.what == "leader" and each.name.startswith("__"))
    ]


def _relative(span: tuple[int, int] | None, origin_ns: int) -> list[int] | None:
    return None if span is None else [_us(span[0], origin_ns), _us(span[1], origin_ns)]
