"""JSON lines of others in several files: a process may go on in the next one, as where each hour has a file of its own."""

from __future__ import annotations

import copy
import gzip

import pytest
from support.absences import as_lines, as_text, transactions
from support.histories import violated
from support.jepsen_example import Adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run

LINES = sorted(as_lines(transactions()), key=lambda line: line.get("time", 0))
READER = next(line["process"] for line in LINES if line.get("final"))


def judged(tmp_path, files, name="mine"):
    """The verdict on a directory of files, each with its lines; what was found; and what the history lacks."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "faults.jsonl").write_text("")
    for file, lines in files.items():
        (folder / f"{file}.jsonl").write_text(as_text(lines))
    run = open_run(Adopted(folder, tmp_path / f"{name}-run").dir)
    document = judge(run, here=True)
    return document["verdict"], violated(document), [gap.why for gap in run.gaps]


def parts(at, lines=LINES):
    """The lines in two files. The second one is the larger, and comes first by its name; no process begins in it again."""
    return {"b": lines[:at], "a": [{**LINES[0], "note": "x" * 20_000}, *lines[at:]]}


@pytest.mark.parametrize("at", range(2, 34, 3))
def test_lines_in_two_files_are_the_same_history(tmp_path, at):
    """Also where an operation begins in the one and ends in the other."""
    assert judged(tmp_path, parts(at)) == ("valid", [], [])


@pytest.mark.parametrize("at", [5, 25, 26])
def test_what_is_lost_is_found_in_two_files(tmp_path, at):
    """The final reader has passed what it did not get."""
    lines = copy.deepcopy(LINES)
    polled = next(line for line in lines if line.get("type") == "ok" and line["process"] == READER)
    del polled["value"][0][1]["t-0"][1]
    verdict, found, _ = judged(tmp_path, parts(at, lines))
    assert (verdict, "lost-write" in found) == ("invalid", True)


def test_operations_that_are_in_neither_file_are_missing(tmp_path):
    verdict, found, gaps = judged(tmp_path, {"a": LINES[:10], "b": [LINES[0], *LINES[12:]]})
    assert (verdict, found) == ("unknown", [])
    assert any("1 operation of process 5 is missing" in why for why in gaps)


@pytest.mark.parametrize(("change", "expected"), [({}, "there twice"), ({"type": "fail"}, "there twice, and not the same")])
def test_an_operation_that_both_files_have_is_read_once(tmp_path, change, expected):
    again = [{**line, **(change if line["type"] == "ok" else {})} for line in LINES[14:16]]
    verdict, found, gaps = judged(tmp_path, {"a": LINES[:16], "b": [LINES[0], *again, *LINES[16:]]})
    assert (verdict, found) == ("unknown", [])
    assert any(why.endswith(expected) for why in gaps)


@pytest.mark.parametrize(("level", "expected"), [(None, "valid"), ("read_committed", "valid"), ("read_uncommitted", "unknown")])
def test_a_process_that_begins_in_both_files(tmp_path, level, expected):
    """Its line in the second file may leave its isolation level unsaid."""
    again = {"type": "process", "process": 5, "time": 1004999999, "isolation": level}
    verdict, found, gaps = judged(tmp_path, {"a": LINES[:16], "b": [LINES[0], again, *LINES[16:]]})
    assert (verdict, found) == (expected, [])
    assert any("at another isolation level" in why for why in gaps) == (expected == "unknown")


def test_a_line_that_cannot_be_read_is_named_with_its_file(tmp_path):
    verdict, found, gaps = judged(tmp_path, {"a": LINES[:16], "b": [LINES[0], "broken", *LINES[16:]]})
    assert (verdict, found, len(gaps)) == ("unknown", [], 1)


def test_a_file_that_was_begun_between_two_others(tmp_path):
    """An operation begins in the first and ends in the second; the third one is the smallest, so it is read last."""
    files = {"c": LINES[:17], "a": [{**LINES[0], "note": "x" * 20_000}, *LINES[21:]], "b": [LINES[0], *LINES[17:21]]}
    assert judged(tmp_path, files) == ("valid", [], [])


def test_three_files_of_one_name_are_all_read(tmp_path):
    """The third one took the place of the second."""
    (tmp_path / "mine" / "history").mkdir(parents=True)
    (tmp_path / "mine" / "a.jsonl").write_text(as_text(LINES[:12]))
    (tmp_path / "mine" / "a.jsonl.gz").write_bytes(gzip.compress(as_text([LINES[0], *LINES[12:20]]).encode()))
    (tmp_path / "mine" / "history" / "a.jsonl").write_text(as_text([LINES[0], *LINES[20:]]))
    history = Adopted(tmp_path / "mine", tmp_path / "run")
    assert (len(history.rows), history.damage) == (11, [])


def test_a_history_by_the_name_of_receipts_is_a_history(tmp_path):
    (tmp_path / "faults.jsonl").write_text(as_text(LINES))
    assert len(Adopted(tmp_path / "faults.jsonl", tmp_path / "run").rows) == 11


def test_three_files_and_a_copy_of_one(tmp_path):
    files = {"a": LINES[:12], "b": [LINES[0], *LINES[12:20]], "c": [LINES[0], *LINES[20:]], "d": LINES[:10]}
    verdict, found, gaps = judged(tmp_path, files)
    assert (verdict, found) == ("valid", [])
    assert [why for why in gaps if "it is not read" in why]
