"""`summary.md` of a round: what is red in full, what is green in a line each, at most a screenful or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fencepost.harness.api.errors import Exit
from fencepost.harness.api.words import plural
from fencepost.harness.page_text import fenced, for_markdown, shortened
from fencepost.harness.rounds.estimates import in_words
from fencepost.harness.rounds.outcome import State, TestOutcome, outcomes, report_of, round_exit, sentences, untrusted
from fencepost.harness.rounds.record import Round, RoundRun

MOST_IN_FULL, MOST_LINES = 8, 40  # tests
MOST_REPORTS, LONGEST = 3, 400  # of a test, and letters of a sentence
EXITS = {
    Exit.VALID: "all as expected",
    Exit.INVALID: "against expectation",
    Exit.UNKNOWN: "not known whether all is as expected",
    Exit.UNUSABLE: "not everything could be performed",
    Exit.HARNESS_BROKE: "fencepost itself broke",
}


def summary(round: Round, folder: Path) -> str:
    """The document as a text. folder: of the campaign."""
    tests = outcomes(round, folder)
    red = [test for test in tests if test.state not in (State.MET, State.LEFT_OUT)]
    lines = [*_head(round, tests), *(line for test in red[:MOST_IN_FULL] for line in _in_full(test, folder))]
    lines += _listed("Also red", red[MOST_IN_FULL:])
    lines += _listed("Left out", [test for test in tests if test.state is State.LEFT_OUT])
    lines += _listed("As expected", [test for test in tests if test.state is State.MET])
    return "\n".join(lines).rstrip("\n") + "\n"


def _head(round: Round, tests: Sequence[TestOutcome]) -> list[str]:
    """The answer in a line, after the warning that no answer can be trusted; then the round's data."""
    broken, code = untrusted(round), round_exit(round)
    counts = Counter(test.state for test in tests)
    counted = [f"{counts[state]} {state.value}" for state in State if counts[state]]
    known = ", with known findings" if code is Exit.VALID and any(test.acknowledged for test in tests) else ""
    shard = f" · shard {round.shard} of {round.shards}" if round.shards > 1 and round.shard else ""
    data = f"{plural(len(round.own), 'run')} in {in_words(round.spent_s)} · round {round.round} · seed {round.seed}{shard}"
    running = "" if round.ended or round.exit is not None else " (the round has not ended)"
    return [
        *([f"**{_plain(broken[:1].upper() + broken[1:])}**", ""] if broken else []),
        f"## {_plain(round.campaign)}: {EXITS[code]}{known}{running}",
        "",
        f"{plural(len(tests), 'test')}: {', '.join(counted)}. {data}",
        "",
        *(f"* {_plain(shortened(note, LONGEST))}" for note in _notes(round, tests)),
        "",
    ]


def _notes(round: Round, tests: Sequence[TestOutcome]) -> list[str]:
    cut_off = [f"{directory}: was cut off, and its test performed again" for directory in round.cut_off]
    again = [f"{test.test.name}: {sentence}" for test in tests for sentence in test.performed_again]
    known = [f"{test.test.name}: known findings: {sentence}" for test in tests for sentence in test.acknowledged]
    notes = [*round.notes, *cut_off, *again, *round.remembered, *known]
    return [*notes[:MOST_IN_FULL], *([f"and {len(notes) - MOST_IN_FULL} more notes"] if len(notes) > MOST_IN_FULL else [])]


def _in_full(test: TestOutcome, folder: Path) -> list[str]:
    """A test with its first findings, its reports, and the command that repeats its first run."""
    reports = [report for run in test.red_runs if (report := report_of(run, folder))]
    more = len(reports) - MOST_REPORTS
    return [
        f"### {_plain(test.test.name)}: {test.state.value}",
        "",
        _plain(shortened(test.words, LONGEST)),
        "",
        *(f"* {_plain(shortened(sentence, LONGEST))}" for sentence in _reasons(test.red_runs)),
        *(f"* report: {_plain(str(report))}" for report in reports[:MOST_REPORTS]),
        *([f"* and {plural(more, 'more report')}"] if more > 0 else []),
        "",
        *(str(fenced(run.command)) for run in test.red_runs[:1]),
        "",
    ]


def _reasons(runs: Sequence[RoundRun]) -> list[str]:
    """The errors of some runs, and the sentences of their first findings."""
    errors = [run.last.error for run in runs if run.last and run.last.error]
    return list(dict.fromkeys([*errors, *sentences(runs)]))[:MOST_REPORTS]


def _listed(title: str, tests: Sequence[TestOutcome]) -> list[str]:
    """A line for each test."""
    if not tests:
        return []
    rows = [f"* {_plain(test.test.name)}: {_plain(shortened(test.words, LONGEST // 4))}" for test in tests[:MOST_LINES]]
    more = len(tests) - MOST_LINES
    return [f"### {title}", "", *rows, *([f"* and {plural(more, 'more test')}"] if more > 0 else []), ""]


def _plain(text: str) -> str:
    """Foreign text in a line of Markdown."""
    return str(for_markdown(text))
