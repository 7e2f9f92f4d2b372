"""Annotations of a round for GitHub Actions: lines that a runner shows beside the campaign file and on the job's page.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions: a command is a line
`::error KEY=VALUE,...::MESSAGE`; `%`, carriage return and newline are escaped, and in values `:` and `,` too. A runner shows ten
of each kind for a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fencepost.harness.api.words import plural
from fencepost.harness.page_text import shortened
from fencepost.harness.rounds.outcome import State, TestOutcome, outcomes, report_of, sentences, untrusted
from fencepost.harness.rounds.record import Round
from fencepost.harness.visible_text import visible

MOST = 10  # that a runner shows
LONGEST = 1_000  # letters of a message


def round_annotations(round: Round, folder: Path, workspace: Path) -> list[str]:
    """The lines for a round: an error for each test that is red, a warning for what was left out.

    folder: of the campaign. workspace: the folder that paths of files are relative to; a file elsewhere is not named.
    """
    tests = outcomes(round, folder)
    lines = [command("error", {"title": round.campaign}, broken)] if (broken := untrusted(round)) else []
    red = [test for test in tests if test.state in (State.VIOLATED, State.UNKNOWN, State.BROKEN) and not test.test.is_control]
    room = MOST - len(lines)
    shown = red if len(red) <= room else red[: room - 1]
    lines += [_of_test(test, round, folder, workspace) for test in shown]
    if len(red) > len(shown):
        more = plural(len(red) - len(shown), "more test is", "more tests are")
        lines.append(command("error", {"title": round.campaign}, f"{more} not as expected"))
    if round.missing:
        left = f"{len(round.missing)} of {plural(len(round.own), 'run')} not performed"
        lines.append(command("warning", {"title": round.campaign}, left))
    return lines


def _of_test(test: TestOutcome, round: Round, folder: Path, workspace: Path) -> str:
    where = {}
    if test.test.line and (file := _within(Path(round.path), workspace)):
        where = {"file": file, "line": str(test.test.line)}
    reports = [str(report) for run in test.red_runs if (report := report_of(run, folder))][:1]
    parts = [shortened(test.words, LONGEST), *sentences(test.red_runs)[:1], *reports]
    return command("error", {**where, "title": f"{round.campaign}: {test.test.name}"}, "\n".join(parts))


def _within(path: Path, workspace: Path) -> str:
    """A path relative to the workspace; empty when it lies elsewhere."""
    try:
        return path.resolve().relative_to(workspace.resolve()).as_posix()
    except (OSError, ValueError):
        return ""


def command(kind: str, properties: Mapping[str, str], message: str) -> str:
    """A workflow command as a line."""
    pairs = ",".join(f"{key}={_value(visible(text, ''))}" for key, text in properties.items())
    return f"::{kind} {pairs}::{_data(visible(message, chr(10)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
