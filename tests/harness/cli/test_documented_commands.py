"""Every command on every page exists: its words are parsed by the command line itself, and the quick ones are run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from fencepost.harness.cli import main

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("campaigns/*.toml"),
        *ROOT.glob("examples/**/*.toml"),
        *ROOT.glob("examples/**/*.py"),
        *ROOT.glob(".github/workflows/*.yml"),
        *ROOT.glob("harness/cli/*.py"),
    ]
)
PROGRAM = re.compile(r"(?:sudo )?(?:\.venv/bin/)?fencepost(?= |$)")
SHELL_BLOCK = re.compile(r"```(?:sh|bash|console|text)?\n(.*?)```", re.S)
INLINE = re.compile(r"`((?:sudo )?(?:\.venv/bin/)?fencepost [^`]+)`")
EXAMPLE = re.compile(r"^  (fencepost .+?)\"{0,3}$", re.M)
QUICK = ("plugins", "completion", "list", "cluster list")


def commands_on(page):
    """The command lines of a page, without what follows `&&`, `|`, `>` or `#`."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    if page.suffix == ".py":
        commands = EXAMPLE.findall(text)
    elif page.suffix == ".md":
        lines = [line for block in SHELL_BLOCK.findall(text) for line in block.splitlines()]
        commands = [part for line in lines for part in re.split(r"&&|;", line)]
        commands += [" ".join(span.split()) for span in INLINE.findall(re.sub(r"```.*?```", "", text, flags=re.S))]
    else:
        commands = [part for line in text.splitlines() for part in re.split(r"&&|;|\brun:", line.strip("# -"))]
        commands = [*[command for command in commands if PROGRAM.match(command.strip())], *INLINE.findall(text)]
    return [command.strip() for command in commands if PROGRAM.match(command.strip())]


def documented():
    seen = {}
    for page in PAGES:
        for line in commands_on(page):
            seen.setdefault(line, page.relative_to(ROOT))
    return [pytest.param(line, id=f"{page}: {line}"[:120]) for line, page in seen.items()]


def words_of(line):
    """The words behind `fencepost`, as a shell reads them; what only stands for more is left out."""
    words = shlex.split(PROGRAM.sub("", line, count=1), comments=True)
    ends = [number for number, word in enumerate(words) if re.match(r"[|>]|\d>", word)]
    words = words[: ends[0]] if ends else words
    return [word for word in words if word not in ("...", "…", ".", ",")]


def parse(words):
    """Parses the words as the command line does, and runs nothing. Raises what is wrong with them."""
    command = main.command_line()
    context = command.make_context("fencepost", [])
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands or words[0].startswith("-"), f"there is no command {words[0]}"
        if words[0].startswith("-"):
            break
        command, words = command.commands[words[0]], words[1:]
    if words:  # a command alone is only named
        try:
            command.make_context(command.name, list(words), parent=context)
        except typer.Exit as answered:  # an option such as `--schema` answers while words are parsed
            if answered.exit_code:
                raise


LINES = documented()


def test_the_pages_have_commands():
    """Else nothing would be looked at."""
    assert len(LINES) > 80


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_is_one(line):
    parse(words_of(line))


NONE = ("fencepost shown", "fencepost run --frob 1", "fencepost cluster fetch 1 2", "fencepost list --time 3")


@pytest.mark.parametrize("line", NONE)
def test_a_command_that_there_is_not_would_be_found(line):
    with pytest.raises((AssertionError, main.USAGE_ERROR)):
        parse(words_of(line))


@pytest.mark.parametrize("line", [line for line in LINES if " ".join(words_of(line.values[0])[:2]).startswith(QUICK)])
def test_a_quick_documented_command_runs(line, monkeypatch, tmp_path, capsys):
    """In the folder of the example's files, with nothing in the results."""
    if "NAME" in line or ":" in line or "hiccup" in line:
        line = "fencepost plugins kill"  # of a plug-in that the reader writes
    monkeypatch.setenv("FENCEPOST_RESULTS", str(tmp_path))
    monkeypatch.chdir(ROOT / "examples")
    with pytest.raises(SystemExit) as left:
        main.main(list(words_of(line)))
    assert left.value.code == 0, capsys.readouterr().err
