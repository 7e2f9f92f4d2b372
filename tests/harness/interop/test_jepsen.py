"""Jepsen's Kafka histories, adopted."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from support.jepsen_example import DATA, Adopted, adopted

from fencepost.harness.api import split_record_id
from fencepost.harness.api.errors import HistoryError

QUEUE = (DATA / "queue.edn").read_text()
BEGUN, OVER = (
    "{:type :invoke, :f :txn, :value %s, :time 10, :process 0}\n",
    "{:type :%s, :f :txn, :value %s, :time 20, :process 0}\n",
)


def txn(invoked: str, answered: str, type: str = "ok") -> str:
    return BEGUN % invoked + OVER % (type, answered)


def json_of(edn: str) -> str:
    """The same lines as JSON, keywords as texts."""
    from fencepost.harness.interop.jepsen import edn as reader

    return "".join(json.dumps(reader.read(line), default=str) + "\n" for line in edn.splitlines())


def test_a_queue_history_becomes_one_row_per_operation(tmp_path):
    """Pairs are joined, an unknown record keeps its value, and an acknowledgement without offset is one."""
    history = Adopted(DATA / "queue.edn", tmp_path / "run")
    assert history.damage == []
    assert history.shown() == [
        (0, "subscribe", "ok", []),
        (
            0,
            "txn",
            "ok",
            [
                ("send", "0", "1", 0, 3491485317),
                ("poll", "0", "9", 7, 3491485317),
                ("send", "1", "1", None, 3491485317),
            ],
        ),
        (1, "txn", "fail", [("send", "0", "2", None, None)]),
        (
            1,
            "poll",
            "ok",
            [("poll", "0", "1", 0, 3700000000), ("poll", "0", "4", 3, 3700000000), ("poll", "1", "1", 2, 3700000000)],
        ),
        (1, "crash", "info", []),
        (6, "txn", "info", [("send", "0", "4", 3, 14000000000)]),
        (0, "txn", "info", [("send", "1", "5", None, None)]),
    ]
    assert [row["op"] for row in history.rows] == [0, 2, 3, 8, 14, 16, 18], "Jepsen's own indexes number the operations"
    assert json.loads(history.rows[0]["detail"]) == {"partitions": ["0", "1"]}
    assert history.rows[5]["errors"][0]["text"] == '["timeout","Broker said: \\"no, thanks\\""]'
    assert [row["end"] for row in history.rows][-1] is None


def test_json_and_edn_of_one_history_are_the_same_history(tmp_path):
    edn = Adopted(DATA / "queue.edn", tmp_path / "edn")
    json_ = adopted(json_of(QUEUE), tmp_path, "queue.json")
    assert json_.rows == edn.rows
    assert json_.faults == edn.faults


def test_a_record_has_the_identity_of_its_send_wherever_it_is_read(tmp_path):
    """The checkers take process, operation and sequence from the identity."""
    history = Adopted(DATA / "queue.edn", tmp_path / "run")
    second = history.rows[1]["mops"][2]["v"]
    assert split_record_id(second) == (0, 2, 1)
    assert second in [mop["v"] for mop in history.rows[3]["mops"]]


def test_a_value_is_unique_per_key_only(tmp_path):
    """Value 1 of key 0 and value 1 of key 1 are two records."""
    history = adopted(txn("[[:send 0 1] [:send 1 1] [:poll]]", "[[:send 0 [0 1]] [:send 1 [0 1]] [:poll {1 [[0 1]]}]]"), tmp_path)
    first, second, read = (mop["v"] for mop in history.rows[0]["mops"])
    assert first != second == read


def test_a_value_read_from_another_key_than_it_was_sent_to_is_nobodys(tmp_path):
    history = adopted(txn("[[:send 0 1] [:poll]]", "[[:send 0 [0 1]] [:poll {1 [[0 1]]}]]"), tmp_path)
    assert history.rows[0]["mops"][1]["v"] < -1
    assert history.rows[0]["strange"] == [
        {"partition": "1", "offset": 0, "why": "its value was sent by no operation of this history", "raw": "1"}
    ]


def test_texts_and_keywords_name_keys_and_values_too(tmp_path):
    """The number 5 and the text "5" are different values; keys lose their form and keep their name."""
    invoked = '[[:send :orders-0 "a, b: {nil}"] [:send "orders-0" "5"] [:send :orders-0 5] [:send :a/b :nil-like] [:poll]]'
    answered = (
        '[[:send :orders-0 [0 "a, b: {nil}"]] [:send "orders-0" [1 "5"]] [:send :orders-0 [2 5]] [:send :a/b [nil :nil-like]] '
        '[:poll {"orders-0" [[0 "a, b: {nil}"] [1 "5"] [2 5]], :a/b [[9 :nil-like]]}]]'
    )
    history = adopted(txn(invoked, answered), tmp_path)
    sent, read = history.rows[0]["mops"][:4], history.rows[0]["mops"][4:]
    assert [mop["v"] for mop in sent] == [mop["v"] for mop in read]
    assert len({mop["v"] for mop in sent}) == 4
    assert [history.values[mop["v"]] for mop in sent] == [
        ("orders-0", "a, b: {nil}"),
        ("orders-0", "5"),
        ("orders-0", "5"),
        ("a/b", "nil-like"),
    ]


def test_only_an_offset_or_an_ok_makes_an_acknowledgement(tmp_path):
    """In an info operation a pair was acknowledged, of a plain value it is unknown."""
    history = adopted(txn("[[:send 0 1] [:send 0 2]]", "[[:send 0 [4 1]] [:send 0 2]]", "info"), tmp_path)
    assert [(mop["offset"], mop["ended"]) for mop in history.rows[0]["mops"]] == [(4, 20), (None, None)]
    history = adopted(txn("[[:send 0 1]]", "[[:send 0 1]]", "ok"), tmp_path)
    assert [(mop["offset"], mop["ended"]) for mop in history.rows[0]["mops"]] == [(None, 20)]


def test_an_unknown_decision_is_never_earlier_than_the_operation(tmp_path):
    """An undecided transaction was decided at an unknown time, but surely not before it began."""
    unsure = adopted(txn("[[:send 0 1]]", "[[:send 0 1]]", "info"), tmp_path)
    sure = adopted(txn("[[:send 0 1]]", "[[:send 0 1]]", "ok"), tmp_path)
    assert (unsure.rows[0]["decided"], sure.rows[0]["decided"]) == (10, None)


def test_tagged_operations_and_one_whole_vector_are_read(tmp_path):
    plain = Adopted(DATA / "queue.edn", tmp_path / "plain")
    tagged = adopted(re.sub(r"(?m)^\{", "#jepsen.history.Op{", QUEUE), tmp_path)
    vector = adopted("[" + QUEUE.replace("\n", "\n ").rstrip() + "]\n", tmp_path)
    one_line = adopted("[" + QUEUE.replace("\n", ", ") + "]", tmp_path)
    array = adopted("[" + ",\n".join(json_of(QUEUE).splitlines()) + "]", tmp_path)
    for history in (tagged, vector, one_line, array):
        assert history.rows == plain.rows
        assert history.damage == []


def test_other_orders_of_keys_and_odd_spaces_are_read(tmp_path):
    lines = (
        "{:index 0, :time 10, :type :invoke, :process 0, :f :txn, :value [[:send 0 1] [:poll]]}\n"
        "; a comment\n"
        "  {:index 1,   :time 20\t:type :ok :process 0 :f :txn :value [ [:send 0, [0 1]]  (:poll {0 [ [0 1N] ] }) ]}\r\n"
    )
    history = adopted(lines, tmp_path)
    assert history.shown() == [(0, "txn", "ok", [("send", "0", "1", 0, 20), ("poll", "0", "1", 0, 20)])]
    assert history.damage == []


def test_the_nemesis_leaves_receipts(tmp_path):
    """Their effect was not measured."""
    history = Adopted(DATA / "queue.edn", tmp_path / "run")
    (receipt,) = history.faults
    assert (receipt["kind"], receipt["planned_ns"], receipt["injected_ns"]) == ("partition", 3400000000, 3450000000)
    assert (receipt["healed_ns"], receipt["effective"]) == (3850000000, None)
    assert json.loads(receipt["evidence"])["answered"][0] == "isolated"


def test_kills_pauses_and_roles_are_paired_with_their_undoing(tmp_path):
    steps = [
        "kill",
        "kill",
        "pause",
        "pause",
        ["bufstream", "kill"],
        ["bufstream", "kill"],
        "start",
        "start",
        "resume",
        "resume",
        "check",
        "check",
    ]
    lines = [json.dumps({"type": "info", "f": f, "process": "nemesis", "time": time}) for time, f in enumerate(steps)]
    client = [
        json.dumps({"type": type, "f": "poll", "process": 0, "time": 50, "value": [["poll", {}]]}) for type in ("invoke", "ok")
    ]
    history = adopted("\n".join([*lines, *client]), tmp_path)
    assert [(row["kind"], row["role"], row["injected_ns"], row["healed_ns"]) for row in history.faults] == [
        ("kill", "", 1, 7),
        ("pause", "", 3, 9),
        ("kill", "bufstream", 5, 0),
        ("check", "", 11, 11),
    ]


def test_broken_lines_are_named_and_the_rest_is_judged(tmp_path):
    """A completion that cannot be read leaves its operation undecided; its sends are still known."""
    lines = QUEUE.splitlines(keepends=True)
    lines[6] = lines[6].replace("[[7 9]]", "[[7 9]")
    history = adopted("".join(lines), tmp_path)
    assert [(item.file, item.line) for item in history.damage] == [("history.edn", 7)]
    assert (history.rows[1]["type"], history.rows[1]["end"]) == ("info", None)
    assert [mop["partition"] for mop in history.rows[1]["mops"]] == ["0", "1"]
    assert json.loads((history.dir / "damage.json").read_text())["gaps"][0]["why"].startswith("not understood")


def test_a_completion_whose_invocation_was_broken_still_counts(tmp_path):
    history = adopted("{:type :invoke, :f :txn, :va\n" + OVER % ("ok", "[[:send 0 [0 1]]]"), tmp_path)
    assert history.shown() == [(0, "txn", "ok", [("send", "0", "1", 0, 20)])]
    assert [item.line for item in history.damage if item.line] == [1, 2]


def test_a_history_cut_off_in_the_middle_says_so(tmp_path):
    history = adopted(QUEUE[:-40], tmp_path)
    assert [(item.line, item.why[:21]) for item in history.damage] == [(19, "cut off in the middle")]
    assert len(history.rows) == 6


def test_what_one_line_breaks_belongs_to_that_line(tmp_path):
    """The invocation that cannot be read is found out only when its process goes on."""
    history = adopted(BEGUN % "[[:sing 0 1]]" + txn("[[:send 0 1]]", "[[:send 0 [0 1]]]"), tmp_path)
    assert [item.line for item in history.damage] == [1]
    assert [row["type"] for row in history.rows] == ["ok"]


def test_a_value_sent_twice_to_one_key_is_left_out_and_reported(tmp_path):
    """The reader may have got either: the sends and the read are left out, and nothing else."""
    polled = txn("[[:poll]]", "[[:poll {0 [[0 1] [3 2] [5 1]] 1 [[4 1]]}]]")
    sent = txn("[[:send 0 1]]", "[[:send 0 [0 1]]]") + txn("[[:send 0 1] [:send 1 1]]", "[[:send 0 [5 1]] [:send 1 [4 1]]]")
    history = adopted(sent + polled, tmp_path)
    assert [[(mop["partition"], mop["offset"]) for mop in row["mops"]] for row in history.rows] == [
        [],
        [("1", 4)],
        [("0", 3), ("1", 4)],
    ]
    assert [item.line for item in history.damage if "more than once" in item.why] == [1, 3]


def test_polled_records_without_offset_are_left_out_and_reported(tmp_path):
    """The others of that key go along: where among them the one without offset lies is unknown."""
    history = adopted(txn("[[:poll]]", "[[:poll {0 [[nil 1] [3 2]] 1 [[4 5]]}]]"), tmp_path)
    assert [(mop["partition"], mop["offset"]) for mop in history.rows[0]["mops"]] == [("1", 4)]
    assert json.loads(history.rows[0]["detail"]) == {"unheard": True}
    assert "without an offset" in history.damage[0].why


@pytest.mark.parametrize(("size", "cores"), [(1, 1), (150, 2), (700, 1), (4000, 1)])
def test_blocks_of_any_size_give_the_same_history(tmp_path, monkeypatch, size, cores):
    """Operations begin in one block and end in another; one process parses them, or several."""
    monkeypatch.setattr("fencepost.harness.interop.adopt.cores", lambda: cores)
    whole = Adopted(DATA / "queue.edn", tmp_path / "whole")
    parts = Adopted(DATA / "queue.edn", tmp_path / "parts", block=size)
    assert parts.rows == whole.rows
    assert parts.faults == whole.faults
    assert parts.damage == whole.damage


def test_compressed_histories_are_read(tmp_path):
    history = adopted(gzip.compress(QUEUE.encode()), tmp_path, "history")
    assert len(history.rows) == 7


def test_times_that_are_missing_are_places(tmp_path):
    text = "{:type :invoke, :f :poll, :value [[:poll]], :process 0}\n{:type :ok, :f :poll, :value [[:poll]], :process 0}\n"
    rows = adopted(text * 2, tmp_path).rows
    assert [(row["time"], row["end"]) for row in rows] == [(0, 1), (2, 3)]


def test_the_plan_says_what_is_taken_for_granted(tmp_path):
    """`transactional` because there is a txn, `subscribed` because there is a subscribe; what was given counts more."""
    plan = json.loads((Adopted(DATA / "queue.edn", tmp_path / "run").dir / "plan.json").read_text())
    assert plan["contract"]["acks"] == "all"
    assert (plan["contract"]["transactional"], plan["contract"]["consumption"]) == ("true", "subscribed")
    assert (plan["workload"]["kind"], plan["source"]["format"]) == ("foreign", "jepsen-edn")
    given = Adopted(DATA / "queue.edn", tmp_path / "given", overrides={"transactional": "false", "isolation": "read_uncommitted"})
    assert json.loads((given.dir / "plan.json").read_text())["overridden"]["transactional"] == "false"
    assert [row["f"] for row in given.rows if row["process"] == 6] == ["send"]
    assert {row["isolation"] for row in given.rows} == {None}  # by the contract, whichever judges


def test_writers_are_those_that_ever_send(tmp_path):
    history = Adopted(DATA / "queue.edn", tmp_path / "run")
    assert {row["process"]: row["role"] for row in history.rows} == {0: "writer", 1: "writer", 6: "writer"}
    only = adopted("{:type :invoke, :f :poll, :value [[:poll]], :process 4}\n", tmp_path)
    assert only.rows[0]["role"] == "reader"


def test_a_history_of_another_workload_is_refused_with_what_is_in_it(tmp_path):
    with pytest.raises(HistoryError, match=r"no Kafka operation in it .only read"):
        adopted("{:type :invoke, :f :read, :value [1 nil], :process 0}\n", tmp_path)
