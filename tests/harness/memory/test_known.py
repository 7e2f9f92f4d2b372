"""Known findings: the file, and runs beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.memory.known import NOTHING_KNOWN, judge_known, known_of, known_sentences, read_known, unmatched
from fencepost.harness.memory.rows import FindingRow, RunRow

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
    assert (judged.expired, judged.new, judged.unexpected, judged.as_expected) == ((), (), [], True)


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
    assert judged.unexpected == ["torn-transaction"]
    assert judge_known(RUN, NOTHING_KNOWN, TODAY).new == (finding(A),)


@pytest.mark.parametrize(("day", "expired"), [(date(2027, 1, 31), False), (date(2027, 2, 1), True)])
def test_an_acknowledgement_holds_until_the_end_of_its_day(tmp_path, day, expired):
    judged = judge_known(RUN, known(tmp_path, ENTRY), day)
    assert judged.as_expected is not expired
    assert len(judged.expired) == expired
    assert judged.unexpected == ["torn-transaction"] * expired


def test_an_entry_that_no_run_has_is_named(tmp_path):
    of = known(tmp_path, ENTRY + ENTRY.replace(A, B))
    assert [entry.fingerprint for entry in unmatched(of, [RUN])] == [B]
    expected = replace(RUN, met=True, unexpected=())  # as the test expects: it is there all the same
    assert [entry.fingerprint for entry in unmatched(of, [expected])] == [B]


def test_what_is_said_at_the_end(tmp_path):
    of = known(tmp_path, ENTRY + ENTRY.replace(A, B))
    now, later = judge_known(RUN, of, TODAY), judge_known(RUN, of, date(2028, 1, 1))
    assert [line.replace(f"{tmp_path}/", "") for line in known_sentences([now, now], unmatched(of, [RUN]))] == [
        "known: torn-transaction: KAFKA-17754: a late EndTxn (https://issues.apache.org/jira/browse/KAFKA-17754), in 2 runs; "
        "acknowledged until 2027-01-31 (known.toml:1)",
        f"not seen: {B}, KAFKA-17754: a late EndTxn (https://issues.apache.org/jira/browse/KAFKA-17754); acknowledged until "
        "2027-01-31 (known.toml:6): remove it if it is gone",
    ]
    [line] = known_sentences([later])
    assert line.startswith("expired: torn-transaction: KAFKA-17754")
    assert line.endswith("mend it, or renew the entry")
