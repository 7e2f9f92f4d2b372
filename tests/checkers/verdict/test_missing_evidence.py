"""Whole runs of which something is missing, from their lines to the verdict and the report; judged in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.histories import violated
from support.recorded_run import attest, of_former_days, record_run

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import split_record_id
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run, write_verdict
from fencepost.harness.report import render
from fencepost.harness.runs.merging import merged

WRITER, READER, FINAL, SECOND = "c0-0.jsonl", "c3-0.jsonl", "c4-0.jsonl", "c5-0.jsonl"


@pytest.fixture(params=["attested", "unattested"])
def run(request, tmp_path) -> Path:
    """A lawful run; with its manifest, and without."""
    folder = record_run(tmp_path / "run", transactions=60)
    if request.param == "unattested":
        of_former_days(folder)
    return folder


def judged(folder: Path) -> dict[str, Any]:
    return judge(merged(open_run(folder)), here=True)


def answers(document: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in document["properties"]}


def weakening(document: dict[str, Any], file: str) -> str:
    return next(text for text in document["weakened"] if text.startswith(file))


def test_a_whole_run_is_valid_and_only_a_missing_manifest_is_reported(run):
    document = judged(run)
    assert document["verdict"] == "valid", document["reason"]
    attests = [text for text in document["weakened"] if text.startswith(RunFile.MANIFEST)]
    assert len(attests) == (not (run / RunFile.MANIFEST).exists())


@pytest.mark.parametrize(
    ("name", "unknown", "held"),
    [
        (WRITER, ("lost-write", "phantom", "duplicate", "torn-transaction"), ("lso-stall",)),
        (READER, ("poll-skip", "phantom", "aborted-read"), ("lso-stall",)),
        (FINAL, ("lost-write", "torn-transaction", "stale-read", "phantom"), ("lso-stall",)),
        (SECOND, ("lost-write", "inconsistent-offset", "stale-read"), ("torn-transaction", "lso-stall")),
        ("harness.jsonl", ("lso-stall",), ("lost-write", "phantom", "poll-skip")),
    ],
)
def test_a_missing_file_makes_unknown_what_needed_it_and_violates_nothing(run, name, unknown, held):
    (run / RunFile.LINES / name).unlink()
    document = judged(run)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert not [row for row in document["findings"] if row["forbidden"]]
    verdicts = answers(document)
    assert {anomaly: verdicts[anomaly] for anomaly in unknown} == dict.fromkeys(unknown, "unknown")
    assert {anomaly: verdicts[anomaly] for anomaly in held} == dict.fromkeys(held, "held")
    assert all(anomaly in weakening(document, name) for anomaly in unknown)
    assert name in document["reason"]
    assert [gap["file"] for gap in document["gaps"] if gap["kind"] == "missing"] == [name]


def test_missing_receipts_leave_the_verdict_and_take_away_what_speaks_of_faults(run):
    (run / RunFile.LINES / "faults.jsonl").unlink()
    document = judged(run)
    assert document["verdict"] == "valid"
    assert weakening(document, "faults.jsonl").endswith("what the faults did is not wholly known")
    assert (document["counts"]["faults"], document["counts"]["faults_without_effect"]) == (None, None)
    write_verdict(run, document)
    render(open_run(run))
    page, summary = ((run / file).read_text() for file in (RunFile.REPORT, RunFile.SUMMARY))
    assert "broke nothing on purpose" not in page
    assert "nothing was broken on purpose" not in page
    assert "never struck" not in page
    assert "Weaker than it looks: faults.jsonl" in summary


def test_a_reader_that_was_cut_at_a_line_end_is_not_valid(tmp_path):
    folder = record_run(tmp_path / "run", transactions=60)
    path = folder / RunFile.LINES / READER
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    document = judged(folder)
    assert (document["verdict"], answers(document)["poll-skip"]) == ("unknown", "unknown")
    assert "is shorter than it was" in weakening(document, READER)


def test_a_writer_that_was_cut_at_a_line_end_is_no_phantom(run):
    path = run / RunFile.LINES / WRITER
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-10]))
    document = judged(run)
    assert (document["verdict"], violated(document), answers(document)["phantom"]) == ("unknown", [], "unknown")


def test_a_file_that_is_there_twice_changes_nothing(run):
    text = (run / RunFile.LINES / READER).read_bytes()
    (run / RunFile.LINES / "c3-0 (copy).jsonl").write_bytes(text)
    document = judged(run)
    assert (document["verdict"], violated(document)) == ("valid", [])
    assert any("it is not read" in text for text in document["weakened"])


def test_a_damaged_line_of_the_final_reader_is_no_loss(tmp_path):
    """The final read says that it went to the end; what a damaged line of it had returned is not lost for that."""
    folder = record_run(tmp_path / "run", transactions=60)
    of_former_days(folder)
    path = folder / RunFile.LINES / FINAL
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"\0" * len(lines[3]) + b"\n"
    path.write_bytes(b"".join(lines))
    document = judged(folder)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert answers(document)["lost-write"] == answers(document)["torn-transaction"] == "unknown"


def test_what_is_proven_in_whole_files_stays_invalid_whatever_else_is_missing(tmp_path):
    """Two final readers got one record at two offsets each, and a writer's file is gone."""
    folder = record_run(tmp_path / "run", transactions=60)
    for name in (FINAL, SECOND):
        path = folder / RunFile.LINES / name
        path.write_text("".join(_twice(line) for line in path.read_text().splitlines()))
    attest(folder)
    (folder / RunFile.LINES / WRITER).unlink()
    document = judged(folder)
    assert (document["verdict"], "duplicate" in violated(document)) == ("invalid", True)
    assert answers(document)["lost-write"] == "unknown"
    assert WRITER in weakening(document, WRITER)


def _twice(text: str) -> str:
    """A completed poll in which the last record of process 1 comes once more, at the end of its partition."""
    line = json.loads(text)
    if line.get("type") == "ok" and line.get("f") == "poll":
        for got in line["value"][0][1].values():
            v = next(v for _, v in reversed(got) if split_record_id(v)[0] == 1)
            got.append([max(place for place, _ in got) + 1, v])
    return json.dumps(line) + "\n"


def damage_page(path: Path, column: str) -> None:
    """Change one byte of a column's last page."""
    group = pq.read_metadata(path).row_group(0)
    leaf = next(leaf for leaf in map(group.column, range(group.num_columns)) if leaf.path_in_schema == column)
    content = bytearray(path.read_bytes())
    content[(leaf.dictionary_page_offset or leaf.data_page_offset) + leaf.total_compressed_size - 5] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("small", [4 << 20, 0])
def test_a_damaged_page_is_no_other_history_where_no_manifest_has_a_checksum(tmp_path, monkeypatch, small):
    """Whether the file is read at once or by row groups."""
    monkeypatch.setattr("fencepost.checkers.history.source.SMALL_FILE", small)
    whole = write_lawful(tmp_path / "a", transactions=60)
    damage_page(Path(whole.history), "time")
    with pytest.raises(HistoryError, match="CRC checksum"):
        judge(whole, here=True)
    records = write_lawful(tmp_path / "b", transactions=60)
    damage_page(Path(records.history), "mops.list.element.v")
    document = judge(records, here=True)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert "CRC checksum" in document["reason"]
