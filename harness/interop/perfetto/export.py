"""A run as a trace, in the JSON trace-event format that https://ui.perfetto.dev and chrome://tracing read (docs/run-as-data.md).

Each node is a process of the trace, each process of the history a thread of its node; operations are slices, faults too, findings
are instants, records arrows. The history is read batch by batch, and each event written as it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.interop.output import opened
from fencepost.harness.interop.perfetto.flows import SENT, Flows, flows_of
from fencepost.harness.interop.perfetto.reading import COLUMNS, HARNESS, Batches, Span, batches, clients_of, node_of, rows
from fencepost.harness.interop.perfetto.tracks import Track, Tracks
from fencepost.harness.visible_text import visible

FILE = "trace.json"
RUN, FAULTS = "run", "faults"  # processes of the trace that are no nodes
FINDINGS = "findings"
UNSEEN = "committed records that no reader had"
MOST_SHOWN = 10  # records and errors of a slice
MOST_OPERATIONS = 100  # of a finding
_ARGUMENTS = ("index", "op", "type", "intent", "role", "isolation", "transactional_id", "final")


def export(run: Run, out: Path | None) -> int:
    """Write the trace of a run whose history is merged to the file `out`, or into the run's directory (`FILE`); the number of
    events.

    Raises HistoryError: no history, or receipts, that can be read.
    """
    run.demand_table(RunFile.HISTORY, COLUMNS)
    source, receipts = partial(batches, run.path(RunFile.HISTORY)), run.known_receipts()
    findings = run.verdict.get("findings") or ()
    records = [record.get("v") for finding in findings for record in finding.get("records") or ()]
    flows = flows_of(source, [v for v in records if v is not None])
    with opened(run, FILE, out) as file:
        return _Trace(file, run, Span.of(source, receipts), flows).all(source, receipts, findings)


class _Trace:
    """Writes the events of a trace."""

    def __init__(self, file: BinaryIO, run: Run, span: Span, flows: Flows) -> None:
        self._file, self._run, self._span, self._flows = file, run, span, flows
        self._tracks = Tracks(self._name)
        self._encode = msgspec.json.Encoder().encode
        self._count = 0

    def all(self, source: Batches, receipts: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]]) -> int:
        """Write the document; the number of events."""
        self._file.write(b'{"displayTimeUnit":"ms","otherData":' + self._encode(self._about()) + b',"traceEvents":[')
        clients = clients_of(source)
        struck = {node for receipt in receipts for node in _struck(receipt, clients)}
        for process in (RUN, FAULTS, *sorted(struck - clients, key=_by_number), *sorted(clients, key=_by_number), HARNESS):
            self._tracks.process(process)
        for receipt in sorted(receipts, key=lambda receipt: receipt["injected_ns"] or 0):
            self._fault(receipt, clients)
        for finding in findings:
            self._finding(finding)
        for time, count in self._run.verdict.get("unseen") or ():
            self._event("C", UNSEEN, time, self._tracks.of(RUN, FINDINGS), args={"records": count})
        for row, end in zip(rows(source), self._span.ends.tolist(), strict=False):
            self._operation(row, end)
        self._file.write(b"\n]}\n")
        return self._count

    def _about(self) -> dict[str, Any]:
        run = self._run
        texts = {"run": run.id, "campaign": run.campaign, "test": run.test, "created": run.created}
        texts["verdict"] = str(run.verdict.get("verdict") or "not judged")
        return {
            **{name: visible(text) for name, text in texts.items()},
            "clock": "CLOCK_MONOTONIC",
            "origin_ns": self._span.origin,
        }

    # ---- operations ----
    def _operation(self, row: Mapping[str, Any], end: int) -> None:
        track = self._tracks.for_slice(node_of(row), f"process {row['process']}", row["time"], end)
        name = " ".join(filter(None, (row["f"], row["intent"], "" if row["type"] == "ok" else f"({row['type']})")))
        self._event("X", name, row["time"], track, end=end, cat=row["type"] or "info", args=_arguments(row))
        for error in (row["errors"] or ())[:MOST_SHOWN]:
            details = {key: error[key] for key in ("text", "code", "fatal", "retriable", "abortable") if error[key] is not None}
            when = min(max(error["time"] or end, row["time"]), end)
            self._event("i", f"{error['call']}: {error['name']}", when, track, cat="error", s="t", args=details)
        for mop in row["mops"]:
            self._flow(mop, row, end, track)

    def _flow(self, mop: tuple[Any, ...], row: Mapping[str, Any], end: int, track: Track) -> None:
        kind, _, v, _, began, ended = mop
        number = self._flows.sent.get(v) if kind == SENT else self._flows.polled.pop((v, ended, row["index"]), None)
        if number is not None:
            when = min(max((began if kind == SENT else ended) or row["time"], row["time"]), end)
            more: dict[str, Any] = {} if kind == SENT else {"bp": "e"}
            self._event("s" if kind == SENT else "f", "record", when, track, cat="record", id=number, **more)
            if kind == SENT:
                del self._flows.sent[v]

    # ---- faults and findings ----
    def _fault(self, receipt: Mapping[str, Any], clients: set[str]) -> None:
        begin = receipt["injected_ns"]
        if not begin:
            return
        end = max(begin, receipt["healed_ns"] or self._span.last)
        keys = ("id", "role", "targets", "pairs", "effective", "note")
        args = {key: receipt.get(key) for key in keys if receipt.get(key) not in (None, "", [])}
        for process in (FAULTS, *_struck(receipt, clients)):
            track = self._tracks.for_slice(process, FAULTS, begin, end)
            self._event("X", receipt["kind"] or "fault", begin, track, end=end, cat="fault", args=args)

    def _finding(self, finding: Mapping[str, Any]) -> None:
        if finding.get("time") is None:
            return
        anomaly = str(finding.get("anomaly", "?"))
        args = {key: finding.get(key) for key in ("id", "sentence", "forbidden")}
        args["operations"] = list(finding.get("operations") or ())[:MOST_OPERATIONS]
        cat = "finding" if finding.get("forbidden", True) else "permitted"
        self._event("i", anomaly, finding["time"], self._tracks.of(RUN, FINDINGS), cat=cat, s="p", args=args)

    # ---- events ----
    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        """Name a process or a thread, and say where it stands among the others."""
        place = pid if kind == "process" else tid
        for event, args in ((f"{kind}_name", {"name": visible(name)}), (f"{kind}_sort_index", {"sort_index": place})):
            self._write({"ph": "M", "name": event, "pid": pid, "tid": tid, "args": args})

    def _event(self, ph: str, name: str, time: int, track: Track, *, end: int | None = None, **more: Any) -> None:
        event = {"ph": ph, "name": visible(str(name)) or "?", "pid": track.pid, "tid": track.tid, "ts": self._us(time)}
        if end is not None:
            event["dur"] = (end - time) / 1000
        self._write({**event, **{key: _shown(value) for key, value in more.items()}})

    def _us(self, time: int) -> float:
        return max(0, time - self._span.origin) / 1000

    def _write(self, event: Mapping[str, Any]) -> None:
        self._file.write((b",\n" if self._count else b"\n") + self._encode(event))
        self._count += 1


def _by_number(name: str) -> tuple[int, str]:
    """Order of names: `c2` before `c10`."""
    return len(name), name


def _struck(receipt: Mapping[str, Any], clients: set[str]) -> list[str]:
    """The nodes on whose tracks a fault is shown: its targets; of a cut without these, the brokers at its ends."""
    ends = {end for pair in receipt.get("pairs") or () for end in pair.split(">")}
    return list(dict.fromkeys(receipt.get("targets") or sorted(ends - clients)))


def _arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    args = {name: row[name] for name in _ARGUMENTS if row[name] is not None}
    for name, mops in (
        ("sent", [mop for mop in row["mops"] if mop[0] == SENT]),
        ("polled", [m for m in row["mops"] if m[0] != SENT]),
    ):
        if mops:
            args[name] = len(mops)
            args[f"{name}_first"] = [f"{mop[1]}@{'?' if mop[3] is None else mop[3]}" for mop in mops[:MOST_SHOWN]]
    return args


def _shown(value: Any) -> Any:
    """A value whose texts control nothing, and can be written."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): _shown(inner) for key, inner in value.items()}
    return list(map(_shown, value)) if isinstance(value, (list, tuple)) else value
