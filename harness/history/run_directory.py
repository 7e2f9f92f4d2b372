"""The files of a run's directory (docs/run-directory.md): the only reader of each, and the writers of its documents."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec

from fencepost.harness.api import HarnessError
from fencepost.harness.api.evidence import IN_LINES, Evidence, Gap, GapKind, HistoryFile, Manifest
from fencepost.harness.api.files import Checksum, checksum, limited, write_json
from fencepost.harness.api.history import RECEIPTS
from fencepost.harness.api.run import Plan, Problem, Receipts, Run, RunFile, table_problem
from fencepost.harness.api.values import DAMAGE_SCHEMA
from fencepost.harness.api.verdict_document import ReceiptDocument, VerdictDocument
from fencepost.harness.history.lines import history_file

MOST_LEVELS = 64  # of lists and objects in a document
_HALVES, _LONE = re.compile(r"\\u[dD][89a-fA-F]"), re.compile("[\ud800-\udfff]")


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------
def open_run(directory: Path) -> Run:
    """The run in `directory`. Raises nothing: what is missing or damaged is in `Run.problems`.

    Every document is compared with its type in depth, so that nobody behind this has to look again.
    """
    problems: dict[str, Problem] = {}

    def document(file: str, shape: Any) -> Any:
        content = _read_json(directory / file, shape)
        if isinstance(content, Problem):
            problems[file] = content
            return {}
        return content

    plan = document(RunFile.PLAN, Plan)
    damage = _read_damage(directory / RunFile.DAMAGE)
    if isinstance(damage, Problem):
        problems[RunFile.DAMAGE], damage = damage, Damage(())
    manifest = document(RunFile.MANIFEST, Manifest)
    unattested = [
        *_unattested(directory, plan, damage, RunFile.DAMAGE in problems),
        *_without_manifest(plan, manifest, damage),
        *_other_logs(directory, plan, manifest),
    ]
    attested = msgspec.convert(manifest, Manifest) if manifest else None
    return Run(
        directory=directory,
        plan=plan,
        manifest=attested,
        gaps=(*damage.gaps, *_left_out(plan), *unattested, *_changed_plan(plan, manifest)),
        merged=damage.merged,
        checksums={**damage.checksums, **(attested.tables if attested else {})},
        left_behind=tuple(document(RunFile.LEFT_BEHIND, _LeftBehind).get("left", ())),
        verdict=document(RunFile.VERDICT, VerdictDocument),
        problems=problems,
        read_roster=partial(_read_roster, directory / RunFile.LINES),
        read_receipts=partial(_read_receipts, directory / RunFile.RECEIPTS, damage.checksums.get(RunFile.RECEIPTS)),
    )


def read_verdict(run: Run) -> Run:
    """The run with the verdict that lies where its judgement's files do (`Run.judgement`)."""
    document = _read_json(run.path(RunFile.VERDICT), VerdictDocument)
    if isinstance(document, Problem):
        return run.with_judgement(run.judgement, problem=document)
    return run.with_judgement(run.judgement, document)


def read_plan(directory: Path) -> Plan:
    """The plan of a run that is to be performed. Raises HarnessError when there is none that can be read."""
    document = _read_json(directory / RunFile.PLAN, Plan)
    if isinstance(document, Problem):
        raise HarnessError(f"{directory}: {document}; is this a run's directory?")
    return cast(Plan, document)


class _LeftBehind(TypedDict, total=False):
    left: list[str]


def _read_json(path: Path, shape: Any) -> Any:
    """The JSON document in a file, if it has this shape, with the keys that the shape does not know; or the problem with it."""
    try:
        document = _decoded(limited(path).decode("utf-8"))
        msgspec.convert(document, shape)
    except FileNotFoundError as error:
        return Problem(path.name, str(error), missing=True)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        return Problem(path.name, getattr(error, "strerror", None) or described(error))
    return document


