"""Runs of every kind with damaged or missing evidence: unknown, and never an accusation that the whole run does not have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support import file_damage
from support.histories import KEPT, violated
from support.installed import INSTALLED
from support.recorded_kinds import KINDS, Recording, record
from support.recorded_lines import attest
from support.recorded_run import of_former_days

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.evidence import Evidence, evidence_of
from fencepost.harness.api.run import RunFile
from fencepost.harness.history import manifest
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.runs.merging import merged

PAGE = Path(__file__).parents[3] / "docs/run-directory.md"
SHORT_BLOCK = 128  # bytes: about a line, so that a damage takes few lines with it
FEW, MANY, EACH = 3, 13, 8  # damages of a run of each kind; by night so many runs, and so many damages of each
GONE = object()


def judged(folder: Path) -> dict[str, Any]:
    return judge(merged(open_run(folder)), here=True)


def answers(document: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in (*document["properties"], *document["allowed"])}


# --------------------------------------------------------------------------------------------------
# Damages
# --------------------------------------------------------------------------------------------------
def a_byte_set_to_0xff(path: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[rng.randrange(len(content))] = 0xFF
    path.write_bytes(bytes(content))


def neighbours_swapped(path: Path, rng: Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) > 1:
        at = rng.randrange(len(lines) - 1)
        lines[at : at + 2] = reversed(lines[at : at + 2])
    path.write_bytes(b"".join(lines))


def header_damaged(path: Path, rng: Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for at in rng.sample(range(min(2, len(lines))), min(1, len(lines))):
        lines[at] = b"\xff\xff\n"
    path.write_bytes(b"".join(lines))


WAYS = (
    a_byte_set_to_0xff,
    neighbours_swapped,
    header_damaged,
    file_damage.removed,
    file_damage.emptied,
    file_damage.cut,
    file_damage.beginning_cut,
    file_damage.a_line_removed,
    file_damage.cut_at_a_line,
    file_damage.a_line_twice,
    file_damage.lines_in_another_order,
    file_damage.another_file,
    file_damage.copied_beside,
    file_damage.nulls_at_the_end,
    file_damage.a_block_over_another,
)
SEEN_BY_CHECKSUMS = (file_damage.bytes_changed, file_damage.a_digit_changed, file_damage.another_value)


def whole(folder: Path) -> None:
    pass


def manifest_lost(folder: Path) -> None:
    (folder / RunFile.MANIFEST).unlink()


def cut_off(folder: Path) -> None:
    """The harness was killed: nobody counted the files."""
    document = json.loads((folder / RunFile.MANIFEST).read_text())
    uncounted = {"bytes": None, "lines": None, "blocks": ""}
    files = [{**file, **uncounted, "least": file["bytes"] * 6 // 10} for file in document["files"]]
    (folder / RunFile.MANIFEST).write_text(json.dumps({**document, "complete": False, "files": files, "tables": {}}))


def only_lines(folder: Path) -> None:
    """Somebody got the lines alone, and judges them as a history from elsewhere, by the same contract."""
    contract = open_run(folder).contract
    lines = folder.with_name("lines")
    (folder / RunFile.LINES).rename(lines)
    shutil.rmtree(folder)
    folder.mkdir()
    adopt(lines, folder)
    shutil.rmtree(lines)
    document = json.loads((folder / RunFile.PLAN).read_text())
    (folder / RunFile.PLAN).write_text(json.dumps({**document, "contract": {**document["contract"], **contract}}))


VARIANTS = (whole, whole, whole, of_former_days, manifest_lost, cut_off, only_lines)


def accused(root: Path, recording: Recording, rng: Random, base: dict[str, set[str]]) -> str:
    """The anomalies of which a damaged run is accused beyond the whole one, with what was done; empty: none."""
    variant = rng.choice(VARIANTS)
    if variant.__name__ not in base:
        base[variant.__name__] = set(violated(of_variant(root, recording, variant)))
    done: list[str] = []

    def damage(folder: Path) -> None:
        for _ in range(rng.choice((1, 1, 1, 2))):
            path = rng.choice(sorted(path for path in (folder / RunFile.LINES).iterdir() if path.is_file()))
            way = rng.choice((*WAYS, *(SEEN_BY_CHECKSUMS if variant is whole else ())))
            way(path, rng)
            done.append(f"{way.__name__} {path.name}")

    more = set(violated(of_variant(root, recording, variant, damage))) - base[variant.__name__]
    return f"{', '.join(sorted(more))}: {variant.__name__}, {', '.join(done)}" if more else ""


def of_variant(root: Path, recording: Recording, variant: Any, damage: Any = whole) -> dict[str, Any]:
    """The verdict on a recorded run that is damaged, of a variant that does not see it coming."""
    folder = record(root / "run", recording)
    variant(folder) if variant is not only_lines else None
    damage(folder)
    variant(folder) if variant is only_lines else None
    document = judged(folder)
    shutil.rmtree(folder)
    return document


def accusations(root: Path, kind: str, seeds: Sequence[int], each: int) -> Iterator[str]:
    for seed in seeds:
        base: dict[str, set[str]] = {}
        recording = KINDS[kind](Random(f"{kind} {seed}"))
        for number in range(each):
            if wrong := accused(root, recording, Random(f"{kind} {seed} {number}"), base):
                yield f"{kind} {seed} {number}: {wrong}"


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(manifest, "BLOCK", SHORT_BLOCK)


LAWFUL = [kind for kind in KINDS if kind != "odd"]  # where all goes wrong, what is missing turns one anomaly into another


@pytest.mark.parametrize("kind", LAWFUL)
def test_damaged_lines_accuse_nobody(tmp_path, kind):
    assert list(accusations(tmp_path, kind, [0], FEW)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", LAWFUL)
def test_a_thousand_damaged_runs_accuse_nobody(tmp_path, kind):
    assert list(accusations(tmp_path, kind, range(MANY), EACH)) == []


def test_a_short_writer_whose_first_lines_are_lost_skips_nothing(tmp_path):
    """A completion is the first line that is left: its operation begins behind those that are missing."""
    folder = record(tmp_path / "run", KINDS["transactions"](Random("transactions 7")))
    path = next(path for path in sorted((folder / RunFile.LINES).glob("c*")) if b'"role": "reader"' in path.read_bytes())
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"0", b"\xff", 1)
    path.write_bytes(b"".join(lines))
    document = judged(folder)
    assert (document["verdict"], violated(document)) == ("unknown", [])


@pytest.mark.parametrize("name", ['"value"', '"decided"', '"isolation"'])
def test_a_damaged_name_in_a_line_is_no_name_that_is_not_known(tmp_path, name):
    """Nobody attests these lines; one of them has a byte that is not UTF-8."""
    folder = record(tmp_path / "run", KINDS["transactions"](Random("transactions 7")))
    of_former_days(folder)
    files = sorted((folder / RunFile.LINES).glob("c*"))
    path = [path for path in files if name.encode() in path.read_bytes()][-1 if name == '"value"' else 0]
    content = path.read_bytes()
    at = content.rindex(name.encode()) + 2
    path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    document = judged(folder)
    assert any(path.name in gap["file"] and "UTF-8" in gap["why"] for gap in document["gaps"])
    assert violated(document) == []


# --------------------------------------------------------------------------------------------------
# Which answers stand without which file
# --------------------------------------------------------------------------------------------------
FILES = {
    "writer, member": evidence_of("writer"),
    "reader": evidence_of("reader"),
    "final reader, committed": evidence_of("final", "read_committed"),
    "final reader, uncommitted": evidence_of("final", "read_uncommitted"),
    "harness": evidence_of("harness"),
    "conductor": evidence_of("conductor"),
    RunFile.STORED: (Evidence.LOGS,),
    RunFile.WIRE: (Evidence.WIRE,),
}
BEGIN, END = "<!-- made by tests/harness/runs/test_gaps.py -->\n", "<!-- end -->"


def needed(check: str, file: str) -> bool:
    """True if nothing holds for a check without such a file."""
    return bool(set(INSTALLED[check].evidence.absence) & set(FILES[file]))


def table() -> str:
    head = f"| gone | {' | '.join(FILES)} |\n|---|{'---|' * len(FILES)}\n"
    rows = {check: " | ".join("unknown" if needed(check, file) else "" for file in FILES) for check in sorted(INSTALLED)}
    alike: dict[str, list[str]] = {}
    for check, cells in rows.items():
        alike.setdefault(cells, []).append(f"`{check}`")
    return head + "".join(f"| {', '.join(checks)} | {cells} |\n" for cells, checks in alike.items())


def test_the_page_says_which_answers_stand_without_which_file():
    text = PAGE.read_text()
    written = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert written == f"\n{table()}\n", table()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_holds_without_the_file_that_the_page_says_and_nobody_is_accused(tmp_path, kind):
    recording = KINDS[kind](Random(f"{kind} 0"))
    folder = record(tmp_path / "whole", recording)
    before = answers(judged(folder))
    held = {check for check, verdict in before.items() if verdict in KEPT}
    for file, role in files_of(folder):
        lacking = record(tmp_path / "lacking", recording)
        (lacking / file).unlink()
        document = judged(lacking)
        after = answers(document)
        assert {check for check in held if needed(check, role)} <= {
            name for name, verdict in after.items() if verdict == "unknown"
        }
        assert set(violated(document)) <= {check for check, verdict in before.items() if verdict == "violated"}
        shutil.rmtree(lacking)


def test_what_the_page_leaves_blank_still_holds(tmp_path):
    """A lawful run without its reader, or without the answers of the harness, is judged by all the rest."""
    recording = KINDS["transactions"](Random("transactions 0"))
    for role in ("reader", "harness"):
        folder = record(tmp_path / role, recording)
        before = answers(judged(folder))
        file = next(file for file, whose in files_of(folder) if whose == role)
        shutil.rmtree(folder)
        (record(folder, recording) / file).unlink()
        after = answers(judged(folder))
        blank = {check for check, verdict in before.items() if verdict in KEPT and not needed(check, role)}
        assert blank == {check for check in blank if after[check] in KEPT}


def files_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Files of the run's evidence, each with its row in `FILES`."""
    run = open_run(folder)
    for file in run.roster:
        role = f"final reader, {str(file.isolation).removeprefix('read_')}" if file.role == "final" else str(file.role)
        yield f"{RunFile.LINES}/{file.name}", "writer, member" if role in ("writer", "member") else role
    if (folder / RunFile.STORED).exists():
        yield RunFile.STORED, RunFile.STORED


