"""Whatever lies in a results folder: one sentence names it, and the other runs are there."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.recorded_run import FAULT, attest, of_former_days, record_run

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.files import checksum
from fencepost.harness.api.history import OPERATIONS
from fencepost.harness.api.run import RunFile, table_problem
from fencepost.harness.cli import main
from fencepost.harness.history import results_folder, roster
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.interop.detect import detect
from fencepost.harness.interop.jepsen.export import export
from fencepost.harness.report import render
from fencepost.harness.runs import leftovers, store
from fencepost.harness.runs.merging import merged

DOCUMENTS = (RunFile.PLAN, RunFile.DAMAGE, RunFile.LEFT_BEHIND, RunFile.VERDICT)
TABLES = (RunFile.HISTORY, RunFile.RECEIPTS, RunFile.ANOMALIES, RunFile.VALUES)
FINDING = {"id": 1, "anomaly": "lost-write", "forbidden": True, "sentence": "gone", "operations": [0], "records": [], "time": 5}


def a_directory(path):
    path.mkdir()


def a_dangling_link(path):
    path.symlink_to(path.with_name("nowhere"))


def a_looping_link(path):
    path.symlink_to(path)


def a_link_into_the_kernel(path):
    path.symlink_to("/proc/kmsg")


def a_pipe(path):
    os.mkfifo(path)


def nothing_in_it(path):
    path.touch()


def noise(path):
    path.write_bytes(bytes(range(256)))


def without_end(path):
    """A sparse file: nothing on the disk, and more than any memory."""
    path.touch()
    os.truncate(path, 1 << 42)


def deep_nesting(path):
    path.write_text("[" * 90_000 + "]" * 90_000)


def cut_in_the_middle(path):
    pq.write_table(pa.table({"time": range(1000)}), path)
    path.write_bytes(path.read_bytes()[:-300])


def a_column_twice(path):
    table = OPS_SCHEMA.empty_table()
    pq.write_table(table.append_column("isolation", table["isolation"]), path)


def without_times(path):
    row = {"index": 0, "process": 0, "op": 0, "f": "poll", "type": "ok", "time": None, "end": 3, "mops": []}
    pq.write_table(pa.Table.from_pylist([row], schema=OPS_SCHEMA), path)


MOP = {"kind": 1, "partition": "t-0", "v": 5, "offset": 3, "began": None, "ended": 2}
POLL = {"index": 0, "process": 0, "op": 0, "f": "poll", "type": "ok", "time": 1, "end": 3, "mops": [MOP]}
LACKING = {
    "a micro-operation": {"mops": [MOP, None]},
    "a partition": {"mops": [MOP, {**MOP, "partition": None}]},
    "a record's identity": {"mops": [{**MOP, "v": None}]},
    "an error": {"errors": [None]},
    "a strange record": {"strange": [None]},
    "the offset of an input": {"chains": [{"partition": "t-0", "offset": None, "v": 5}]},
    "a position": {"offsets": [None]},
    "a process": {"process": None},
}


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "uncounted"])
@pytest.mark.parametrize("lacking", LACKING.values(), ids=LACKING)
def test_a_table_that_lacks_values_is_named_although_its_checksum_fits(tmp_path, lacking, counted):
    """Also where its head counts no nulls. Those within lists it never counts."""
    path = tmp_path / RunFile.HISTORY
    pq.write_table(pa.Table.from_pylist([POLL, {**POLL, "op": 1, "mops": []}], schema=OPS_SCHEMA), path)
    assert table_problem(path, OPERATIONS) is None
    pq.write_table(pa.Table.from_pylist([POLL, {**POLL, "op": 1, **lacking}], schema=OPS_SCHEMA), path, write_statistics=counted)
    (name,) = lacking
    assert f"its column `{name}` lacks values" in str(table_problem(path, OPERATIONS, checksum(path)))
    with pytest.raises(HistoryError, match=f"column {name} lacks values"):
        adopt(path, tmp_path)


def another_table(path):
    pq.write_table(pa.table({"customers": ["Ada"]}), path)


ANYWHERE = (
    a_directory,
    a_dangling_link,
    a_looping_link,
    a_link_into_the_kernel,
    a_pipe,
    nothing_in_it,
    noise,
    without_end,
    deep_nesting,
)
CASES = [(file, damage) for file in (*DOCUMENTS, *TABLES) for damage in ANYWHERE]
CASES += [(file, damage) for file in TABLES for damage in (cut_in_the_middle, another_table)]


def a_run(root: Path, run_id: str) -> Path:
    """A judged run without lines, as of a history from elsewhere."""
    folder = root / "adopted" / f"20261121T120000Z-{run_id}"
    folder.mkdir(parents=True)
    verdict = {"verdict": "invalid", "reason": "lost", "findings": [FINDING], "properties": [], "expectation_met": False}
    documents = {RunFile.PLAN: {"run": run_id, "created": "2026-11-21T12:00:00Z"}, RunFile.DAMAGE: [], RunFile.VERDICT: verdict}
    for file, document in documents.items():
        (folder / file).write_text(json.dumps(document))
    pq.write_table(OPS_SCHEMA.empty_table(), folder / RunFile.HISTORY)
    pq.write_table(FAULTS_SCHEMA.empty_table(), folder / RunFile.RECEIPTS)
    return folder


def damaged(folder: Path, file: str, damage) -> Path:
    path = folder / file
    path.unlink(missing_ok=True)
    damage(path)
    return folder


@pytest.fixture
def call(capsys):
    """Runs a command; returns its exit code and all that it printed."""

    def run(*arguments) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main.main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return int(left.value.code or 0), output.out + output.err

    return run


@pytest.mark.parametrize(("file", "damage"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_damaged_file_is_named_and_breaks_no_command(tmp_path, call, file, damage):
    a_run(tmp_path, "whole1")
    folder = damaged(a_run(tmp_path, "broken"), file, damage)
    code, listed = call("list", "--results", tmp_path)
    assert code == 0
    assert "whole1" in listed
    assert (file in listed) == (file in (RunFile.PLAN, RunFile.VERDICT))
    for command in ("report", "export"):
        code, text = call(command, folder, "--results", tmp_path)
        assert "Traceback" not in text
        assert code == 0 or file in text
    if file in (RunFile.PLAN, RunFile.VERDICT):
        assert call("report", folder)[0] == 254
    assert {run.id for run in store.list_runs(tmp_path)} >= {"whole1"}
    assert leftovers.data_directories(tmp_path) == []


WRONG_SHAPES = [
    (RunFile.PLAN, {"run": 7}, "$.run"),
    (RunFile.PLAN, {"contract": ["acks"]}, "$.contract"),
    (RunFile.PLAN, {"contract": {"acks": {}}}, "$.contract"),
    (RunFile.PLAN, {"topics": {"t": {"partitions": "four"}}}, "partitions"),
    (RunFile.PLAN, {"topics": {"t": {"partitions": 10**12}}}, "partitions"),
    (RunFile.PLAN, {"client": {"producer": [1]}}, "producer"),
    (RunFile.PLAN, {"cluster": {"description": "one"}}, "description"),
    (RunFile.PLAN, {"cluster": {"description": {"second": ["n1"]}}}, "description.second"),
    (RunFile.PLAN, {"cluster": {"description": {"broker_settings": "all"}}}, "broker_settings"),
    (RunFile.PLAN, {"schedule": [{"at_s": "soon"}]}, "at_s"),
    (RunFile.PLAN, {"unavailable": ["all"]}, "unavailable"),
    (RunFile.DAMAGE, [["line 3"]], "$[0]"),
    (RunFile.LEFT_BEHIND, {"left": "all"}, "left"),
    (RunFile.VERDICT, {"verdict": ["valid"]}, "verdict"),
    (RunFile.VERDICT, {"findings": [{"operations": ["first"]}]}, "operations[0]"),
    (RunFile.VERDICT, {"findings": [{"operations": [1 << 70]}]}, "operations[0]"),
    (RunFile.VERDICT, {"findings": [{"records": [{"v": "x"}]}]}, ".v"),
    (RunFile.VERDICT, {"findings": [{"cycle": {"vertices": [{}]}}]}, "vertices[0]"),
    (RunFile.VERDICT, {"unseen": [[1]]}, "unseen[0]"),
    (RunFile.VERDICT, {"progress": {"longest_gap_s": "long"}}, "longest_gap_s"),
    (RunFile.VERDICT, {"counts": {"ok": "many"}}, "counts"),
]


@pytest.mark.parametrize(("file", "document", "place"), WRONG_SHAPES)
def test_a_document_of_the_wrong_shape_is_a_problem_that_names_the_place(tmp_path, file, document, place):
    (tmp_path / file).write_text(json.dumps(document))
    assert place in str(open_run(tmp_path).problems[file])


def test_unknown_keys_stay_in_a_document(tmp_path):
    (tmp_path / RunFile.PLAN).write_text('{"run": "x", "mine": {"a": [1]}}')
    assert open_run(tmp_path).plan == {"run": "x", "mine": {"a": [1]}}


@pytest.fixture
def shared():
    """A folder that every user may enter; no other temporary folder is."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in sorted(folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def an_ordinary_user():
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_may_not_be_read_is_a_problem(shared):
    (shared / RunFile.PLAN).write_text("{}")
    (shared / RunFile.PLAN).chmod(0)
    with an_ordinary_user():
        problem = open_run(shared).problems[RunFile.PLAN]
    assert str(problem) == "plan.json could not be read (Permission denied)"


