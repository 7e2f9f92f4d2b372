"""The index over runs: what it holds is what the directories say, whatever lies in its place."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory import index
from fencepost.harness.memory.rows import row_of
from fencepost.harness.system import liveness

FINDING = {"id": 1, "anomaly": "lost-write", "forbidden": True, "sentence": "Nobody read t-0@3."}
INVALID = {"verdict": "invalid", "expectation_met": False, "findings": [FINDING]}


def a_run(root: Path, number: int, verdict: object = None, test: str = "steady", campaign: str = "nightly") -> Path:
    directory = root / campaign / f"20261121T{number:06}Z-run{number:03}"
    directory.mkdir(parents=True)
    plan = {"run": f"run{number:03}", "campaign": campaign, "test": test, "created": f"2026-11-21T00:00:{number:02}Z"}
    (directory / "plan.json").write_text(json.dumps(plan))
    if verdict is not None:
        (directory / "verdict.json").write_text(json.dumps(verdict))
    return directory


@pytest.fixture
def root(tmp_path) -> Path:
    """A results folder with three runs."""
    folder = tmp_path / "results"
    a_run(folder, 2, INVALID)
    a_run(folder, 1, {"verdict": "valid", "expectation_met": True})
    a_run(folder, 3, campaign="other")
    return folder


@pytest.fixture
def no_run_is_opened(monkeypatch):
    def refuse(directory: Path) -> None:
        raise AssertionError(f"{directory} was opened")

    return lambda: monkeypatch.setattr(index, "open_run", refuse)


def read_anew(root: Path) -> list[object]:
    return sorted((row_of(open_run(path), root) for path in root.glob("*/*") if path.is_dir()), key=index.age)


def places(root: Path) -> list[str]:
    return [row.run for row in index.rows(root)]


# --------------------------------------------------------------------------------------------------
# What it holds
# --------------------------------------------------------------------------------------------------
def test_runs_are_listed_oldest_first_and_are_not_opened_again(root, no_run_is_opened):
    first = index.rows(root)
    assert [row.run for row in first] == ["run001", "run002", "run003"]
    assert list(first) == read_anew(root)
    no_run_is_opened()
    assert index.indexed(root) == index.Indexed(first)


@pytest.mark.parametrize("file", ["plan.json", "verdict.json", "manifest.json"])
def test_a_run_one_of_whose_documents_has_changed_is_read_again(root, file):
    index.rows(root)
    document = {"plan.json": {"run": "run001", "test": "other"}, "verdict.json": INVALID, "manifest.json": {"workload_s": 2.0}}
    [run] = (root / "nightly").glob("*run001")
    (run / file).write_text(json.dumps(document[file]))
    assert list(index.rows(root)) == read_anew(root)


def test_a_document_of_the_same_size_and_time_that_is_another_file_is_read_again(root):
    index.rows(root)
    [run] = (root / "nightly").glob("*run001")
    before, plan = (run / "plan.json").stat(), json.loads((run / "plan.json").read_text())
    (run / "new").write_text(json.dumps(plan | {"test": "STEADY"}))
    os.replace(run / "new", run / "plan.json")
    os.utime(run / "plan.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (run / "plan.json").stat().st_size == before.st_size
    assert index.rows(root)[0].test == "STEADY"


def test_runs_come_and_go(root):
    index.rows(root)
    a_run(root, 4)
    shutil.rmtree(next((root / "nightly").glob("*run001")))
    assert places(root) == ["run002", "run003", "run004"]
    shutil.rmtree(root / "nightly")
    shutil.rmtree(root / "other")
    assert places(root) == places(root) == []


def test_no_index_is_made_where_there_is_no_run(tmp_path):
    assert index.indexed(tmp_path) == index.Indexed(())
    assert index.indexed(tmp_path / "nowhere") == index.Indexed(())
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_which_something_cannot_be_read_is_read_every_time_and_says_so(root):
    [run] = (root / "nightly").glob("*run002")
    (run / "plan.json").write_text("{")
    for _ in range(2):
        [damaged] = [row for row in index.rows(root) if row.damaged]
        assert damaged.run == "run002"
        assert damaged.damaged.startswith(f"{run}: plan.json could not be read (")
        assert damaged.problems
    (run / "plan.json").unlink()
    (run / "history").mkdir()
    [damaged] = [row for row in index.rows(root) if row.damaged]
    assert "plan.json is missing" in damaged.damaged


def test_what_utf_8_and_json_do_not_hold_is_read_every_time(root):
    os.mkdir(os.fsencode(root) + b"/nightly/odd-\xff")
    odd = Path(os.fsdecode(os.fsencode(root) + b"/nightly/odd-\xff"))
    (odd / "plan.json").write_text('{"created": "2026-11-22"}')
    (odd / "verdict.json").write_text('{"verdict": "valid", "progress": {"longest_gap_s": NaN, "recovery_s": 1e999}}')
    for _ in range(2):
        row = index.rows(root)[-1]
        assert row.place == "nightly/odd-\udcff"
        assert (row.gap_s, row.recovery_s) == (None, None)


def test_a_sentence_of_a_megabyte_is_cut_and_a_row_that_is_too_long_is_not_kept(root, monkeypatch):
    finding = FINDING | {"sentence": "x" * (1 << 20)}
    a_run(root, 4, INVALID | {"findings": [finding]})
    assert len(index.rows(root)[-1].findings[0].sentence) < 3_000
    monkeypatch.setattr(index, "MOST_ROW", 1_000)
    (root / index.NAME).unlink()
    assert list(index.rows(root)) == list(index.rows(root)) == read_anew(root)


def test_other_tools_can_ask_it(root):
    index.rows(root)
    with closing(sqlite3.connect(root / index.NAME)) as database:
        assert database.execute("SELECT campaign, count(*) FROM runs GROUP BY campaign ORDER BY 1").fetchall() == [
            ("nightly", 2),
            ("other", 1),
        ]
        assert database.execute("SELECT anomaly, test FROM findings JOIN runs USING (place)").fetchall() == [
            ("lost-write", "steady")
        ]


def test_what_takes_long_is_announced(root, monkeypatch):
    monkeypatch.setattr(index, "MANY", 2)
    said: list[str] = []
    index.indexed(root, said.append)
    index.indexed(root, said.append)
    assert said == [f"reading 3 runs that {root / index.NAME} does not have: once"]


# --------------------------------------------------------------------------------------------------
# What may lie in its place
# --------------------------------------------------------------------------------------------------
def a_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE other (a)")


def altered(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def a_view_without_end(path: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS place, x AS state, x AS row FROM n"
    altered(path, "DROP TABLE runs", f"CREATE VIEW runs AS {endless}")


def pages_in_a_circle(path: Path) -> None:
    """Every page of the file says what its first one says of the tree."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    for start in range(size, len(content), size):
        content[start : start + 100] = content[100:200]
    path.write_bytes(content)


