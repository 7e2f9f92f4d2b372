"""A run's history for Jepsen's own checker."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.jepsen_example import Adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import CampaignError, record_id
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import GapKind
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.export import export

A, B, C = record_id(0, 0, 0), record_id(0, 0, 1), record_id(1, 0, 0)


def row(process, op, f, type, time, end, mops=(), **fields):
    known = {"process": process, "op": op, "f": f, "type": type, "time": time, "end": end, "mops": list(mops), "slot": process}
    return {"role": "writer", "isolation": "read_committed", "final": False, "errors": [], "strange": [], **known, **fields}


D, E = record_id(1, 1, 0), record_id(3, 0, 0)
MIXED = [(0, "t-10", A, 4, 1001, 1100), (1, "t-2", C, 0, None, 1200), (0, "t-2", B, None, 1201, 1300)]
STRANGE = [(1, "t-2", -1, 7, None, 1890), (1, "t-2", -1, 8, None, 1890), (1, "t-10", A, 4, None, 1890)]
TIMED_OUT = [{"call": "commit", "name": "_TIMED_OUT"}]
ROWS = [
    row(-1, 0, "settle", "ok", 990, 991, detail="{}", role="harness"),
    row(0, 0, "txn", "ok", 1000, 1500, MIXED, intent="commit"),
    row(1, 0, "txn", "ok", 1100, 1400, [(0, "t-2", C, 0, 1101, 1150)], intent="abort"),
    row(1, 1, "txn", "info", 1600, 1700, [(0, "t-2", D, None, 1601, None)], intent="commit", errors=TIMED_OUT),
    row(2, 0, "poll", "ok", 1800, 1900, STRANGE, final=True),
    row(2, 1, "final-read", "ok", 1901, 1902, detail='{"t-2": [0, 9, 9]}', final=True),
    row(4, 0, "poll", "ok", 1910, 1920, [(1, "t-2", C, 0, None, 1915)], final=True, isolation="read_uncommitted"),
    row(3, 0, "txn", "info", 1950, None, [(0, "t-2", E, None, None, None)], intent="commit"),
]
FAULT = {"id": 0, "kind": "kill", "role": "leader:t-2", "targets": ["n1"], "pairs": [], "planned_ns": 1010, "injected_ns": 1020}
FAULT |= {"healed_ns": 1650, "evidence": "{}", "healing": "{}", "effective": True, "note": ""}


@pytest.fixture
def run(tmp_path):
    rows = [{**row, "index": index} for index, row in enumerate(ROWS)]
    pq.write_table(pa.Table.from_pylist(rows, schema=OPS_SCHEMA), tmp_path / "history.parquet")
    pq.write_table(pa.Table.from_pylist([FAULT], schema=FAULTS_SCHEMA), tmp_path / "faults.parquet")
    return tmp_path


def exported(run, format="jepsen-edn"):
    count = export(open_run(run), format, run / "out")
    lines = (run / "out").read_text().splitlines()
    assert len(lines) == count
    return [edn.read(line) if format == "jepsen-edn" else json.loads(line) for line in lines]


def test_every_operation_is_two_lines_in_order_of_time(run):
    lines = exported(run)
    assert [line["index"] for line in lines] == list(range(len(lines)))
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    assert lines[0]["time"] == 0
    assert [(line["process"], line["f"], line["type"]) for line in lines if line["process"] == 0] == [
        (0, "assign", "invoke"),
        (0, "assign", "ok"),
        (0, "txn", "invoke"),
        (0, "txn", "ok"),
    ]


def test_a_transaction_keeps_its_order_and_polls_stay_whole(run):
    """Partitions are numbered in the order of their names: t-2 is 0, t-10 is 1."""
    invoke, ok = (line for line in exported(run) if line["process"] == 0 and line["f"] == "txn")
    assert invoke["value"] == [["send", 1, A], ["poll"], ["send", 0, B]]
    assert ok["value"] == [["send", 1, [4, A]], ["poll", {0: [[0, C]]}], ["send", 0, [None, B]]]


def test_an_abort_that_succeeded_failed_for_jepsen(run):
    assert [line["type"] for line in exported(run) if line["process"] == 1 and line["f"] == "txn"] == [
        "invoke",
        "fail",
        "invoke",
        "info",
    ]


def test_an_unknown_outcome_tells_its_error_and_no_acknowledgement(run):
    info = next(line for line in exported(run) if line["type"] == "info" and line["process"] == 1)
    assert info["error"] == "commit: _TIMED_OUT"
    assert info["value"] == [["send", 0, record_id(1, 1, 0)]]


def test_strange_records_get_values_of_their_own(run):
    ok = next(line for line in exported(run) if line["process"] == 2 and line["f"] == "poll" and line["type"] == "ok")
    assert ok["value"] == [["poll", {0: [[7, -1], [8, -2]], 1: [[4, A]]}]]


def test_an_operation_without_completion_stays_open(run):
    assert [line["type"] for line in exported(run) if line["process"] == 3 and line["f"] == "txn"] == ["invoke"]


def test_faults_are_exported_as_the_nemesis_and_our_own_operations_not_at_all(run):
    lines = exported(run)
    assert [(line["f"], line["time"]) for line in lines if line["process"] == "nemesis"] == [
        ("start-kill", 10),
        ("start-kill", 20),
        ("stop-kill", 650),
        ("stop-kill", 650),
    ]
    assert not {"settle", "final-read"} & {line["f"] for line in lines}


def test_the_reader_that_may_see_aborted_records_is_left_out(run):
    """Process 4 read at read_uncommitted the record whose transaction was aborted; Jepsen would call that G1a."""
    assert 4 not in {line["process"] for line in exported(run)}


def rewritten(run, rows, **contract):
    """Lines that are exported of a run of these operations, without faults and without assignments."""
    rows = [{**row, "index": index} for index, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(rows, schema=OPS_SCHEMA), run / "history.parquet")
    (run / "plan.json").write_text(json.dumps({"contract": contract}))
    (run / "faults.parquet").unlink(missing_ok=True)
    return [line for line in exported(run) if line["f"] != "assign"]


def test_a_reader_is_left_out_for_its_isolation_not_for_its_phase(run):
    """Unless the run promised no more, or judged it like the others."""
    peek = row(4, 0, "poll", "ok", 10, 20, [(1, "t-0", C, 0, None, 15)], isolation="read_uncommitted", role="reader")
    read = row(5, 0, "poll", "ok", 11, 21, [(1, "t-0", C, 0, None, 15)])
    assert {line["process"] for line in rewritten(run, [peek, read])} == {5}
    for judged in ({"isolation": "read_uncommitted"}, {"readers": "all"}):
        assert {line["process"] for line in rewritten(run, [peek, read], **judged)} == {4, 5}


POLLED = [(0, "t-0", A, None, 101, None), (1, "t-0", C, 7, None, 120), (1, "t-1", D, 3, None, 130)]


@pytest.mark.parametrize(
    ("type", "intent", "expected"), [("ok", "abort", "fail"), ("fail", "commit", "fail"), ("info", "commit", "info")]
)
def test_what_a_transaction_polled_that_did_not_commit_is_a_poll_of_its_own(run, type, intent, expected):
    """The consumer went on behind it: for Jepsen it would have skipped these records. Other operations keep their places."""
    other = row(1, 0, "poll", "ok", 105, 140, [(1, "t-0", C, 7, None, 140)])
    lines = rewritten(run, [row(0, 0, "txn", type, 100, 200, POLLED, intent=intent), other])
    operations = [(line["process"], line["f"], line["type"], line["time"], line["value"]) for line in lines]
    polled = [["poll", {0: [[7, C]]}], ["poll", {1: [[3, D]]}]]
    assert operations == [
        (0, "poll", "invoke", 0, [["poll"], ["poll"]]),
        (1, "poll", "invoke", 5, [["poll"]]),
        (0, "poll", "ok", 30, polled),
        (0, "txn", "invoke", 30, [["send", 0, A]]),
        (1, "poll", "ok", 40, [["poll", {0: [[7, C]]}]]),
        (0, "txn", expected, 100, [["send", 0, A]]),
    ]


def test_a_client_that_went_back_after_it_keeps_its_polls_inside(run):
    """As Jepsen's own does: what came from there goes back as it was."""
    lines = rewritten(run, [row(0, 0, "txn", "fail", 100, 200, POLLED, intent="commit")], aborted_polls="rewound")
    assert [(line["f"], line["type"]) for line in lines] == [("txn", "invoke"), ("txn", "fail")]