def test_runs_and_folders_that_may_not_be_read_are_named_and_the_others_listed(shared, call):
    a_run(shared, "whole1")
    locked = a_run(shared, "locked")
    (shared / "secret").mkdir()
    for path in (locked, shared / "secret"):
        path.chmod(0)
    with an_ordinary_user():
        code, text = call("list", "--results", shared)
        refused = [call(command, locked) for command in ("check", "report", "export")]
        with pytest.raises(HistoryError, match="secret: cannot be read: Permission denied"):
            detect(shared / "secret")
    assert code == 0
    assert "whole1" in text
    assert f"{locked}: plan.json could not be read (Permission denied)" in text
    assert f"{shared / 'secret'}: cannot be read: no permission" in text
    assert [(code, "plan.json could not be read" in text) for code, text in refused] == [(254, True)] * 3


@pytest.mark.parametrize("command", [("list",), ("check", "latest"), ("report", "latest"), ("doctor",)])
@pytest.mark.parametrize("results", ["x" * 5000, "loop"])
def test_results_that_cannot_be_read_are_a_sentence(call, command, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    code, text = call(*command, "--results", results)
    assert "Traceback" not in text
    assert code == 254 or command == ("doctor",)


@pytest.mark.parametrize("file", [RunFile.VERDICT, RunFile.REPORT, RunFile.SUMMARY])
def test_a_directory_where_something_is_to_be_written_is_named(tmp_path, file):
    folder = a_run(tmp_path, "broken")
    (folder / file).unlink(missing_ok=True)
    (folder / file).mkdir()
    with pytest.raises(CampaignError, match=rf"{file}.*remove what lies there|judge the run first"):
        render(open_run(folder))
    with pytest.raises(CampaignError, match="remove what lies there"), replacing(folder, file) as part:
        part.write(b"x")
    assert not list(folder.glob(".*.part"))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "make room on the disk"), (errno.EACCES, "allow writing to"), (errno.EROFS, "to where you may write")],
)
def test_what_cannot_be_written_is_reported_with_the_remedy_and_what_was_there_stays(tmp_path, number, remedy):
    (tmp_path / "report.html").write_text("before")

    def write(part):
        part.write(b"half")
        raise OSError(number, os.strerror(number))

    with pytest.raises(CampaignError, match=remedy), replacing(tmp_path, "report.html") as part:
        write(part)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.html", "before")]


