"""The anomalies of programs of somebody's own: as their slow twins say on random histories, and in words."""

import json
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.application_reference import FROM_OUTSIDE, TWINS, ApplicationHistory, by_records
from support.histories import History, answer, finding, violated, write_history
from support.installed import DAMAGES
from support.judging import judge_here, no_session
from support.random_applications import OUTPUTS, application_history
from support.worked_examples import Example

from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.lawful_history import CONTRACT as LAWFUL
from fencepost.checkers.selfcheck.selfcheck import selfcheck
from fencepost.harness.api import record_id
from fencepost.harness.api.history import STORED, schema
from fencepost.harness.history.run_directory import open_run

CHECKS = [check for check in installed_checks()[0] if check.name in FROM_OUTSIDE]
CONTRACT = {"application": "exactly-once"}
SEEDS, NIGHTLY_SEEDS = 6, 2006


def compare(folder, seed):
    """Judge one history both ways; what was found. The final read of every fifth did not come to its end in one partition."""
    ops = sorted(application_history(Random(seed)), key=lambda op: op["time"])
    for op in ops if seed % 5 == 4 else ():
        if op["f"] == "final-read" and op["isolation"] == "read_committed":
            op["detail"] = json.dumps({**json.loads(op["detail"]), OUTPUTS[seed % len(OUTPUTS)]: [0, 1000, 500]})
    judge_here(folder, ops, CONTRACT, CHECKS)
    history = ApplicationHistory(ops)
    expected = {name: twin(history) for name, twin in FROM_OUTSIDE.items()}
    assert by_records(pq.read_table(folder / "anomalies.parquet").to_pylist()) == expected, seed
    return {name for name, matches in expected.items() if matches}


def test_random_programs_are_judged_as_by_the_reference(tmp_path):
    met = set().union(*(compare(tmp_path, seed) for seed in range(SEEDS)))
    assert len(met) >= 4, "histories without trouble prove little"


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 200))
def test_many_random_programs_are_judged_as_by_the_reference(tmp_path, start):
    met = set().union(*(compare(tmp_path, seed) for seed in range(start, start + 200)))
    assert met == set(FROM_OUTSIDE)


@pytest.mark.parametrize("name", TWINS)
def test_check_and_slow_twin_find_in_the_docstrings_example_what_it_says(tmp_path, name):
    example = Example(0, next(check for check in CHECKS if check.name == name))
    ops = sorted(example.ops, key=lambda op: op["time"])
    judge_here(tmp_path, ops, CONTRACT, CHECKS)
    findings = [row for row in pq.read_table(tmp_path / "anomalies.parquet").to_pylist() if row["anomaly"] == name]
    assert example.as_worded(findings) == example.expected() != set()
    assert f"Slow twin: `{TWINS[name].__name__}` in tests/support/application_reference.py." in example.text
    assert by_records(findings)[name] == TWINS[name](ApplicationHistory(ops))


def counted(outputs, **declared):
    """A program with a state: inputs in-0@5, 6 and 7 of one key; outputs in out-0: (offset, input's offset, count)."""
    h = program([(offset, of) for offset, of, _ in outputs], counts=True, **declared)
    first = next(op for op in h.ops if op["final"] and op["isolation"] == "read_committed")
    first["counts"] = [{"partition": "out-0", "offset": at, "count": count} for at, _, count in outputs if count is not None]
    return h


