"""`junit.xml` of a round, in the form that CI systems read: a test case for each test, however often it is repeated.

A test against expectation is a failure, with the sentence of its first finding as the message. One without a verdict is an error:
something broke, or nobody knows. What was left out is skipped. The elements and attributes are those that the schemas of Jenkins,
GitLab and Ant's own JUnit task have in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from fencepost.harness.rounds.outcome import State, TestOutcome, outcomes, report_of, sentences, untrusted
from fencepost.harness.rounds.record import Round
from fencepost.harness.visible_text import visible

_NOT_IN_XML = re.compile("[\ufffe\uffff]")  # besides what `visible` writes as escapes
_ELEMENTS = {State.VIOLATED: "failure", State.UNKNOWN: "error", State.BROKEN: "error", State.LEFT_OUT: "skipped"}
LONGEST = 1_000  # letters of a message


def junit(round: Round, folder: Path) -> str:
    """The document as a text. folder: of the campaign."""
    tests = outcomes(round, folder)
    suites = ElementTree.Element("testsuites", {"name": "fencepost", **_counts(tests)})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": text(round.campaign), **_counts(tests)})
    suite.set("skipped", str(sum(test.state is State.LEFT_OUT for test in tests)))
    if round.sittings:
        suite.set("timestamp", text(round.sittings[0])[:19])
    _properties(suite, round)
    broken = untrusted(round)
    for test in tests:
        _case(suite, test, round, folder, broken if test.test.is_control else "")
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def text(foreign: str, unescaped: str = "") -> str:
    """A text as XML may hold it: control characters are written as escapes, those that no XML has as a replacement character."""
    return _NOT_IN_XML.sub("\ufffd", visible(foreign, unescaped))


def _counts(tests: Sequence[TestOutcome]) -> dict[str, str]:
    elements = [_element(test) for test in tests]
    seconds = sum(result.took_s for test in tests for result in test.results)
    return {
        "tests": str(len(tests)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "time": f"{seconds:.1f}",
    }


def _element(test: TestOutcome) -> str:
    """The name of a case's outcome; empty: as expected. A control that failed is no finding: the harness is broken."""
    name = _ELEMENTS.get(test.state, "")
    return "error" if name == "failure" and test.test.is_control else name


def _properties(suite: ElementTree.Element, round: Round) -> None:
    shard = f"{round.shard}/{round.shards}" if round.shards > 1 and round.shard else ""
    values = {"round": round.round, "seed": str(round.seed), "shard": shard, "fencepost": round.fencepost}
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in values.items():
        if value:
            ElementTree.SubElement(properties, "property", {"name": name, "value": text(value)})


def _case(suite: ElementTree.Element, test: TestOutcome, round: Round, folder: Path, broken: str) -> None:
    seconds = sum(result.took_s for result in test.results)
    name = {"name": text(test.test.name), "classname": text(round.campaign), "time": f"{seconds:.1f}"}
    case = ElementTree.SubElement(suite, "testcase", name)
    if element := _element(test):
        message = broken or next(iter(sentences(test.red_runs)), "") or test.words
        outcome = ElementTree.SubElement(case, element, {"message": text(message)[:LONGEST]})
        if element != "skipped":
            outcome.set("type", text(_kind(test)))
            outcome.text = text("\n".join(_details(test, folder)), "\n")
    output = [test.words, *(f"known findings: {sentence}" for sentence in test.acknowledged), *test.performed_again]
    ElementTree.SubElement(case, "system-out").text = text("\n".join(output), "\n")


def _kind(test: TestOutcome) -> str:
    """The type of a failure or an error: the anomalies that were not expected, or why there is no verdict."""
    if test.state is not State.VIOLATED:
        return "unknown" if test.state is State.UNKNOWN else "broken"
    if test.test.is_control:
        return "untrusted"
    unexpected = dict.fromkeys(name for result in test.results for name in result.unexpected)
    return ", ".join(unexpected) or "not found"


def _details(test: TestOutcome, folder: Path) -> list[str]:
    """The outcome, the first findings, and for each run that is not as expected its report and the command that repeats it."""
    lines = [test.words, "", *sentences(test.red_runs)]
    for run in test.red_runs:
        if run.last and run.last.error:
            lines.append(run.last.error)
        if report := report_of(run, folder):
            lines.append(f"report: {report}")
        lines.append(f"repeat: {run.command}")
    return lines
