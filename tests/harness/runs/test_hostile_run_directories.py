"""A run's directory that somebody made to do harm: every command ends, says a sentence, and touches nothing outside of it."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.judging import no_session
from support.recorded_run import attest, of_former_days, record_run

from fencepost.checkers.service import SparkJudge
from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.run import MOST_BYTES, RunFile
from fencepost.harness.history import lines, merge
from fencepost.harness.history.run_directory import MOST_VALUES, open_run, write_plan, write_verdict
from fencepost.harness.runs import leftovers, store
from fencepost.harness.system import liveness

from .test_random_damage import outcome

NAME = "nightly/20261121T120000Z-lawful"
CONTRACT = "strict_realtime=true"
PATIENCE_S = 120
SECRET = "the user's own file\n"
DOCUMENTS = (RunFile.PLAN, RunFile.MANIFEST, RunFile.DAMAGE, RunFile.LEFT_BEHIND, RunFile.VERDICT)
TABLES = (
    RunFile.HISTORY,
    RunFile.RECEIPTS,
    RunFile.PRESENT,
    RunFile.STORED,
    RunFile.WIRE,
    RunFile.VALUES,
    RunFile.OPERATIONS,
    RunFile.ANOMALIES,
)
LINES = ("history/c0-0.jsonl", "history/faults.jsonl", "history/harness.jsonl")
WRITTEN = (RunFile.REPORT, RunFile.SUMMARY, "history.edn", "history.json", "trace.json", "graph.graphml", ".lock", ".merge.lock")
FOLDERS = (RunFile.LINES, RunFile.JUDGEMENTS, "judgements/NAME", RunFile.LOGS, "logs/n1", "data")
LOGS = ("logs/n2/server.log",)
OF_JUDGEMENT = ("judgements/NAME/verdict.json", "judgements/NAME/report.html", "judgements/NAME/anomalies.parquet")
PLACES = (*DOCUMENTS, *TABLES, *LINES, *WRITTEN, *FOLDERS, *LOGS, *OF_JUDGEMENT)


# --------------------------------------------------------------------------------------------------
# What lies there
# --------------------------------------------------------------------------------------------------
def a_link_to_a_file(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "profile")


def a_link_to_a_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_hard_link(path: Path, outside: Path) -> None:
    os.link(outside / "profile", path)


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's address is short
        made.bind(path.name)
        os.chdir(here)


def a_folder(path: Path, outside: Path) -> None:
    path.mkdir()


def a_file(path: Path, outside: Path) -> None:
    path.write_bytes(b"\xff\xfe\x1b]0;title\x07")


def a_link_to_an_endless_device(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


WAYS = (
    a_link_to_a_file,
    a_link_to_a_folder,
    a_hard_link,
    a_pipe,
    a_socket,
    a_folder,
    a_file,
    a_link_to_an_endless_device,
)


# --------------------------------------------------------------------------------------------------
# The stage
# --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Iterator[Path]:
    """A run that was judged, by another contract too."""
    root = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkJudge, "start_session", no_session)
        folder = record_run(root / NAME)
        for node in ("n1", "n2"):
            (folder / RunFile.LOGS / node).mkdir(parents=True)
            (folder / RunFile.LOGS / node / "server.log").write_text("2026-11-21T12:00:00.000Z [main] [INFO] kafka - up\n")
        assert outcome("check", folder)[0] == 0
        assert outcome("check", folder, "--contract", CONTRACT)[0] == 0
        yield root


@pytest.fixture
def stage(recorded, tmp_path) -> tuple[Path, Path, Path]:
    """The results with a run like that and a whole one, the run's directory, and a folder of the user's own."""
    results, outside = tmp_path / "results", tmp_path / "home"
    shutil.copytree(recorded, results, symlinks=True)
    write_plan_of_another(results / "nightly" / "20261121T120000Z-whole1")
    outside.mkdir()
    (outside / "profile").write_text(SECRET)
    return results, results / NAME, outside


def write_plan_of_another(folder: Path) -> None:
    folder.mkdir()
    write_plan(folder, {"run": "whole1", "created": "2026-11-21T13:00:00Z"})


@contextmanager
def in_time(seconds: int = PATIENCE_S) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"not over within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def place_of(folder: Path, place: str) -> Path:
    """A place in a run's directory; NAME is that of its other judgement."""
    judgement = next((folder / RunFile.JUDGEMENTS).iterdir()).name
    return folder / place.replace("NAME", judgement)


