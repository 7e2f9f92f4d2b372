"""A completion of Jepsen's that names other sends than its invocation: one of the two lines is damaged, and accuses nobody."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.histories import violated
from support.jepsen_example import adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.planned_sends import mixed

READ = ("[[:poll]]", "[[:poll {5 [[0 1]]}]]")


def lines(planned, done, note=""):
    """A transaction with these values, and a poll; note: a key that makes its lines no plain ones."""
    values = [(0, ":txn", (planned, done), note), (1, ":poll", READ, "")]
    made = []
    for process, f, both, more in values:
        for type_, value in zip((":invoke", ":ok"), both, strict=True):
            place = f":time {len(made) + 1}, :process {process}, :index {len(made)}{more}"
            made.append(f"{{:type {type_}, :f {f}, :value {value}, {place}}}\n")
    return made


def judged(folder, text, name="history.edn", **options):
    return judge(open_run(adopted(text, folder, name, **options).dir), here=True)


OTHERS = {
    "another key": ("[[:send 5 1]]", "[[:send 6 [0 1]]]"),
    "another value": ("[[:send 5 1]]", "[[:send 5 [0 2]]]"),
    "a number and a text": ("[[:send 5 1]]", '[[:send 5 [0 "1"]]]'),
    "one of two": ("[[:send 5 1] [:send 5 2]]", "[[:send 5 [0 1]] [:send 5 [1 3]]]"),
    "key and value changed places": ("[[:send 5 1] [:send 6 2]]", "[[:send 5 [0 2]] [:send 6 [0 1]]]"),
}


@pytest.mark.parametrize(
    ("planned", "done", "way"),
    [
        pytest.param(*OTHERS["another key"], "blocks", marks=pytest.mark.nightly),
        *((*both, way) for both in OTHERS.values() for way in ("plain", "not plain", "json")),
    ],
)
def test_other_sends_violate_nothing(tmp_path, planned, done, way):
    made = lines(planned, done, ", :note 5" if way == "not plain" else "")
    text = "".join(json.dumps(edn.read(line)) + "\n" for line in made) if way == "json" else "".join(made)
    document = judged(tmp_path, text, **({"block": 90} if way == "blocks" else {}))
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "names other sends than its invocation" in str(document["weakened"])


@pytest.mark.parametrize("note", ["", ", :note 5"])
@pytest.mark.parametrize("done", ["[[:send 5 [0 1]] [:poll {}]]", "[[:poll {}] [:send 5 [0 1]]]", "[[:send 5 1] [:poll {}]]"])
def test_the_same_sends_are_the_same_in_any_place(tmp_path, done, note):
    document = judged(tmp_path, "".join(lines("[[:send 5 1] [:poll]]", done, note)))
    assert (violated(document), "other sends" in str(document["weakened"])) == ([], False)


def test_what_sends_make_tells_keys_and_values_apart():
    keys, values = np.array([1, 2, 1, 1, 2]), np.array([2, 1, 1, 2, 1])
    first, second, third, both = mixed(keys, values, np.array([0, 1, 2, 3, 3]), 4)
    assert len({int(first), int(second), int(third), int(both)}) == 4
    assert int(both) == (int(first) + int(second)) % (1 << 64), "in any order"


@pytest.mark.parametrize("line", ["invoke", "ok", "both"])
def test_either_line_of_an_assignment_says_that_it_sought_back(tmp_path, line):
    """The consumer reads from the start again, by right."""
    assign = [
        f"{{:type :{type_}, :f :assign, :value [5], :process 1{', :seek-to-beginning? true' * (line in (type_, 'both'))}}}\n"
        for type_ in ("invoke", "ok")
    ]
    plain = [text.replace(", :seek-to-beginning? true", "") for text in assign]
    poll = [
        f"{{:type {type_}, :f :poll, :value {value}, :process 1}}\n"
        for type_, value in zip((":invoke", ":ok"), READ, strict=True)
    ]
    sent = [
        f"{{:type {type_}, :f :txn, :value {value}, :process 0}}\n"
        for type_, value in ((":invoke", "[[:send 5 1]]"), (":ok", "[[:send 5 [0 1]]]"))
    ]
    assert violated(judged(tmp_path, "".join([*sent, *plain, *poll, *assign, *poll]))) == []
    (tmp_path / "not").mkdir()
    assert violated(judged(tmp_path / "not", "".join([*sent, *plain, *poll, *plain, *poll]))) == ["nonmonotonic-poll"]
