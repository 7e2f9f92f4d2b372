"""The site as files: what is written where, what is refused, what is left as it is."""

from __future__ import annotations

import json
import os

import pytest
from support.many_runs import EVIL, finding, invalid, write_run

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import UnwritableFile
from fencepost.harness.site import static
from fencepost.harness.site.static import write_site

FIRST, SECOND = "20261125T190000Z-aaaaaa", "20261126T190000Z-bbbbbb"


@pytest.fixture
def results(tmp_path):
    root = tmp_path / "results"
    write_run(root, "nightly", FIRST)
    write_run(root, "nightly", SECOND, plan={"test": "torn"}, verdict=invalid(finding()))
    return root


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_site_is_complete_in_itself(results, tmp_path):
    written = write_site(results, tmp_path / "site")
    names = files(tmp_path / "site").keys()
    assert {"index.html", "grid.html", "findings.html", "compare.html", "site.json"} <= names
    assert f"runs/nightly/{FIRST}/report.html" in names
    assert f"runs/nightly/{SECOND}/summary.md" in names
    assert len([name for name in names if name.startswith("tests/")]) == 2
    assert (len(written.entries), written.copied, written.left) == (2, 7, 0)
    index = (tmp_path / "site" / "index.html").read_text()
    assert "A record is nowhere." in index
    assert f'href="runs/nightly/{SECOND}/report.html#finding-1"' in index


def test_written_again_it_copies_what_has_changed_and_removes_what_is_gone(results, tmp_path):
    site = tmp_path / "site"
    write_site(results, site)
    before = files(site)
    again = write_site(results, site)
    assert (again.copied, again.unchanged) == (0, 7)
    (results / "nightly" / FIRST / "report.html").write_text("another report")
    (site / "runs" / "nightly" / FIRST / "summary.md").unlink()
    os.rename(results / "nightly" / SECOND, tmp_path / "elsewhere")
    third = write_site(results, site)
    assert (third.copied, third.unchanged) == (2, 1)
    after = files(site)
    assert after[f"runs/nightly/{FIRST}/report.html"] == b"another report"
    assert not [name for name in after if SECOND in name or "torn" in name]
    assert before.keys() - after.keys() == {name for name in before if SECOND in name or "torn" in name}


def test_a_directory_that_holds_something_else_is_refused_and_left_alone(results, tmp_path):
    for name, mark in (("own", None), ("foreign", "{}"), ("old", '{"format": 0, "copied": {}}'), ("odd", "[" * 99_999)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / ("mine.txt" if mark is None else "site.json")).write_text(mark or "precious")
        before = files(folder)
        with pytest.raises(CampaignError, match="no site of fencepost's"):
            write_site(results, folder)
        assert files(folder) == before
    with pytest.raises(CampaignError, match="no site of fencepost's"):
        write_site(results, results)
    (tmp_path / "file").write_text("")
    with pytest.raises(CampaignError, match="cannot be used"):
        write_site(results, tmp_path / "file")


def test_no_link_in_the_site_is_followed(results, tmp_path):
    """Neither that of a page, nor of a copy, nor of a folder."""
    site, outside = tmp_path / "site", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    write_site(results, site)
    for name in ("index.html", f"runs/nightly/{FIRST}/report.html", "site.json"):
        (site / name).unlink()
        (site / name).symlink_to(outside / "precious")
    with pytest.raises(CampaignError, match="no site of fencepost's"):  # its mark is a link
        write_site(results, site)
    (site / "site.json").unlink()
    (site / "site.json").write_text(json.dumps({"format": 1, "copied": {}}))
    write_site(results, site)
    assert not (site / "index.html").is_symlink()
    assert not (site / f"runs/nightly/{FIRST}/report.html").is_symlink()
    os.rename(site / "tests", tmp_path / "away")
    (site / "tests").symlink_to(outside)
    with pytest.raises(UnwritableFile, match="links in this directory are not followed"):
        write_site(results, site)
    assert files(outside) == {"precious": b"precious"}


def test_a_mark_from_elsewhere_removes_nothing_but_copies(results, tmp_path):
    site = tmp_path / "site"
    write_site(results, site)
    (tmp_path / "precious").write_text("precious")
    (site / "runs" / "own.txt").write_text("mine")
    named = [
        "../precious",
        "runs/../../precious",
        "/etc/hostname",
        "runs/own.txt",
        "index.html",
        "runs/a/../report.html",
        "runs/./x/report.html",
    ]
    (site / "site.json").write_text(json.dumps({"format": 1, "copied": {name: [1, 1] for name in named}}))
    write_site(results, site)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (site / "runs" / "own.txt").exists()
    assert (site / "index.html").exists()