def replaced(path: Path, way: Callable[[Path, Path], None], outside: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    way(path, outside)


def commands(results: Path, folder: Path) -> list[tuple[object, ...]]:
    return [
        ("list", "--results", results),
        ("report", folder),
        ("show", folder),
        ("export", folder),
        ("check", folder),
        ("check", folder, "--contract", CONTRACT),
    ]


def other_commands(results: Path, folder: Path) -> list[tuple[object, ...]]:
    return [
        ("list", "--results", results, "--json"),
        ("report", "latest", "--results", results),
        ("show", folder, "1", "--json"),
        ("report", next((folder / RunFile.JUDGEMENTS).glob("*"), folder)),
        ("export", "lawful", "--format", "jepsen-json", "--results", results),
        ("export", folder, "--format", "perfetto"),
        ("export", folder, "--format", "graphml"),
        ("selfcheck", folder),
        ("client", "table", "--results", results),
        ("matrix", "--results", results),
        ("compare", folder, folder),
    ]


def wrong(outside: Path, chosen: list[tuple[object, ...]]) -> list[str]:
    """The faults in how the commands take a hostile run."""
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    faults = []
    for command in chosen:
        words = " ".join(map(str, command[:1] + command[2:]))
        try:
            with in_time():
                code, text = outcome(*command)
        except BaseException as error:  # noqa: BLE001 - what gets out of `main` is a traceback for whoever calls it
            faults.append(f"{words}: {error!r}")
            continue
        if "Traceback" in text or (code > 2 and not text.strip()) or "\x1b" in text:
            faults.append(f"{words}: {code}: {text[-2000:]}")
        if command[0] == "list" and (code or "whole1" not in text):
            faults.append(f"{words}: {code}: {text[-500:]}")
        if {path.name: path.read_bytes() for path in outside.iterdir()} != before:
            faults.append(f"{words}: wrote outside of the run: {[*outside.iterdir()]}")
            return faults
    return faults


CASES = [(place, way) for place in PLACES for way in WAYS]
FEW = [CASES[number * len(WAYS) + number % 4] for number in range(len(PLACES))]  # each place, and each of the worst ways in turn
NAMED = {"ids": lambda value: getattr(value, "__name__", value)}


@pytest.fixture(autouse=True)
def without_spark(monkeypatch):
    monkeypatch.setattr(SparkJudge, "start_session", no_session)


@pytest.mark.parametrize(("place", "way"), FEW, **NAMED)
def test_whatever_lies_in_the_place_of_a_file_no_command_hangs_or_writes_elsewhere(stage, place, way):
    results, folder, outside = stage
    replaced(place_of(folder, place), way, outside)
    assert not wrong(outside, commands(results, folder))


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "way"), CASES, **NAMED)
def test_nor_in_any_place_by_any_command(stage, place, way):
    results, folder, outside = stage
    replaced(place_of(folder, place), way, outside)
    assert not wrong(outside, other_commands(results, folder) + commands(results, folder))


@pytest.mark.parametrize(
    ("file", "way"),
    [
        pytest.param(file, way, marks=() if (at + number) % 4 == 0 else pytest.mark.nightly)
        for at, file in enumerate(TABLES)
        for number, way in enumerate(WAYS)
    ],
    **NAMED,
)
def test_nor_where_there_are_no_lines_to_merge_again(stage, file, way):
    """So are runs of histories from elsewhere, and what is not merged is read as it lies."""
    _, folder, outside = stage
    shutil.rmtree(folder / RunFile.LINES)
    replaced(folder / file, way, outside)
    assert not wrong(outside, [("check", folder), ("report", folder), ("export", folder)])


