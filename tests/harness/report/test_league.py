"""The league's record: a run counts once, a cell says k of n with its interval, and the page shows what the record holds."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import league
from fencepost.harness.report.league import COLUMNS, RecordedRun

DOCS = Path(__file__).parents[3] / "docs"


def row(verdict="valid", violated="", run="a", kafka="4.4.0", client="java@4.3.0"):
    return RecordedRun(kafka, "pipeline", client, "2026-11-27", run, "1", "40", verdict, violated)


@pytest.fixture
def run(tmp_path):
    """Makes a run's directory with this verdict."""

    def made(name, verdict, violated=()):
        folder = tmp_path / name
        folder.mkdir()
        plan = {"schema": 1, "run": name, "test": "pipeline[java@4.3.0]", "seed": 1, "time_s": 40.0, "topics": {}, "contract": {}}
        plan |= {"client": {"kind": "java@4.3.0"}, "created": "2026-11-27T14:51:35+00:00"}
        (folder / "plan.json").write_text(json.dumps({**plan, "cluster": {"description": {"kafka": "4.4.0"}}}))
        properties = [{"name": one, "verdict": "violated"} for one in violated] + [{"name": "phantom", "verdict": "held"}]
        document = {"schema": 1, "verdict": verdict, "run": name, "properties": properties}
        (folder / "verdict.json").write_text(json.dumps(document))
        return open_run(folder)

    return made


def test_a_run_is_recorded_once(run, tmp_path):
    record = tmp_path / "league.csv"
    runs = [run("b", "invalid", ["reprocessed", "duplicate"]), run("a", "valid")]
    assert league.record(record, runs) == (2, 2)
    assert league.record(record, runs) == (0, 2)
    assert league.read(record) == [row(run="a"), row("invalid", "duplicate reprocessed", "b")]
    (runs[0].directory / "verdict.json").write_text(json.dumps({"schema": 1, "verdict": "valid", "run": "b", "properties": []}))
    assert league.record(record, [open_run(runs[0].directory)]) == (0, 2), "it was judged again"
    assert league.read(record) == [row(run="a"), row(run="b")]


def test_a_cell_says_how_many_of_how_many_and_how_little_that_says():
    bad = row("invalid", "reprocessed duplicate")
    assert league.cell([]) == "-"
    assert league.cell([row()] * 5) == "valid 5 of 5 (violated in at most 43%)"
    assert league.cell([row()] * 2) == "valid 2 of 2 † (violated in at most 66%)"
    assert league.cell([bad, bad, *[row()] * 3]) == "**invalid 2 of 5** (12% to 77%): duplicate 2, reprocessed 2"


def test_an_unknown_run_is_in_no_rate():
    assert league.cell([row()] * 2 + [row("unknown")]) == "valid 2 of 2 † (violated in at most 66%); unknown 1"
    assert league.cell([row("unknown")]) == "unknown 1"


def test_versions_of_kafka_are_not_mixed():
    text = league.markdown([row(), row(kafka="4.10.0", run="b")])
    assert text.index("**Kafka 4.4.0**") < text.index("**Kafka 4.10.0**")
    assert text.count("valid 1 of 1") == 2


@pytest.mark.parametrize(
    ("text", "match"), [("a,b\n", "first line"), (",".join(COLUMNS) + "\n1,2\n", "line 2"), ("", "first line")]
)
def test_a_file_that_is_no_record_is_named(tmp_path, text, match):
    (tmp_path / "league.csv").write_text(text)
    with pytest.raises(CampaignError, match=match):
        league.read(tmp_path / "league.csv")


def test_the_page_shows_what_the_record_holds():
    """After new runs: fencepost client table --record docs/league.csv, and its output into the page."""
    assert league.markdown(league.read(DOCS / "league.csv")) in (DOCS / "clients.md").read_text()


ODD = [
    ("seconds", "", "its seconds are no number: "),
    ("seconds", "nan", "its seconds are no number: nan"),
    ("seconds", "9" * 5000, "its seconds are no number: 999"),
    ("verdict", "=cmd()", "not 9 columns with a verdict"),
    ("run", "x" * 200_000, "cannot be read: field larger than field limit"),
]


@pytest.mark.parametrize(("column", "value", "sentence"), ODD, ids=[f"{column} {value[:9]}" for column, value, _ in ODD])
def test_a_record_from_anywhere_is_read_or_named(tmp_path, column, value, sentence):
    path = tmp_path / "league.csv"
    path.write_text(f"{','.join(COLUMNS)}\n{','.join({**vars(row()), column: value}.values())}\n")
    with pytest.raises(CampaignError, match=re.escape(sentence)):
        league.read(path)


@pytest.mark.parametrize("way", ["a pipe", "a device", "more than 67,108,864 bytes"])
def test_what_never_ends_is_no_record(tmp_path, way):
    path = tmp_path / "league.csv"
    if way == "a pipe":
        os.mkfifo(path)
    elif way == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 2 << 30)
    with pytest.raises(CampaignError, match=f"cannot be read: it (is|has) {way}"):
        league.read(path)


def test_versions_and_texts_of_any_kind_make_a_table():
    table = league.markdown([row(kafka="9" * 5000), row(client="<img src=x>|`\n", run="b")])
    assert "<img" not in table
    assert table.count("\n| `") == 2
