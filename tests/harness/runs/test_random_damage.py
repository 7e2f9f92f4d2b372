"""A recorded run whose files are damaged at random: a clear error or an honest verdict, whatever was done to it."""

from __future__ import annotations

import io
import json
import shutil
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.file_damage import damage
from support.judging import no_session
from support.recorded_run import record_run

from fencepost.checkers.service import SparkJudge
from fencepost.harness.api.run import RunFile
from fencepost.harness.cli import main
from fencepost.harness.history.run_directory import open_run

FEW, MANY = 5, 1000
NAME = "nightly/20261121T120000Z-lawful"
EVIDENCE = (RunFile.HISTORY, RunFile.RECEIPTS)
DOCUMENTS = (RunFile.PLAN, RunFile.VERDICT, RunFile.DAMAGE, RunFile.MANIFEST)
GONE = object()
OTHERS = (GONE, None, [], {}, "x", -1, 1e300, True, [None], {"a": None}, [["x"]], 10**30)  # instead of a value of a document


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """The same run as it was recorded, and after it was judged."""
    root = tmp_path_factory.mktemp("recordings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkJudge, "start_session", no_session)
        yield record_both(root)


def record_both(root: Path) -> Path:
    recorded = record_run(root / "recorded" / NAME)
    shutil.copytree(recorded, root / "judged" / NAME)
    assert outcome("check", root / "judged" / NAME)[0] == 0
    return root


def outcome(*arguments) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            main.main([str(argument) for argument in arguments])
        except SystemExit as left:
            return int(left.code or 0), printed.getvalue()


def dishonest(folder: Path, tables, commands) -> str:
    """The first fault in how the commands take a damaged run; empty when all is well."""
    for command in commands:
        try:
            code, text = outcome(*command)
        except BaseException:  # noqa: BLE001 - what gets out of `main` is a traceback for whoever calls it
            return f"{command[0]}: {traceback.format_exc()}"
        if "Traceback" in text:
            return f"{command[0]}: {text}"
        if command[0] == "list" and code:
            return f"list: exit code {code}: {text}"
        if command[0] == "check":
            if code == 1:
                return f"invalid: {open_run(folder).verdict['reason']}"
            if code == 0 and not open_run(folder).verdict["weakened"] and not same(folder, tables):
                return "valid, and nothing weakened, although evidence is gone"
            if code > 2 and not text.strip():
                return f"exit code {code}, and no sentence"
    return ""


def same(folder: Path, tables) -> bool:
    return all(pq.read_table(folder / file).equals(tables[file]) for file in EVIDENCE)


def failures(recordings, seeds) -> list[str]:
    tables = {file: pq.read_table(recordings / "judged" / NAME / file) for file in EVIDENCE}
    lines = []
    for seed in seeds:
        rng = Random(seed)
        root = recordings / "damaged"
        shutil.copytree(recordings / rng.choice(("recorded", "judged")), root)
        folder = root / NAME
        done = damage(folder, rng)
        others = [("list", "--results", root), ("report", folder), ("show", folder, "1"), ("export", folder)]
        commands = [*rng.sample(others, rng.randrange(2)), ("check", folder), *rng.sample(others, 1)]
        if wrong := dishonest(folder, tables, commands):
            lines.append(f"seed {seed} ({', '.join(done)}): {wrong}")
        shutil.rmtree(root)
    return lines


def test_a_damaged_run_gives_a_clear_error_or_an_honest_verdict(recordings):
    assert not failures(recordings, range(FEW))


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, 250))
def test_a_thousand_damaged_runs_give_clear_errors_or_honest_verdicts(recordings, first):
    assert not failures(recordings, range(first, first + 250))


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths to the values of a document; of a list only those of its first member."""
    if path:
        yield path
    members = document.items() if isinstance(document, dict) else enumerate(document[:1]) if isinstance(document, list) else ()
    for name, value in members:
        yield from places(value, (*path, name))


def with_another(text: str, path: tuple[str | int, ...], value: Any) -> str:
    document = json.loads(text)
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(document)


def misread(recordings, file: str, step: int = 1) -> list[str]:
    """Faults of the commands when a value of a document is another one, at every so many of its places."""
    root = recordings / "odd"
    shutil.copytree(recordings / "judged", root)
    path, lines = root / NAME / file, []
    text = path.read_text()
    for place in list(places(json.loads(text)))[::step]:
        for value in OTHERS:
            path.write_text(with_another(text, place, value))
            if wrong := dishonest(
                root / NAME, {}, [("list", "--results", root), ("report", root / NAME), ("show", root / NAME, "1")]
            ):
                lines.append(f"{place} = {'gone' if value is GONE else value!r}: {wrong}")
    shutil.rmtree(root)
    return lines


@pytest.mark.parametrize("file", DOCUMENTS)
def test_another_value_in_a_document_breaks_no_command(recordings, file):
    assert not misread(recordings, file, step=20)


@pytest.mark.nightly
@pytest.mark.parametrize("file", DOCUMENTS)
def test_other_values_everywhere_in_a_document_break_no_command(recordings, file):
    assert not misread(recordings, file)
