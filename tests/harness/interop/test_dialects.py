"""Jepsen histories with words of somebody's own: what they may stand for is unknown, and accuses nobody."""

from __future__ import annotations

import json

import pytest
from support.histories import violated
from support.jepsen_example import adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop import adopt
from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.export import export


def written(text: str, form: str = "edn") -> str:
    """A history of lines `process type f value`, with further keys behind `;`; numbered, and with times, in their order."""
    lines = []
    for number, line in enumerate(filter(None, text.splitlines())):
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
            "1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[0 1]]}]]\nOWN\n"
            "1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[2 3]]}]]",
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
            "0 invoke txn [[:send 6 1]]\n0 ok txn [[:send 6 [0 1]]]\n"
            "0 invoke txn [[:send 6 2]]\n0 ok txn [[:send 6 [1 2]]]\nOWN\n"
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


# --------------------------------------------------------------------------------------------------
# Completions without an invocation
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("block", [8 << 20, 100])
@pytest.mark.parametrize("form", ["edn", "json"])
@pytest.mark.parametrize("both", [("fail", "ok"), ("ok", "fail"), ("info", "ok"), ("fail", "info")], ids=" then ".join)
def test_two_completions_of_one_operation_accuse_nobody(tmp_path, monkeypatch, both, form, block):
    """Nobody knows which is true: what it sent was surely aborted, or acknowledged, by one of the two alone."""
    monkeypatch.setattr(adopt, "cores", lambda: 1)  # blocks in processes take seconds
    sent = "0 invoke txn [[:send 6 1]]\n" + "".join(
        f"0 {kind} txn [[:send 6 {'[0 1]' if kind == 'ok' else '1'}]]\n" for kind in both
    )
    for polled in ("[0 1] [1 2]", "[1 2]"):
        text = f"{SENT}{sent}0 invoke txn [[:send 6 2]]\n0 ok txn [[:send 6 [1 2]]]\n1 invoke poll [[:poll]]\n"
        text += f"1 ok poll [[:poll {{6 [{polled}]}}]]"
        folder = tmp_path / polled
        folder.mkdir()
        document = judge(open_run(adopted(written(text, form), folder, block=block).dir), here=True)
        assert (violated(document), document["verdict"]) == ([], "unknown")


@pytest.mark.parametrize("form", ["edn", "json"])
def test_a_later_operation_without_invocation_still_counts(tmp_path, form):
    """As the first one of its process does (docs/foreign-histories.md)."""
    text = SENT + "0 ok txn [[:send 5 [3 4]]]\n1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[3 4] [4 4]]}]]"
    history = adopted(written(text, form), tmp_path)
    assert history.shown()[2][:3] == (0, "txn", "ok")
    assert [gap.line for gap in history.damage] == [5]
    document = judge(open_run(history.dir), here=True)
    assert violated(document) == ["duplicate"]


# --------------------------------------------------------------------------------------------------
# Rebalances and assignments
# --------------------------------------------------------------------------------------------------
MEMBER = """
1 invoke subscribe [5]
1 ok subscribe [5]
1 invoke poll [[:poll]]
1 ok poll [[:poll {5 [[0 1]]}]] ; :rebalance-log [{:type :assigned, :keys [5]}]
"""
NEXT = "1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[2 3]]}]]"


@pytest.mark.parametrize("form", ["edn", "json"])
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("1 invoke poll [[:poll]]\n1 ok poll [[:poll {}]]\n", "invalid"),
        ("1 invoke poll [[:poll]]\n1 ok poll [[:poll {}]] ; :rebalance-log [{:type :assigned, :keys [5]}]\n", "valid"),
        ("1 invoke poll [[:poll]] ; :rebalance-log [{:type :assigned, :keys [5]}]\n1 ok poll [[:poll {}]]\n", "valid"),
        ("1 invoke poll [[:poll]]\n1 ok poll [[:poll {}]] ; :rebalance-log [{:type :assigned, :keys nil}]\n", "invalid"),
        ("1 invoke poll [[:poll]]\n1 ok poll [[:poll {}]] ; :rebalance-log [{:type :assigned}]\n", "unknown"),
        ('1 invoke poll [[:poll]]\n1 ok poll [[:poll {}]] ; :rebalance-log [{:type :assigned, :keys "5"}]\n', "unknown"),
    ],
    ids=["none", "in the completion", "in the invocation", "of no key", "of which no key is named", "of a text"],
)
def test_a_rebalance_that_does_not_name_its_keys_may_be_of_any(tmp_path, before, expected, form):
    document = judged(tmp_path, SENT + MEMBER + before + NEXT, form)
    assert (document["verdict"], violated(document)) == (expected, ["poll-skip"] if expected == "invalid" else [])


@pytest.mark.parametrize("form", ["edn", "json"])
@pytest.mark.parametrize(("value", "expected"), [("[5]", "invalid"), ("nil", "valid"), ("{5 2}", "unknown"), ('"5"', "unknown")])
def test_an_assignment_that_is_no_vector_of_keys_is_not_understood(tmp_path, value, expected, form):
    """A map may say where reading begins."""
    text = "1 invoke assign [5]\n1 ok assign [5]\n1 invoke poll [[:poll]]\n1 ok poll [[:poll {5 [[0 1]]}]]\n"
    text += f"1 invoke assign {value}\n1 ok assign {value}\n{NEXT}"
    document = judged(tmp_path, SENT + text, form)
    assert (document["verdict"], violated(document)) == (expected, ["poll-skip"] if expected == "invalid" else [])


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        ('"type": "ok"', '"type": "ok", "type": "fail"'),
        ('"value": [["poll", {', '"value": [["poll", {"5": []}]], "value": [["poll", {'),
    ],
)
def test_a_key_that_an_operation_has_twice_in_json_is_not_understood(tmp_path, once, twice):
    """As in EDN; a poll's map with a key twice is read as pairs."""
    text = written(SENT, "json")
    assert once in text
    document = judge(open_run(adopted(text.replace(once, twice, 1), tmp_path).dir), here=True)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert any("twice" in text for text in document["weakened"])


# --------------------------------------------------------------------------------------------------
# Numbers in keys
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["orders-99999999999", "9" * 5000, "a-" + "9" * 5000, "t-\u00b2"], ids=lambda key: key[:12])
def test_a_key_with_a_number_that_is_none_of_a_partition_is_a_key(tmp_path, key):
    """Python reads at most 4,300 digits at once, and a plan has at most a million partitions of a topic."""
    lines = SENT.replace(" 5 ", f' "{key}" ').replace("{5 ", f'{{"{key}" ')
    run = open_run(adopted(written(lines), tmp_path).dir)
    assert (judge(run, here=True)["verdict"], run.plan["topics"]) == ("valid", {})
    export(run, "jepsen-edn", tmp_path / "exported")
    assert (tmp_path / "exported").read_text().count(":send") == 6