def test_a_state_that_counts_each_input_once_holds(judged):
    document = judged(counted([(0, 5, 1), (1, 6, 2), (3, 7, 3)]), CONTRACT)
    assert violated(document) == []
    assert answer(document, "torn-state")["compared"] == 3


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (
            [(0, 5, 1), (1, 6, 3), (3, 7, 4)],
            "The output out-0@1 says that 3 inputs of its key were counted, and the one before, out-0@0, 1: the state has 1 "
            "more, whose output is not committed, or one twice.",
        ),
        (
            [(0, 5, 1), (1, 6, 2), (3, 7, 2)],
            "The output out-0@3 says that 2 inputs of its key were counted, and the one before, out-0@1, 2: the state had lost "
            "an input.",
        ),
        (
            [(0, 5, 2), (1, 6, 3), (3, 7, 4)],
            "The output out-0@0 says that 2 inputs of its key were counted, and no committed output says fewer: the state has "
            "inputs whose outputs are not committed.",
        ),
    ],
)
def test_a_state_with_other_inputs_than_those_with_committed_outputs_is_torn(judged, outputs, sentence):
    document = judged(counted(outputs), CONTRACT)
    assert violated(document) == ["torn-state"]
    assert finding(document, "torn-state")["sentence"] == sentence


def test_a_state_of_a_program_that_promises_at_least_once_may_count_twice(judged):
    assert violated(judged(counted([(0, 5, 1), (1, 6, 3), (3, 7, 4)]), {"application": "at-least-once"})) == []


@pytest.mark.parametrize("outputs", [[(0, 5, 1), (1, 6, None), (3, 7, 4)], [(0, 5, 1), (1, None, 7), (3, 7, 4)]])
def test_a_state_of_which_not_every_output_tells_is_not_judged(judged, outputs):
    document = judged(counted(outputs), CONTRACT)
    assert "torn-state" not in violated(document)
    assert answer(document, "torn-state")["verdict"] == "not exercised"


# --------------------------------------------------------------------------------------------------
# Stores and changelogs
# --------------------------------------------------------------------------------------------------
KEY, LOG = "in-0/0/0", "g-counts-changelog-0"
UNKNOWN_PRODUCER = dict.fromkeys(("timestamp", "producer_id", "producer_epoch", "transactional"))


def store(h, logged, *copies, aborted=(), readable=True, key=KEY):
    """A changelog with (offset, count) of a key, each aborted or outside transactions, and copies with (position, count)."""
    rows = []
    for offset, count in logged:
        rows.append(logged_row(offset, "counted", key, count, 7 if offset in aborted else -1))
    rows += [logged_row(offset + 1, "ABORT", "", -1, 7) for offset in aborted]
    kind = {"isolation": None, "role": "harness", "type": "ok" if readable else "info"}
    h.add(-1, "read-log", entries=sorted(rows, key=lambda row: row["offset"]) if readable else [], **kind)
    for slot, (position, count) in enumerate(copies, start=2):
        about = {"offset": 0, "kind": "active" if slot == 2 else "standby", "name": "counts", "number": position}
        entries = [about, {"offset": 1, "kind": "counted", "name": key, "number": count}]
        entries = [
            {"partition": f"c{slot}:{LOG}", **UNKNOWN_PRODUCER, **entry} for entry in entries if entry["number"] is not None
        ]
        h.add(-1, "read-store", isolation=None, role="harness", entries=entries)
    return h


def logged_row(offset, kind, name, number, producer):
    own = {"timestamp": 0, "producer_id": producer, "producer_epoch": 0, "transactional": producer >= 0}
    return {"partition": LOG, "offset": offset, "kind": kind, "name": name, "number": number, **own}


def judged_store(judged, logged, *copies, contract=CONTRACT, outputs=((0, 5, 1), (1, 6, 2), (3, 7, 3)), **rest):
    return judged(store(counted(outputs), logged, *copies, **rest), contract)


def test_a_store_that_is_its_changelog_and_counts_the_inputs_holds(judged):
    document = judged_store(judged, [(0, 1), (1, 2), (2, 3)], (3, 3), (2, 2))
    assert violated(document) == []
    assert {name: answer(document, name)["compared"] for name in ("store-divergence", "wrong-state")} == {
        "store-divergence": 2,
        "wrong-state": 1,
    }


