"""The files of a run's directory (docs/run-directory.md): the only reader of each, and the writers of its documents."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec

from fencepost.harness.api import CampaignError, HarnessError
from fencepost.harness.api.beneath import json_text, limited, names, regular, write_json, write_text
from fencepost.harness.api.evidence import IN_LINES, Evidence, Gap, GapKind, HistoryFile, Manifest, missing_evidence
from fencepost.harness.api.files import Checksum, checksum
from fencepost.harness.api.history import RECEIPTS
from fencepost.harness.api.run import MOST_BYTES, Plan, Problem, Receipts, Run, RunFile, table_problem
from fencepost.harness.api.values import DAMAGE_SCHEMA
from fencepost.harness.api.verdict_document import ReceiptDocument, VerdictDocument
from fencepost.harness.history.lines import history_file

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST_VALUES = 500_000  # of a document: each takes more memory than it has bytes
MOST_LEVELS = 64  # of lists and objects in a document
MOST_RECEIPTS, MOST_RECEIPT_BYTES = 100_000, 128 << 20  # of the faults of a run, unpacked
MOST_GAPS = 2_000  # that are written
_FOLDERS = (RunFile.LINES, RunFile.JUDGEMENTS)  # that a check reads beside the documents
_SHORTER = ((None, None), (20, 100), (5, 20), (2, 5))  # operations and records of a finding, findings of an anomaly
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
        content = _read_json(directory, file, shape)
        if isinstance(content, Problem):
            problems[file] = content
            return {}
        return content

    problems |= {problem.file: problem for folder in _FOLDERS if (problem := _folder_problem(directory, folder))}
    plan = document(RunFile.PLAN, Plan)
    damage = _read_damage(directory, plan)
    if isinstance(damage, Problem):
        problems[RunFile.DAMAGE], damage = damage, Damage(())
    manifest = document(RunFile.MANIFEST, Manifest)
    unattested = [
        *_unattested(directory, plan, damage, RunFile.DAMAGE in problems),
        *_without_manifest(plan, manifest, damage),
        *_other_tables(directory, plan, manifest),
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
        read_roster=partial(_read_roster, directory),
        read_receipts=partial(_read_receipts, directory, damage.checksums.get(RunFile.RECEIPTS)),
    )


def _folder_problem(directory: Path, folder: str) -> Problem | None:
    """The problem with a folder that is there, and is none of the run: a link, or no folder at all."""
    try:
        names(directory, folder)
    except OSError as error:
        return Problem(folder, error.strerror or str(error))
    return None


def read_verdict(run: Run) -> Run:
    """The run with the verdict that lies where its judgement's files do (`Run.judgement`)."""
    document = _read_json(run.directory, run.place(RunFile.VERDICT), VerdictDocument)
    if isinstance(document, Problem):
        return run.with_judgement(run.judgement, problem=document)
    return run.with_judgement(run.judgement, document)


def read_plan(directory: Path) -> Plan:
    """The plan of a run that is to be performed. Raises HarnessError when there is none that can be read."""
    document = _read_json(directory, RunFile.PLAN, Plan)
    if isinstance(document, Problem):
        raise HarnessError(f"{directory}: {document}; is this a run's directory?")
    return cast(Plan, document)


class _LeftBehind(TypedDict, total=False):
    left: list[str]


def _read_json(directory: Path, file: str, shape: Any) -> Any:
    """The JSON document in a file, if it has this shape, with the keys that the shape does not know; or the problem with it."""
    name = PurePosixPath(file).name
    try:
        content = limited(directory, file, MOST_BYTES[name])
        if _values_in(content) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        document = _decoded(content.decode("utf-8"))
        msgspec.convert(document, shape)
    except FileNotFoundError as error:
        return Problem(name, str(error), missing=True)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        return Problem(name, getattr(error, "strerror", None) or described(error))
    return document


