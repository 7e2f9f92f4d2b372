"""The cases of Jepsen's own unit tests of its Kafka checker, through the whole command but its process: adopt, then judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.histories import answer, violated

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt

CASES = (Path(__file__).parent / "data" / "jepsen_cases.txt").read_text().split("== ")[1:]


def words(lines, key):
    """The names after `key:`, if the case has such a line."""
    listed = next((line.removeprefix(key) for line in lines if line.startswith(key)), "")
    return sorted(filter(None, (word.strip() for word in listed.split(","))))


def operation(number, line):
    process, type_, f, value = line.split(" ", 3)
    return f"{{:index {number}, :time {number}, :process {process}, :type :{type_}, :f :{f}, :value {value}}}\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.splitlines()[0])
def test_a_case_from_jepsens_own_tests_is_judged_alike(tmp_path, case):
    lines = case.splitlines()[1:]
    history, run = tmp_path / "history.edn", tmp_path / "run"
    run.mkdir()
    history.write_text("".join(operation(*pair) for pair in enumerate(line for line in lines if line[:1].isdigit())))
    assert bool(adopt(history, run)) == bool(words(lines, "damaged:"))
    document = judge(open_run(run), here=True)
    assert violated(document) == words(lines, "forbidden:")
    for verdict in words(lines, "verdict:"):
        assert document["verdict"] == verdict
    for name in words(lines, "allowed:"):
        assert answer(document, name)["verdict"] == "violated", name