def test_a_store_that_keeps_what_was_aborted_differs_from_its_changelog(judged):
    document = judged_store(judged, [(0, 1), (1, 2), (2, 3), (3, 4)], (5, 4), aborted=[3])
    assert violated(document) == ["store-divergence"]
    assert finding(document, "store-divergence")["sentence"] == (
        "The active copy of c2 differs from its changelog, g-counts-changelog-0 up to offset 5, in 1 key: of in-0/0/0 it has the "
        "count 4, and the last committed record of the changelog the count 3, g-counts-changelog-0@2."
    )


def test_a_copy_without_a_key_of_its_changelog_differs_and_one_without_a_position_is_not_compared(judged):
    document = judged_store(judged, [(0, 1), (1, 2), (2, 3)], (3, None), (-1, 1))
    assert violated(document) == ["store-divergence"]
    assert "of in-0/0/0 it has nothing" in finding(document, "store-divergence")["sentence"]
    document = judged_store(judged, [(0, 1), (1, 2), (2, 3)], (-1, 1))
    assert violated(document) == []
    assert answer(document, "store-divergence")["reason"] == ("a copy moved while it was dumped, or does not tell its position")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_changelog_that_has_lost_records_or_was_not_read_proves_nothing(judged, lost):
    logged = [(0, 1), (1, 2), (2, 3)]
    document = judged_store(judged, logged[:lost] + logged[lost + 1 :], (3, 7))
    assert violated(document) == []
    assert "compaction or retention" in answer(document, "store-divergence")["reason"]
    document = judged_store(judged, logged, (3, 7), readable=False)
    assert violated(document) == []
    assert answer(document, "wrong-state")["verdict"] != "held"


def test_an_instance_that_did_not_dump_is_named(judged):
    h = store(counted([(0, 5, 1), (1, 6, 2), (3, 7, 3)]), [(0, 3)])
    problem = {"node": "c2", "problem": "no dump came within 30 s"}
    h.add(-1, "read-store", isolation=None, role="harness", type="info", detail=json.dumps(problem))
    document = judged(h, CONTRACT)
    assert answer(document, "store-divergence")["reason"] == "c2: no dump came within 30 s"


@pytest.mark.parametrize(
    ("logged", "key", "sentence"),
    [
        (
            [(0, 4)],
            KEY,
            "The last committed record of the key in-0/0/0 in the changelog, g-counts-changelog-0@0, has the count 4, but the "
            "group has committed 3 inputs with this key, the last one in-0@7.",
        ),
        (
            [(0, 3)],
            "in-0/5/0",
            "The last committed record of the key in-0/5/0 in the changelog, g-counts-changelog-0@0, has the count 3, but no "
            "visible input has this key.",
        ),
    ],
)
def test_a_changelog_with_other_inputs_than_the_group_has_committed_is_a_wrong_state(judged, logged, key, sentence):
    document = judged_store(judged, logged, (1, logged[0][1]), key=key)
    assert violated(document) == ["wrong-state"]
    assert sentence in [row["sentence"] for row in document["findings"]]


@pytest.mark.parametrize("store_name", ["counts", "latest"])
def test_a_changelog_all_of_whose_records_were_aborted_has_nothing_of_what_the_group_has_committed(judged, store_name):
    """Also beside the changelog of another store, which is as it should be."""
    h = store(counted([(0, 5, 1), (1, 6, 2), (3, 7, 3)]), [(0, 1), (1, 2), (2, 3)], (3, 3))
    log = next(op for op in h.ops if op["f"] == "read-log")
    rows = [logged_row(0, "counted", KEY, 3, 7), logged_row(1, "ABORT", "", -1, 7)]
    aborted = [{**entry, "partition": f"g-{store_name}-changelog-0"} for entry in rows]
    if store_name == "counts":
        log["entries"] = aborted
        h.ops = [op for op in h.ops if op["f"] != "read-store"]
    else:
        h.add(-1, "read-log", isolation=None, role="harness", entries=aborted)
    document = judged(h, CONTRACT)
    assert violated(document) == ["wrong-state"]
    assert finding(document, "wrong-state")["sentence"] == (
        f"The changelog g-{store_name}-changelog has nothing of the key in-0/0/0, but the group has committed 3 inputs with this "
        "key, the last one in-0@7."
    )