# --------------------------------------------------------------------------------------------------
# What is gone is not what was never there
# --------------------------------------------------------------------------------------------------
@pytest.fixture
def fenced(tmp_path) -> Path:
    """A run whose brokers' logs were recorded."""
    return record(tmp_path / "run", KINDS["fencing"](Random("fencing 0")))


def epochs(folder: Path) -> dict[str, Any]:
    return next(row for row in judged(folder)["properties"] if row["name"] == "epoch-regression")


def rewritten(folder: Path, **more: Any) -> None:
    """Change keys of the manifest; GONE: without it."""
    document = {**json.loads((folder / RunFile.MANIFEST).read_text()), **more}
    kept = {key: value for key, value in document.items() if value is not GONE}
    (folder / RunFile.MANIFEST).write_text(json.dumps(kept))


@pytest.mark.parametrize("before", [False, True], ids=["not merged", "merged"])
def test_logs_that_the_manifest_names_and_that_are_gone_are_unknown(fenced, before):
    assert epochs(fenced)["verdict"] in KEPT if before else True
    (fenced / RunFile.STORED).unlink()
    document = judged(fenced)
    assert answers(document)["epoch-regression"] == "unknown"
    assert "stored.parquet: is missing" in document["reason"]
    assert any(text.startswith("stored.parquet: is missing; so it is unknown") for text in document["weakened"])