def test_a_link_is_named_with_the_remedy(stage):
    results, folder, outside = stage
    for place in (RunFile.VERDICT, RunFile.PLAN):
        replaced(folder / place, a_link_to_a_file, outside)
        _, text = outcome("list", "--results", results, "--json")
        assert (
            f"{place} could not be read (it is a link to '{outside / 'profile'}', and links in this directory are not followed"
            in text
        )
    shutil.rmtree(folder / RunFile.LINES)
    (folder / RunFile.LINES).symlink_to(outside)
    (folder / RunFile.PLAN).unlink()
    write_plan(folder, {"run": "lawful"})
    code, text = outcome("check", folder)
    assert code > 2
    assert "history could not be read (its folder `history` is a link to" in text
    assert "put the folder itself there" in text


def test_an_export_takes_the_place_of_a_link_and_leaves_what_it_led_to(stage):
    _, folder, outside = stage
    (folder / "history.edn").symlink_to(outside / "profile")
    assert outcome("export", folder)[0] == 0
    assert (folder / "history.edn").read_text().startswith("{:")
    assert not (folder / "history.edn").is_symlink()
    assert (outside / "profile").read_text() == SECRET


def test_another_judgement_makes_no_folder_through_a_link(stage):
    _, folder, outside = stage
    shutil.rmtree(folder / RunFile.JUDGEMENTS)
    (folder / RunFile.JUDGEMENTS).symlink_to(outside)
    code, text = outcome("check", folder, "--contract", CONTRACT)
    assert code == 254
    assert "judgements" in text
    assert "is a link to" in text
    assert "remove what lies there" in text
    assert [path.name for path in outside.iterdir()] == ["profile"]


def test_the_results_and_a_run_among_them_may_be_links_of_the_users_own(stage, tmp_path):
    """The line is drawn at the run's directory: what leads to it is the user's."""
    results, folder, _ = stage
    (tmp_path / "elsewhere").symlink_to(results)
    (tmp_path / "mine").symlink_to(folder)
    assert outcome("check", "latest", "--results", tmp_path / "elsewhere")[0] <= 2
    assert outcome("check", tmp_path / "mine")[0] == 0
    assert outcome("export", tmp_path / "mine")[0] == 0


def test_a_lock_with_another_name_is_not_taken(tmp_path):
    """What `hold` writes to a hard link would be in the other file."""
    (tmp_path / "profile").write_text(SECRET)
    os.link(tmp_path / "profile", tmp_path / liveness.LOCK)
    with liveness.hold(tmp_path) as hold:
        assert hold.descriptor is None
    with liveness.exclusive(tmp_path) as user:
        assert "is no file of its own" in user
    assert (tmp_path / "profile").read_text() == SECRET


# --------------------------------------------------------------------------------------------------
# Size
# --------------------------------------------------------------------------------------------------
def sparse(path: Path, size: int) -> None:
    path.write_bytes(b"{")
    os.truncate(path, size)


@pytest.mark.parametrize("file", DOCUMENTS)
def test_a_document_beyond_its_bound_is_a_sentence_before_it_is_read(stage, file):
    results, folder, outside = stage
    sparse(folder / file, MOST_BYTES[file] + 1)
    problem = open_run(folder).problems[file]
    assert not wrong(outside, commands(results, folder))
    assert f"it has more than {MOST_BYTES[file]:,} bytes" in str(problem)


@pytest.mark.parametrize("file", [file for file in DOCUMENTS if file != RunFile.LEFT_BEHIND])
@pytest.mark.parametrize("part", [b"[],", b"{},", b"0,", b'"a",', b'{"a":0},'])
def test_a_document_of_a_million_values_is_not_parsed(tmp_path, file, part, monkeypatch):
    (tmp_path / file).write_bytes(b'{"x": [' + part * MOST_VALUES + b"0]}")
    monkeypatch.setattr(json, "loads", lambda _: 1 / 0)
    assert f"it has more than {MOST_VALUES:,} values" in str(open_run(tmp_path).problems[file])


ODD = (
    b"[" * 90_000 + b"]" * 90_000,
    b'{"a":' * 90_000 + b"1" + b"}" * 90_000,
    b'{"run": "a", "x": ' + b"9" * 5000 + b"}",
    b'{"run": "a", "time_s": NaN, "rate": Infinity, "seed": -0}',
    b'{"run": "\xff\xfe"}',
    b'{"run": "\\u001b[2J\\u202e\\ud800\\n", "created": "\\u0000", "campaign": "\\r\\u009b31m"}',
    b'{"run": "../../../etc", "created": "0001-01-01T00:00:00+23:59"}',
    b'{"run": "a", "created": "9999-12-31T23:59:59-23:59"}',
    b'{"run": "' + b"a" * 1_000_000 + b'"}',
)


