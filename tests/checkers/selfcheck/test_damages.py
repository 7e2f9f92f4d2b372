"""Damages that the selfcheck plants are what they say: the slow, obvious references see the same in them as the checker does."""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.graph_local import local_cycles
from support.graph_reference import CLASSES, shortest_cycles
from support.histories import UNCOMMITTED, History, violated, write_history
from support.installed import DAMAGES, rule_of
from support.overlapping_history import overlapping_history
from support.reference import anomalies, by_records

from fencepost.checkers.anomalies import consecutive_reads
from fencepost.checkers.contract.rules import ALLOWED, full_contract
from fencepost.checkers.model.history_rows import read_rows, write_rows
from fencepost.checkers.model.lawful_history import CONTRACT, write_lawful
from fencepost.checkers.selfcheck.prefix_history import prepend, small_lawful
from fencepost.checkers.selfcheck.schedules import SCHEDULES, scheduled_history
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.history import OPERATIONS
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run

MOP = ("kind", "partition", "v", "offset", "began", "ended")
BY_NAME = {damage.name: damage for damage in DAMAGES}
WITHIN = [damage for damage in DAMAGES if damage.name not in SCHEDULES]


OPTIONAL = {column.name for column in OPERATIONS if column.optional}


def operations(rows):
    """A taken-apart history as the references read it."""
    with TemporaryDirectory() as folder:
        write_rows(rows, Path(folder) / "history.parquet")
        ops = pq.ParquetFile(Path(folder) / "history.parquet").read(use_threads=False).to_pylist()
    known = [{name: value for name, value in op.items() if name not in OPTIONAL or value} for op in ops]
    return [{**op, "mops": [tuple(mop[name] for name in MOP) for mop in op["mops"]]} for op in known]


def taken_apart(ops):
    """Operations as the selfcheck reads them."""
    with TemporaryDirectory() as folder:
        write_history(Path(folder), ops)
        return read_rows(Path(folder) / "history.parquet")


def alone(name):
    """A schedule by itself, beside one send."""
    h = History()
    h.send(0, {"t-0": [5]})
    beside = taken_apart(h.ops)
    return operations(scheduled_history(SCHEDULES[name][0], beside).rows(beside.table.schema))


@pytest.mark.parametrize("name", CLASSES)
def test_a_schedule_holds_the_cycle_of_its_class_and_no_other(name):
    """By enumeration of all cycles; a cycle of reads is one of reads and writes as well."""
    assert set(shortest_cycles(alone(name))) == {name, name.replace("G1c-wr", "G1c")}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_has_no_other_anomaly(name):
    """No record is lost, doubled, out of order, early or torn. Records of two operations may alternate in a partition.

    Who reads past an open transaction has skipped its record.
    """
    expected = {"int-send-skip", name, *(("lso-overrun", "poll-skip") if name == "lso-overrun" else ())}
    assert {other for other, matches in anomalies(alone(name)).items() if matches} <= expected


@pytest.mark.parametrize(("name", "second"), [("swap operations", 0), ("invert", 1)])
def test_records_do_not_change_places_if_a_read_would_become_too_early(name, second):
    """A reader at read_uncommitted had the first before the other was sent."""

    def planted(peeks):
        h = History()
        h.txn(0, {"t-0": [0]})
        if peeks:
            h.poll(5, {"t-0": [0]}, UNCOMMITTED)
        h.txn(second, {"t-0": [2]})
        h.txn(2, {"t-0": [4]})
        h.final({"t-0": [0, 2, 4]})
        return BY_NAME[name].plant(taken_apart(h.ops), Random(0))

    assert planted(False) is not None
    assert planted(True) is None


SCHEDULED = given(seed=st.integers(0, 1 << 32), name=st.sampled_from(CLASSES))


@settings(max_examples=2)
@SCHEDULED
@example(seed=68576554, name="G1c-wr")  # a process goes on the very moment it ended: a step of its order, and not of time
def test_a_schedule_before_a_random_history_adds_its_cycle_and_nothing_else(seed, name):
    """The whole graph has the cycles of the one and of the other, none across; and the search shows the planted one."""
    compare_cycles(seed, name)


@pytest.mark.nightly
@settings(max_examples=400, derandomize=False)
@SCHEDULED
def test_schedules_before_hundreds_of_random_histories_add_their_cycles_and_nothing_else(seed, name):
    compare_cycles(seed, name)


def compare_cycles(seed, name):
    history = overlapping_history(Random(seed))
    planted = BY_NAME[name].plant(taken_apart(history), Random(0))
    ops = operations(planted.rows)
    expected, mine = shortest_cycles(history), shortest_cycles(alone(name))
    both = {key: min(lengths.get(key, 1000) for lengths in (expected, mine)) for key in {*expected, *mine}}
    assert shortest_cycles(ops) == both
    with TemporaryDirectory() as folder:
        cycles, _ = local_cycles(Path(folder), ops)
    assert {key: len(answer.cycle) for key, answer in cycles.layers.items() if answer.cycle} == both
    if mine[name] <= expected.get(name, 1000):
        places = {cycles.partitions[edge.place] for edge in cycles.layers[name].cycle if edge.place >= 0}
        assert places <= planted.partitions


