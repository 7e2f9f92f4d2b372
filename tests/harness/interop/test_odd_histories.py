"""Odd ways to write a Jepsen history down, and files that are broken somewhere."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache

import pytest
from support.jepsen_example import DATA, Adopted, adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, GapKind, missing_evidence
from fencepost.harness.history.run_directory import open_run

QUEUE = (DATA / "queue.edn").read_text()
INVOKE = "{:type :invoke, :f :txn, :value [[:send 0 1] [:poll]], :time 10, :process 0, :index 0}\n"
OK = "{:type :ok, :f :txn, :value [[:send 0 [0 1]] [:poll {0 [[0 1]]}]], :time 20, :process 0, :index 1}\n"


@pytest.fixture(scope="module")
def verdict_on(tmp_path_factory):
    """The verdict's document on a text; each is judged once."""

    @cache
    def judged(text, block=8 << 20):
        return judge(open_run(adopted(text, tmp_path_factory.mktemp("judged"), block=block).dir), here=True)

    return judged


def plan(history):
    return json.loads((history.dir / "plan.json").read_text())


@pytest.mark.parametrize("before", ["\ufeff", "\ufeff; exported on Friday\n", "\n\n; {:type :invoke, :f :txn\n"])
def test_a_mark_or_a_comment_before_the_first_operation(tmp_path, before):
    plain = adopted(INVOKE + OK, tmp_path)
    for text in (before + INVOKE + OK, before + "[" + INVOKE + OK + "]"):
        history = adopted(text, tmp_path)
        assert [row["mops"] for row in history.rows] == [row["mops"] for row in plain.rows]
        assert history.damage == []


def test_a_marked_and_compressed_history(tmp_path):
    assert len(adopted(gzip.compress(("\ufeff" + INVOKE + OK).encode()), tmp_path).rows) == 1


def test_comments_in_a_vector_of_operations_hide_nothing(tmp_path):
    commented = OK.replace(":time 20", "; twenty]]\n :time 20")
    text = f'[{INVOKE} ; {{:type :ok "unbalanced\n{commented}]'
    history = adopted(text, tmp_path)
    assert history.damage == []
    assert history.shown() == adopted(INVOKE + OK, tmp_path).shown()


def test_a_semicolon_in_a_text_is_no_comment(tmp_path):
    history = adopted(f"[{INVOKE.replace(' 1]', chr(32) + chr(34) + 'a;b' + chr(34) + ']')}]", tmp_path)
    assert history.shown()[0][3] == [("send", "0", "a;b", None, None)]


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        (":value [0], :process 0", ":value [0], :seek-to-beginning? true, :process 0"),
        (":value [0], :process 0, :note 5", ":value [0], :process 0, :note 5, :seek-to-beginning? true"),
        (":value [0], :process 0, :error [:a 5]", ":value [0], :process 0, :error [:a 5], :seek-to-beginning? true"),
    ],
)
def test_a_line_with_more_keys_than_the_ones_before_loses_none(tmp_path, shorter, longer):
    """The shape of the first line fits the longer one too, if some value is taken for more than it is."""
    lines = [f"{{:type {type}, :f :assign, {keys}}}\n" for keys in (shorter, longer) for type in (":invoke", ":ok")]
    history = adopted("".join(lines), tmp_path)
    assert history.damage == []
    assert [json.loads(row["detail"]) for row in history.rows] == [
        {"partitions": ["0"]},
        {"partitions": ["0"], "seek_to_beginning": True},
    ]


def test_keys_that_are_keywords_are_read_as_quickly_as_numbers(tmp_path):
    """A comma and a keyword inside a value are no further key."""
    value = "[[:poll {:x [[0 1] [1 2]], :y [[0 1]]}] [:send :x 3]]"
    lines = [f"{{:type {type}, :f :txn, :value {value}, :process 0}}\n" for type in (":invoke", ":ok")]
    history = adopted("".join(lines) * 2, tmp_path)
    assert [(mop["partition"], mop["offset"]) for mop in history.rows[1]["mops"]] == [("x", 0), ("x", 1), ("y", 0)]