WRONG = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no database"),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 20_000),
    "foreign": a_foreign_database,
    "other table": lambda path: altered(path, "CREATE TABLE more (a)"),
    "a view": a_view_without_end,
    "a trigger": lambda path: altered(path, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"),
    "circle": pages_in_a_circle,
    "blobs": lambda path: altered(path, "UPDATE runs SET row = x'00ff'"),
    "no UTF-8": lambda path: altered(path, "UPDATE runs SET state = CAST(x'ff' AS TEXT)"),
}


@pytest.mark.parametrize("way", WRONG)
def test_a_damaged_or_foreign_index_is_named_and_made_anew(root, way):
    expected = index.rows(root)
    path = root / index.NAME
    if way == "foreign":
        path.unlink()
    WRONG[way](path)
    seen = index.indexed(root)
    assert seen.rows == expected
    assert seen.note.startswith(f"{path}: is not used (")
    assert seen.note.endswith("made anew: it holds nothing that the runs do not")
    assert index.indexed(root) == index.Indexed(expected)


def test_an_index_of_another_schema_is_made_anew_without_a_word(root, monkeypatch):
    expected = index.rows(root)
    altered(root / index.NAME, "PRAGMA user_version=7", "UPDATE runs SET row = '{}'")
    assert index.indexed(root) == index.Indexed(expected)


def test_an_index_of_any_size_is_not_read(root):
    expected = index.rows(root)
    os.truncate(root / index.NAME, index.MOST_BYTES + 1)
    assert "more than" in index.indexed(root).note
    assert index.indexed(root) == index.Indexed(expected)


@pytest.mark.parametrize(
    "column", ["row = replace(row, 'nightly/', '../../etc/')", "row = '{}'", "row = '[1]'", "row = '{\"place\": 3}'"]
)
def test_a_row_that_is_none_of_its_run_is_read_again(root, column):
    expected = index.rows(root)
    altered(root / index.NAME, f"UPDATE runs SET {column}")
    assert index.indexed(root) == index.Indexed(expected)


