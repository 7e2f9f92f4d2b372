"""Jepsen histories with words of somebody's own: what they may stand for is unknown, and accuses nobody."""

from __future__ import annotations

import json

import pytest
from support.histories import violated
from support.jepsen_example import adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.jepsen import edn


def written(text: str, form: str = "edn") -> str:
    """A history of lines `process type f value`, with further keys behind `;`; numbered, and with times, in their order."""
    lines = []
    for number, line in enumerate(text.strip().splitlines()):
        told, _, more = line.partition(";")
        process, kind, f, value = told.split(None, 3)
        keys = f":process {process}, :type :{kind}, :f :{f}, :value {value.strip()}, :index {number}, :time {number}"
        lines.append(f"{{{keys}{', ' if more else ''}{more.strip()}}}")
    return "".join(f"{line if form == 'edn' else json.dumps(edn.read(line))}\n" for line in lines)


def judged(folder, text, form="edn"):
    return judge(open_run(adopted(written(text, form), folder).dir), here=True)


SENT = """
0 invoke txn [[:send 5 1] [:send 5 2] [:send 5 3]]
0 ok txn [[:send 5 [0 1]] [:send 5 [1 2]] [:send 5 [2 3]]]
2 invoke poll [[:poll]]
2 ok poll [[:poll {5 [[0 1] [1 2] [2 3]]}]]
"""


@pytest.mark.parametrize("form", ["edn", "json"])
@pytest.mark.parametrize(
    ("known", "own", "anomaly"),
    [
        (
            "1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[0 1]]}]]\nOWN\n1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[2 3]]}]]",
            "1 invoke seek [5 2]\n1 ok seek [5 2]\n",
            "poll-skip",
        ),
        (
            "1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[0 1] [1 2]]}]]\nOWN\n"
            "1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[0 1]]}]]",
            "1 invoke close nil\n1 ok close nil\n",
            "nonmonotonic-poll",
        ),
        (
            "OWN\n1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[3 4]]}]]",
            "4 invoke produce [5 4]\n4 ok produce [5 4]\n",
            "phantom",
        ),
        (
            "0 invoke txn [[:send 6 1]]\n0 ok txn [[:send 6 [0 1]]]\n0 invoke txn [[:send 6 2]]\n0 ok txn [[:send 6 [1 2]]]\nOWN\n"
            "1 invoke poll [[:poll]]\n1 ok poll [[:poll {6 [[1 2]]}]]",
            "3 invoke consume nil\n3 ok consume {6 [[0 1]]}\n",
            "lost-write",
        ),
    ],
    ids=["seek", "close", "produce", "consume"],
)
def test_what_an_operation_of_another_function_did_is_unknown(tmp_path, known, own, anomaly, form):
    document = judged(tmp_path, SENT + known.replace("OWN\n", own), form)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert any("what they did is not known" in text for text in document["weakened"])
    (tmp_path / "without").mkdir()
    assert violated(judged(tmp_path / "without", SENT + known.replace("OWN\n", ""), form)) == [anomaly]