def test_json_that_keeps_the_colons_of_keywords(tmp_path):
    lines = [
        {"type": ":invoke", "f": ":txn", "process": 0, "value": [[":send", ":x", 1], [":poll"]]},
        {"type": ":ok", "f": ":txn", "process": "0", "value": [[":send", ":x", [0, 1]], [":poll", {":x": [[0, 1]]}]]},
    ]
    history = adopted("\n".join(map(json.dumps, lines)), tmp_path)
    assert history.damage == []
    assert [(mop["kind"], mop["offset"]) for mop in history.rows[0]["mops"]] == [(0, 0), (1, 0)]
    assert len({mop["v"] for mop in history.rows[0]["mops"]}) == len({mop["partition"] for mop in history.rows[0]["mops"]}) == 1


@pytest.mark.parametrize("polled", [[["x", [[0, 1]]], ["y", []]], ["x", [[0, 1]], "y", []], {"x": [[0, 1]], "y": []}])
def test_a_poll_in_json_is_a_map_pairs_or_a_flat_list(tmp_path, polled):
    lines = [
        {"type": "invoke", "f": "poll", "process": 0, "value": [["poll"]]},
        {"type": "ok", "f": "poll", "process": 0, "value": [["poll", polled]]},
    ]
    history = adopted("\n".join(map(json.dumps, lines)), tmp_path)
    assert [(mop["partition"], mop["offset"]) for mop in history.rows[0]["mops"]] == [("x", 0)]


# --------------------------------------------------------------------------------------------------
# Consumers
# --------------------------------------------------------------------------------------------------
def polls(*answers: str) -> str:
    begun = "{:type :invoke, :f :poll, :value [[:poll] [:poll]], :process 0}\n"
    return "".join(f"{begun}{{:type {answer}, :process 0}}\n" for answer in answers)


def test_rebalances_and_keys_in_several_polls_are_recorded_for_members_of_groups(tmp_path):
    completion = ":ok, :f :poll, :value [[:poll {0 [[0 1]]}] [:poll {0 [[1 2]], :b []}]]"
    text = polls(f"{completion}, :rebalance-log [{{:type :revoked, :keys [:b]}} {{:type :assigned, :keys (0 :b)}}]", completion)
    subscribed = "{:type :invoke, :f :subscribe, :value [0], :process 0}\n{:type :ok, :f :subscribe, :value [0], :process 0}\n"
    first, second = adopted(subscribed + text, tmp_path).rows[1:]
    assert json.loads(first["detail"]) == {"rebalances": [["revoked", ["b"]], ["assigned", ["0", "b"]]], "parted": ["0"]}
    assert json.loads(second["detail"]) == {"parted": ["0"]}
    assert [row["detail"] for row in adopted(text, tmp_path).rows] == [None, None], "no process is a member of a group"


def test_a_poll_without_result_in_an_undecided_operation_is_unheard_of(tmp_path):
    history = adopted(
        polls(":info, :f :poll, :value [[:poll {}] [:poll]]", ":fail, :f :poll, :value [[:poll] [:poll]]"), tmp_path
    )
    assert [row["detail"] for row in history.rows] == ['{"unheard":true}', None]


def test_several_records_in_one_send_are_a_transaction_unless_they_say_otherwise(tmp_path):
    """Jepsen's clients send several in transactions only; our own export says when they are not."""
    lines = [f"{{:type {type}, :f :send, :value [[:send 0 1] [:send 0 2]], :process 0}}\n" for type in (":invoke", ":info")]
    assert plan(adopted("".join(lines), tmp_path))["contract"]["transactional"] == "true"
    plain = "".join(lines).replace(":process 0", ":process 0, :transactional false")
    assert plan(adopted(plain, tmp_path))["contract"]["transactional"] == "false"
    single = "".join(lines).replace(" [:send 0 2]", "")
    assert plan(adopted(single, tmp_path))["contract"]["transactional"] == "false"


