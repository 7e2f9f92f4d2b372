"""One story for each class of cycles, and its look-alikes."""

import pytest
from support.histories import History, answer, finding
from support.long_histories import judge_as_long

from fencepost.checkers.anomalies.cycles import CHECKS

MS = 1_000_000


@pytest.fixture
def judge_cycles(judged):
    """Judge a story with the graph checks alone. Its edges come to the driver, because it is short."""
    return lambda history, **contract: judged(history, contract, list(CHECKS.values()))


def together(history):
    """Let every operation of a story run at the same time."""
    first, last = min(op["time"] for op in history.ops), max(op["end"] for op in history.ops)
    for at, op in enumerate(history.ops):
        op["time"], op["end"] = first + at, last
    return history


def cycle_classes(document):
    """Names of the classes that have a cycle."""
    return {row["name"] for row in (*document["properties"], *document["allowed"]) if row["verdict"] == "violated"}


def crossed(**fields):
    """Two transactions whose records follow each other one way in t-0 and the other way in t-1."""
    h = History()
    h.txn(0, {"t-0": 5, "t-1": 6})
    h.txn(1, {"t-0": 6, "t-1": 5}, **fields)
    return together(h)


def test_interleaved_transactions_are_g0_and_permitted(judge_cycles):
    """Kafka orders each partition by itself."""
    document = judge_cycles(crossed())
    assert cycle_classes(document) == {"G0"}
    assert document["verdict"] != "invalid"
    assert finding(document, "G0")["cycle"]["vertices"] == [0, 1]


def test_the_sentence_says_who_comes_before_whom_and_why(judge_cycles):
    """Both directions, with the records."""
    sentence = finding(judge_cycles(crossed()), "G0")["sentence"]
    assert "T1 before T2, because T1 wrote t-0@5 right before T2's t-0@6" in sentence
    assert "T2 before T1, because T2 wrote t-1@5 right before T1's t-1@6" in sentence


def test_g0_is_forbidden_when_the_contract_says_so(judge_cycles):
    """`cycles` lists what a workload forbids."""
    document = judge_cycles(crossed(), cycles="G1c, G0")
    assert document["verdict"] == "invalid"
    assert finding(document, "G0")["forbidden"]


def test_an_aborted_transaction_is_in_no_version_order(judge_cycles):
    """Its records lie below none and above none."""
    assert cycle_classes(judge_cycles(crossed(type="fail"))) == set()


def test_transactions_in_one_order_everywhere_are_no_cycle(judge_cycles):
    """The look-alike of G0."""
    h = History()
    h.txn(0, {"t-0": 5, "t-1": 5})
    h.txn(1, {"t-0": 6, "t-1": 6})
    assert cycle_classes(judge_cycles(together(h))) == set()


def read_each_other(isolation="read_committed"):
    """Two transactions that each polled what the other one wrote."""
    h = History()
    h.txn(0, {"t-0": 5}, isolation=isolation)
    h.txn(1, {"t-1": 5}, isolation=isolation)
    h.ops[0]["mops"].append((1, "t-1", h.v("t-1", 5), 5, None, h.now))
    h.ops[1]["mops"].append((1, "t-0", h.v("t-0", 5), 5, None, h.now))
    return together(h)


def test_transactions_that_read_each_other_are_forbidden(judge_cycles):
    """Each would have to be decided before the other."""
    document = judge_cycles(read_each_other())
    assert cycle_classes(document) == {"G1c-wr", "G1c"}
    assert document["verdict"] == "invalid"


def test_read_uncommitted_readers_may_read_each_other(judge_cycles):
    """Their reads were not decided yet; only the permitted class says so."""
    document = judge_cycles(read_each_other("read_uncommitted"), isolation="read_uncommitted")
    assert cycle_classes(document) == {"G1c"}
    assert document["verdict"] != "invalid"


def test_a_read_uncommitted_final_reader_makes_no_forbidden_cycle(judge_cycles):
    """It may get what is undecided: T writes, a final reader gets it, B begins after that and commits, T polls B's record."""
    h = History()
    long = h.txn(0, {"t-0": 5})
    h.poll(7, {"t-0": [5]}, "read_uncommitted")
    h.txn(1, {"t-1": 5})
    h.ops[long]["mops"].append((1, "t-1", h.v("t-1", 5), 5, None, h.now + MS))
    h.ops[long]["end"] = h.now + 3 * MS
    h.ops[long]["decided"] = h.now + 2 * MS
    assert not any(name.startswith("G1c-wr") for name in cycle_classes(judge_cycles(h)))