def test_a_place_outside_is_never_looked_at(root, tmp_path):
    expected = index.rows(root)
    outside = a_run(tmp_path, 9)
    altered(root / index.NAME, f"UPDATE runs SET place = '../nightly/{outside.name}' WHERE place LIKE '%run002'")
    assert index.indexed(root) == index.Indexed(expected)


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_link_into_nowhere(path: Path, outside: Path) -> None:
    path.symlink_to(outside.parent / "nowhere")


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


@pytest.mark.parametrize("way", [a_link, a_link_into_nowhere, a_pipe, a_socket])
def test_what_is_no_file_is_named_and_replaced_and_a_link_is_not_followed(root, tmp_path, monkeypatch, way):
    monkeypatch.chdir(root)
    outside = tmp_path / "outside"
    outside.write_text("as it was")
    way(root / index.NAME, outside)
    seen = index.indexed(root)
    assert [row.run for row in seen.rows] == ["run001", "run002", "run003"]
    assert "is not used (it is a " in seen.note
    assert outside.read_text() == "as it was"
    assert not (outside.parent / "nowhere").exists()
    assert index.indexed(root) == index.Indexed(seen.rows)


def test_a_folder_in_its_place_is_named_with_the_remedy(root):
    (root / index.NAME).mkdir()
    for _ in range(2):
        seen = index.indexed(root)
        assert [row.run for row in seen.rows] == ["run001", "run002", "run003"]
        assert "cannot be written (Is a directory); remove what lies there" in seen.note


def test_journals_beside_it_are_not_read(root):
    """SQLite would roll a hot journal back, and remove the file that it names."""
    expected = index.rows(root)
    (root / f"{index.NAME}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\xff" * 5000)
    (root / f"{index.NAME}-wal").write_bytes(b"\x37\x7f\x06\x82" + b"\xff" * 5000)
    assert index.indexed(root) == index.Indexed(expected)


# --------------------------------------------------------------------------------------------------
# Who may write it, and when
# --------------------------------------------------------------------------------------------------
def test_results_that_may_only_be_read_are_read_every_time(root, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode, **_: not mode & os.W_OK)
    assert places(root) == ["run001", "run002", "run003"]
    assert index.indexed(root).note == ""
    assert not (root / index.NAME).exists()


def test_a_full_disk_is_a_sentence(root, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index.shutil, "copyfileobj", full)
    seen = index.indexed(root)
    assert len(seen.rows) == 3
    assert "No space left on device" in seen.note
    assert sorted(path.name for path in root.iterdir()) == ["nightly", "other"]


def test_what_was_read_before_ctrl_c_is_not_read_again(root, monkeypatch):
    real, opened = index.open_run, []

    def one_only(directory: Path) -> object:
        if opened:
            raise KeyboardInterrupt
        opened.append(directory)
        return real(directory)

    monkeypatch.setattr(index, "open_run", one_only)
    with pytest.raises(KeyboardInterrupt):
        index.rows(root)
    monkeypatch.setattr(index, "open_run", lambda directory: opened.append(directory) or real(directory))
    assert places(root) == ["run001", "run002", "run003"]
    assert len(set(opened)) == len(opened) == 3


def test_a_crash_while_it_is_written_leaves_the_former_one(root, monkeypatch):
    expected = index.rows(root)
    former = (root / index.NAME).read_bytes()
    a_run(root, 4)
    left = root / f".{index.NAME}.0123456789ab.part"
    left.write_text("half")

    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(SystemExit):
            index.rows(root)
    assert (root / index.NAME).read_bytes() == former
    assert index.rows(root)[:3] == expected
    assert left.exists()  # somebody may be writing it
    os.utime(left, (0, 0))
    a_run(root, 5)
    index.rows(root)
    assert not left.exists()


def test_two_processes_at_once_see_all_runs(root):
    program = (
        "import sys, os; from pathlib import Path; from fencepost.harness.memory import index\n"
        "root = Path(sys.argv[1])\n"
        "for turn in range(25):\n"
        "    if turn % 5 == 0 and (root / index.NAME).exists(): os.utime(next(root.glob('*/*/plan.json')))\n"
        "    seen = index.indexed(root)\n"
        "    assert len(seen.rows) == 3 and not seen.note, seen\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(root)]) for _ in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    assert sorted(path.name for path in root.iterdir()) == [index.NAME, "nightly", "other"]


def test_a_run_that_is_performed_is_followed(root, no_run_is_opened):
    going_on = a_run(root, 5)
    with liveness.hold(going_on):
        assert index.rows(root)[-1].verdict == ""
        (going_on / "verdict.json").write_text(json.dumps(INVALID))
        assert index.rows(root)[-1].verdict == "invalid"
    no_run_is_opened()
    assert index.rows(root)[-1].verdict == "invalid"