def test_logs_that_are_cut_are_unknown(fenced):
    (fenced / RunFile.STORED).write_bytes((fenced / RunFile.STORED).read_bytes()[:-9])
    assert epochs(fenced)["verdict"] == "unknown"


def test_logs_that_were_never_recorded_are_not_exercised(fenced):
    (fenced / RunFile.STORED).unlink()
    rewritten(fenced, tables={})
    assert epochs(fenced)["verdict"] == "not exercised"


def test_logs_of_which_an_older_manifest_says_nothing_are_unknown_when_they_are_gone(fenced):
    rewritten(fenced, tables=GONE)
    assert epochs(fenced)["verdict"] in KEPT
    (fenced / RunFile.STORED).unlink()
    assert epochs(fenced)["verdict"] == "unknown"


def test_logs_that_the_manifest_does_not_name_are_another_runs(fenced):
    rewritten(fenced, tables={})
    document = judged(fenced)
    assert answers(document)["epoch-regression"] == "not exercised"
    assert any("stored.parquet: it does not belong to the run" in text for text in document["weakened"])


def test_a_run_cut_off_before_its_logs_were_recorded_has_none(fenced):
    (fenced / RunFile.STORED).unlink()
    cut_off(fenced)
    assert epochs(fenced)["verdict"] == "not exercised"