@pytest.mark.parametrize("file", DOCUMENTS)
@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_odd_json_breaks_no_command(stage, file, content):
    results, folder, outside = stage
    (folder / file).write_bytes(content)
    assert not wrong(outside, commands(results, folder)[: 4 if file == RunFile.PLAN else 2])
    leftovers.data_directories(results)
    leftovers.old_runs(results, 1e300)


def test_names_of_files_control_no_terminal(stage):
    results, folder, outside = stage
    name = folder.with_name("20261121T120000Z-\x1b]0;x\x07\u202e")
    folder.rename(name)
    (name / RunFile.LINES / "c\x1b[2J-\n0.jsonl").write_text("x\n")
    (name / RunFile.PLAN).write_text("{")
    assert not wrong(outside, commands(results, name))


def test_a_verdict_that_could_not_be_read_again_is_written_with_less_of_each_finding(tmp_path, monkeypatch):
    monkeypatch.setitem(MOST_BYTES, RunFile.VERDICT, 4 << 20)
    records = [{"partition": "t-0", "offset": number, "v": number, "operation": number, "role": "read"} for number in range(200)]
    finding = {"anomaly": "lost-write", "sentence": "x" * 3000, "operations": list(range(200)), "records": records}
    findings = [{**finding, "id": number, "anomaly": f"a{number // 100}"} for number in range(300)]
    write_plan(tmp_path, {"run": "a"})
    write_verdict(tmp_path, {"verdict": "invalid", "findings": findings})
    run = open_run(tmp_path)
    assert RunFile.VERDICT not in run.problems
    assert {finding["anomaly"] for finding in run.verdict["findings"]} == {f"a{number}" for number in range(3)}