# --------------------------------------------------------------------------------------------------
# Broken files
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("broken", "held"),
    [
        ("{:type :ok, :f :poll, :value [[:po\n", {"polls", "positions"}),
        ("{:type :invoke, :f :send, :va\n", {"sends", "outcomes"}),
        ("{:type :invoke, :f :txn, :va\n", {"sends", "outcomes", "polls", "positions"}),
        ("%&$\n", {"sends", "outcomes", "polls", "positions"}),
        ("{:type :invoke, :f :assign, :value [\n", {"positions"}),
        ("{:type :info, :f :start-partition, :process :nemesis, :value [\n", {"receipts"}),
        ("{:type :invoke, :f :debug-topic-partitions, :value [\n", set()),
        ("{:type :ok, :f :poll, :f :txn, :value [[:po\n", {"sends", "outcomes", "polls", "positions"}),
        ("{:type :ok, :f :assign, :value [0{:type :ok, :f :send, :va\n", {"sends", "outcomes", "polls", "positions"}),
        ('{:type :info, :f :txn, :error "the nemesis", :value [[:se\n', {"sends", "outcomes", "polls", "positions"}),
    ],
)
def test_a_broken_line_is_a_gap_in_what_it_may_have_held(tmp_path, broken, held):
    history = adopted(INVOKE + OK + broken + QUEUE.splitlines(keepends=True)[-1], tmp_path)
    (gap,) = (gap for gap in open_run(history.dir).gaps if gap.line)
    assert (gap.line, {kind.value for kind in gap.evidence}) == (3, held)


SENT = [
    "{:type :invoke, :f :txn, :value [[:send 0 1]], :time 1000000000, :process 0, :index 0}\n",
    "{:type :ok, :f :txn, :value [[:send 0 [0 1]]], :time 2000000000, :process 0, :index 1}\n",
    "{:type :invoke, :f :poll, :value [[:poll]], :time 3000000000, :process 1, :index 2}\n",
    "{:type :ok, :f :poll, :value [[:poll {0 [[0 1] [1 2]]}]], :time 4000000000, :process 1, :index 3}\n",
    "{:type :invoke, :f :txn, :value [[:send 0 2]], :time 2500000000, :process 2, :index 4}\n",
    "{:type :ok, :f :txn, :value [[:send 0 [1 2]]], :time 2600000000, :process 2, :index 5}\n",
    "{:type :invoke, :f :poll, :value [[:poll]], :time 5000000000, :process 1, :index 6}\n",
    "{:type :ok, :f :poll, :value [[:poll {}]], :time 6000000000, :process 1, :index 7}\n",
]
LEFT = {
    "lines are missing between others": ([*SENT[:4], *SENT[6:]], "by their indexes 2 lines are missing between others"),
    "lines are there twice instead of others": ([*SENT[:4], *SENT[2:4], *SENT[6:]], "and 2 have the index of another line"),
    "a number with a byte of noise": ([*SENT[:5], SENT[5].replace("[1 2]", "[1 2\0]"), *SENT[6:]], "control characters"),
    "a number that is none": ([*SENT[:5], SENT[5].replace("[1 2]", "[1 2\\3]"), *SENT[6:]], "not understood"),
    "a key that is none": ([*SENT[:5], SENT[5].replace(":send 0", ":send 0.5"), *SENT[6:]], "neither a number nor a text"),
    "a value that is none": ([*SENT[:5], SENT[5].replace("[1 2]", "[1 2.5]"), *SENT[6:]], "neither a number nor a text"),
    "a read value that is none": ([*SENT[:3], SENT[3].replace("[1 2]", "[1 {}]"), *SENT[4:]], "neither a number nor a text"),
    "a time beyond 64 bits": ([*SENT[:5], SENT[5].replace("2600000000", "9" * 30), *SENT[6:]], "it has no time"),
    "a process beyond 64 bits": ([*SENT[:5], SENT[5].replace(":process 2", ":process " + "9" * 30), *SENT[6:]], "the process is"),
    "a completion without its time": ([*SENT[:5], SENT[5].replace(":time 2600000000, ", ""), *SENT[6:]], "it has no time"),
    "an invocation without its time": ([*SENT[:4], SENT[4].replace(":time 2500000000, ", ""), *SENT[5:]], "it has no time"),
    "a time that is none": ([*SENT[:5], SENT[5].replace("2600000000", '"soon"'), *SENT[6:]], "it has no time"),
}