@pytest.mark.parametrize("lost", [True, False], ids=["gone", "damaged"])
def test_a_manifest_that_is_lost_after_merging_leaves_nothing_proven(fenced, lost):
    """Its plan may have been changed since, and what lay beside its history may be gone."""
    assert judged(fenced)["verdict"] != "invalid"
    (fenced / RunFile.MANIFEST).unlink() if lost else (fenced / RunFile.MANIFEST).write_text("{")
    document = judged(fenced)
    assert document["verdict"] == "unknown"
    assert not KEPT & set(answers(document).values())
    assert [gap["kind"] for gap in document["gaps"] if gap["file"] == RunFile.MANIFEST] == ["unreliable"]


def test_what_could_not_be_read_of_an_adopted_history_is_not_forgotten_with_its_damage(tmp_path):
    folder = record(tmp_path / "run", KINDS["transactions"](Random("transactions 0")))
    path = folder / RunFile.LINES / "c0-0.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-4]) + b"{\n")
    only_lines(folder)
    assert judged(folder)["verdict"] == "unknown"
    (folder / RunFile.DAMAGE).unlink()
    assert judged(folder)["verdict"] == "unknown"  # merged again from its lines
    shutil.rmtree(folder / RunFile.LINES)
    (folder / RunFile.DAMAGE).unlink()
    document = judged(folder)
    assert (document["verdict"], KEPT & set(answers(document).values())) == ("unknown", set())


# --------------------------------------------------------------------------------------------------
# Clocks
# --------------------------------------------------------------------------------------------------
def with_clock(folder: Path, ahead_s: float) -> Path:
    """The final readers' headers have been written when the wall clock was so far from where it had been."""
    for path in sorted((folder / RunFile.LINES).glob("*.jsonl")):
        if path.name != RunFile.FAULT_LINES:
            head, *lines = path.read_text().splitlines(keepends=True)
            header = json.loads(head)
            moved = ahead_s if header["role"] == "final" else 0
            header["wall"] = 1_790_000_000_000_000_000 + header["time"] + round(moved * 1e9)
            path.write_text("".join([json.dumps(header) + "\n", *lines]))
    attest(folder)
    return folder


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_a_clock_that_jumps_leaves_unknown_what_follows_brokers_clocks_and_nothing_else(tmp_path, ahead_s):
    """A transaction that outlives its timeout: the coordinator's clock was set back, perhaps."""
    recording = KINDS["listed"](Random("listed 0"))
    ops = [{**op, "detail": op["detail"].replace("60000", "1")} if op["f"] == "list-transactions" else op for op in recording.ops]
    right = judged(with_clock(record(tmp_path / "right", Recording(ops)), 0.2))
    moved = judged(with_clock(record(tmp_path / "moved", Recording(ops)), ahead_s))
    assert violated(right) == ["hanging-transaction"]
    assert violated(moved) == []
    assert answers(moved)["hanging-transaction"] == "unknown"
    assert any("the clock of the machine was set by 3,600 s" in text for text in moved["weakened"])
    others = set(answers(right)) - {"hanging-transaction", "lso-stall"}
    assert {name: answers(moved)[name] for name in others} == {name: answers(right)[name] for name in others}


# --------------------------------------------------------------------------------------------------
# What is found stays
# --------------------------------------------------------------------------------------------------
def with_a_skip(folder: Path) -> Path:
    """The reader misses the records of one of its polls; returns its file."""
    files = sorted((folder / RunFile.LINES).glob("c*"))
    path = next(path for path in files if b'"role": "reader"' in path.read_bytes() and b'"poll", {"' in path.read_bytes())
    lines = path.read_text().splitlines(keepends=True)
    full = [at for at, line in enumerate(lines) if '"ok"' in line and '"t-' in line]
    chosen = json.loads(lines[full[len(full) // 2]])
    chosen["value"][0][1] = {}
    lines[full[len(full) // 2]] = json.dumps(chosen) + "\n"
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("damage", [file_damage.removed, a_byte_set_to_0xff, file_damage.cut_at_a_line])
def test_a_skip_stays_when_what_is_missing_is_another_workers(tmp_path, damage):
    folder = record(tmp_path / "run", KINDS["transactions"](Random("transactions 3")))
    reader = with_a_skip(folder)
    of_former_days(folder)
    assert violated(judged(folder)) == ["poll-skip"]
    second = sorted(path for path in (folder / RunFile.LINES).glob("c*") if b'"role": "final"' in path.read_bytes())[1]
    damage(second, Random(1))
    assert "poll-skip" in violated(judged(folder))
    lines = reader.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"0", b"\xff", 1)
    reader.write_bytes(b"".join(lines))
    assert answers(judged(folder))["poll-skip"] == "unknown"
