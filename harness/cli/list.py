"""`fencepost list`: the runs in the results folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.values import Verdict
from fencepost.harness.api.verdict_document import judgement_terms
from fencepost.harness.cli.console import Json, Results, err, print_json, print_line, print_table
from fencepost.harness.visible_text import visible


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("list")(list_runs)


def list_runs(results: Results = None, json_: Json = False) -> None:
    """Every run that lies in the results, with its verdict; the newest last."""
    from fencepost.harness.history import results_folder
    from fencepost.harness.runs import store
    from fencepost.harness.runs.judgements import unlisted

    root = store.results_root(results)
    listed, problems = [], []
    for run in results_folder.each_run(root):
        if RunFile.PLAN in run.problems:
            problems.append(run.sentence(run.problems[RunFile.PLAN]))
        else:
            listed.append((results_folder.age(run), _with_judgements(run) if json_ else _rows(run)))
            problems += filter(None, [unlisted(run)])
    for sentence in [*sorted(problems), *results_folder.unreadable(root)]:
        err().print(sentence, soft_wrap=True)
    runs = [shown for _, shown in sorted(listed, key=lambda entry: entry[0])]
    if json_:
        print_json(runs)
    elif not runs:
        print_line(f"no runs below {root}")
    else:
        lines = [[visible(text, unescaped="") for text in row] for rows in runs for row in rows]
        print_table(("run", "campaign", "test", "created", "verdict"), lines)


def _rows(run: Run) -> list[tuple[str, ...]]:
    """A run, and below it its other judgements."""
    from fencepost.harness.runs.judgements import judgements

    others = [
        (run.id, "", f"judged by {judgement_terms(judgement.verdict) or '?'}", "", _outcome(judgement))
        for judgement in judgements(run)
    ]
    return [(run.id, run.campaign, run.test, run.created, _outcome(run)), *others]


def _with_judgements(run: Run) -> dict[str, Any]:
    from fencepost.harness.runs.judgements import judgements

    return {**_document(run), "judgements": [_judgement(judgement) for judgement in judgements(run)]}


def _document(run: Run) -> dict[str, Any]:
    """A run as `--json` shows it; `verdict` is empty while there is none. problems: sentences about files that cannot be read."""
    return {
        "directory": run.directory,
        "id": run.id,
        "campaign": run.campaign,
        "test": run.test,
        "created": run.created,
        "verdict": str(run.verdict.get("verdict", "")),
        "expectation_met": run.verdict.get("expectation_met"),
        "problems": [str(problem) for problem in run.problems.values() if not problem.missing],
    }


def _judgement(run: Run) -> dict[str, Any]:
    """Another judgement of a run, as `--json` shows it."""
    same = ("verdict", "expectation_met", "problems")
    terms = run.verdict.get("judged_by") or {}
    document = {"directory": run.path(RunFile.VERDICT).parent, **terms}
    return {**document, **{key: value for key, value in _document(run).items() if key in same}}


def _outcome(run: Run) -> str:
    if RunFile.VERDICT in run.problems and not run.lacks(RunFile.VERDICT):
        return str(run.problems[RunFile.VERDICT])
    return outcome_text(run.verdict)


def outcome_text(verdict: Mapping[str, Any]) -> str:
    """A verdict's document in a few words."""
    if not verdict.get("verdict"):
        return "not judged"
    word, met = str(verdict["verdict"]), verdict.get("expectation_met")
    if met is None:
        undecided = "expectation_met" in verdict and word != Verdict.UNKNOWN.value
        short = str(verdict.get("expectation") or "") if word == Verdict.VALID.value else ""
        return f"{word}, but {short}" if short else f"{word}, not known whether as expected" if undecided else word
    return f"{word}, {'as expected' if met else 'against expectation'}"
