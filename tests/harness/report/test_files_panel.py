"""Links from the report to the files beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import beside, render
from fencepost.harness.report.panels.files import href
from fencepost.harness.runs.judgements import open_judgement


def links(report: Path) -> list[str]:
    """The addresses of files in a report."""
    return re.findall(r'<a href="(\.\.?/[^"]*)"', report.read_text("utf-8"))


def log(folder: Path, place: str, content: str = "a line\n") -> None:
    (folder / "logs" / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / "logs" / place).write_text(content, "utf-8")


def test_documents_tables_and_logs_that_are_there_are_linked(tmp_path):
    folder = example.valid(tmp_path)
    for place in ("n1/server.log", "n1/server.properties", "c0/stderr.log", "harness.log"):
        log(folder, place)
    log(folder, "c1/stderr.log", "")
    report = render(open_run(folder))
    assert links(report) == [
        *(f"./{name}" for name in ("plan.json", "verdict.json", "history.parquet", "anomalies.parquet", "faults.parquet")),
        *(f"./logs/{place}" for place in ("c0/stderr.log", "harness.log", "n1/server.log", "n1/server.properties")),
    ]
    assert all((report.parent / link).is_file() for link in links(report))
    assert "1 log without a line." in report.read_text("utf-8")
    assert '<a href="./logs/harness.log">harness.log</a> <span class="when">7 B</span>' in report.read_text("utf-8")


def test_a_judgement_links_to_the_files_of_its_run_and_to_its_own(tmp_path):
    folder = example.valid(tmp_path)
    log(folder, "n1/server.log")
    place = folder / "judgements" / "acks-1-abcdef"
    place.mkdir(parents=True)
    (place / "verdict.json").write_text((folder / "verdict.json").read_text("utf-8"), "utf-8")
    report = render(open_judgement(open_run(folder), place.name))
    assert report.parent == place
    assert links(report) == [
        "../../plan.json",
        "./verdict.json",
        "../../history.parquet",
        "../../faults.parquet",
        "../../logs/n1/server.log",
    ]
    assert all((place / link).is_file() for link in links(report))


def test_nothing_behind_a_link_or_out_of_the_run_is_linked(tmp_path):
    folder = example.valid(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.log").write_text("x")
    (folder / "logs").mkdir()
    (folder / "logs" / "n1").symlink_to(tmp_path / "elsewhere")
    (folder / "logs" / "n2").symlink_to(tmp_path / "elsewhere" / "secret.log")
    os.mkfifo(folder / "logs" / "n3")
    (folder / "anomalies.parquet").unlink()
    (folder / "anomalies.parquet").symlink_to(tmp_path / "elsewhere" / "secret.log")
    assert not [link for link in links(render(open_run(folder))) if "logs" in link or "anomalies" in link]


def test_a_name_is_no_scheme_no_host_and_no_markup(tmp_path):
    names = ["javascript:alert(1)", "#top?x", 'a"onmouseover="x', "<b>.log", "ä\n.log", os.fsdecode(b"\xff.log")]
    folder = example.valid(tmp_path)
    for name in names:
        log(folder, f"n1/{name}")
    report = render(open_run(folder))
    linked = [link for link in links(report) if "/n1/" in link]
    assert sorted(os.fsencode(unquote(link, errors="surrogateescape")) for link in linked) == sorted(
        os.fsencode(f"./logs/n1/{name}") for name in names
    )
    assert "<b>" not in report.read_text("utf-8")[report.read_text("utf-8").index('id="files"') :].split("</section>")[0]
    assert href("//evil.example/x") == ".///evil.example/x"


def test_more_logs_than_a_page_has_room_for_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(beside, "MOST_LOGS", 2)
    folder = example.valid(tmp_path)
    for number in range(5):
        log(folder, f"c{number}/stderr.log")
    assert "and 3 more logs in <code>logs/</code>" in render(open_run(folder)).read_text("utf-8")