def test_a_report_that_cannot_be_written_is_no_command_that_did_not_start(tmp_path, call):
    folder = record_run(tmp_path / "run")
    (folder / RunFile.REPORT).mkdir()
    code, text = call("check", str(folder))
    assert code == 254
    assert "report.html: cannot be written (Is a directory); remove what lies there" in text
    assert "nothing was started" not in text


def test_receipts_that_lack_what_others_count_on_are_a_problem(tmp_path):
    folder = a_run(tmp_path, "broken")
    row = dict.fromkeys(FAULTS_SCHEMA.names)
    pq.write_table(pa.Table.from_pylist([row], schema=FAULTS_SCHEMA), folder / RunFile.RECEIPTS)
    with pytest.raises(HistoryError, match=r"faults\.parquet could not be read.*merges it again"):
        open_run(folder).known_receipts()


@pytest.mark.parametrize("damage", [noise, another_table, a_column_twice, without_times, a_pipe, a_directory])
def test_a_check_names_a_history_that_is_none(tmp_path, damage):
    with pytest.raises(HistoryError, match=r"history\.parquet could not be read"):
        open_run(damaged(a_run(tmp_path, "broken"), RunFile.HISTORY, damage)).demand_table(RunFile.HISTORY, OPERATIONS)
    with pytest.raises(HistoryError, match=r"history\.parquet could not be read"):
        export(open_run(tmp_path / "adopted" / "20261121T120000Z-broken"), "jepsen-edn", tmp_path / "out.edn")


