"""A run as a trace: every event is as the trace-event format has it, and the run is in it."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter, defaultdict
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import report_example

from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.perfetto.export import FINDINGS, RUN, export
from fencepost.harness.interop.perfetto.flows import Flows, flows_of
from fencepost.harness.interop.perfetto.tracks import Tracks

PHASES = {"M", "X", "i", "C", "s", "f"}
NAMES = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def trace_of(folder, name="trace.json"):
    """The document, whose events are as many as the export says; its form is checked."""
    count = export(open_run(folder), folder / name)
    content = (folder / name).read_bytes()
    document = json.loads(gzip.decompress(content) if name.endswith(".gz") else content)
    assert len(document["traceEvents"]) == count
    check(document)
    return document


def check(document):
    """What https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU demands of a JSON object format."""
    assert document.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    slices, arrows, named = defaultdict(list), defaultdict(list), set()
    for event in document["traceEvents"]:
        assert event["ph"] in PHASES
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert event["name"]
        if event["ph"] == "M":
            assert event["name"] in NAMES
            named.add((event["name"], event["pid"], event["tid"]))
            continue
        assert type(event["ts"]) in (int, float)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        if event["ph"] == "C":
            assert all(type(value) is int for value in event["args"].values())
        if event["ph"] in "sf":
            arrows[event["id"]].append(event)
        assert ("thread_name", event["pid"], event["tid"]) in named
        assert ("process_name", event["pid"], 0) in named
    for of_track in slices.values():
        assert all(end <= begin + 1e-3 for (_, end), (begin, _) in pairwise(sorted(of_track))), "slices of a track overlap"
    for pair in arrows.values():
        assert sorted(event["ph"] for event in pair) == ["f", "s"]
        ends = {event["ph"]: event for event in pair}
        assert ends["s"]["ts"] <= ends["f"]["ts"]
        assert ends["f"]["bp"] == "e"
        for event in pair:
            around = slices[event["pid"], event["tid"]]
            assert any(begin <= event["ts"] <= end + 1e-3 for begin, end in around), "an arrow binds to no slice"


def events(document, ph, **having):
    return [e for e in document["traceEvents"] if e["ph"] == ph and all(e.get(key) == value for key, value in having.items())]


def names(document, kind):
    """Number -> name of processes (`process`) or threads (`thread`)."""
    key = "pid" if kind == "process" else "tid"
    return {event[key]: event["args"]["name"] for event in events(document, "M", name=f"{kind}_name")}


def run_of(folder, rows, faults=(), **verdict):
    """A run's directory with a few operations."""
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(report_example.plan()))
    (folder / "verdict.json").write_text(json.dumps(verdict))
    pq.write_table(pa.Table.from_pylist(report_example.ordered(rows), OPS_SCHEMA), folder / "history.parquet")
    texts = [{**fault, "evidence": "{}", "healing": "{}"} for fault in faults]
    pq.write_table(pa.Table.from_pylist(texts, FAULTS_SCHEMA), folder / "faults.parquet")
    return folder


# --------------------------------------------------------------------------------------------------
# Stories
# --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def torn(tmp_path_factory):
    """The torn run's directory, and its trace, which no test changes."""
    folder = report_example.torn(tmp_path_factory.mktemp("torn"))
    return folder, trace_of(folder)


def test_operations_are_slices_in_threads_of_their_nodes(torn):
    folder, document = torn
    history = pq.read_table(folder / "history.parquet").to_pylist()
    slices = [event for event in events(document, "X") if event["cat"] != "fault"]
    assert len(slices) == len(history)
    processes, threads = names(document, "process"), names(document, "thread")
    for event, row in zip(slices, history, strict=True):
        assert processes[event["pid"]] == row["node"]
        assert threads[event["tid"]].startswith(f"process {row['process']}")
        assert event["ts"] == pytest.approx((row["time"] - document["otherData"]["origin_ns"]) / 1000)
        assert (event["args"]["index"], event["args"]["type"], event["cat"]) == (row["index"], row["type"], row["type"])
    assert Counter(event["name"] for event in slices)["txn commit"] > 100
    assert any(event["name"] == "txn commit (info)" for event in slices)


def test_faults_are_slices_on_the_tracks_of_the_brokers_they_struck(torn):
    _, document = torn
    processes = names(document, "process")
    where = [(event["name"], processes[event["pid"]]) for event in events(document, "X", cat="fault")]
    assert where == [("cut-clients", "faults"), ("cut-clients", "n1")] * 2 + [("pause", "faults"), ("pause", "n2")]
    first = events(document, "X", cat="fault")[0]
    assert first["dur"] == 2_400_000
    assert first["args"]["effective"] is True


def test_processes_stand_in_an_order_brokers_before_clients(torn):
    _, document = torn
    processes = names(document, "process")
    placed = sorted(events(document, "M", name="process_sort_index"), key=lambda event: event["args"]["sort_index"])
    assert [processes[event["pid"]] for event in placed] == [RUN, "faults", "n1", "n2", *(f"c{n}" for n in range(13)), "harness"]


def test_findings_are_instants(torn, tmp_path):
    _, document = torn
    found = events(document, "i", cat="finding")
    assert [event["args"]["id"] for event in found] == [1, 2, 3]
    assert {event["name"] for event in found} == {"torn-transaction"}
    assert {names(document, "thread")[event["tid"]] for event in found} == {FINDINGS}
    permitted = events(trace_of(report_example.valid(tmp_path / "valid")), "i", cat="permitted")
    assert len(permitted) == 8


