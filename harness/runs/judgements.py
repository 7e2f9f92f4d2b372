"""Judgements of a run beside its own: by another contract, or with further checks. Each has its place, `judgements/<name>/`.

A run's own judgement is the one that its plan asks for. Nothing else overwrites its verdict and its report.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencepost.harness.api.beneath import make_folder, names
from fencepost.harness.api.contract_layers import overlaid_contract, planned_contract
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history.results_folder import is_run
from fencepost.harness.history.run_directory import open_run, read_verdict
from fencepost.harness.runs.store import slug

LONGEST_NAME = 60
MOST_LISTED = 1_000  # judgements of a run


def judged_by(run: Run, contract: Mapping[str, str], checkers: Sequence[str]) -> Run:
    """The run as it is to be judged by a contract laid over its own, and with further checks (import paths).

    It is the run itself where neither changes anything; else its verdict, findings and report have a place of their own.
    """
    if _is_own(run, contract, checkers):
        return run
    name = _name(contract, checkers)
    make_folder(run.directory, f"{RunFile.JUDGEMENTS}/{name}")
    return open_judgement(run, name)


def open_judgement(run: Run, name: str) -> Run:
    """The run with the verdict of one of its other judgements; without, while there is none."""
    return read_verdict(run.with_judgement(name))


def judgements(run: Run) -> list[Run]:
    """All other judgements of a run, by name, as far as they can be listed (`unlisted`)."""
    opened = (open_judgement(run, name) for name in _names(run)[:MOST_LISTED])
    return [judgement for judgement in opened if not judgement.lacks(RunFile.VERDICT)]


def unlisted(run: Run) -> str:
    """The reason why not all judgements of a run can be listed; empty when they can."""
    if problem := run.problems.get(RunFile.JUDGEMENTS):
        return run.sentence(problem)
    more = len(_names(run)) - MOST_LISTED
    return f"{run}: {RunFile.JUDGEMENTS} has {more:,} more than the {MOST_LISTED:,} that are listed" if more > 0 else ""


def _names(run: Run) -> list[str]:
    try:
        return names(run.directory, RunFile.JUDGEMENTS)
    except OSError:
        return []


def judgement_at(path: Path) -> Run | None:
    """The judgement whose directory this is; None when it is none."""
    try:
        folder = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or no path at all
        return None
    if folder.parent.name != RunFile.JUDGEMENTS or not folder.is_dir() or not is_run(folder.parent.parent):
        return None
    return open_judgement(open_run(folder.parent.parent), folder.name)


def _is_own(run: Run, contract: Mapping[str, str], checkers: Sequence[str]) -> bool:
    own = planned_contract(run.contract)
    return overlaid_contract(own, contract) == own and set(checkers) <= set(run.plan.get("checkers") or ())


def _name(contract: Mapping[str, str], checkers: Sequence[str]) -> str:
    """The name of a judgement by contract and checkers, fit for a directory; the digits keep different ones apart."""
    parts = [*(f"{key}={value}" for key, value in sorted(contract.items())), *sorted(checkers)]
    digits = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:6]
    return f"{slug('-'.join(parts))[:LONGEST_NAME]}-{digits}"
