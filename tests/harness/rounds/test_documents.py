"""`junit.xml` and `summary.md` of a round."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.fake_engine import FakeEngine
from support.rounds import night, rounds_of

from fencepost.harness.rounds.summary import summary

SCHEMA = {  # what the schemas of Jenkins, GitLab and Ant have in common: attributes, those that must be there, children in order
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, set(), ("testsuite",)),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
        {"name", "tests", "failures", "errors"},
        ("properties", "testcase"),
    ),
    "properties": (set(), set(), ("property",)),
    "property": ({"name", "value"}, {"name", "value"}, ()),
    "testcase": ({"name", "classname", "time"}, {"name", "classname"}, ("skipped", "error", "failure", "system-out")),
    "skipped": ({"message"}, set(), ()),
    "error": ({"message", "type"}, {"type"}, ()),
    "failure": ({"message", "type"}, {"type"}, ()),
    "system-out": (set(), set(), ()),
}


def demand_schema(element):
    allowed, needed, children = SCHEMA[element.tag]
    assert needed <= set(element.attrib) <= allowed, element.tag
    places = [children.index(child.tag) for child in element]
    assert places == sorted(places)
    for child in element:
        demand_schema(child)


def junit(record):
    root = ElementTree.parse(record.directory / "junit.xml").getroot()
    demand_schema(root)
    return root


def cases(record):
    return {case.get("name"): case for case in junit(record).iter("testcase")}


def test_every_test_is_a_case(fencepost):
    fencepost("campaign", night("valid", ("torn", "torn-letter"), "lost", "unknown", "broken", "bug"))
    [record] = rounds_of()
    [suite] = junit(record)
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {"name": "night", "tests": "6", "failures": "1", "errors": "3", "skipped": "0"}
    assert {element.get("name"): element.get("value") for element in suite.iter("property")}["seed"] == "7"
    outcome = {name: next(child.tag for child in case) for name, case in cases(record).items()}
    assert outcome == {
        "valid": "system-out", "torn": "system-out", "lost": "failure", "unknown": "error", "broken": "error", "bug": "error"
    }  # fmt: skip


def test_a_failure_has_the_sentence_of_its_finding_the_report_and_the_command(fencepost):
    fencepost("campaign", night("lost"))
    [record] = rounds_of()
    failure = cases(record)["lost"].find("failure")
    assert (failure.get("message"), failure.get("type")) == ("lost-letter: letter 7 lies in two parts", "lost-letter")
    assert f"report: results/night/{record.round.runs[0].last.directory}/report.html" in failure.text
    assert "repeat: fencepost campaign night.toml --only lost --seed 7" in failure.text


def test_repeats_are_one_case_that_says_k_of_n(fencepost):
    fencepost("campaign", night(("valid+torn", "torn-letter", "repeat = 3\n")))
    [record] = rounds_of()
    assert cases(record)["valid+torn"].findtext("system-out") == "1 of 3 hit: torn-letter"


@pytest.mark.parametrize("letter", ["\x1b", "\0", "\x0b", "\ufffe", "\uffff", "\ud83d", "\u202e", "\u0085"])
def test_what_xml_forbids_is_replaced_wherever_it_comes_from(fencepost, monkeypatch, letter):
    monkeypatch.setattr(fencepost.engine, "sentence", f"a{letter}b <script> & \"'")
    fencepost("campaign", night("lost"))
    [record] = rounds_of()
    message = cases(record)["lost"].find("failure").get("message")
    assert letter not in message
    assert message.endswith("b <script> & \"'")
    page = (record.directory / "summary.md").read_text()
    assert letter not in page or letter in "\ufffe\uffff"
    assert "<script>" not in page


def test_the_summary_has_red_in_full_and_green_in_a_line_each(fencepost):
    fencepost("campaign", night("valid", ("torn", "torn-letter"), "lost", "broken"))
    [record] = rounds_of()
    page = (record.directory / "summary.md").read_text()
    assert page.startswith("## night: not everything could be performed\n\n4 tests: 1 against expectation, 1 no verdict, 2 as")
    assert "### lost: against expectation" in page
    assert "lost-letter: letter 7 lies in two parts" in page
    assert "```\nfencepost campaign night.toml --only lost --seed 7\n```" in page
    assert "* valid: valid, as expected\n* torn: invalid, as expected: torn-letter\n" in page
    assert page.index("### lost") < page.index("* valid")


@pytest.mark.parametrize("fate", ["valid", "lost", "broken"])
def test_a_summary_is_a_screenful_or_two_however_many_tests_there_are(fencepost, fate):
    fencepost("campaign", night(fate))
    [record] = rounds_of()
    [test], [run] = record.round.tests, record.round.runs
    tests = tuple(replace(test, name=f"{fate}[{number}]") for number in range(60))
    runs = tuple(replace(run, number=number, test=test.name) for number, test in enumerate(tests))
    assert len(summary(replace(record.round, tests=tests, runs=runs), record.folder).splitlines()) < 200


def test_both_are_there_after_every_run(fencepost, monkeypatch):
    seen = []

    class Watching(fencepost.engine):
        def prepare(self, test, **given):
            seen.extend(
                re.findall(r"## night: .*", path.read_text())[0] for path in self.results.glob("night/rounds/*/summary.md")
            )
            return super().prepare(test, **given)

    fencepost.engine = Watching
    fencepost("campaign", night("valid", ("torn", "torn-letter")))
    assert seen == ["## night: not known whether all is as expected (the round has not ended)"] * 2


def test_junit_is_written_where_a_ci_system_looks_for_it(fencepost):
    Path("reports").mkdir()
    fencepost("campaign", night("lost"), "--junit", "reports/j.xml")
    [record] = rounds_of()
    assert Path("reports/j.xml").read_text() == (record.directory / "junit.xml").read_text()
    code, _, err = fencepost("campaign", night("lost"), "--junit", "nowhere/j.xml")
    assert (code, len(rounds_of())) == (254, 1)
    assert "--junit nowhere/j.xml: there is no folder nowhere" in err
    code, _, err = fencepost("campaign", night("lost"), "--junit", "reports")
    assert (code, len(rounds_of())) == (254, 1)
    assert "--junit reports: it is a folder" in err


def test_known_findings_are_named_wherever_a_round_is_shown(fencepost, monkeypatch):
    monkeypatch.setattr(fencepost.engine, "acknowledged", "KAFKA-17754 (9c1e6a0b7f42), until 2027-01-31")
    _, out, _ = fencepost("campaign", night(("torn", "torn-letter")))
    [record] = rounds_of()
    page = (record.directory / "summary.md").read_text()
    assert page.startswith("## night: all as expected, with known findings")
    assert "* torn: known findings: KAFKA-17754 (9c1e6a0b7f42), until 2027-01-31" in page
    assert cases(record)["torn"].findtext("system-out").endswith("\nknown findings: KAFKA-17754 (9c1e6a0b7f42), until 2027-01-31")
    assert "known findings: KAFKA-17754 (9c1e6a0b7f42), until 2027-01-31" in out.splitlines()


def test_a_round_says_what_is_new_and_what_is_gone(fencepost, monkeypatch):
    """Beside the last lines of earlier rounds: a bug that is not seen at first, then seen, then gone."""
    said = []
    for day, blind in enumerate([("torn",), (), ("torn",)], start=21):
        monkeypatch.setattr(FakeEngine, "created", f"2026-11-{day}T02:00:00Z")
        monkeypatch.setattr(FakeEngine, "blind", blind)
        _, out, _ = fencepost("campaign", night("torn"))
        said.append([line.partition(":")[0] for line in out.splitlines() if line.startswith(("new: torn: ", "gone: torn: "))])
    assert said == [[], ["new"], ["gone"]]
    seen, gone = [summary(record.round, record.folder) for record in rounds_of()[1:]]
    assert re.search(r"^\* new: torn: torn-letter, fingerprint [0-9a-f]{12}: letter 7 lies in two parts$", seen, re.M)
    assert re.search(r"^\* gone: torn: torn-letter, fingerprint [0-9a-f]{12}: on 1 of 3 rounds, since ", gone, re.M)