def test_errors_are_instants_in_their_operation(torn):
    _, document = torn
    timed_out = events(document, "i", cat="error", name="commit: _TIMED_OUT")
    assert timed_out
    assert all(event["args"]["retriable"] for event in timed_out)


def test_a_record_has_an_arrow_from_its_send_to_its_first_read(tmp_path):
    (sent,) = report_example.sends(0, 0, 11, {"t-0": 5})
    rows = [
        report_example.op(0, 0, 10, 20, mops=[sent]),
        report_example.op(
            1, 0, 5, 100, f="poll", role="reader", intent=None, mops=report_example.reads(60, [("t-0", 5, sent["v"])])
        ),
        report_example.op(
            2, 0, 40, 10, f="poll", role="reader", intent=None, mops=report_example.reads(45, [("t-0", 5, sent["v"])])
        ),
    ]
    document = trace_of(run_of(tmp_path / "run", rows))
    (start,), (finish,) = events(document, "s"), events(document, "f")
    processes = names(document, "process")
    assert (processes[start["pid"]], processes[finish["pid"]]) == ("c0", "c2")
    assert (start["ts"], finish["ts"]) == (6_000, 40_000)


def test_arrows_are_those_of_findings_and_then_of_the_first_records(tmp_path):
    folder = report_example.torn(tmp_path / "torn")
    source = lambda columns: pq.ParquetFile(folder / "history.parquet").iter_batches(columns=columns)  # noqa: E731
    sent = [mop["v"] for row in pq.read_table(folder / "history.parquet").to_pylist() for mop in row["mops"] if mop["kind"] == 0]
    flows = flows_of(source, [sent[-1], -1, 12345], most=3)
    assert set(flows.sent) <= {sent[-1], *sent[:3]}
    assert flows_of(source, [], most=0) == Flows()


def test_an_operation_without_completion_lasts_until_the_next_of_its_process_or_the_end(tmp_path):
    rows = [
        report_example.op(0, 0, 10, None, type="info"),
        report_example.op(0, 1, 50, None, type="info"),
        report_example.op(1, 0, 20, 100),
    ]
    slices = events(trace_of(run_of(tmp_path / "run", rows)), "X")
    assert [(event["args"]["index"], event["dur"]) for event in slices] == [(0, 40_000), (1, 100_000), (2, 70_000)]


def test_operations_of_one_process_that_overlap_have_lanes(tmp_path):
    """A history from elsewhere may have them."""
    rows = [report_example.op(0, number, 10 * number, 25) for number in range(4)]
    document = trace_of(run_of(tmp_path / "run", rows))
    threads = names(document, "thread")
    assert [threads[event["tid"]] for event in events(document, "X")] == [
        "process 0",
        "process 0 (2)",
        "process 0 (3)",
        "process 0",
    ]


def test_a_fault_that_was_never_healed_lasts_to_the_end_and_one_that_never_struck_is_left_out(tmp_path):
    never = {**report_example.fault(1, "pause", 0.02, 1), "injected_ns": 0}
    rows = [report_example.op(0, 0, 10, 90)]
    document = trace_of(run_of(tmp_path / "run", rows, [report_example.fault(0, "kill", 0.05, None), never]))
    assert [(event["name"], event["dur"]) for event in events(document, "X", cat="fault")] == [("kill", 50_000)] * 2


def test_a_run_without_operations_and_one_without_nodes(tmp_path):
    assert events(trace_of(run_of(tmp_path / "none", [])), "X") == []
    rows = [report_example.op(3, 0, 10, 5, node=None, slot=-1), report_example.op(4, 0, 10, 5, node=None, slot=4)]
    processes = names(trace_of(run_of(tmp_path / "adopted", rows)), "process")
    assert {"clients", "slot 4"} <= set(processes.values())


def test_hostile_texts_control_nothing(tmp_path):
    document = trace_of(report_example.hostile(tmp_path / "hostile"))
    assert all(char.isprintable() or char == "\n" for char in json.dumps(document, ensure_ascii=False))


def test_a_name_that_ends_in_gz_is_packed_and_beneath_the_run_it_has_a_name_of_its_own(tmp_path):
    folder = report_example.unknown(tmp_path / "unknown")
    packed = trace_of(folder, "packed.json.gz")
    assert export(open_run(folder), None) == len(packed["traceEvents"])
    assert json.loads((folder / "trace.json").read_text()) == packed


def test_a_damaged_history_is_a_sentence(tmp_path):
    folder = report_example.unknown(tmp_path / "unknown")
    (folder / "history.parquet").write_bytes(b"PAR1")
    with pytest.raises(HistoryError, match=r"history.parquet could not be read"):
        export(open_run(folder), None)
    assert not (folder / "trace.json").exists()


def test_memory_does_not_grow_with_the_trace(tmp_path):
    """Python's own objects grow by less than the file does; the events of a trace alone would be more than twice as much."""
    peaks, sizes = [], []
    for operations in (500, 4_000):
        folder = report_example.large(tmp_path / str(operations), operations)
        tracemalloc.start()
        export(open_run(folder), folder / "trace.json")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        sizes.append((folder / "trace.json").stat().st_size)
    assert peaks[1] - peaks[0] < sizes[1] - sizes[0]


def test_tracks_are_named_once():
    named = []
    tracks = Tracks(lambda kind, pid, tid, name: named.append((kind, name)))
    first = tracks.for_slice("n1", "a", 0, 10)
    assert tracks.for_slice("n1", "a", 10, 20) == first
    assert tracks.for_slice("n1", "a", 5, 6) != first
    assert tracks.of("n1", "a") == first
    assert named == [("process", "n1"), ("thread", "a"), ("thread", "a (2)")]