@pytest.mark.parametrize(
    ("f", "detail"),
    [
        ("seek", '{"positions": {"t-2": 4}}'),
        ("committed", '{"offsets": {"t-2": 4}, "rebalances": [["revoked", ["t-2"]], ["assigned", ["t-2"]]]}'),
    ],
)
def test_a_member_that_seeks_back_or_is_rebalanced_may_be_anywhere_after_it(run, tmp_path_factory, f, detail):
    """Jepsen has neither call. What it reads again after an abort is no step back."""
    group = {"detail": '{"partitions": ["t-2"]}'}
    rows = [
        row(0, 0, "subscribe", "ok", 1, 2, **group),
        row(0, 1, "poll", "ok", 3, 4, [], detail='{"rebalances": [["assigned", ["t-2"]]]}'),
        row(1, 0, "txn", "ok", 5, 9, [(0, "t-2", A, 4, 6, 7), (0, "t-2", B, 5, 6, 7)], intent="commit"),
        row(0, 2, "txn", "fail", 10, 19, [(1, "t-2", A, 4, None, 11), (1, "t-2", B, 5, None, 11)], intent="abort"),
        row(0, 3, f, "ok", 20, 21, detail=detail),
        row(0, 4, "poll", "ok", 30, 31, [(1, "t-2", A, 4, None, 31), (1, "t-2", B, 5, None, 31)]),
    ]
    lines = rewritten(run, rows)
    assert [(line["f"], line["value"]) for line in lines if line["time"] == 19] == [("subscribe", [])]
    history = Adopted(run / "out", tmp_path_factory.mktemp("again") / "run")
    assert [finding["anomaly"] for finding in judge(open_run(history.dir), here=True)["findings"] if finding["forbidden"]] == []