def _values_in(content: bytes) -> int:
    """The number of values of a JSON document, or a little more: before it is parsed."""
    return sum(map(content.count, (b",", b"[", b"{")))


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
    run: the run; empty: not recorded.
    """

    gaps: tuple[Gap, ...]
    merged: tuple[str, ...] | None = None
    checksums: Mapping[str, Checksum] = field(default_factory=dict)
    run: str = ""


def _read_damage(directory: Path, plan: Plan) -> Damage | Problem:
    """What merging said of the history. What it said of another run's says nothing of the tables that are here."""
    document = _read_json(directory, RunFile.DAMAGE, list[str] | Damage)
    if isinstance(document, Problem):
        return document
    if isinstance(document, list):  # as it was before there were gaps: a sentence each
        return Damage(tuple(Gap(file=RunFile.LINES, why=sentence) for sentence in document))
    damage = msgspec.convert(document, Damage)
    if damage.run and plan.get("run", damage.run) != damage.run:
        return Problem(RunFile.DAMAGE, f"it is that of run {damage.run}")
    return damage


def plan_checksum(plan: Mapping[str, Any]) -> str:
    """SHA-256 of what a plan says, however it is written."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _changed_plan(plan: Plan, manifest: Mapping[str, Any]) -> Iterator[Gap]:
    """A plan that is not the one the run began with: whatever is judged by it may be wrong."""
    attested = manifest.get("plan")
    if plan and attested and attested != plan_checksum(plan):
        why = "was changed after the run had begun, so nobody knows what was promised (`--contract` judges by other promises)"
        yield Gap(file=RunFile.PLAN, why=why, kind=GapKind.UNRELIABLE, evidence=(*IN_LINES, Evidence.LOGS, Evidence.WIRE))


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
    return Gap(file=RunFile.MANIFEST, why=why, kind=GapKind.UNRELIABLE, evidence=(*IN_LINES, Evidence.LOGS, Evidence.WIRE))


def _without_manifest(plan: Plan, manifest: Mapping[str, Any], damage: Damage) -> Iterator[Gap]:
    """The gap of a run that lost its manifest after it was merged; merging itself notes a manifest that was lost before."""
    noted = any(gap.file == RunFile.MANIFEST and gap.kind is GapKind.UNRELIABLE for gap in damage.gaps)
    if plan.get("manifest") and not manifest and damage.merged is not None and not noted:
        yield lost_manifest()


def _other_tables(directory: Path, plan: Plan, manifest: Mapping[str, Any]) -> Iterator[Gap]:
    """The gap where a table that the run wrote is gone, or is another run's. That there was none only the manifest says.

    A run that was cut off had none yet: they are the last thing that a run writes. Manifests of former days name none; what was
    on the wire was not recorded then.
    """
    if not plan.get("manifest") or not manifest.get("complete"):
        return
    counted = manifest.get("tables")
    for file, evidence, long in ((RunFile.STORED, Evidence.LOGS, True), (RunFile.WIRE, Evidence.WIRE, False)):
        there = os.path.lexists(directory / file)
        if there and counted is not None and file not in counted:
            yield Gap(file=file, why="it does not belong to the run; it is not read", kind=GapKind.SURPLUS)
        elif not there and (long if counted is None else file in counted):
            why = "is missing" if counted else "is not there, and its manifest does not say whether there was one"
            yield Gap(file=file, why=why, kind=GapKind.MISSING, evidence=(evidence,))


def _has_lines(directory: Path) -> bool:
    return any(".jsonl" in name for name in _line_files(directory))


def _line_files(directory: Path) -> list[str]:
    """The names in the folder of a history's lines; none where it cannot be read, as where it is a link."""
    try:
        return names(directory, RunFile.LINES)
    except OSError:
        return []


def _left_out(plan: Mapping[str, Any]) -> Iterator[Gap]:
    """The gaps of an adopted history by a plan of former days, which had them among the contract."""
    contract = plan.get("contract")
    former = str(contract.get("left_out") or "") if isinstance(contract, dict) else ""
    for word, evidence in (("sends", (Evidence.SENDS,)), ("polls", (Evidence.POLLS, Evidence.POSITIONS))):
        if word in former.split(","):
            yield Gap(file=RunFile.LINES, why=f"lines that could not be read may have held {word}", evidence=evidence)


def _read_roster(directory: Path) -> tuple[HistoryFile, ...]:
    lines = [name for name in _line_files(directory) if name.endswith((".jsonl", ".jsonl.gz"))]
    return tuple(
        history_file(directory, f"{RunFile.LINES}/{name}") for name in lines if name.removesuffix(".gz") != RunFile.FAULT_LINES
    )


