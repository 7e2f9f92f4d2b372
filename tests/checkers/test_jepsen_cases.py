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


TORN = """0 invoke txn [[:send x 1]]
0 ok txn [[:send x [0 1]]]
1 invoke txn [[:send x 2] [:send y 3]]
1 info txn [[:send x 2] [:send y 3]]
2 invoke poll [[:poll]]
2 ok poll [[:poll {y [[5 3]]}]]
0 invoke txn [[:send x 4]]
0 ok txn [[:send x [6 4]]]
4 invoke txn [[:poll]]
4 info txn [[:poll]]"""


@pytest.mark.parametrize(
    ("got", "forbidden", "verdict"), [("[0 1] [6 4]", ["torn-transaction"], "invalid"), ("[0 1]", [], "unknown")]
)
def test_a_poll_without_result_hides_no_record_that_a_consumer_passed(tmp_path, got, forbidden, verdict):
    """A reader proves the commit of `info`; its other record has no offset, and nobody got it."""
    lines = [*TORN.splitlines(), "3 invoke poll [[:poll]]", f"3 ok poll [[:poll {{x [{got}]}}]]"]
    history, run = tmp_path / "history.edn", tmp_path / "run"
    run.mkdir()
    history.write_text("".join(operation(*pair) for pair in enumerate(lines)))
    adopt(history, run)
    document = judge(open_run(run), here=True)
    assert (violated(document), document["verdict"]) == (forbidden, verdict)