@pytest.mark.parametrize("file", [RunFile.HISTORY, RunFile.RECEIPTS, RunFile.DAMAGE])
@pytest.mark.parametrize("damage", [noise, cut_in_the_middle, Path.unlink])
def test_what_merging_writes_is_merged_again_when_it_is_damaged_or_gone(tmp_path, file, damage):
    folder = a_run(tmp_path, "lines1")
    out = HistoryWriter(folder / RunFile.LINES / "c0-0.jsonl", run="lines1", slot=0, node="c0", role="reader")
    out.process(0, isolation="read_committed", final=False)
    out.invoke(0, 0, "poll", [["poll"]])
    (folder / RunFile.LINES / RunFile.FAULT_LINES).touch()
    attest(folder)
    merged(open_run(folder))
    announced: list[None] = []
    assert merged(open_run(folder), lambda: announced.append(None)).problems.keys() == {RunFile.LEFT_BEHIND}
    assert announced == []
    damage(folder / file)
    again = merged(open_run(folder), lambda: announced.append(None))
    assert announced == [None]
    assert pq.read_table(again.path(RunFile.HISTORY)).num_rows == 1
    assert (again.known_receipts(), [gap for gap in again.gaps if gap.evidence]) == ((), [])


@pytest.mark.parametrize("command", ["check", "report", "export"])
def test_a_runs_directory_without_its_plan_is_named_so_and_not_taken_for_a_history(tmp_path, call, command):
    folder = a_run(tmp_path, "noplan")
    (folder / RunFile.PLAN).unlink()
    code, text = call(command, folder, "--results", tmp_path)
    assert code == 254
    assert "plan.json is missing; put it back" in text
    assert len(list(tmp_path.glob("adopted/*"))) == 1
    code, text = call(command, "noplan", "--results", tmp_path)
    assert (code, "plan.json is missing" in text) == (254, True)