DAMAGED = given(
    damage=st.sampled_from(WITHIN),
    draw=st.integers(0, 1 << 32),
    seed=st.integers(0, 1 << 32),
    shape=st.fixed_dictionaries(
        {
            "transactions": st.integers(30, 90),
            "partitions": st.integers(2, 4),
            "processes": st.integers(2, 6),
            "sends": st.integers(2, 4),
        }
    ),
)


@settings(max_examples=1)
@DAMAGED
@example(  # between the two lies another record of the first one's producer
    damage=BY_NAME["invert"], draw=1, seed=0, shape={"transactions": 65, "partitions": 2, "processes": 2, "sends": 4}
)
@example(  # a skip of more than a hundred records
    damage=BY_NAME["read each other"],
    draw=727,
    seed=4,
    shape={"transactions": 73, "partitions": 2, "processes": 2, "sends": 4},
)
@example(  # it brings the logs in which it shows
    damage=BY_NAME["marker-overtaken"],
    draw=0,
    seed=0,
    shape={"transactions": 30, "partitions": 2, "processes": 2, "sends": 2},
)
@example(  # it brings the requests in which it shows
    damage=BY_NAME["wire-both-ends"],
    draw=0,
    seed=0,
    shape={"transactions": 30, "partitions": 2, "processes": 2, "sends": 2},
)
def test_the_reference_and_the_checker_find_the_same_in_a_damaged_history(damage, draw, seed, shape):
    """In any lawful history: its own anomalies, record by record; nothing forbidden beside what comes along by nature."""
    compare_findings(damage, draw, seed, shape)


@pytest.mark.nightly
@settings(max_examples=200, derandomize=False)
@DAMAGED
def test_the_reference_and_the_checker_find_the_same_in_hundreds_of_damaged_histories(damage, draw, seed, shape):
    compare_findings(damage, draw, seed, shape)


def compare_findings(damage, draw, seed, shape):
    with TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        patch.setattr(consecutive_reads, "MOST_MISSING", 10_000)  # the reference lists every record of a skip
        folder = Path(text)
        write_lawful(folder, seed=seed, **shape)
        planted = damage.plant(read_rows(folder / "history.parquet"), Random(draw))
        assume(planted is not None)
        write_rows(planted.rows, folder / RunFile.HISTORY)
        for file, table in ((RunFile.STORED, planted.logs), (RunFile.WIRE, planted.wire)):
            if table is not None:  # a damage that brings the brokers' logs, or the requests, of its own partition
                pq.write_table(table, folder / file)
        document = judge(open_run(folder), here=True)
        findings = pq.read_table(folder / "anomalies.parquet").to_pylist()
    ops = operations(planted.rows)
    got, expected = by_records(findings, ops), anomalies(ops)
    got["int-send-skip"] = expected["int-send-skip"]  # the check keeps examples only
    assert got == expected
    full = full_contract(CONTRACT)
    demanded = {name for name in damage.expects if rule_of(name, full).judged != ALLOWED}
    assert demanded <= set(violated(document)) <= {*damage.expects, *damage.accompanying}


@settings(max_examples=3)
@given(seed=st.integers(0, 1 << 32))
def test_a_history_put_before_another_changes_neither(seed):
    """They share no process, no partition and no moment; each has its own records still."""
    compare_prefixed(seed)


@pytest.mark.nightly
@settings(max_examples=200, derandomize=False)
@given(seed=st.integers(0, 1 << 32))
def test_a_history_put_before_hundreds_of_others_changes_none(seed):
    compare_prefixed(seed)


def compare_prefixed(seed):
    then = taken_apart(overlapping_history(Random(seed)))
    first = small_lawful(then)
    both = prepend(first, then)
    ops, ours, theirs = operations(both), operations(first), operations(then)
    assert [op["index"] for op in ops] == list(range(len(ours) + len(theirs)))
    early, late = ops[: len(ours)], ops[len(ours) :]
    forward = late[0]["time"] - theirs[0]["time"]
    assert early == ours
    assert [(op["process"], moved(op, -forward)) for op in late] == [(op["process"], moved(op, 0)) for op in theirs]
    assert max(op["end"] for op in early) < late[0]["time"]
    for own in ("process", "partition"):
        assert not named(early, own) & named(late, own)
    details = [json.loads(op["detail"]) for op in early if op["detail"]]
    assert {partition for detail in details for partition in detail} == named(early, "partition")


def moved(op, by):
    """An operation and its times, on a clock put forward."""
    times = [None if op[name] is None else op[name] + by for name in ("time", "end", "decided")]
    return times, [(*mop[:4], *(None if at is None else at + by for at in mop[4:])) for mop in op["mops"]]


def named(ops, what):
    """Processes of clients, or partitions."""
    return (
        {op["process"] for op in ops if op["process"] >= 0} if what == "process" else {mop[1] for op in ops for mop in op["mops"]}
    )
