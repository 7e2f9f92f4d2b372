"""The last lines of a round on the screen, and its results for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import err, out, print_line

if TYPE_CHECKING:
    from fencepost.harness.rounds.record import Round, RoundRecord


def print_round(record: RoundRecord) -> None:
    """Whether the harness can be trusted, what was not performed, the table, the reports, the round's documents, the seed."""
    from fencepost.harness.cli import display
    from fencepost.harness.rounds.outcome import untrusted
    from fencepost.harness.rounds.record import JUNIT, SUMMARY, results_of

    round = record.round
    results = results_of(round, record.folder)
    print_line()
    if broken := untrusted(round):
        print_line(broken)
        print_line()
    out().print(display.results_table(results))
    for line in display.report_lines(results):
        print_line(line)
    if len(round.own) == 1:
        print_line(f"repeat: {round.own[0].command}")
    print_line(f"round {round.round}: {record.directory / SUMMARY}, {record.directory / JUNIT}")
    print_line(f"seed {round.seed}")


def print_missing(round: Round) -> None:
    """A line for each reason why runs were not performed, on standard error."""
    from collections import Counter

    of = plural(len(round.own), "run")
    for reason, count in Counter(run.left_out for run in round.missing).items():
        text = f"left out: {count} of {of}: {reason}" if reason else f"stopped: {count} of {of} not performed"
        err().print(text, soft_wrap=True)


def round_document(record: RoundRecord) -> dict[str, Any]:
    """The results of a round for machines. left_out: how many planned runs were not performed."""
    from fencepost.harness.cli.display import as_json
    from fencepost.harness.rounds.outcome import round_exit, untrusted
    from fencepost.harness.rounds.record import results_of

    round = record.round
    return {
        "campaign": round.campaign,
        "seed": round.seed,
        "round": round.round,
        "directory": str(record.directory),
        "exit": int(round_exit(round)),
        "untrusted": untrusted(round),
        "left_out": len(round.missing),
        "runs": [as_json(result) for result in results_of(round, record.folder)],
    }
