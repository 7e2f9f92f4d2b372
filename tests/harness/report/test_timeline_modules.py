"""The timeline's modules without a page: the cases of `timeline/*.test.js`, in the browser, and in Node where it is there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import report_example as example
from support.browser import Dom

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import timeline_script
from fencepost.harness.report.documents import read
from fencepost.harness.report.packed import packed
from fencepost.harness.report.panels import timeline

CASES = sorted((Path(__file__).parent / "timeline").glob("*.test.js"))
ASSERTIONS = """
const plain = (value) => JSON.stringify(value, (_, inner) => (inner === undefined ? "undefined" : inner));
const same = (a, b) => plain(a) === plain(b);
const wrong = (what) => { throw new Error(what); };
const assert = {
  equal: (a, b) => Object.is(a, b) || wrong(`${JSON.stringify(a)} is not ${JSON.stringify(b)}`),
  deepEqual: (a, b) => same(a, b) || wrong(`${JSON.stringify(a)} is not ${JSON.stringify(b)}`),
  ok: (a, what = "not true") => a || wrong(what),
};
const answers = [];
function test(name, body) {
  try { body(); answers.push([name, ""]); } catch (error) { answers.push([name, String(error)]); }
}
"""
NODE = 'const { test } = require("node:test"), assert = require("node:assert/strict");\n'


@pytest.fixture(scope="module")
def material(tmp_path_factory) -> str:
    """What the cases compare the modules with, as Python made it."""
    run = read(open_run(example.torn(tmp_path_factory.mktemp("torn") / "run")))
    made = timeline.timeline(run)
    assert made
    values = [0, -1, 1, 63, -64, 64, 300, -(2**40), 2**53 - 1]
    page = {"compact": timeline.compact(made), "ops": made["ops"], "count": made["records"]["count"]}
    page["errors"] = made["errors"]
    constants = {
        "packedInPython": {"text": packed(np.array(values)), "values": values},
        "pageInPython": page | {"offset": made["records"]["offset"].tolist()},
    }
    return "\n".join(f"const {name} = {json.dumps(value)};" for name, value in constants.items())


def script(case: Path, material: str, beginning: str) -> str:
    """A program that runs a file of cases, without the parts of the timeline that need a page at once."""
    helpers = (case.parent / "support.js").read_text("utf-8")
    parts = (beginning, "globalThis.document ??= { getElementById: () => null };", str(timeline_script()))
    return "\n".join((*parts, "const timeline = globalThis.fencepostTimeline;", material, helpers, case.read_text("utf-8")))


@pytest.mark.browser
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_modules_in_the_browser(case, material, tmp_path, browse: Callable[..., Dom]):
    page = tmp_path / "cases.html"
    end = "document.documentElement.dataset.answers = JSON.stringify(answers);"
    program = re.sub(r"</(script)", r"<\\/\1", f"{script(case, material, ASSERTIONS)}\n{end}")
    page.write_text(f'<!doctype html><meta charset="utf-8"><script>{program}</script>', "utf-8")
    html = next(attrs for tag, attrs in browse(page).elements if tag == "html")
    answers = json.loads(html["data-answers"] or "[]")
    assert len(answers) == len(re.findall(r"^test\(", case.read_text("utf-8"), re.MULTILINE)) > 0
    assert [(name, error) for name, error in answers if error] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_modules_in_node(case, material, tmp_path):
    """The same without a browser, in a tenth of the time."""
    node = shutil.which("node")
    if node is None and os.environ.get("CI") == "true":
        pytest.fail("no node on PATH (Debian, Ubuntu: apt-get install nodejs)")
    if node is None:
        pytest.skip("no node on PATH; the browser runs the same cases")
    program = tmp_path / "cases.js"
    program.write_text(script(case, material, NODE), "utf-8")
    answer = subprocess.run([node, "--test", str(program)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