def test_a_key_that_was_removed_although_it_has_inputs_is_a_wrong_state(judged):
    h = store(counted([(0, 5, 1), (1, 6, 2), (3, 7, 3)]), [(0, 3)], (2, None))
    log = next(op for op in h.ops if op["f"] == "read-log")
    log["entries"].append(logged_row(1, "removed", KEY, -1, -1))
    document = judged(h, CONTRACT)
    assert violated(document) == ["wrong-state"]
    assert finding(document, "wrong-state")["sentence"] == (
        "The last committed record of the key in-0/0/0 in the changelog, g-counts-changelog-0@1, is a tombstone, but the group "
        "has committed 3 inputs with this key, the last one in-0@7."
    )


@pytest.mark.parametrize(("removed", "diverges"), [(True, False), (False, True)])
def test_a_copy_that_lists_a_key_without_a_value_does_not_have_it(judged, removed, diverges):
    """Where the changelog ends in a tombstone of it, that is as it should be; where it ends in a value, the copy lacks it."""
    h = store(program([(0, 5), (1, 6), (3, 7)]), [(0, 3)], (2 if removed else 1, 3))
    ops = {op["f"]: op for op in h.ops if op["f"] in ("read-log", "read-store")}
    if removed:
        ops["read-log"]["entries"].append(logged_row(1, "removed", KEY, -1, -1))
    ops["read-store"]["entries"][1] |= {"kind": "removed", "number": -1}
    document = judged(h, CONTRACT)
    assert ("store-divergence" in violated(document)) == diverges
    assert bool(TWINS["store-divergence"](ApplicationHistory(h.ops))) == diverges


def test_a_program_that_promises_at_least_once_may_have_a_wrong_state(judged):
    assert violated(judged_store(judged, [(0, 4)], (1, 4), contract={"application": "at-least-once"})) == []


def test_a_key_without_record_in_the_changelog_is_a_wrong_state(judged):
    document = judged_store(judged, [(0, 1)], key="in-0/5/0")
    sentences = [row["sentence"] for row in document["findings"] if row["anomaly"] == "wrong-state"]
    assert any("has nothing of the key in-0/0/0, but the group has committed 3 inputs" in sentence for sentence in sentences)


def program(outputs, aborted=(), group="g", offsets=10, polled=(), per_input=(1, 1), more=(), **declared):
    """Inputs in-0@5, 6 and 7, of which the last may be aborted; outputs in out-0: (offset, input's offset or None)."""
    h = History()
    h.txn(0, {"in-0": [5, 6]})
    h.txn(0, {"in-0": [7, *more]}, "fail" if aborted else "ok")
    h.add(4, "poll", role="reader", outputs=rows(h, polled))
    written = {name: [] for name in declared.get("output_partitions", ["out-0"])}
    h.final({"in-0": [5, 6] if aborted else [5, 6, 7, *more], **written})
    first = next(op for op in h.ops if op["final"] and op["isolation"] == "read_committed")
    first["outputs"] = rows(h, outputs)
    detail = {
        "group": group,
        "outputs": per_input,
        "output_partitions": ["out-0"],
        "ordered": False,
        "drained": True,
        "waited_s": 1.0,
    }
    h.add(-1, "drain", isolation=None, detail=json.dumps(detail | declared))
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": offsets}}))
    return h