def test_a_plan_that_could_not_be_read_again_is_refused_before_anything_starts(tmp_path):
    schedule = [{"id": number, "kind": "kill", "at_s": 0.1} for number in range(MOST_VALUES // 3)]
    with pytest.raises(CampaignError, match="plan a shorter test, or fewer faults"):
        write_plan(tmp_path, {"run": "a", "schedule": schedule})
    assert not (tmp_path / RunFile.PLAN).exists()


@pytest.mark.parametrize("rows", [200_000, 140])
def test_a_table_of_receipts_that_unpacks_to_more_than_any_run_leaves_is_a_sentence(tmp_path, rows):
    text = "x" * (10 if rows > 1000 else 1_000_000)
    table = {name: pa.nulls(rows, kind) for name, kind in zip(merge.FAULTS_SCHEMA.names, merge.FAULTS_SCHEMA.types, strict=True)}
    table |= {"id": pa.array(range(rows), merge.FAULTS_SCHEMA.field("id").type), "evidence": pa.array([text] * rows)}
    with pq.ParquetWriter(tmp_path / RunFile.RECEIPTS, merge.FAULTS_SCHEMA, use_dictionary=False, compression="zstd") as writer:
        writer.write_table(pa.table(table, schema=merge.FAULTS_SCHEMA))
    with pytest.raises(HistoryError, match="more than a run leaves"):
        open_run(tmp_path).known_receipts()


# --------------------------------------------------------------------------------------------------
# Packed files
# --------------------------------------------------------------------------------------------------
LINE = b'{"type":"invoke","process":0,"op":0,"f":"poll","time":5,"value":[["poll"]]}\n'
BOMBS = {
    "zeros": b"\0",
    "blank lines": b"\n",
    "returns": b"\r",
    "spaces": b" ",
    "no lines": b"x",
    "bad lines": b"x\n",
    "one line": LINE,
}


def a_bomb(path: Path, unit: bytes, size: int = 32 << 20) -> None:
    """A file that unpacks to so many bytes, of a thousandth."""
    part = gzip.compress(unit * ((1 << 20) // len(unit)), 9)
    path.write_bytes(part * (size >> 20))


@pytest.mark.parametrize("unit", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("counted", ["without a manifest", "by a manifest that lies"])
def test_a_history_that_unpacks_to_a_thousand_times_its_size_is_not_unpacked_whole(stage, unit, counted):
    _, folder, outside = stage
    file = folder / RunFile.LINES / "c0-0.jsonl"
    if counted == "without a manifest":
        of_former_days(folder)
    file.unlink()
    a_bomb(file.with_name("c0-0.jsonl.gz"), unit)
    if counted == "by a manifest that lies":
        manifest = json.loads((folder / RunFile.MANIFEST).read_text())
        for entry in manifest["files"]:
            entry |= {"bytes": 1 << 60, "lines": 1 << 60} if entry["name"] == "c0-0.jsonl" else {}
        (folder / RunFile.MANIFEST).write_text(json.dumps(manifest))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not wrong(outside, [("check", folder)])
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown_mb < 300
    assert open_run(folder).verdict["verdict"] != "valid"


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(unit, id=name, marks=() if name in ("zeros", "bad lines", "one line") else pytest.mark.nightly)
        for name, unit in BOMBS.items()
    ],
)
def test_a_history_from_elsewhere_that_unpacks_to_a_thousand_times_its_size_is_a_sentence(tmp_path, unit):
    a_bomb(tmp_path / "history.edn", unit)
    a_bomb(tmp_path / "history.jsonl", LINE + unit)
    for name in ("history.edn", "history.jsonl"):
        with in_time():
            code, text = outcome("check", tmp_path / name, "--results", tmp_path / "results")
        assert code >= 1, text
        assert "Traceback" not in text


@pytest.mark.parametrize("way", [a_pipe, a_socket, a_link_to_an_endless_device, a_folder], **NAMED)
@pytest.mark.parametrize(
    "name", ["a.parquet", "history.parquet", "below/b.parquet", "a.jsonl", "history.edn", "history/c0-0.jsonl"]
)
def test_a_folder_from_elsewhere_with_what_never_ends_is_a_sentence(tmp_path, name, way):
    folder = tmp_path / "from elsewhere"
    (folder / name).parent.mkdir(parents=True)
    way(folder / name, tmp_path)
    pq.write_table(merge.OPS_SCHEMA.empty_table(), folder / "b.parquet")
    with in_time():
        code, text = outcome("check", folder, "--results", tmp_path / "results")
    assert "Traceback" not in text
    assert text.strip()
    assert code


def test_a_packed_history_of_ours_is_far_from_the_bound(recorded):
    sizes = [path.read_bytes() for path in (recorded / NAME / RunFile.LINES).glob("c*.jsonl")]
    assert max(len(content) / len(gzip.compress(content, 9)) for content in sizes) < lines.MOST_UNPACKED / 5


def test_thousands_of_damaged_lines_are_one_gap_for_the_rest(stage):
    _, folder, _ = stage
    with (folder / RunFile.LINES / "c0-0.jsonl").open("ab") as file:
        file.write(b"x\n" * 50_000)
    attest(folder)
    with in_time():
        gaps = merge.merge(open_run(folder))
    assert len(gaps) <= 10_001
    assert "from here on nothing is read" in gaps[-1].why
    assert len(open_run(folder).gaps) <= 2_001


# --------------------------------------------------------------------------------------------------
# Removing
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["data", "."])
def test_clean_removes_nothing_behind_a_link(stage, place):
    results, folder, outside = stage
    if place == ".":
        shutil.rmtree(folder)
        folder.symlink_to(outside)
        write_plan(outside, {"run": "theirs", "created": "2020-01-01T00:00:00Z"})
    else:
        (folder / place).symlink_to(outside)
    assert leftovers.data_directories(results) == []
    for leftover in leftovers.old_runs(results, 365):
        with pytest.raises(OSError, match="link"):
            leftovers.remove(leftover.directory)
    assert (outside / "profile").read_text() == SECRET


def test_a_run_that_is_damaged_is_named_and_the_others_are_listed(stage):
    results, folder, _ = stage
    sparse(folder / RunFile.PLAN, 228 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, text = outcome("list", "--results", results)
    assert (code, "whole1" in text) == (0, True)
    assert "plan.json could not be read (OSError: it has more than 8,388,608 bytes); put it back" in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10
    assert [run.id for run in store.list_runs(results)] == ["whole1"]
