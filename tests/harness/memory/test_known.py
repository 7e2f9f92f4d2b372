"""Known findings: the file, and runs beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from support import report_example as example

from fencepost.harness.api import CampaignError
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory.known import NOTHING_KNOWN, judge_known, known_document, known_of, read_known, unmatched, with_known
from fencepost.harness.memory.remembered import Remembered, remembered, remembered_of, sentences
from fencepost.harness.memory.rows import FindingRow, RunRow, finding_rows, row_of
from fencepost.harness.memory.standing import History, Standing
from fencepost.harness.report import render

TODAY = date(2026, 11, 25)
A, B, C = "a" * 12, "b" * 12, "0123456789ab"
ENTRY = f"""[[known]]
fingerprint = "{A}"
reason = "KAFKA-17754: a late EndTxn"
link = "https://issues.apache.org/jira/browse/KAFKA-17754"
expires = 2027-01-31
"""


def known(tmp_path: Path, text: str):
    path = tmp_path / "known.toml"
    path.write_text(text)
    return read_known(path)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(CampaignError) as raised:
        known(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/") for line in raised.value.mistakes]


# --------------------------------------------------------------------------------------------------
# The file
# --------------------------------------------------------------------------------------------------
def test_an_entry(tmp_path):
    [entry] = known(tmp_path, ENTRY).entries.values()
    assert (entry.fingerprint, entry.expires, entry.place) == (A, date(2027, 1, 31), f"{tmp_path}/known.toml:1")
    assert str(entry) == "KAFKA-17754: a late EndTxn (https://issues.apache.org/jira/browse/KAFKA-17754)"


def test_a_link_is_optional_and_a_moment_is_its_day(tmp_path):
    text = ENTRY.replace("link", "#").replace("2027-01-31", "2027-01-31T12:00:00Z")
    [entry] = known(tmp_path, text).entries.values()
    assert (entry.link, entry.expires) == ("", date(2027, 1, 31))


def test_an_empty_file_acknowledges_nothing(tmp_path):
    assert known(tmp_path, "# nothing yet\n").entries == {}


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ((f'"{A}"', '"A"'), "known.toml:2: known[0].fingerprint: must be 12 hexadecimal digits in quotes, as"),
        ((f'"{A}"', "12"), "known.toml:2: known[0].fingerprint: must be 12 hexadecimal digits"),
        ((f'fingerprint = "{A}"', ""), "known.toml:1: known[0]: fingerprint is missing: must be 12 hexadecimal digits"),
        (('"KAFKA-17754: a late EndTxn"', '" "'), "known.toml:3: known[0].reason: must be a text that says why"),
        (("reason", "reasn"), 'known.toml:3: known[0].reasn: unknown key "reasn"; did you mean "reason"'),
        (('"https://issues.apache.org/jira/browse/KAFKA-17754"', '"javascript:alert(1)"'), "known.toml:4: known[0].link: must"),
        (("2027-01-31", '"2027-01-31"'), "known.toml:5: known[0].expires: must be a day without quotes, for example 2027-01-31"),
        (("expires = 2027-01-31", ""), "known.toml:1: known[0]: expires is missing: must be a day without quotes"),
        (("[[known]]", "[known]"), "known.toml:1: known: write each entry as a table of its own, `[[known]]`"),
        (("[[known]]", "known = 3\n[x]"), "known.toml:2: x: unknown key 'x': each entry is a table"),
        (("[[known]]", "[[konwn]]"), "known.toml:1: konwn: unknown key 'konwn': each entry is"),
        (("]]", "]"), "known.toml: is not TOML: "),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_its_line_its_key_and_a_remedy(tmp_path, change, mistake):
    assert mistakes(tmp_path, ENTRY.replace(*change))[0].startswith(mistake)


def test_all_mistakes_are_named_at_once(tmp_path):
    other = ENTRY.replace("reason", "why").replace("2027-01-31", '"soon"')
    assert [line.partition(": ")[0] for line in mistakes(tmp_path, ENTRY + other)] == [f"known.toml:{n}" for n in (8, 6, 10, 7)]


def test_a_fingerprint_is_acknowledged_once(tmp_path):
    [mistake] = mistakes(tmp_path, ENTRY + ENTRY)
    assert mistake == f"known.toml:7: known[1].fingerprint: is acknowledged already ({tmp_path}/known.toml:1)"


def test_the_file_lies_beside_the_campaign_or_in_the_working_directory_or_where_it_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()
    assert known_of() == known_of(campaign=Path("campaigns/nightly.toml")) == NOTHING_KNOWN
    (tmp_path / "known.toml").write_text(ENTRY)
    assert known_of().path == known_of(campaign=Path("campaigns/nightly.toml")).path == Path("known.toml")
    (tmp_path / "campaigns/known.toml").write_text(ENTRY.replace(A, B))
    assert list(known_of(campaign=Path("campaigns/nightly.toml")).entries) == [B]
    assert list(known_of(Path("known.toml"), Path("campaigns/nightly.toml")).entries) == [A]
    with pytest.raises(CampaignError, match=r"elsewhere\.toml: cannot be read: No such file"):
        known_of(Path("elsewhere.toml"))


# --------------------------------------------------------------------------------------------------
# Runs
# --------------------------------------------------------------------------------------------------
def finding(mark: str, anomaly: str = "torn-transaction") -> FindingRow:
    return FindingRow(id=1, anomaly=anomaly, fingerprint=mark, sentence="")


RUN = RunRow(
    place="c/r",
    run="r",
    verdict="invalid",
    met=False,
    met_otherwise=True,
    unexpected=("torn-transaction",),
    findings=(finding(A), finding(C, "duplicate")),
)


def test_a_run_with_known_findings_alone_is_as_expected(tmp_path):
    judged = judge_known(RUN, known(tmp_path, ENTRY), TODAY)
    assert [pair.entry.fingerprint for pair in judged.acknowledged] == [A]
    assert (judged.expired, judged.new, judged.complete, judged.as_expected) == ((), (), True, True)


@pytest.mark.parametrize(
    "change",
    [
        {"findings": (finding(A), finding(B))},  # the same anomaly with another fingerprint
        {"findings": (finding(A), finding(B, "lost-write")), "unexpected": ("torn-transaction", "lost-write")},
        {"unexpected": ("torn-transaction", "lost-write")},  # of which no finding is shown
        {"met_otherwise": None},  # not everything could be judged
        {"met_otherwise": False},  # what was expected is missing
        {"met": None},
        {"met": True},
        {"unexpected": ()},
        {"findings": ()},
        {"verdict": "", "met": None, "unexpected": (), "findings": ()},
    ],
)  # fmt: skip
def test_any_other_run_is_what_it_was(tmp_path, change):
    assert not judge_known(replace(RUN, **change), known(tmp_path, ENTRY), TODAY).as_expected


def test_a_finding_that_nobody_has_acknowledged_is_new(tmp_path):
    judged = judge_known(replace(RUN, findings=(finding(A), finding(B))), known(tmp_path, ENTRY), TODAY)
    assert [row.fingerprint for row in judged.new] == [B]
    assert not judged.complete
    assert judge_known(RUN, NOTHING_KNOWN, TODAY).new == (finding(A),)


@pytest.mark.parametrize(("day", "expired"), [(date(2027, 1, 31), False), (date(2027, 2, 1), True)])
def test_an_acknowledgement_holds_until_the_end_of_its_day(tmp_path, day, expired):
    judged = judge_known(RUN, known(tmp_path, ENTRY), day)
    assert judged.as_expected is not expired
    assert len(judged.expired) == expired
    assert judged.complete is not expired


def test_an_entry_that_no_run_has_is_named(tmp_path):
    of = known(tmp_path, ENTRY + ENTRY.replace(A, B))
    sentence = (
        f"not seen: {B}, KAFKA-17754: a late EndTxn (https://issues.apache.org/jira/browse/KAFKA-17754); acknowledged until "
        f"2027-01-31 in {tmp_path}/known.toml:6: remove it if it is gone"
    )
    assert unmatched(of, [RUN]) == [sentence]
    assert unmatched(of, [replace(RUN, met=True, unexpected=())]) == [sentence], "it is there, though the test expects it"


def test_what_a_verdict_says(tmp_path):
    of = known(tmp_path, ENTRY)
    document = known_document(judge_known(RUN, of, TODAY))
    assert document["unexpected_known"] is True
    assert document["known"] == (
        "torn-transaction: KAFKA-17754: a late EndTxn (https://issues.apache.org/jira/browse/KAFKA-17754); "
        f"acknowledged until 2027-01-31 in {tmp_path}/known.toml:1"
    )
    [entry] = document["acknowledged"]
    assert (entry["fingerprint"], entry["anomaly"], entry["expires"], entry["expired"]) == (
        A,
        RUN.findings[0].anomaly,
        "2027-01-31",
        False,
    )
    late = known_document(judge_known(RUN, of, date(2028, 1, 1)))
    assert (late["unexpected_known"], late["acknowledged"][0]["expired"]) == (False, True)
    assert late["known"].endswith("expired on 2027-01-31: mend it, or renew " + f"{tmp_path}/known.toml:1")
    assert known_document(judge_known(RUN, NOTHING_KNOWN, TODAY)) == {}


def test_a_row_has_what_the_verdict_says(tmp_path):
    directory = example.RUNS["torn"](tmp_path / "campaign" / "run")
    run = open_run(directory)
    unexpected = {"expectation_met": False, "unexpected": [{"name": "torn-transaction"}], "met_without_unexpected": True}
    verdict = {**run.verdict, **unexpected}
    [finding_of] = row_of(run, tmp_path).findings
    of = known(tmp_path, ENTRY.replace(A, finding_of.fingerprint))
    row = row_of(run.judged(with_known(verdict, run, of, TODAY)), tmp_path)
    assert (row.met, row.known_alone, row.red) == (False, True, False)
    assert row.known.startswith("torn-transaction: KAFKA-17754")
    row = row_of(run.judged(with_known(verdict, run, NOTHING_KNOWN, TODAY)), tmp_path)
    assert (row.met, row.known_alone, row.red, row.known) == (False, False, True, "")


# --------------------------------------------------------------------------------------------------
# Reports
# --------------------------------------------------------------------------------------------------
def test_a_report_says_how_often_and_since_when_and_who_has_acknowledged_it(tmp_path):
    root = tmp_path / "results"
    for night in range(1, 4):
        directory = example.RUNS["torn"](root / "first" / f"2026112{night}T010000Z-run{night}")
        plan = json.loads((directory / "plan.json").read_text())
        changed = {"run": f"run{night}", "created": f"2026-11-2{night}T01:00:00Z", "round": f"2026112{night}T010000Z"}
        (directory / "plan.json").write_text(json.dumps({**plan, **changed}))
    run = open_run(directory)
    [mark] = {row.fingerprint for row in finding_rows(run)}
    of = known(tmp_path, ENTRY.replace(A, mark).replace("2027", "2999"))
    render(run, remembered_of(run, root, of))
    sentence = (
        f"torn-transaction, fingerprint {mark}: known (on 3 of 3 rounds, since 2026-11-21); acknowledged until 2999-01-31: "
    )
    assert sentence in (directory / "report.html").read_text()
    assert sentence.partition("acknowledged")[0] in (directory / "summary.md").read_text().replace("\\", "")
    [elsewhere] = remembered_of(run, tmp_path, NOTHING_KNOWN)
    assert str(elsewhere) == f"torn-transaction, fingerprint {mark}"
    [expired] = remembered(finding_rows(run), (), of, date(3000, 1, 1))
    assert "acknowledgement expired on 2999-01-31: KAFKA-17754" in str(expired)


def test_a_report_written_where_there_is_no_such_file_shows_what_the_verdict_notes(tmp_path):
    run = open_run(example.RUNS["torn"](tmp_path / "results" / "first" / "20261121T010000Z-run1"))
    mark = finding_rows(run)[0].fingerprint
    noted = {"fingerprint": mark, "reason": "KIP-98", "link": "", "expires": "2999-01-31"}
    [shown] = remembered_of(run.judged({**run.verdict, "acknowledged": [noted]}), tmp_path, NOTHING_KNOWN)
    assert str(shown).endswith("acknowledged until 2999-01-31: KIP-98")
    [shown] = remembered_of(
        run.judged({**run.verdict, "acknowledged": [{**noted, "expires": "soon"}, {}]}), tmp_path, NOTHING_KNOWN
    )
    assert shown.entry is None


def test_a_reason_is_no_markup(tmp_path):
    directory = example.RUNS["torn"](tmp_path / "results" / "first" / "20261121T010000Z-run1")
    run = open_run(directory)
    mark = finding_rows(run)[0].fingerprint
    of = known(tmp_path, ENTRY.replace(A, mark).replace("KAFKA-17754: a", "<script>alert(1)</script>"))
    render(run, remembered_of(run, tmp_path / "results", of))
    assert "<script>alert" not in (directory / "report.html").read_text()


def test_a_report_of_a_run_without_findings_reads_no_other_run(tmp_path, monkeypatch):
    directory = example.RUNS["valid"](tmp_path / "results" / "first" / "20261121T010000Z-run1")
    monkeypatch.setattr("fencepost.harness.memory.index.rows", lambda root: pytest.fail("read"))
    assert remembered_of(open_run(directory), tmp_path / "results", NOTHING_KNOWN) == ()


def test_findings_of_which_the_same_is_remembered_are_in_one_sentence():
    rows = [
        FindingRow(id=1, anomaly=name, fingerprint=mark * 12, sentence="") for name, mark in (("a", "1"), ("b", "2"), ("c", "3"))
    ]
    over = [History(row.fingerprint, Standing.NEW, 1, 1, "2026-11-30", "2026-11-30") for row in rows[:2]]
    known = History("3" * 12, Standing.KNOWN, 2, 2, "2026-11-29", "2026-11-30")
    made = [*(Remembered(row, history) for row, history in zip(rows[:2], over, strict=True)), Remembered(rows[2], known)]
    assert sentences(made) == (
        f"fingerprints, new: there is no earlier round: a {'1' * 12}, b {'2' * 12}",
        f"c, fingerprint {'3' * 12}: known (on 2 of 2 rounds, since 2026-11-29)",
    )
    assert sentences([Remembered(row) for row in rows[:2]]) == (f"fingerprints: a {'1' * 12}, b {'2' * 12}",)
    assert sentences(()) == ()