def rows(h, outputs):
    places = [(offset, -1 if of is None else h.v("in-0", of)) for offset, of in outputs]
    return [{"partition": "out-0", "offset": offset, "v": v, "ended": h.now} for offset, v in places]


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        ([(0, 5), (1, 6), (3, 6)], ["reprocessed"]),
        ([(0, 6), (1, 5)], ["output-order"]),
        ([(0, 6), (1, 5), (2, 6)], ["output-order", "reprocessed"]),
        ([(0, 5)], []),  # what is missing may have been read later
        ([(0, 5), (1, 6), (3, 7)], []),
    ],
)
@pytest.mark.parametrize("how", ["cut short", "stalled"])
def test_what_was_read_is_there_although_the_final_read_did_not_come_to_its_end(judged, outputs, found, how):
    h = program(outputs, ordered=True)
    h.cut_short("out-0") if how == "cut short" else h.settle({"out-0": (4, 9)}, "info")
    document = judged(h, CONTRACT)
    assert [name for name in violated(document) if name != "lso-stall"] == found
    others = {answer(document, name)["verdict"] for name in ("reprocessed", "unprocessed", "output-order") if name not in found}
    assert others == {"not exercised"}, "what was not read may hold it"
    if "reprocessed" in found:
        assert "that the program declares: the read_committed final read has 2, " in finding(document, "reprocessed")["sentence"]


def test_one_output_of_each_input_is_what_was_promised(judged):
    document = judged(program([(0, 5), (1, 6), (3, 7)], polled=[(0, 5)]), CONTRACT)
    assert violated(document) == []
    assert {
        name: answer(document, name)["compared"] for name in ("reprocessed", "unprocessed", "phantom-output")
    } == dict.fromkeys(("reprocessed", "unprocessed", "phantom-output"), 3)


def test_a_second_output_is_reprocessing(judged):
    document = judged(program([(0, 5), (1, 6), (3, 7), (4, 6)]), CONTRACT)
    assert violated(document) == ["reprocessed"]
    assert finding(document, "reprocessed")["sentence"] == (
        "Input record in-0@6 has more outputs than the 1 that the program declares: the complete read_committed final read has "
        "2, out-0@1 and out-0@4."
    )


INITIALISED = (
    "[2026-11-27 14:00:00,000] INFO [TransactionCoordinator id=1] Initialized transactionalId fp-r-4 with producerId 7 and "
    "producer epoch 0 on partition __transaction_state-2 (kafka.coordinator.transaction.TransactionCoordinator)\n"
)


def test_who_made_the_outputs_is_told_as_far_as_log_segments_and_brokers_know(tmp_path):
    """Output 1 is of the producer of fp-r-4, output 4 of one whose initialisation no log has."""
    rows = [(1, 7, 2000, "record"), (2, 7, 2100, "COMMIT"), (4, 9, 5250, "record"), (5, 9, 5300, "COMMIT")]
    names = ("offset", "producer_id", "timestamp", "kind")
    made = [{**dict(zip(names, row, strict=True)), "partition": "out-0", "node": "n1", "producer_epoch": 0} for row in rows]
    made = [{**row, "timestamp": row["timestamp"] + 1795788000_000, "leader_epoch": 0} for row in made]
    pq.write_table(pa.Table.from_pylist(made, schema=schema(STORED)), tmp_path / "stored.parquet")
    (tmp_path / "logs" / "n1").mkdir(parents=True)
    (tmp_path / "logs" / "n1" / "server.log").write_text(INITIALISED)
    document = judge_here(tmp_path, program([(0, 5), (1, 6), (3, 7), (4, 6)]).ops, CONTRACT)
    assert finding(document, "reprocessed")["sentence"].endswith(
        "has 2, out-0@1 and out-0@4. Those of in-0@6 were made: out-0@1 at 14:00:02.000 UTC by the producer of fp-r-4 and "
        "out-0@4 at 14:00:05.250 UTC by producer 9."
    )


def test_what_is_promised_at_least_once_may_be_there_twice(judged):
    assert violated(judged(program([(0, 5), (1, 6), (3, 7), (4, 6)]), {"application": "at-least-once"})) == []


