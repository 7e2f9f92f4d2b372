"""The files of a run's directory (docs/run-directory.md): the only reader of each, and the writers of its documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from harness.api import DAMAGE_SCHEMA, Evidence, Gap, HarnessError, HistoryFile, Plan, Problem, Receipts, Run, RunFile


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------
def open_run(directory: Path) -> Run:
    """The run in `directory`. Raises nothing: what is missing or damaged is in `Run.problems`."""
    problems: dict[str, Problem] = {}

    def document(file: str) -> Any:
        found = _read_json(directory / file, dict)
        if isinstance(found, Problem):
            problems[file] = found
            return {}
        return found

    plan = document(RunFile.PLAN)
    damage = _read_damage(directory / RunFile.DAMAGE)
    if isinstance(damage, Problem):
        problems[RunFile.DAMAGE], damage = damage, Damage()
    return Run(
        directory=directory,
        plan=plan,
        gaps=(*damage.gaps, *_left_out(plan)),
        merged=damage.merged,
        left_behind=tuple(map(str, document(RunFile.LEFT_BEHIND).get("left", ()))),
        verdict=document(RunFile.VERDICT),
        problems=problems,
        read_roster=partial(_read_roster, directory / RunFile.LINES),
        read_receipts=partial(_read_receipts, directory / RunFile.RECEIPTS),
    )


def read_plan(directory: Path) -> Plan:
    """The plan of a run that is to be performed. Raises HarnessError when there is none that can be read."""
    found = _read_json(directory / RunFile.PLAN, dict)
    if isinstance(found, Problem):
        raise HarnessError(f"{directory}: {found}; is this a run's directory?")
    return cast(Plan, found)


def _read_json(path: Path, *kinds: type) -> Any:
    """The JSON value in a file, of one of these types; or the problem with it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        return Problem(path.name, str(error), missing=True)
    except (OSError, ValueError) as error:
        return Problem(path.name, str(error))
    if not isinstance(found, kinds):
        return Problem(path.name, f"it holds a {type(found).__name__}, not a {kinds[0].__name__}")
    return found


@dataclass(frozen=True)
class Damage:
    """`damage.json`: what the history lacks, and the names of the files that were merged (None: nobody noted it)."""

    gaps: tuple[Gap, ...] = ()
    merged: tuple[str, ...] | None = None


def _read_damage(path: Path) -> Damage | Problem:
    found = _read_json(path, dict, list)
    if isinstance(found, Problem):
        return found
    if isinstance(found, list):  # as it was before there were gaps: a sentence each
        return Damage(tuple(Gap(file=RunFile.LINES, why=str(sentence)) for sentence in found))
    try:
        return msgspec.convert(found, Damage)
    except msgspec.ValidationError as error:
        return Problem(path.name, str(error))


def _left_out(plan: Mapping[str, Any]) -> Iterator[Gap]:
    """What an adopted history lacks by a plan of former days, which had it among the contract."""
    contract = plan.get("contract")
    former = str(contract.get("left_out") or "") if isinstance(contract, dict) else ""
    for word, evidence in (("sends", (Evidence.SENDS,)), ("polls", (Evidence.POLLS, Evidence.POSITIONS))):
        if word in former.split(","):
            yield Gap(file=RunFile.LINES, why=f"lines that could not be read may have held {word}", evidence=evidence)


def _read_roster(folder: Path) -> tuple[HistoryFile, ...]:
    paths = sorted(path for path in folder.glob("*.jsonl") if path.name != RunFile.FAULT_LINES)
    return tuple(_history_file(path) for path in paths)


def _history_file(path: Path) -> HistoryFile:
    try:
        with path.open(encoding="utf-8") as file:
            header = json.loads(file.readline())
    except (OSError, ValueError):
        return HistoryFile(path.name)
    known = {key: header.get(key) for key in ("slot", "node", "role")} if isinstance(header, dict) else {}
    return HistoryFile(path.name, **known)


def _read_receipts(path: Path) -> Receipts | Problem:
    import pyarrow as pa  # here, and not above: who only lists runs needs no tables
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
        return tuple({**row, "evidence": _inner(row["evidence"]), "healing": _inner(row["healing"])} for row in rows)
    except FileNotFoundError as error:
        return Problem(path.name, str(error), missing=True)
    except (OSError, KeyError, pa.ArrowException) as error:
        return Problem(path.name, described(error))


def _inner(text: str | None) -> Any:
    """JSON kept as text inside a column; the text itself when it is not JSON."""
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text


def described(error: Exception) -> str:
    """An exception in one line: its type, and the beginning of its text."""
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------
def write_plan(directory: Path, plan: Mapping[str, Any]) -> None:
    write_json(directory / RunFile.PLAN, plan)


def write_damage(directory: Path, gaps: Iterable[Gap], merged: Iterable[str]) -> None:
    """What the history lacks, and which files were merged."""
    document = {"schema": DAMAGE_SCHEMA, "merged": list(merged), "gaps": [gap.document() for gap in gaps]}
    write_json(directory / RunFile.DAMAGE, document)


def write_left_behind(directory: Path, sentences: Iterable[str]) -> None:
    """What a run could not remove from a cluster that is not ours, a sentence each with the remedy."""
    write_json(directory / RunFile.LEFT_BEHIND, {"left": list(sentences)})


def write_verdict(directory: Path, verdict: Mapping[str, Any]) -> None:
    write_json(directory / RunFile.VERDICT, verdict)


def write_json(path: Path, obj: Any) -> None:
    """Write `obj` as JSON, complete or not at all: a reader never sees half a file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(obj, file, indent=1, ensure_ascii=False, default=str)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