def test_a_run_without_report_keeps_its_row_and_its_sentence(results, tmp_path):
    write_run(
        results,
        "nightly",
        "20261127T190000Z-cccccc",
        plan={"test": "bare"},
        verdict=invalid(finding(sentence="Bare.")),
        report=False,
    )
    write_run(results, "nightly", "20261128T190000Z-dddddd", plan={"test": "cut off"}, verdict=None, report=False)
    written = write_site(results, tmp_path / "site")
    shown = {entry.row.test: (entry.report, entry.lack, entry.cause) for entry in written.entries}
    assert shown["bare"] == ("", "It has no report.", "Bare.")
    assert shown["cut off"][:2] == ("", "It has no report.")
    assert "It has no report." in (tmp_path / "site" / "index.html").read_text()


def test_reports_are_copied_up_to_a_bound_the_red_ones_first(results, tmp_path, monkeypatch):
    for name in (FIRST, SECOND):
        (results / "nightly" / name / "report.html").write_bytes(b"x" * 600_000)
    written = write_site(results, tmp_path / "site", most_mib=1)
    shown = {entry.row.test: entry for entry in written.entries}
    assert (shown["torn"].lack, bool(shown["torn"].report), written.left) == ("", True, 1)
    assert "as large as it may be" in shown["steady"].lack
    monkeypatch.setattr(static, "MOST_OF_FILE", 1000)
    assert "has more than" in write_site(results, tmp_path / "other").entries[0].lack


def test_a_red_run_has_the_files_that_its_report_links_to(results, tmp_path):
    """Its logs are wanted first; a green run's only where the results are."""
    for name in (FIRST, SECOND):
        (results / "nightly" / name / "logs" / "n1").mkdir(parents=True)
        (results / "nightly" / name / "logs" / "n1" / "server.log").write_bytes(b"x" * 700_000)
        (results / "nightly" / name / "logs" / "n1" / "link.log").symlink_to("/etc/hostname")
        (results / "nightly" / name / "history.parquet").write_bytes(b"x" * 700_000)
    written = write_site(results, tmp_path / "site", most_mib=1)
    names = files(tmp_path / "site").keys()
    assert f"runs/nightly/{SECOND}/logs/n1/server.log" in names
    assert not [name for name in names if name.endswith("link.log") or (FIRST in name and "logs" in name)]
    assert (written.left, written.files_left) == (0, 1)
    assert f"runs/nightly/{SECOND}/history.parquet" not in names
    again = write_site(results, tmp_path / "site")
    assert (again.copied, again.files_left) == (1, 0)


def test_a_link_in_the_place_of_a_report_is_not_copied(results, tmp_path):
    report = results / "nightly" / FIRST / "report.html"
    report.unlink()
    report.symlink_to("/etc/hostname")
    written = write_site(results, tmp_path / "site")
    assert "not followed" in next(entry.lack for entry in written.entries if entry.row.test == "steady")
    assert not (tmp_path / "site" / "runs" / "nightly" / FIRST).exists()


def test_hostile_names_and_texts_stay_text(results, tmp_path):
    """In pages that are rendered, and in the data of scripts."""
    name = "20261127T190000Z-x'\"<b>&%2e\n\u202e"
    write_run(results, "ev<i>l", name, plan={"test": EVIL, "campaign": EVIL}, verdict=invalid(finding(EVIL, EVIL)))
    odd = os.fsdecode(os.fsencode(results / "nightly") + b"/20261127T190000Z-\xff")
    os.rename(results / "nightly" / FIRST, odd)
    write_site(results, tmp_path / "site")
    for path, content in files(tmp_path / "site").items():
        if path.endswith(".html") and not path.startswith("runs/"):
            text = content.decode()
            assert "<script>document" not in text, path
            assert "<img" not in text, path
            assert "49}" not in text, path
            assert "\u202e" not in text, path


def test_no_runs_make_a_site_too(tmp_path):
    write_site(tmp_path / "nowhere", tmp_path / "site")
    assert "No runs yet" in (tmp_path / "site" / "index.html").read_text()