def test_an_input_below_the_groups_offset_without_output_is_unprocessed(judged):
    document = judged(program([(0, 5), (3, 7)]), CONTRACT)
    assert violated(document) == ["unprocessed"]
    assert finding(document, "unprocessed")["sentence"] == (
        "Input record in-0@6 lies below the offset that the group g committed, but the complete read_committed final read has no "
        "output of it."
    )


@pytest.mark.parametrize("known", [True, False])
def test_what_another_group_has_committed_is_not_held_against_the_program(judged, known):
    h = program([(0, 5)], offsets=6)
    if not known:
        h.ops[-1].update(type="info", detail=json.dumps({"group": "g", "offsets": {}}))
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "other", "offsets": {"in-0": 8}}))
    document = judged(h, CONTRACT)
    assert violated(document) == []
    assert answer(document, "unprocessed")["compared"] == int(known)


def test_an_input_above_the_groups_offset_is_not_held_against_the_program(judged):
    assert violated(judged(program([(0, 5)], offsets=6), CONTRACT)) == []


def test_inputs_beyond_the_programs_offsets_weaken_the_verdict(judged):
    """A partition that a program never reads is in no comparison: its run must not look like that of one which reads all."""
    document = judged(program([(0, 5)], offsets=6, drained=False), CONTRACT)
    where = "do not lie below the program's offsets: whether they were processed is not judged"
    assert (document["verdict"], document["weakened"]) == ("valid", [f"2 of 3 inputs {where}"])
    untouched = judged(program([(0, 5)], offsets=5, drained=False), CONTRACT)["weakened"]
    assert untouched == [f"3 of 3 inputs (all of in-0) {where}"]
    without = judged(program([(0, 5)], group="", drained=False), CONTRACT)["weakened"]
    assert without == ["the program had not caught up: whether it has processed its 3 inputs is not judged"]


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (
            {"offsets": 5},
            "3 of 3 inputs (all of in-0) do not lie below the program's offsets: whether they were processed is not judged",
        ),
        ({"offsets": 5, "per_input": (0, 1)}, "3 of 3 inputs (all of in-0) do not lie below the program's offsets"),
        ({"group": ""}, "the program had not caught up: whether it has processed its 3 inputs is not judged"),
        ({"group": "", "per_input": (0, 1)}, "the program had not caught up"),
    ],
)
def test_a_program_that_stood_still_is_not_what_its_test_expects(judged, declared, sentence):
    """Planned was that it processes its input; nothing was found, since next to nothing was done."""
    stuck = judged(program([(0, 5)], drained=False, **declared), CONTRACT)
    assert (stuck["expectation_met"], stuck["shortfalls"]) == (None, [sentence])
    assert judged(program([(0, 5), (1, 6), (3, 7)]), CONTRACT)["expectation_met"] is True


def test_a_few_inputs_that_are_left_leave_the_expectation_met(judged):
    more = range(8, 30)
    outputs = [(n, of) for n, of in enumerate(range(5, 29))]
    nearly = judged(program(outputs, offsets=29, more=more, drained=False), CONTRACT)
    assert (nearly["expectation_met"], len(nearly["shortfalls"])) == (True, 1)


def test_outputs_of_one_key_in_several_partitions_are_in_no_order(judged):
    """A program that scatters a key keeps the order in each partition, and nobody can read it."""
    h = program([(0, 5), (1, 6)], ordered=True, output_partitions=["out-0", "out-1"])
    first = next(op for op in h.ops if op["final"] and op["isolation"] == "read_committed")
    first["outputs"].append({"partition": "out-1", "offset": 0, "v": h.v("in-0", 7), "ended": h.now})
    document = judged(h, CONTRACT)
    order, why = (
        answer(document, "output-order"),
        "1 of 1 key has outputs in several partitions, between which nothing is ordered",
    )
    assert (order["verdict"], order["compared"], order["reason"]) == ("held", 1, why)
    assert document["weakened"] == [f"output-order has a bound: {why}"]