def test_json_says_the_same_as_edn(run):
    def plain(line):
        return json.loads(json.dumps(line))

    assert exported(run, "jepsen-json") == [plain(line) for line in exported(run, "jepsen-edn")]


def test_what_is_exported_can_be_adopted_again(run, tmp_path_factory):
    """The same operations, outcomes and records, under their names in Jepsen's terms."""
    for format in ("jepsen-edn", "jepsen-json"):
        export(open_run(run), format, run / "out")
        history = Adopted(run / "out", tmp_path_factory.mktemp("again") / "run")
        assert history.damage == []
        assert [(process, f, type) for process, f, type, _ in history.shown() if f != "assign"] == [
            (0, "txn", "ok"),
            (1, "txn", "fail"),
            (1, "txn", "info"),
            (2, "poll", "ok"),
            (3, "txn", "info"),
        ]
        mops = {row["process"]: [history.mop(mop)[:4] for mop in row["mops"]] for row in history.rows if row["type"] == "ok"}
        assert mops[0] == [("send", "1", str(A), 4), ("poll", "0", str(C), 0), ("send", "0", str(B), None)]
        assert mops[2] == [("poll", "0", "-1", 7), ("poll", "0", "-2", 8), ("poll", "1", str(A), 4)]
        assert [(fault["kind"], fault["healed_ns"] - fault["injected_ns"]) for fault in history.faults] == [("kill", 630)]


def test_keys_that_are_numbers_stay_what_they_are(run):
    """An adopted history goes out as it came in."""
    rows = [{**row(0, 0, "poll", "ok", 1, 2, [(1, "17", 5, 0, None, 2), (1, "4", 6, 0, None, 2)]), "index": 0}]
    pq.write_table(pa.Table.from_pylist(rows, schema=OPS_SCHEMA), run / "history.parquet")
    (ok,) = (line for line in exported(run) if line["f"] == "poll" and line["type"] == "ok")
    assert ok["value"] == [["poll", {17: [[0, 5]], 4: [[0, 6]]}]]


GROUP = """
{:type :invoke, :f :subscribe, :value [4 5], :time 1, :process 0, :index 0}
{:type :ok, :f :subscribe, :value [4 5], :time 2, :process 0, :index 1}
{:type :invoke, :f :txn, :value [[:poll] [:poll] [:send 4 9]], :time 3, :process 0, :index 2}
{:type :ok, :f :txn, :value [[:poll {4 [[0 1] [1 2]], 5 [[3 1]]}] [:poll {4 [[1 2]]}] [:send 4 [2 9]]], \
:rebalance-log [{:type :revoked, :keys [4 5]} {:type :assigned, :keys [4]}], :time 4, :process 0, :index 3}
{:type :invoke, :f :poll, :value [[:poll] [:poll]], :time 5, :process 0, :index 4}
{:type :info, :f :poll, :value [[:poll {4 [[2 9]]}] [:poll]], :time 6, :process 0, :index 5}
{:type :invoke, :f :poll, :value [[:poll]], :time 7, :process 1, :index 6}
{:type :ok, :f :poll, :value [[:poll]], :time 8, :process 1, :index 7}
"""