@pytest.mark.parametrize("form", ["lines", "vector", "json"])
@pytest.mark.parametrize(("lines", "why"), LEFT.values(), ids=LEFT)
def test_lost_lines_that_indexes_and_times_show_violate_nothing(tmp_path, verdict_on, lines, why, form):
    """The whole history is lawful; without these lines a record would be of no producer, or read before it was sent."""
    from fencepost.harness.interop.jepsen import edn

    if form == "json" and why in ("control characters", "not understood"):
        lines = [line.replace("[1 2\0]", "[1 2.5]").replace("[1 2\\3]", "[1 []]") for line in lines]  # JSON has no such line

    def written(lines):
        if form == "json":
            return "".join(json.dumps(edn.read(line)) + "\n" for line in lines)
        return "[" + "".join(lines) + "]" if form == "vector" else "".join(lines)

    whole = verdict_on(written(SENT))
    assert (whole["verdict"], whole["gaps"]) == ("valid", [])
    history = adopted(written(lines), tmp_path, "lacking")
    assert any(why in gap.why or (form == "json" and "not understood" in gap.why) for gap in history.damage), history.damage
    assert judge(open_run(history.dir), here=True)["verdict"] == "unknown"


ORDERED = [
    re.sub(":index [0-9]+", f":index {number}", line)
    for number, line in enumerate([*SENT[:2], *SENT[4:6], *SENT[2:4], *SENT[6:]])
]
OUT_OF_ORDER = {
    "a poll is there twice": [*ORDERED[:6], *ORDERED[4:]],
    "a poll is there again at the end": [*ORDERED, *ORDERED[4:6]],
    "all is there twice": [*ORDERED, *ORDERED],
    "the last poll comes first": [*ORDERED[6:], *ORDERED[:6]],
    "a clock was set back": [*ORDERED[:6], ORDERED[6].replace("5000000000", "1500000000"), ORDERED[7]],
}
QUICK = ("a poll is there twice", "index")  # of what is read in small blocks, which is dear
CLOCK = ("a clock was set back", "time")  # without times it is not seen


def dear(name, *case):
    return [pytest.mark.nightly] if name == "blocks" and case != QUICK else []


@pytest.mark.parametrize(
    ("what", "lacking", "block"),
    [
        pytest.param(what, key, block, id=f"{what}-{key}-{name}", marks=dear(name, what, key))
        for what in OUT_OF_ORDER
        for key in ("nothing", "index", "time")
        for name, block in (("one block", 8 << 20), ("blocks", 200))
        if (what, key) != CLOCK
    ],
)
def test_lines_that_do_not_follow_one_another_in_their_process_violate_nothing(tmp_path, verdict_on, what, lacking, block):
    """A doubled poll looks as if its consumer had gone back, and a clock that was set back as if reads came before writes."""
    whole, damaged = (re.sub(f", :{lacking} [0-9]+", "", "".join(lines)) for lines in (ORDERED, OUT_OF_ORDER[what]))
    assert verdict_on(whole, block)["verdict"] == "valid"
    run = open_run(adopted(damaged, tmp_path, "damaged", block=block).dir)
    assert any("does not follow" in gap.why for gap in run.gaps), run.gaps
    assert judge(run, here=True)["verdict"] == "unknown"


def test_without_indexes_a_line_that_cannot_be_read_may_stand_for_several(tmp_path):
    """A hole in the file begins in an assignment and ends behind a send: the record that was read is no phantom."""
    lines = ["{:type :invoke, :f :assign, :value [0], :process 1}\n", *ORDERED]
    text = re.sub(", :(index|time) [0-9]+", "", "".join(lines))
    hole = text[: text.index("[0]")] + text[text.index("[:send 0 [1 2]]") :]  # of the send, as of all before it, nothing is left
    assert judge(open_run(adopted(hole, tmp_path).dir), here=True)["verdict"] == "unknown"