@pytest.mark.parametrize("declared", [{"offsets": 8}, {"offsets": 6, "per_input": (0, 1)}])
def test_a_program_of_which_no_more_is_demanded_weakens_nothing(judged, declared):
    assert judged(program([(0, 5), (1, 6), (3, 7)], **declared), CONTRACT)["weakened"] == []


def test_without_a_group_every_input_counts_once_the_program_had_caught_up(judged):
    assert violated(judged(program([(0, 5), (1, 6)], group=""), CONTRACT)) == ["unprocessed"]
    document = judged(program([(0, 5), (1, 6)], group="", drained=False), CONTRACT)
    assert answer(document, "unprocessed")["verdict"] == "not exercised"


@pytest.mark.parametrize("group", ["g", ""])
def test_what_is_sent_to_a_topic_that_the_program_does_not_read_is_no_input(judged, group):
    h = program([(0, 5), (1, 6), (3, 7)], group=group, inputs=["in-0"])
    other = (0, "other-0", record_id(1, 0, 0), 3, *h.ops[0]["mops"][0][4:])
    h.ops.append({**h.ops[0], "process": 1, "mops": [other]})
    document = judged(h, CONTRACT)
    assert violated(document) == []
    assert answer(document, "unprocessed")["compared"] == 3
    assert not any("inputs" in text for text in document["weakened"])


def test_a_filter_may_drop_inputs_but_not_repeat_them(judged):
    document = judged(program([(0, 5), (1, 5)], per_input=[0, 1]), CONTRACT)
    assert violated(document) == ["reprocessed"]
    assert answer(document, "unprocessed")["verdict"] == "not exercised"


def test_a_run_without_any_output_is_not_valid(judged):
    document = judged(program([], offsets=0), CONTRACT)
    assert document["verdict"] == "unknown"


def test_outputs_of_no_input_and_of_aborted_inputs_are_phantoms(judged):
    document = judged(program([(0, 5), (1, 6), (2, 7), (4, None)], aborted=[7]), CONTRACT)
    assert violated(document) == ["phantom-output"]
    sentences = [row["sentence"] for row in document["findings"]]
    assert any(
        "which was surely aborted: it is not visible, so the program read what was aborted." in sentence for sentence in sentences
    )
    assert any("names no input of this run" in sentence for sentence in sentences)


@pytest.mark.parametrize("deletes", [{"retention": "60000"}, {"compaction": "true"}])
@pytest.mark.parametrize(("type", "names"), [("info", []), ("fail", ["phantom-output"])])
def test_an_input_of_unknown_outcome_may_have_been_deleted(judged, deletes, type, names):
    h = program([(0, 5), (1, 6), (3, 7)], aborted=[7])
    next(op for op in h.ops if op["process"] == 0 and op["op"] == 1)["type"] = type
    assert violated(judged(h, {**CONTRACT, **deletes})) == names


def test_outputs_that_were_deleted_tear_no_state(judged):
    document = judged(counted([(1, 6, 2), (3, 7, 3)]), {**CONTRACT, "retention": "60000"})
    assert violated(document) == []
    assert answer(document, "torn-state")["verdict"] == "not exercised"


def test_an_output_that_a_reader_got_must_be_there_in_the_end(judged):
    document = judged(program([(0, 5), (1, 6), (3, 7)], polled=[(0, 5), (2, 6)]), CONTRACT)
    assert violated(document) == ["vanished-output"]
    assert finding(document, "vanished-output")["sentence"] == (
        "Poll 0 of process 4 got the output out-0@2 at read_committed, which was not returned by the complete final read."
    )


def test_each_reader_of_what_has_vanished_is_named(judged):
    h = program([(0, 5), (1, 6), (5, 7)], polled=[(0, 5), (2, 6)])
    at = next(at for at, op in enumerate(h.ops) if op["process"] == 4)
    h.ops.insert(at + 1, {**h.ops[at], "op": 1, "time": h.ops[at]["time"] + 1, "outputs": rows(h, [(3, 7)])})
    assert finding(judged(h, CONTRACT), "vanished-output")["sentence"] == (
        "Poll 0 of process 4 and poll 1 of process 4 got 2 outputs, out-0@2 and out-0@3, at read_committed, which were not "
        "returned by the complete final read."
    )