def test_a_read_of_a_later_operations_record_is_a_realtime_cycle(judge_cycles):
    """Process 1 polled a record of a transaction that began after process 1's had ended."""
    h = History()
    reader = h.txn(1, {"t-1": 5})
    h.txn(0, {"t-0": 5})
    h.ops[reader]["mops"].append((1, "t-0", h.v("t-0", 5), 5, None, h.ops[reader]["time"] + 10))
    document = judge_cycles(h)
    assert "G1c-wr-realtime" in cycle_classes(document)
    assert document["verdict"] == "invalid"


def test_a_process_that_polls_its_own_later_record_is_a_process_cycle(judge_cycles):
    """One process, one step back."""
    h = History()
    reader = h.txn(0, {"t-1": 5})
    h.txn(0, {"t-0": 5})
    h.ops[reader]["mops"].append((1, "t-0", h.v("t-0", 5), 5, None, h.ops[reader]["time"] + 10))
    assert "G1c-wr-process" in cycle_classes(judge_cycles(h))


def test_an_operation_of_unknown_outcome_may_act_later_and_closes_no_realtime_cycle(judge_cycles):
    """An operation that ended as info is not over, so nothing comes after it in real time."""
    h = History()
    reader = h.txn(1, {"t-1": 5}, "info")
    h.txn(0, {"t-0": 5})
    h.ops[reader]["mops"].append((1, "t-0", h.v("t-0", 5), 5, None, h.now))
    assert cycle_classes(judge_cycles(h)) == set()


def test_a_transaction_that_reads_another_which_wrote_right_above_it_is_g1c(judge_cycles):
    """T0 polled T1's record, and T1's other record lies above T0's."""
    h = History()
    h.txn(0, {"t-0": 5})
    h.txn(1, {"t-0": 6, "t-1": 5})
    h.ops[0]["mops"].append((1, "t-1", h.v("t-1", 5), 5, None, h.now))
    document = judge_cycles(together(h))
    assert cycle_classes(document) == {"G1c"}
    assert {edge["kind"] for edge in finding(document, "G1c")["cycle"]["edges"]} == {"ww", "wr"}


def test_a_poll_that_saw_half_of_a_transaction_is_g_single(judge_cycles):
    """It got the record in t-1 and stopped right below the one in t-0."""
    h = History()
    h.txn(0, {"t-0": 4})
    h.txn(1, {"t-0": 5, "t-1": 5})
    h.poll(2, {"t-0": [4], "t-1": [5]})
    document = judge_cycles(together(h))
    assert cycle_classes(document) == {"G-single"}
    assert document["verdict"] != "invalid"


def test_a_poll_that_saw_all_of_a_transaction_is_no_cycle(judge_cycles):
    """The look-alike: one record more."""
    h = History()
    h.txn(0, {"t-0": 4})
    h.txn(1, {"t-0": 5, "t-1": 5})
    h.poll(2, {"t-0": [4, 5], "t-1": [5]})
    assert cycle_classes(judge_cycles(together(h))) == set()


def test_a_poll_that_lags_behind_is_g_single_in_real_time(judge_cycles):
    """The next record was there before the poll began."""
    h = History()
    h.txn(0, {"t-0": 4})
    h.txn(1, {"t-0": 5})
    h.poll(2, {"t-0": [4]})
    document = judge_cycles(h)
    assert cycle_classes(document) == {"G-single-realtime"}
    assert answer(document, "G-single-realtime")["compared"] == 1


def test_two_pollers_that_disagree_on_the_order_are_g2(judge_cycles):
    """Each got one record and stands right below the other."""
    h = History()
    h.txn(8, {"t-0": 4})
    h.txn(9, {"t-1": 4})
    h.txn(0, {"t-0": 5})
    h.txn(1, {"t-1": 5})
    h.poll(2, {"t-0": [4, 5], "t-1": [4]})
    h.poll(3, {"t-0": [4], "t-1": [4, 5]})
    document = judge_cycles(together(h))
    assert cycle_classes(document) == {"G2"}
    assert len(finding(document, "G2")["cycle"]["vertices"]) == 4


def test_a_run_without_records_exercises_no_cycles(judge_cycles):
    """Nothing is compared."""
    h = History()
    h.poll(0, {})
    document = judge_cycles(h)
    assert {row["verdict"] for row in (*document["properties"], *document["allowed"])} == {"not exercised"}


@pytest.mark.parametrize("story", [crossed, read_each_other])
def test_edges_on_the_executors_give_the_same_verdict_as_edges_in_the_driver(judge_cycles, judged_by_spark, monkeypatch, story):
    """As those of a long history do."""
    near = judge_cycles(story())
    judge_as_long(monkeypatch)
    far = judged_by_spark(story(), checks=list(CHECKS.values()))
    assert cycle_classes(near)
    assert cycle_classes(far) == cycle_classes(near)
    assert all(finding(far, name)["cycle"] == finding(near, name)["cycle"] for name in cycle_classes(near))