@pytest.mark.parametrize(("names", "name", "is_run"), [
    ((RunFile.PLAN,), "anything", True),
    ((RunFile.LINES, RunFile.LOGS), "anything", True),
    ((RunFile.HISTORY, RunFile.VERDICT), "anything", True),
    ((RunFile.LINES,), "20261121T120000Z-k3f9x2", True),
    ((RunFile.LINES,), "anything", False),
    ((RunFile.HISTORY, RunFile.RECEIPTS, RunFile.VALUES), "anything", False),
    (("history.edn", "jepsen.log"), "20261121T120000Z-k3f9x2", False),
])  # fmt: skip
def test_what_only_a_run_has_tells_its_directory_from_a_history(tmp_path, names, name, is_run):
    folder = tmp_path / name
    folder.mkdir()
    for file in names:
        (folder / file).mkdir()
    assert results_folder.is_run(folder) is is_run


def an_adopted_run(tmp_path: Path) -> Path:
    from support.histories import History, write_history

    h = History()
    h.txn(0, {"t-0": [5, 7]})
    h.final({"t-0": [5, 7]})
    write_history(tmp_path, h.ops)
    folder = store.new_run_dir(tmp_path / "results", "adopted", "k3f9x2")
    adopt(tmp_path / RunFile.HISTORY, folder)
    return folder


def test_a_table_that_was_changed_after_it_was_written_is_not_believed(tmp_path):
    """The bytes still are Parquet, and say something else."""
    folder = an_adopted_run(tmp_path)
    rows = pq.read_table(folder / RunFile.HISTORY)
    pq.write_table(rows.slice(0, 1), folder / RunFile.HISTORY)
    with pytest.raises(HistoryError, match=r"history\.parquet.*not as it was written.*check the original history again"):
        open_run(folder).demand_table(RunFile.HISTORY, OPERATIONS)
    pq.write_table(FAULTS_SCHEMA.empty_table(), folder / RunFile.RECEIPTS, compression="none")
    with pytest.raises(HistoryError, match="not as it was written"):
        open_run(folder).known_receipts()


@pytest.mark.parametrize("file", [RunFile.DAMAGE, RunFile.RECEIPTS])
def test_what_an_adopted_run_has_lost_beside_its_history_is_reported(tmp_path, file):
    folder = an_adopted_run(tmp_path)
    whole = judge(open_run(folder), here=True)
    assert (whole["verdict"], whole["weakened"]) == ("valid", [])
    (folder / file).unlink()
    assert any(file in text for text in judge(open_run(folder), here=True)["weakened"])


@pytest.mark.parametrize(
    "damage", [Path.unlink, noise, lambda path: path.write_text('{"run": "r", "slots": 1, "complete": true}')]
)
def test_a_lost_manifest_makes_every_answer_unknown_and_violates_nothing(tmp_path, damage):
    """A digit of a line was changed besides, and nothing is left that could tell."""
    folder = record_run(tmp_path / "run")
    path = folder / RunFile.LINES / "c5-0.jsonl"
    path.write_text(path.read_text().replace("[[0, ", "[[1, ", 1))
    path = folder / RunFile.MANIFEST
    path.unlink() if damage is Path.unlink else damage(path)
    document = judge(merged(open_run(folder)), here=True)
    assert document["verdict"] == "unknown"
    assert not document["findings"]
    assert any("manifest.json" in text for text in document["weakened"])


@pytest.mark.parametrize("blocks", ["A", "AAAA=", "%%%%", "AAA"])
def test_checksums_of_a_manifest_that_are_none_are_a_problem_of_the_run(tmp_path, blocks):
    folder = record_run(tmp_path / "run")
    manifest = json.loads((folder / RunFile.MANIFEST).read_text())
    manifest["files"][0]["blocks"] = blocks
    (folder / RunFile.MANIFEST).write_text(json.dumps(manifest))
    assert "blocks" in str(open_run(folder).problems[RunFile.MANIFEST])


def a_judged_run_without_lines(folder: Path) -> Path:
    run = merged(open_run(record_run(folder)))
    assert judge(run, here=True)["verdict"] == "valid"
    shutil.rmtree(folder / RunFile.LINES)
    return folder


def without_damage(folder):
    (folder / RunFile.DAMAGE).unlink()


