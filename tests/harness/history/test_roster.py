"""A run knows what belongs to it: what is missing, emptied, shortened, changed or there twice, with a manifest and without."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.recorded_run import attest, of_former_days, record_run

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import record_ids
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind, HistoryFile, missing_evidence
from fencepost.harness.api.run import RunFile
from fencepost.harness.history import merge
from fencepost.harness.history.manifest import BLOCK, ManifestWriter, counted, sound_lines
from fencepost.harness.history.run_directory import open_run, write_plan
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.runs.merging import merged

SENT = {Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS}
WRITER, READER, FINAL, SECOND = "c0-0.jsonl", "c3-0.jsonl", "c4-0.jsonl", "c5-0.jsonl"
ROLES = {
    WRITER: ("writer", SENT),
    READER: ("reader", {Evidence.POLLS}),
    FINAL: ("final", {Evidence.FINAL_COMMITTED}),
    SECOND: ("final", {Evidence.FINAL_UNCOMMITTED}),
    "harness.jsonl": ("harness", {Evidence.SETTLING}),
    "faults.jsonl": ("faults", {Evidence.RECEIPTS}),
}


@pytest.fixture(params=["attested", "unattested"])
def run(request, tmp_path) -> Path:
    """A lawful run; with its manifest, and without."""
    folder = record_run(tmp_path / "run")
    if request.param == "unattested":
        of_former_days(folder)
    return folder


@pytest.fixture
def attested(tmp_path) -> Path:
    return record_run(tmp_path / "run")


def gaps(folder: Path) -> list[Gap]:
    """Gaps in the history, without the one for a missing manifest."""
    return [gap for gap in merge.merge(open_run(folder)) if gap.kind is not GapKind.UNATTESTED]


def adopted(lines: Path, folder: Path) -> list[Gap]:
    """Gaps in adopted lines of ours, without the one for the manifest, which does not come along."""
    lacking = adopt(lines, folder)
    unattested = [gap for gap in lacking if gap.file == RunFile.MANIFEST]
    assert [gap.kind for gap in unattested] == [GapKind.UNATTESTED]
    return [gap for gap in lacking if gap not in unattested]


def rows(folder: Path) -> list[dict]:
    return pq.ParquetFile(folder / RunFile.HISTORY).read(use_threads=False).to_pylist()


def edit(folder: Path, name: str, change) -> None:
    """Change the lines of a file."""
    path = folder / RunFile.LINES / name
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))


def phantoms(folder: Path) -> set[int]:
    """The senders (process, op) of records that were read and that no row sent."""
    mops = [mop for row in rows(folder) for mop in row["mops"]]
    sent, read = ({mop["v"] for mop in mops if mop["kind"] == kind} for kind in (0, 1))
    return {record_ids.operation_key_of(v) for v in read - sent}


# --------------------------------------------------------------------------------------------------
# Whole files
# --------------------------------------------------------------------------------------------------
def test_a_whole_run_lacks_nothing_and_one_without_manifest_is_unattested(run):
    assert gaps(run) == []
    unattested = [gap for gap in open_run(run).gaps if gap.kind is GapKind.UNATTESTED]
    assert [gap.file for gap in unattested] == ([] if (run / RunFile.MANIFEST).exists() else [RunFile.MANIFEST])
    assert phantoms(run) == set()


@pytest.mark.parametrize("name", ROLES)
def test_a_file_that_is_gone_is_a_gap_in_what_its_worker_wrote(run, name):
    (run / RunFile.LINES / name).unlink()
    (gap,) = gaps(run)
    role, held = ROLES[name]
    assert (gap.file, gap.kind, "missing" in str(gap)) == (name, GapKind.MISSING, True)
    assert set(gap.evidence) == (held if (run / RunFile.MANIFEST).exists() or role != "reader" else SENT)
    assert not (run / RunFile.MANIFEST).exists() or (gap.role, gap.lines is not None) == (role, True)


@pytest.mark.parametrize("name", ROLES)
def test_a_file_that_was_emptied_or_cut_at_a_line_end_is_a_gap(attested, name):
    edit(attested, name, lambda lines: lines.pop())
    (gap,) = gaps(attested)
    assert (gap.file, gap.kind, set(gap.evidence)) == (name, GapKind.SHORTENED, ROLES[name][1])
    assert gap.lines
    edit(attested, name, list.clear)
    (gap,) = gaps(attested)
    assert (gap.kind, set(gap.evidence)) == (GapKind.EMPTIED, ROLES[name][1])


def test_both_final_readers_that_are_gone_from_a_run_without_manifest_are_a_gap(tmp_path):
    folder = record_run(tmp_path / "run")
    of_former_days(folder)
    for name in (FINAL, SECOND):
        (folder / RunFile.LINES / name).unlink()
    (gap,) = gaps(folder)
    assert set(gap.evidence) == {Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED}


@pytest.mark.parametrize("name", ["c0-0 copy.jsonl", "zz.jsonl", "c0-1.jsonl"])
def test_a_file_that_is_there_twice_is_read_once(run, name):
    merge.merge(open_run(run))
    once = rows(run)
    shutil.copyfile(run / RunFile.LINES / WRITER, run / RunFile.LINES / name)
    (gap,) = gaps(run)
    assert (gap.kind, gap.evidence, gap.file in (name, WRITER)) == (GapKind.SURPLUS, (), True)
    assert rows(run) == once


def test_a_file_of_another_run_is_not_read(run, tmp_path):
    merge.merge(open_run(run))
    once = rows(run)
    text = (run / RunFile.LINES / WRITER).read_text().replace('"run": "', '"run": "another')
    (run / RunFile.LINES / "c9-0.jsonl").write_text(text.replace('"process": 0', '"process": 9'))
    (gap,) = gaps(run)
    assert (gap.file, gap.kind) == ("c9-0.jsonl", GapKind.SURPLUS)
    assert rows(run) == once


def test_a_history_of_several_runs_is_refused(tmp_path):
    first, second = (record_run(tmp_path / str(seed), seed=seed) for seed in (1, 2))
    shutil.copyfile(first / RunFile.LINES / WRITER, second / RunFile.LINES / "other.jsonl")
    (tmp_path / "new").mkdir()
    with pytest.raises(HistoryError, match="lawful1, lawful2 are mixed"):
        adopt(second / RunFile.LINES, tmp_path / "new")


def test_a_name_with_a_number_that_no_run_has_is_no_place_of_a_worker(run, tmp_path):
    """A hundred thousand million other files are not looked for."""
    of_former_days(run) if (run / RunFile.MANIFEST).exists() else None
    (run / RunFile.LINES / "c99999999999-0.jsonl").write_text("{}\n")
    assert len(gaps(run)) < 9


@pytest.mark.parametrize("name", ["c0-0.jsonl", "c5-0.jsonl", "harness.jsonl", RunFile.FAULT_LINES])
def test_a_file_that_is_gone_from_adopted_lines_of_ours_is_a_gap(run, tmp_path, name):
    """The plan and the manifest are lost as well; the files are numbered all the same."""
    whole, lacking = tmp_path / "whole", tmp_path / "lacking"
    whole.mkdir()
    lacking.mkdir()
    assert adopted(run / RunFile.LINES, whole) == []
    (run / RunFile.LINES / name).unlink()
    assert [gap.file for gap in adopted(run / RunFile.LINES, lacking)] == [name]
    assert judge(open_run(lacking), here=True)["verdict"] != "invalid"


# --------------------------------------------------------------------------------------------------
# Lines
# --------------------------------------------------------------------------------------------------
DAMAGE = {
    "NULs": lambda line: b"\0" * (len(line) - 1) + b"\n",
    "an invalid byte": lambda line: line.replace(b"process", b"pro\xffess", 1),
    "deep nesting": lambda line: b'{"type": ' + b"[" * 100_000 + b"\n",
    "deep nesting of a value": lambda line: b'{"value": {"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}\n",
    "a wrong type": lambda line: line.replace(b'"op": ', b'"op": "x", "was": ', 1),
    "a number beyond 64 bits": lambda line: line.replace(b'"time": ', b'"time": 99999999999999999999', 1),
    "half of it": lambda line: line[: len(line) // 2] + b"\n",
    "another type": lambda line: b'{"type": "maybe", "process": 0, "op": 1}\n',
    "a list": lambda line: b"[1, 2]\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_invocation_is_no_phantom_for_its_completion_says_what_was_sent(run, damage):
    def change(lines):
        lines[4] = DAMAGE[damage](lines[4])

    edit(run, WRITER, change)
    (gap,) = gaps(run)
    if (run / RunFile.MANIFEST).exists():
        assert set(gap.evidence) == SENT  # block by block: whoever changed one line may have changed its neighbours
    else:
        assert (gap.line, gap.evidence, phantoms(run)) == (5, (), set())


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_completion_leaves_its_operation_unknown(run, damage):
    def change(lines):
        lines[5] = DAMAGE[damage](lines[5])

    edit(run, WRITER, change)
    (gap,) = gaps(run)
    assert {Evidence.OUTCOMES, Evidence.POLLS} <= set(gap.evidence)
    if not (run / RunFile.MANIFEST).exists():
        assert (gap.line, Evidence.SENDS in gap.evidence, phantoms(run)) == (6, False, set())
        (row,) = [row for row in rows(run) if (row["process"], row["op"]) == (0, 1)]
        assert (row["type"], row["end"], bool(row["mops"])) == ("info", None, True)


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_same_in_adopted_lines(tmp_path, damage):
    folder = record_run(tmp_path / "run")
    edit(folder, WRITER, lambda lines: lines.__setitem__(4, DAMAGE[damage](lines[4])))
    (tmp_path / "new").mkdir()
    (gap,) = adopted(folder / RunFile.LINES, tmp_path / "new")
    assert (gap.line, gap.evidence, phantoms(tmp_path / "new")) == (5, (), set())


def test_an_adopted_file_that_is_cut_within_a_line_may_have_sent_more(tmp_path):
    """Its last line is an invocation, or the beginning of one; whatever came behind it is gone."""
    folder = record_run(tmp_path / "run")
    path = folder / RunFile.LINES / "c0-0.jsonl"
    content = path.read_bytes()
    at = content.index(b'"type": "ok"', len(content) // 4)
    path.write_bytes(content[: at + 20])
    (tmp_path / "new").mkdir()
    (gap,) = adopted(folder / RunFile.LINES, tmp_path / "new")
    assert Evidence.SENDS in gap.evidence
    assert judge(open_run(tmp_path / "new"), here=True)["verdict"] == "unknown"


def test_a_block_that_was_written_over_others_makes_adopted_lines_unreliable(tmp_path):
    """Its first and its last line may be made of two, and still look like lines."""
    folder = record_run(tmp_path / "run")
    path = folder / RunFile.LINES / "c0-0.jsonl"
    content = path.read_bytes()
    block = len(content) // 4
    path.write_bytes(content[: 2 * block] + content[block : 2 * block] + content[3 * block :])
    (tmp_path / "new").mkdir()
    lacking = adopt(folder / RunFile.LINES, tmp_path / "new")
    assert GapKind.UNRELIABLE in {gap.kind for gap in lacking}
    assert judge(open_run(tmp_path / "new"), here=True)["verdict"] == "unknown"


def test_operations_that_are_missing_between_others_are_a_gap_and_an_unreadable_place(tmp_path):
    """Their lines were cut out, and there is no manifest: a worker numbers its operations 0, 1, 2, ..."""
    folder = record_run(tmp_path / "run")
    of_former_days(folder)
    edit(folder, WRITER, lambda lines: lines.__delitem__(slice(2, 4)))
    (gap,) = gaps(folder)
    assert "operations of process 0 before its operation 1 are missing (1)" in str(gap)
    assert [row["f"] for row in rows(folder) if row["process"] == 0 and row["op"] == 0] == ["unreadable"]


def test_an_operation_without_invocation_begins_behind_those_that_are_missing_before_it(attested):
    """Else its consumer would seem to have gone on from where it began."""
    of_former_days(attested)
    edit(attested, WRITER, lambda lines: lines.__delitem__(slice(2, 5)))  # what is left begins with a completion
    (lost, *_) = gaps(attested)
    assert Evidence.POSITIONS in lost.evidence
    found = [(row["op"], row["f"]) for row in rows(attested) if row["process"] == 0]
    assert found[:2] == [(0, "unreadable"), (1, "txn")]


def test_lines_of_one_writer_that_are_not_in_the_order_of_its_clock_are_a_gap(attested):
    of_former_days(attested)
    edit(attested, READER, lambda lines: lines.reverse())
    (unordered,) = [gap for gap in gaps(attested) if "order in which they were written" in gap.why]
    assert set(unordered.evidence) == {Evidence.POLLS, Evidence.POSITIONS}


def test_a_file_in_the_place_of_another_leaves_that_one_missing(attested):
    of_former_days(attested)
    shutil.copy(attested / RunFile.LINES / READER, attested / RunFile.LINES / WRITER)
    missing = [gap for gap in gaps(attested) if gap.kind is GapKind.MISSING]
    assert [(gap.file, Evidence.SENDS in gap.evidence) for gap in missing] == [(WRITER, True)]


def test_a_reader_whose_isolation_level_is_not_known_is_left_out(tmp_path):
    """Records of a read_uncommitted reader look like aborted reads at read_committed."""
    folder = record_run(tmp_path / "run")
    of_former_days(folder)
    edit(folder, SECOND, lambda lines: lines.__setitem__(1, b"garbage\n"))
    assert missing_evidence(gaps(folder)) >= {Evidence.FINAL_UNCOMMITTED}
    assert not [row for row in rows(folder) if row["process"] == 5]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_file_in_another_encoding_is_a_gap(run, encoding):
    path = run / RunFile.LINES / WRITER
    path.write_bytes(path.read_text().encode(encoding))
    lacking = gaps(run)
    assert missing_evidence(lacking) >= SENT
    assert not [row for row in rows(run) if row["process"] == 0]


def test_a_compressed_file_is_read_and_one_cut_short_as_far_as_it_goes(run):
    path = run / RunFile.LINES / WRITER
    merge.merge(open_run(run))
    whole, packed = rows(run), gzip.compress(path.read_bytes())
    path.write_bytes(packed)
    assert (gaps(run), rows(run)) == ([], whole)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    assert missing_evidence(gaps(run)) >= SENT
    assert 0 < len(rows(run)) < len(whole)


def test_a_last_line_that_a_kill_cut_off_is_as_it_was_at_the_runs_end(attested):
    """An operation of which nothing was written never began, and one without completion is `info`: no evidence is missing."""
    (attested / RunFile.LINES / WRITER).open("ab").write(b'{"type": "ok", "proc')
    attest(attested)
    (gap,) = gaps(attested)
    assert ("cut off" in gap.why, gap.evidence) == (True, ())


# --------------------------------------------------------------------------------------------------
# Receipts
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "line", [b"\xff\n", b'{"id": "x"}\n', b'{"kind": "kill"}\n', b'{"id": 1, "injected_ns": 1e99}\n', b"[]\n"]
)
def test_a_receipt_that_cannot_be_read_is_a_gap(tmp_path, line):
    folder = record_run(tmp_path / "run")
    of_former_days(folder)
    edit(folder, "faults.jsonl", lambda lines: lines.insert(0, line))
    (gap,) = gaps(folder)
    assert (gap.file, gap.line, gap.evidence) == ("faults.jsonl", 1, (Evidence.RECEIPTS,))
    assert len(open_run(folder).known_receipts()) == 1


# --------------------------------------------------------------------------------------------------
# The manifest
# --------------------------------------------------------------------------------------------------
def test_a_manifest_lists_a_file_before_it_is_begun_and_counts_it_at_the_end(tmp_path):
    folder = tmp_path / RunFile.LINES
    folder.mkdir()
    manifest = ManifestWriter(tmp_path, {"run": "r"}, 3)
    manifest.expect([HistoryFile("c0-0.jsonl", 0, "c0", "writer"), HistoryFile("c1-0.jsonl", 1, "c1", "writer")])
    (folder / "c0-0.jsonl").write_bytes(b"{}\n{}\n")
    listed = open_run(tmp_path).manifest
    assert listed is not None
    assert (listed.complete, [(file.name, file.lines) for file in listed.files]) == (
        False,
        [("c0-0.jsonl", None), ("c1-0.jsonl", None)],
    )
    manifest.complete()
    counted_ = open_run(tmp_path).manifest
    assert counted_ is not None
    assert (counted_.complete, [(file.lines, file.bytes) for file in counted_.files]) == (True, [(2, 6), (0, 0)])


def test_after_a_crash_the_manifest_says_which_files_must_be_there(attested):
    document = json.loads((attested / RunFile.MANIFEST).read_text())
    document["complete"] = False
    for file in document["files"]:
        file |= {"lines": None, "bytes": None, "blocks": ""}
    (attested / RunFile.MANIFEST).write_text(json.dumps(document))
    (attested / RunFile.LINES / READER).unlink()
    (gap,) = gaps(attested)
    assert (gap.file, gap.role, set(gap.evidence)) == (READER, "reader", {Evidence.POLLS})
    assert [gap.why for gap in open_run(attested).gaps if gap.kind is GapKind.UNATTESTED] == [
        "the run was cut off, so nobody counted the lines of its files"
    ]


def cut_off(folder):
    """Make it a run whose harness was killed: its files were looked at, and never counted."""
    document = json.loads((folder / RunFile.MANIFEST).read_text())
    document["complete"] = False
    for file in document["files"]:
        file |= {"least": file["bytes"], "lines": None, "bytes": None, "blocks": ""}
    (folder / RunFile.MANIFEST).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "evidence"), [(READER, {Evidence.POLLS}), (WRITER, {Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS})]
)
def test_after_a_crash_a_file_that_is_cut_at_a_line_end_is_shorter_than_it_was(attested, name, evidence):
    cut_off(attested)
    path = attested / RunFile.LINES / name
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    shortened = [gap for gap in gaps(attested) if gap.kind is GapKind.SHORTENED]
    assert [(gap.file, set(gap.evidence)) for gap in shortened] == [(name, evidence)]
    assert "is shorter than it was when the run was cut off" in shortened[0].why


def test_after_a_crash_whole_files_lack_nothing_but_the_last_seconds(attested):
    cut_off(attested)
    assert gaps(attested) == []
    assert [gap.why for gap in open_run(attested).gaps] == ["the run was cut off, so nobody counted what its last seconds wrote"]


def test_the_sizes_of_files_are_noted_every_two_seconds_of_a_run(tmp_path):
    now, folder = [100.0], tmp_path / RunFile.LINES
    folder.mkdir()
    manifest = ManifestWriter(tmp_path, {"run": "r"}, 3, lambda: now[0])
    manifest.expect([HistoryFile("c0-0.jsonl", 0, "c0", "writer"), HistoryFile("c1-0.jsonl", 1, "c1", "reader")])
    sizes = []
    for at, lines in ((100.0, 1), (101.5, 2), (102.0, 3), (105.0, 4)):
        now[0] = at
        (folder / "c0-0.jsonl").write_bytes(b"{}\n" * lines)
        manifest.look()
        sizes.append([file.least for file in open_run(tmp_path).manifest.files])
    assert sizes == [[3, 0], [3, 0], [9, 0], [12, 0]]


def test_a_plan_that_was_changed_is_not_believed_and_one_that_is_only_written_otherwise_is(attested):
    plan = open_run(attested).plan
    (attested / RunFile.PLAN).write_text(json.dumps(plan, indent=7, sort_keys=True))
    assert merged(open_run(attested)).gaps == ()
    write_plan(attested, {**plan, "contract": {**plan["contract"], "acks": "1"}})
    (gap,) = merged(open_run(attested)).gaps
    assert (gap.file, gap.kind, gap.why.partition(",")[0]) == (
        RunFile.PLAN,
        GapKind.UNRELIABLE,
        "was changed after the run had begun",
    )


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        (lambda content: content, range(1, 301)),
        (lambda content: content[:-40], range(1, 205)),  # cut at a line end: the last block is not as it was
        (lambda content: content[:50] + b"x" + content[51:], range(104, 301)),  # one byte changed in the first block
        (lambda content: b"", range(0)),
        (lambda content: content + b"{}\n", range(1, 205)),
        (lambda content: b"x" + content, range(0)),
    ],
)
def test_a_line_is_believed_only_where_its_blocks_are_as_they_were(change, sound):
    content = b"".join(b"%039d\n" % number for number in range(300))  # 102.4 lines in a block
    assert BLOCK == 4096
    file = counted(HistoryFile("c0-0.jsonl"), content)
    assert [number for number, _ in sound_lines(file, change(content))] == list(sound)


# --------------------------------------------------------------------------------------------------
# Merged once
# --------------------------------------------------------------------------------------------------
def test_gaps_are_not_forgotten_with_damage_json_and_what_is_lost_after_merging_is_still_there(attested):
    (attested / RunFile.LINES / WRITER).unlink()
    assert len(merged(open_run(attested)).gaps) == 1
    (attested / RunFile.DAMAGE).unlink()
    assert len(merged(open_run(attested)).gaps) == 1
    (attested / RunFile.LINES / READER).unlink()
    assert len(merged(open_run(attested)).gaps) == 1
    assert [row for row in rows(attested) if row["process"] == 3]


def test_a_file_that_is_put_back_is_merged_again(attested):
    path = attested / RunFile.LINES / WRITER
    path.rename(attested / "aside")
    assert len(merged(open_run(attested)).gaps) == 1
    (attested / "aside").rename(path)
    assert merged(open_run(attested)).gaps == ()