def test_a_whole_history_has_no_gap_and_one_without_its_beginning_may_lack_sends(tmp_path):
    assert open_run(Adopted(DATA / "queue.edn", tmp_path / "whole").dir).gaps == ()
    history = adopted("".join(QUEUE.splitlines(keepends=True)[7:]), tmp_path)
    assert Evidence.SENDS in missing_evidence(open_run(history.dir).gaps)


@pytest.mark.parametrize("step", [197, pytest.param(7, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("form", "first"), [("lines", 0), ("vector", 7), ("json", 13), ("array", 19), ("gzip", 25)])
def test_a_file_cut_at_any_byte_is_read_as_far_as_it_goes_or_refused(tmp_path, form, first, step):
    """At every 197th, in each form at others; the nightly at every 7th."""
    from fencepost.harness.interop.jepsen import edn

    lines = [INVOKE, *QUEUE.splitlines(keepends=True)[:9]]
    objects = [json.dumps(edn.read(line), default=str) for line in lines]
    whole = {
        "lines": "".join(lines),
        "vector": "[" + "".join(lines) + "]",
        "json": "\n".join(objects),
        "array": "[" + ",\n".join(objects) + "]",
        "gzip": "".join(lines),
    }[form].encode()
    whole = gzip.compress(whole) if form == "gzip" else whole
    path, seen = tmp_path / "cut", 0
    for end in range(first, len(whole), step):
        path.write_bytes(whole[:end])
        try:
            history = Adopted(path, tmp_path / f"run-{end}")
        except HistoryError:
            continue
        assert len(history.rows) >= seen, "a longer piece has no fewer operations"
        seen = len(history.rows)
        assert all(item.file == "cut" and item.line >= 1 for item in history.damage)
    assert seen >= (0 if form == "gzip" else 4)


@pytest.mark.parametrize("text", ["", "\n\n", "; nothing\n", "[]", "[\n]", "{}", "\ufeff"])
def test_a_file_with_nothing_in_it_is_refused(tmp_path, text):
    with pytest.raises(HistoryError):
        adopted(text, tmp_path)


def test_the_nemesis_alone_is_no_history_of_kafka(tmp_path):
    with pytest.raises(HistoryError, match="no Kafka operation"):
        adopted("{:type :info, :f :start-partition, :value nil, :process :nemesis, :time 5}\n", tmp_path)


@pytest.mark.parametrize(
    "value",
    ["5", '"x"', "{5 [[0 1]]}", "[nil]", "[[]]", "[[:poll 5]]", "[[:poll {5 nil}]]", "[[:poll {5 [nil]}]]", "[[:send 5]]"],
)
def test_a_value_that_is_no_vector_of_micro_operations_is_named_in_words(tmp_path, value):
    line = f"{{:type :ok, :f :txn, :value {value}, :time 40, :process 0, :index 3}}\n"
    history = adopted(
        INVOKE + OK + INVOKE.replace("10", "30").replace(":index 0", ":index 2").replace(" 1]", " 2]") + line, tmp_path
    )
    (gap,) = [gap for gap in history.damage if gap.line == 4]
    assert "micro-operation" in gap.why
    assert not re.search("NoneType|object|unpack|index out", gap.why)


def test_indexes_that_repeat_are_not_believed(tmp_path):
    """Jepsen's own tests have some; then lines number the operations."""
    history = adopted(INVOKE + OK + INVOKE.replace(" 1]", " 2]") + OK.replace(" 1]", " 2]"), tmp_path)
    assert [row["op"] for row in history.rows] == [0, 2]
    assert [(gap.line, gap.kind) for gap in history.damage] == [(3, GapKind.UNRELIABLE)]


def test_a_directory_is_its_history(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "results.edn").write_text("{:valid? true}")
    (folder / "history.edn").write_text(INVOKE + OK)
    assert len(Adopted(folder, tmp_path / "run").rows) == 1