def _decoded(text: str) -> Any:
    """JSON that can be shown: half of a surrogate pair, which no encoding holds, becomes its escape.

    Raises ValueError and RecursionError: no JSON, or nested more deeply than anything of ours is.
    """
    document = json.loads(text)
    if _HALVES.search(text):
        document = json.loads(_LONE.sub(lambda half: f"\\\\u{ord(half[0]):04x}", json.dumps(document, ensure_ascii=False)))
    if _deeper_than(document, MOST_LEVELS):
        raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
    return document


def _deeper_than(document: Any, most: int) -> bool:
    level = [document] if isinstance(document, (dict, list)) else []
    for _ in range(most):
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return False
    return True


@dataclass(frozen=True)
class Damage:
    """`damage.json`.

    gaps: what the history lacks.
    merged: the names of the files that were merged; None: not recorded.
    checksums: of the tables that were written.
    """

    gaps: tuple[Gap, ...]
    merged: tuple[str, ...] | None = None
    checksums: Mapping[str, Checksum] = field(default_factory=dict)


def _read_damage(path: Path) -> Damage | Problem:
    document = _read_json(path, list[str] | Damage)
    if isinstance(document, Problem):
        return document
    if isinstance(document, list):  # as it was before there were gaps: a sentence each
        return Damage(tuple(Gap(file=RunFile.LINES, why=sentence) for sentence in document))
    return msgspec.convert(document, Damage)


