"""Texts from records, brokers, plans and campaigns are printed, and control no terminal."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.text import Text

from fencepost.harness.cli.console import table
from fencepost.harness.cli.display import PlainDisplay
from fencepost.harness.cli.live_display import LiveDisplay
from fencepost.harness.cli.safe_console import SafeConsole
from fencepost.harness.history.run_directory import write_plan, write_verdict
from fencepost.harness.runs.store import new_run_dir

HOSTILE = {
    "clears the screen": "\x1b[2J\x1b[H",
    "sets the title": "\x1b]0;owned\x07",
    "an 8-bit CSI": "\x9b31m",
    "goes back": "valid\rinvalid\x08\x08",
    "right to left": "\u202egnp.exe\u202c",
    "isolates": "\u2067x\u2069\u200f\u061c",
    "zero width": "a\u200bb\ufeff",
    "a line of its own": "a\u2028b\u2029c\x85d\x0bd\x0c",
    "half of a pair": "\ud83d",
    "NUL and DEL": "\x00\x7f",
}
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
STYLES = re.compile(r"\x1b\[(\d+(;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[1?A|\x1b\[2K|\r")  # what rich itself writes


def a_console(terminal):
    return SafeConsole(file=io.StringIO(), force_terminal=terminal, markup=False, highlight=False, emoji=False, width=120)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_that_is_printed_controls_the_terminal(text, terminal):
    console = a_console(terminal)
    console.print(f"a {text} b", soft_wrap=True)
    console.print(Text(f"a {text} b", style="bold red"))
    console.print(table(("head", text), [[f"cell {text}", "next"]]))
    display = (LiveDisplay if terminal else PlainDisplay)(console)
    display.event({"event": "phase", "phase": "cluster", "text": text})
    display.event({"event": "note", "text": text})
    display.event({"event": "progress", "elapsed_s": 20, "time_s": 30, "ok": 1, "fail": 0, "info": 0, "faults": [text]})
    display.close()
    written = STYLES.sub("", console.file.getvalue())
    assert FORBIDDEN.findall(written) == []
    assert "\\u" in written


def test_a_table_stays_aligned_whatever_its_cells_hold():
    console = a_console(terminal=False)
    console.print(table(("a", "b"), [["\x1b[2J", "second"], ["plain", "second"]]))
    assert len({line.index("second") for line in console.file.getvalue().splitlines()[1:]}) == 1


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_list_and_errors_show_texts_of_plans_and_keep_each_run_a_line(fencepost_in, tmp_path, text):
    """Also a name of several lines, of which one reads as another run."""
    directory = new_run_dir(tmp_path / "results", "c", "aaaaaa")
    write_plan(directory, {"run": "aaaaaa", "campaign": f"{text}\nbbbbbb", "test": text, "created": text})
    write_verdict(directory, {"verdict": f"valid{text}"})
    code, out, err = fencepost_in("list")
    assert code == 0
    assert FORBIDDEN.findall(out + err) == []
    assert len(out.splitlines()) == 2
    assert FORBIDDEN.findall(fencepost_in("list", "--json")[1]) == []
    assert json.loads(fencepost_in("list", "--json")[1])[0]["test"] == text.encode("utf-8", "backslashreplace").decode()
    (tmp_path / "bad.toml").write_text(f'name = "x"\n["{text.encode("unicode_escape").decode()}"]\n', encoding="utf-8")
    code, out, err = fencepost_in("campaign", str(tmp_path / "bad.toml"))
    assert code == 254
    assert FORBIDDEN.findall(out + err) == []


@pytest.fixture
def fencepost_in(tmp_path, monkeypatch, capsys):
    """Runs `fencepost` in a directory."""
    from fencepost.harness.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FENCEPOST_RESULTS", raising=False)

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main.main(list(arguments))
        return left.value.code, *capsys.readouterr()

    return call