def _read_receipts(directory: Path, written: Checksum | None) -> Receipts | Problem:
    import pyarrow as pa  # here, and not above: who only lists runs needs no tables
    import pyarrow.parquet as pq

    path = directory / RunFile.RECEIPTS
    if problem := table_problem(path, RECEIPTS, written):
        return problem
    try:
        with pq.ParquetFile(regular(directory, RunFile.RECEIPTS), page_checksum_verification=True) as file:
            _demand_few(file.metadata)
            rows = file.read([column.name for column in RECEIPTS], use_threads=False).to_pylist()
        msgspec.convert(rows, list[ReceiptDocument])
        return tuple({**row, "evidence": _inner(row["evidence"]), "healing": _inner(row["healing"])} for row in rows)
    except FileNotFoundError as error:
        return Problem(path.name, str(error), missing=True)
    except (OSError, ValueError, msgspec.ValidationError, pa.ArrowException) as error:
        return Problem(path.name, getattr(error, "strerror", None) or described(error))


def _demand_few(table: pq.FileMetaData) -> None:
    """Raises ValueError for more receipts, or more bytes of them, than any run leaves."""
    size = sum(table.row_group(number).total_byte_size for number in range(table.num_row_groups))
    if table.num_rows > MOST_RECEIPTS or size > MOST_RECEIPT_BYTES:
        raise ValueError(f"it has {table.num_rows:,} rows of {size:,} bytes, more than a run leaves")


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
    """Write the plan. Raises CampaignError for one that is too long to be read again."""
    text = json_text(plan)
    if _too_long(RunFile.PLAN, text):
        most = f"{MOST_BYTES[RunFile.PLAN]:,} bytes or {MOST_VALUES:,} values"
        raise CampaignError([f"{RunFile.PLAN} would have more than {most}: plan a shorter test, or fewer faults"])
    write_text(directory, RunFile.PLAN, text, synced=True)


def write_damage(directory: Path, gaps: Iterable[Gap], merged: Iterable[str], run: str = "") -> None:
    """Write what the history lacks, which files were merged, and the checksums of the tables that were written from them.

    run: the run whose history it is; empty where it has no name yet.

    Of more gaps than `MOST_GAPS` the last that is written stands for the rest.
    """
    tables = (directory / file for file in (RunFile.HISTORY, RunFile.RECEIPTS))
    checksums = {path.name: checksum(path) for path in tables if path.is_file()}
    documents = [gap.document() for gap in shortened(list(gaps), MOST_GAPS)]
    document = {"schema": DAMAGE_SCHEMA, "run": run, "merged": list(merged), "gaps": documents, "checksums": checksums}
    write_json(directory, RunFile.DAMAGE, document)


def shortened(gaps: list[Gap], most: int) -> list[Gap]:
    """At most so many gaps, and one that stands for the rest: with the evidence that is missing in any of them."""
    rest = gaps[most:]
    if not rest:
        return gaps
    held = tuple(sorted(missing_evidence(rest)))
    return [*gaps[:most], replace(rest[0], why=f"and {len(rest)} more from here on", evidence=held)]


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write which files belong to the history."""
    write_json(directory, RunFile.MANIFEST, msgspec.to_builtins(manifest))


def write_verdict(directory: Path, verdict: Mapping[str, Any], place: str = RunFile.VERDICT) -> None:
    """Write the verdict of a run, or of another judgement of it (`Run.place`).

    Where it would be too long to be read again it shows fewer findings, and less of each; `anomalies.parquet` has all of them.
    """
    for shown, findings in _SHORTER:
        text = json_text(_with_fewer(verdict, shown, findings))
        if not _too_long(RunFile.VERDICT, text):
            break
    write_text(directory, place, text, synced=True)


def _with_fewer(verdict: Mapping[str, Any], shown: int | None, findings: int | None) -> Mapping[str, Any]:
    """A verdict with at most so many findings of each anomaly, and so many operations and records of each."""
    if shown is None or findings is None:
        return verdict
    seen: Counter[str] = Counter()
    fewer = []
    for finding in verdict.get("findings", ()):
        seen[finding["anomaly"]] += 1
        if seen[finding["anomaly"]] <= findings:
            fewer.append({**finding, **{key: finding[key][:shown] for key in ("operations", "records") if key in finding}})
    return {**verdict, "findings": fewer}


def _too_long(file: str, text: str) -> bool:
    content = text.encode("utf-8", errors="backslashreplace")
    return len(content) > MOST_BYTES[file] or _values_in(content) > MOST_VALUES