@pytest.mark.parametrize(
    ("f", "type", "words"),
    [
        (
            "txn",
            "fail",
            "which was surely aborted: it is not visible, so the program read what was aborted.",
        ),
        (
            "txn",
            "info",
            "which ended without a known outcome: it is not visible, so the program read what was aborted, or what was "
            "lost later.",
        ),
        ("send", "fail", "which surely failed: it is not visible."),
    ],
)
def test_an_input_that_is_not_visible_is_named_with_its_outcome(judged, f, type, words):
    h = program([(0, 5), (1, 6), (3, 7)], aborted=[7])
    next(op for op in h.ops if op["process"] == 0 and op["op"] == 1).update({"f": f, "type": type})
    assert finding(judged(h, CONTRACT), "phantom-output")["sentence"].endswith(f" 1 of process 0, {words}")


def test_order_is_demanded_where_it_is_promised(judged):
    outputs = [(0, 6), (1, 5), (3, 7)]
    assert violated(judged(program(outputs), CONTRACT)) == []
    document = judged(program(outputs, ordered=True), CONTRACT)
    assert violated(document) == ["output-order"]
    assert finding(document, "output-order")["sentence"].startswith(
        "The output out-0@0 is of a later input than what lies above it"
    )


@pytest.mark.parametrize(
    ("deletes", "promise", "found"),
    [
        ({"retention": "60000"}, "at-least-once", []),
        ({"compaction": "true"}, "at-least-once", []),
        ({}, "at-least-once", ["output-order"]),
        ({"retention": "60000"}, "exactly-once", ["output-order"]),
    ],
)
def test_the_first_output_of_an_input_may_have_been_deleted_where_another_one_may_be_there(judged, deletes, promise, found):
    """It lay before that of in-0@6, at out-0@0."""
    h = program([(1, 6), (2, 5), (3, 7)], ordered=True)
    assert violated(judged(h, {"application": promise, **deletes})) == found


def test_each_damage_to_a_program_is_found_in_a_lawful_history_of_one(tmp_path):
    h = program([(0, 5), (1, 6), (3, 7), (4, 8), (5, 9)], polled=[(0, 5)], more=[8, 9], ordered=True, counts=True)
    first = next(op for op in h.ops if op["final"] and op["isolation"] == "read_committed")
    first["counts"] = [{"partition": "out-0", "offset": at, "count": 1 + number} for number, at in enumerate((0, 1, 3, 4, 5))]
    store(h, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], (5, 5))
    write_history(tmp_path, h.ops)
    (tmp_path / "plan.json").write_text(json.dumps({"contract": {**LAWFUL, **CONTRACT}}))
    own = [damage for damage in DAMAGES if damage.plant.__module__.endswith(".application_damages")]
    clean, *rows = selfcheck(open_run(tmp_path), no_session, checks=CHECKS, damages=own)
    assert clean.ok, clean.note
    assert [(row.damage, row.ok, row.note) for row in rows if not row.ok] == []
    assert len(rows) == len(own) == len(FROM_OUTSIDE)


@pytest.mark.parametrize(("offset", "expected"), [(1000, []), (101_000, ["phantom-offset"])])
def test_the_offset_of_a_programs_group_is_not_beyond_the_end_of_the_log(judged, offset, expected):
    """Who commits is not in the history; nobody can have processed what is not there."""
    document = judged(program([(0, 5), (1, 6), (3, 7)], offsets=offset), CONTRACT)
    assert violated(document) == expected
    assert answer(document, "phantom-offset")["compared"] == 1
    if expected:
        assert finding(document, "phantom-offset")["sentence"] == (
            "The group's offset at the end is in-0@101000, beyond the end of the log, 1000."
        )