def plan_checksum(plan: Mapping[str, Any]) -> str:
    """SHA-256 of what a plan says, however it is written."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _changed_plan(plan: Plan, manifest: Mapping[str, Any]) -> Iterator[Gap]:
    """A plan that is not the one the run began with: whatever is judged by it may be wrong."""
    attested = manifest.get("plan")
    if plan and attested and attested != plan_checksum(plan):
        why = "was changed after the run had begun, so nobody knows what was promised (`--contract` judges by other promises)"
        yield Gap(file=RunFile.PLAN, why=why, kind=GapKind.UNRELIABLE, evidence=(*IN_LINES, Evidence.LOGS))


def _unattested(directory: Path, plan: Plan, damage: Damage, lost: bool) -> Iterator[Gap]:
    """The gaps of a run that had more beside its history than it has now; merging cannot write it again without lines."""
    if lost and plan.get("source"):
        why = "is missing or cannot be read, so nobody knows what could not be read of the history"
        yield Gap(file=RunFile.DAMAGE, why=why, kind=GapKind.UNRELIABLE, evidence=IN_LINES)
    if plan.get("manifest") and RunFile.HISTORY not in damage.checksums and not _has_lines(directory):
        why = f"is missing or damaged, as are the lines of the history: nobody attests that {RunFile.HISTORY} is as it was merged"
        yield Gap(file=RunFile.DAMAGE, why=why, kind=GapKind.UNRELIABLE, evidence=tuple(Evidence))
    if RunFile.RECEIPTS in damage.checksums and not os.path.lexists(directory / RunFile.RECEIPTS):
        yield Gap(file=RunFile.RECEIPTS, why="is missing", kind=GapKind.MISSING, evidence=(Evidence.RECEIPTS,))


def lost_manifest() -> Gap:
    """The gap of a run whose manifest is lost: anything may be lost or changed."""
    why = "is lost or damaged, so nobody attests that the history is as it was written"
    return Gap(file=RunFile.MANIFEST, why=why, kind=GapKind.UNRELIABLE, evidence=(*IN_LINES, Evidence.LOGS))


def _without_manifest(plan: Plan, manifest: Mapping[str, Any], damage: Damage) -> Iterator[Gap]:
    """The gap of a run that lost its manifest after it was merged; merging itself notes a manifest that was lost before."""
    noted = any(gap.file == RunFile.MANIFEST and gap.kind is GapKind.UNRELIABLE for gap in damage.gaps)
    if plan.get("manifest") and not manifest and damage.merged is not None and not noted:
        yield lost_manifest()


def _other_logs(directory: Path, plan: Plan, manifest: Mapping[str, Any]) -> Iterator[Gap]:
    """The gap where the table of the brokers' logs is gone, or is another run's. That there was none only the manifest says.

    A run that was cut off had none yet: it is the last thing that a run writes.
    """
    if not plan.get("manifest") or not manifest.get("complete"):
        return
    counted, there = manifest.get("tables"), os.path.lexists(directory / RunFile.STORED)
    if there and counted is not None and RunFile.STORED not in counted:
        yield Gap(file=RunFile.STORED, why="it does not belong to the run; it is not read", kind=GapKind.SURPLUS)
    elif not there and (counted is None or RunFile.STORED in counted):
        why = "is missing" if counted else "is not there, and its manifest does not say whether there was one"
        yield Gap(file=RunFile.STORED, why=why, kind=GapKind.MISSING, evidence=(Evidence.LOGS,))


def _has_lines(directory: Path) -> bool:
    return any((directory / RunFile.LINES).glob("*.jsonl*"))


def _left_out(plan: Mapping[str, Any]) -> Iterator[Gap]:
    """The gaps of an adopted history by a plan of former days, which had them among the contract."""
    contract = plan.get("contract")
    former = str(contract.get("left_out") or "") if isinstance(contract, dict) else ""
    for word, evidence in (("sends", (Evidence.SENDS,)), ("polls", (Evidence.POLLS, Evidence.POSITIONS))):
        if word in former.split(","):
            yield Gap(file=RunFile.LINES, why=f"lines that could not be read may have held {word}", evidence=evidence)


def _read_roster(folder: Path) -> tuple[HistoryFile, ...]:
    paths = sorted({*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")})
    return tuple(history_file(path) for path in paths if path.name.removesuffix(".gz") != RunFile.FAULT_LINES)


def _read_receipts(path: Path, written: Checksum | None) -> Receipts | Problem:
    import pyarrow as pa  # here, and not above: who only lists runs needs no tables
    import pyarrow.parquet as pq

    if problem := table_problem(path, RECEIPTS, written):
        return problem
    try:
        rows = pq.ParquetFile(path).read([column.name for column in RECEIPTS], use_threads=False).to_pylist()
        msgspec.convert(rows, list[ReceiptDocument])
        return tuple({**row, "evidence": _inner(row["evidence"]), "healing": _inner(row["healing"])} for row in rows)
    except FileNotFoundError as error:
        return Problem(path.name, str(error), missing=True)
    except (OSError, ValueError, msgspec.ValidationError, pa.ArrowException) as error:
        return Problem(path.name, getattr(error, "strerror", None) or described(error))


def _inner(text: str | None) -> Any:
    """JSON kept as text inside a column; the text itself when it is not JSON, or is nested too deeply."""
    try:
        return _decoded(text) if text else {}
    except (ValueError, RecursionError):
        return text


def described(error: Exception) -> str:
    """An exception in one line: its type, and the beginning of its text."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------
def write_plan(directory: Path, plan: Mapping[str, Any]) -> None:
    write_json(directory / RunFile.PLAN, plan)


def write_damage(directory: Path, gaps: Iterable[Gap], merged: Iterable[str]) -> None:
    """Write what the history lacks, which files were merged, and the checksums of the tables that were written from them."""
    tables = (directory / file for file in (RunFile.HISTORY, RunFile.RECEIPTS))
    checksums = {path.name: checksum(path) for path in tables if path.is_file()}
    document = {"schema": DAMAGE_SCHEMA, "merged": list(merged), "gaps": [gap.document() for gap in gaps], "checksums": checksums}
    write_json(directory / RunFile.DAMAGE, document)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write which files belong to the history."""
    write_json(directory / RunFile.MANIFEST, msgspec.to_builtins(manifest))


def write_verdict(directory: Path, verdict: Mapping[str, Any]) -> None:
    """The verdict of a run, or of another judgement of it, into its directory."""
    write_json(directory / RunFile.VERDICT, verdict)