@pytest.mark.parametrize("format", ["jepsen-edn", "jepsen-json"])
def test_what_is_known_of_a_consumers_polls_survives_the_way_out_and_back(tmp_path, format):
    """Its rebalances, that records of a key came from several polls, and that what a poll got is unknown."""
    (tmp_path / "history.edn").write_text(GROUP.strip())
    before = Adopted(tmp_path / "history.edn", tmp_path / "before")
    export(open_run(before.dir), format, tmp_path / "out")
    after = Adopted(tmp_path / "out", tmp_path / "after")
    details = [
        [row["detail"] and json.loads(row["detail"]) for row in history.rows if row["f"] != "assign"]
        for history in (before, after)
    ]
    assert details[0] == details[1]
    assert details[0][1:] == [
        {"rebalances": [["revoked", ["4", "5"]], ["assigned", ["4"]]], "parted": ["4"]},
        {"unheard": True},
        {"unheard": True},
    ]


@pytest.mark.parametrize("format", ["jepsen-edn", "jepsen-json"])
def test_records_of_one_send_that_stand_for_themselves_say_so(run, tmp_path_factory, format):
    """Jepsen's clients send several in transactions only; and of a send that failed nothing can have been acknowledged."""
    sends = [(0, "t-0", A, 4, 1001, 1100), (0, "t-0", B, None, 1002, None)]
    seek = '{"partitions": ["t-0"], "seek_to_beginning": true}'
    rows = [row(0, 0, "assign", "ok", 1, 2, detail=seek), row(0, 1, "send", "fail", 1000, 1500, sends)]
    rows = [{**operation, "index": index} for index, operation in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(rows, schema=OPS_SCHEMA), run / "history.parquet")
    lines = [line for line in exported(run, format) if line["process"] == 0]
    assert [(line["type"], line.get("seek-to-beginning?"), line.get("transactional")) for line in lines] == [
        ("invoke", True, None),
        ("ok", True, None),
        ("invoke", None, False),
        ("info", None, False),
    ]
    history = Adopted(run / "out", tmp_path_factory.mktemp("again") / "run")
    assert json.loads((history.dir / "plan.json").read_text())["contract"]["transactional"] == "false"
    assert [line["f"] for line in history.rows] == ["assign", "send"]


@pytest.mark.parametrize("format", ["jepsen-edn", "jepsen-json"])
@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda lines: [lines[0], lines[1].replace(":send", ":seed"), *lines[2:]], GapKind.UNREADABLE),
        (lambda lines: [lines[0], lines[1].replace("[0 1]", "[0 7]"), *lines[2:]], GapKind.UNRELIABLE),
        (lambda lines: lines, None),
    ],
    ids=["a broken line", "a contradiction", "nothing"],
)
def test_what_the_history_lacks_survives_the_way_out_and_back(tmp_path, format, damage, kind):
    """Without it the record whose line is broken, or says something else, would be nobody's."""
    lines = [
        "{:type :invoke, :f :txn, :value [[:send 4 1]], :time 1, :process 0, :index 0}",
        "{:type :ok, :f :txn, :value [[:send 4 [0 1]]], :time 2, :process 0, :index 1}",
        "{:type :invoke, :f :poll, :value [[:poll]], :time 3, :process 1, :index 2}",
        "{:type :ok, :f :poll, :value [[:poll {4 [[0 1] [1 8]]}]], :time 4, :process 1, :index 3}",
    ]
    (tmp_path / "history.edn").write_text("\n".join(damage(lines)) + "\n")
    before = Adopted(tmp_path / "history.edn", tmp_path / "before")
    export(open_run(before.dir), format, tmp_path / "out")
    after = Adopted(tmp_path / "out", tmp_path / "after")
    assert [gap.kind for gap in after.damage] == ([kind] if kind else [])
    verdicts = {judge(open_run(history.dir), here=True)["verdict"] for history in (before, after)}
    assert verdicts == ({"unknown"} if kind else {"invalid"})


def test_an_unknown_format_and_a_run_without_history_are_refused(run):
    with pytest.raises(CampaignError, match="there are jepsen-edn, jepsen-json"):
        export(open_run(run), "csv", run / "out")
    with pytest.raises(HistoryError, match=r"history\.parquet is missing"):
        export(open_run(run / "nowhere"), "jepsen-edn", run / "out")