def without_checksums(folder):
    (folder / RunFile.DAMAGE).write_text("[]")


@pytest.mark.parametrize("damage", [without_damage, without_checksums])
def test_a_table_that_nothing_attests_any_more_makes_every_answer_unknown(tmp_path, damage):
    """The lines are gone, and what merging noted of the table is, too: rows may be missing, and are."""
    folder = a_judged_run_without_lines(tmp_path / "run")
    assert judge(open_run(folder), here=True)["verdict"] == "valid"
    rows = pq.read_table(folder / RunFile.HISTORY)
    pq.write_table(rows.slice(0, rows.num_rows - 9), folder / RunFile.HISTORY)
    damage(folder)
    document = judge(open_run(folder), here=True)
    assert document["verdict"] == "unknown"
    assert any("nobody attests that history.parquet" in text for text in document["weakened"])


def test_a_file_of_lines_is_read_no_further_than_the_run_wrote_it(tmp_path):
    """Content that comes behind may be without end; gzip packs it into little."""
    folder = record_run(tmp_path / "run")
    os.truncate(folder / RunFile.LINES / "c0-0.jsonl", 1 << 42)
    packed = folder / RunFile.LINES / "c1-0.jsonl"
    packed.write_bytes(gzip.compress(packed.read_bytes() + bytes(1 << 24)))
    gaps = merged(open_run(folder)).gaps
    assert {gap.file for gap in gaps if "was changed after the run" in gap.why} == {"c0-0.jsonl", "c1-0.jsonl"}


def test_an_uncounted_file_of_lines_must_fit_into_memory(tmp_path):
    folder = record_run(tmp_path / "run")
    of_former_days(folder)
    os.truncate(folder / RunFile.LINES / "c0-0.jsonl", 1 << 42)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roster, "fits_in_memory", lambda: 1 << 20)
        gaps = merged(open_run(folder)).gaps
    assert any(gap.file == "c0-0.jsonl" and "1,048,576 bytes" in gap.why for gap in gaps)


@pytest.mark.parametrize("timeout_ms", ["soon", {"a": 1}, [7], -1, 0, float("inf"), float("nan"), 1 << 70, None])
def test_a_timeout_that_is_none_is_named(tmp_path, timeout_ms):
    folder = an_adopted_run(tmp_path)
    plan = json.loads((folder / RunFile.PLAN).read_text())
    plan["client"]["producer"] = {"transaction.timeout.ms": timeout_ms}
    (folder / RunFile.PLAN).write_text(json.dumps(plan))
    with pytest.raises(HistoryError, match=r"plan\.json: transaction\.timeout\.ms is .*, no time"):
        judge(open_run(folder), here=True)


NO_NUMBERS = (None, "soon", 1.5, [1], {"a": 1}, 1 << 70, -(1 << 70), 10**400, float("nan"), True)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: str(value)[:9])
def test_evidence_of_faults_that_is_none_breaks_no_judgement_and_no_report(tmp_path, value):
    folder = an_adopted_run(tmp_path)
    fencing = {"transactional_id": value, "began_ns": value, "ended_ns": value}
    calls = [fencing, {**fencing, "began_ns": 5}, {**fencing, "began_ns": 6, "ended_ns": 7}, value]
    deletion = {"topic": value, "began_ms": value}
    evidence = {"by_s": value, "fencings": calls, "deletions": [deletion, {**deletion, "began_ms": 5}, value], "hit": value}
    healing = {"again": {"known_ms": value, "known_ns": value, "deleted": value}}
    rows = [
        {**FAULT, "evidence": json.dumps(content), "healing": json.dumps(healing)} for content in (evidence, [evidence], value)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=FAULTS_SCHEMA), folder / RunFile.RECEIPTS)
    (folder / RunFile.DAMAGE).write_text("[]")
    document = judge(open_run(folder), here=True)
    assert document["verdict"] == "valid"
    render(open_run(folder).judged(document))
