"""The anomalies of source connectors: as their slow twins say on random histories, and in words."""

from random import Random

import pyarrow.parquet as pq
import pytest
from support.histories import History, answer, finding, violated
from support.judging import judge_here
from support.random_sources import source_history
from support.source_reference import TWINS, SourceHistory, by_records
from support.source_stories import CHECKS, CONTRACT, commit, connector, row
from support.worked_examples import Example

SEEDS, NIGHTLY_SEEDS = 12, 3012


def compare(folder, seed):
    """Judge one history both ways; what was found."""
    ops = sorted(source_history(Random(seed)), key=lambda op: op["time"])
    judge_here(folder, ops, CONTRACT, CHECKS)
    history = SourceHistory(ops)
    expected = {name: twin(history) for name, twin in TWINS.items()}
    assert by_records(pq.read_table(folder / "anomalies.parquet").to_pylist(), history) == expected, seed
    return {name for name, matches in expected.items() if matches}


def test_random_connectors_are_judged_as_by_the_reference(tmp_path):
    assert set().union(*(compare(tmp_path, seed) for seed in range(SEEDS))) == set(TWINS)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 300))
def test_many_random_connectors_are_judged_as_by_the_reference(tmp_path, start):
    assert set().union(*(compare(tmp_path, seed) for seed in range(start, start + 300))) == set(TWINS)


@pytest.mark.parametrize("name", TWINS)
def test_check_and_slow_twin_find_in_the_docstrings_example_what_it_says(tmp_path, name):
    example = Example(0, next(check for check in CHECKS if check.name == name))
    h = History()
    h.final({example._own("t-0"): []})
    ops = sorted([*example.ops, *(h.ops if not any(op["final"] for op in example.ops) else ())], key=lambda op: op["time"])
    judge_here(tmp_path, ops, CONTRACT, CHECKS)
    findings = [anomaly for anomaly in pq.read_table(tmp_path / "anomalies.parquet").to_pylist() if anomaly["anomaly"] == name]
    assert example.as_worded(findings) == example.expected() != set()
    assert f"Slow twin: `{TWINS[name].__name__}` in tests/support/source_reference.py." in example.text
    history = SourceHistory(ops)
    assert by_records(findings, history)[name] == TWINS[name](history)


# --------------------------------------------------------------------------------------------------
# Stories
# --------------------------------------------------------------------------------------------------
WHOLE = [row("t-0", 0, "a", 0), row("t-0", 1, "a", 1), commit("t-0", 2)]
STORED = [row("o-0", 0, "a", 1, "offset"), commit("o-0", 1)]


def test_a_connector_that_keeps_its_promises_is_innocent(tmp_path):
    document = connector(tmp_path, WHOLE, STORED)
    assert violated(document) == []
    assert {name: answer(document, name)["compared"] for name in TWINS} == {
        "source-duplicate": 2,
        "source-loss": 2,
        "source-offset-torn": 2,
        "source-offset-regression": 0,
    }


def test_a_record_that_is_lost_below_the_stored_offset_is_named_with_that_offset(tmp_path):
    document = connector(tmp_path, [WHOLE[0], commit("t-0", 1)], STORED)
    assert finding(document, "source-loss")["sentence"] == (
        "Record 1 of source a is not there: the complete read_committed final read has 0 at t-0@0, "
        "and the stored offset 1 at o-0@0."
    )


def several(offset, number, place, count, **more):
    """An entry of t-0: record `place` (from 1) of the `count` that a position of source a gives."""
    return row("t-0", offset, "a", number, f"record {place}/{count}" if count > 1 else "record", **more)


# positions 0, 1 and 2 of source a, which give 2, 3 and 1 records
LISTS = [(0, 1, 2), (0, 2, 2), (1, 1, 3), (1, 2, 3), (1, 3, 3), (2, 1, 1)]
LAST = [row("o-0", 0, "a", 2, "offset"), commit("o-0", 1)]


def listed(*left_out, again=()):
    """The records of LISTS in one transaction, but for some, and some once more."""
    there = [record for at, record in enumerate(LISTS) if at not in left_out] + [LISTS[at] for at in again]
    return [*(several(at, *record) for at, record in enumerate(there)), commit("t-0", len(there))]


def test_positions_that_give_several_records_each_are_complete_with_all_of_them(tmp_path):
    document = connector(tmp_path, listed(), LAST)
    assert violated(document) == []
    assert (answer(document, "source-loss")["compared"], answer(document, "source-offset-torn")["compared"]) == (6, 6)


@pytest.mark.parametrize(
    ("left_out", "what"),
    [
        ((1,), "Record 0 (2 of 2) of source a is"),
        ((2,), "Record 1 (1 of 3) of source a is"),
        ((3,), "Record 1 (2 of 3) of source a is"),
        ((1, 2), "Records 0 (2 of 2) to 1 (1 of 3) of source a are"),
        ((5,), "Record 2 of source a is"),
        ((0,), "Record 0 (1 of 2) of source a is"),
        ((0, 1, 2, 3), "Records 1 (1 of 3) to 1 (2 of 3) of source a are"),
    ],
)
def test_a_record_that_is_missing_within_a_position_is_named(tmp_path, left_out, what):
    """The others of its position tell how many there should be."""
    document = connector(tmp_path, listed(*left_out), LAST)
    assert violated(document) == ["source-loss"]
    assert finding(document, "source-loss")["sentence"].startswith(f"{what} not there: ")


def test_what_is_missing_of_the_first_position_is_told_by_its_other_records(tmp_path):
    document = connector(tmp_path, listed(0, 4), LAST)
    assert sorted(row["sentence"].partition(":")[2] for row in document["findings"]) == [
        " the complete read_committed final read has 0 (2 of 2) at t-0@0.",
        " the complete read_committed final read has 1 (2 of 3) at t-0@2 and 2 at t-0@3.",
    ]
    assert answer(document, "source-loss")["compared"] == 6


def test_a_tombstone_takes_an_offset_back(tmp_path):
    stored = [*STORED, row("o-0", 2, "a", -1, "offset", producer=8), row("o-0", 3, "", -1, "COMMIT", producer=8)]
    sentence = finding(connector(tmp_path, WHOLE, stored), "source-offset-regression")["sentence"]
    assert sentence == "The stored offset of source a goes back: 1 is committed at o-0@0, and a tombstone after it, at o-0@2."


def test_a_position_without_any_record_is_one_loss_at_least(tmp_path):
    document = connector(tmp_path, listed(2, 3, 4), LAST)
    assert finding(document, "source-loss")["sentence"].startswith("Record 1 of source a is not there: ")


def test_a_second_record_of_a_position_is_no_duplicate_and_the_same_one_is(tmp_path):
    document = connector(tmp_path, listed(again=(3,)), LAST)
    assert violated(document) == ["source-duplicate"]
    assert "Record 1 (2 of 3) of source a is there more than once" in finding(document, "source-duplicate")["sentence"]


def test_records_of_a_position_in_an_earlier_transaction_than_its_offset_are_torn(tmp_path):
    """A task that is cut off in the middle of a position: its first record was committed with the offset of the whole one."""
    target = [several(0, 0, 1, 2), several(1, 0, 2, 2), several(2, 1, 1, 3), commit("t-0", 3)]
    target += [several(4, 1, 2, 3, producer=8), several(5, 1, 3, 3, producer=8), row("t-0", 6, "", -1, "COMMIT", producer=8)]
    stored = [row("o-0", 0, "a", 0, "offset"), commit("o-0", 1), row("o-0", 2, "a", 1, "offset", producer=8)]
    stored += [row("o-0", 3, "", -1, "COMMIT", producer=8)]
    document = connector(tmp_path, target, stored)
    assert violated(document) == ["source-offset-torn"]
    sentences = " ".join(row["sentence"] for row in document["findings"])
    assert "Record 1 (1 of 3) of source a, t-0@2, is committed, but not in the transaction that commits the offset 1" in sentences


def test_records_that_contradict_each_other_on_their_position_are_not_compared(tmp_path):
    target = [several(0, 0, 1, 2), several(1, 0, 2, 3), commit("t-0", 2)]
    document = connector(tmp_path, target, [row("o-0", 0, "a", 0, "offset"), commit("o-0", 1)])
    assert violated(document) == []
    assert "its position gives 2 records by one record, and 3 by another" in answer(document, "source-loss")["reason"]


def test_a_record_outside_any_transaction_is_torn_from_its_offset(tmp_path):
    document = connector(tmp_path, [row("t-0", 0, "a", 0, producer=None), row("t-0", 1, "a", 1), commit("t-0", 2)], STORED)
    assert finding(document, "source-offset-torn")["sentence"] == (
        "Record 0 of source a, t-0@0, is committed, but not in the transaction that commits the offset 1 of the source, o-0@0: "
        "written outside transactions, the offset by producer 7 in epoch 0."
    )


def repeated(*batches, producer=8):
    """Records 0 to 4 of one transaction, whose offset is 4; then batches of positions, each with its last one as the offset."""
    target, stored = [*(row("t-0", at, "a", at) for at in range(5)), commit("t-0", 5)], [row("o-0", 0, "a", 4, "offset")]
    stored.append(commit("o-0", 1))
    for batch in batches:
        target += [row("t-0", len(target) + n, "a", at, producer=producer) for n, at in enumerate(batch)]
        target.append(row("t-0", len(target), "", -1, "COMMIT", producer))
        stored.append(row("o-0", len(stored), "a", batch[-1], "offset", producer=producer))
        stored.append(row("o-0", len(stored), "", -1, "COMMIT", producer))
    return target, stored


@pytest.mark.parametrize("producer", [7, 8])
@pytest.mark.parametrize("batches", [[[2, 3]], [[0, 1], [2], [3, 4, 5]]])
def test_a_task_that_reads_on_from_an_older_offset_tears_nothing(tmp_path, batches, producer):
    """Each record is in the transaction of its own offset. That the offset went back is one finding, however it rises then."""
    document = connector(tmp_path, *repeated(*batches, producer=producer))
    names = [anomaly["anomaly"] for anomaly in document["findings"] if anomaly["forbidden"]]
    assert sorted(names) == ["source-duplicate", "source-offset-regression"]


def test_what_is_torn_besides_is_found_where_the_offset_goes_back(tmp_path):
    target, stored = repeated([2, 3], [5])
    other = {"producer_id": 9}
    document = connector(tmp_path, target, [*stored[:-2], *({**entry, **other} for entry in stored[-2:])])
    assert violated(document) == ["source-duplicate", "source-offset-regression", "source-offset-torn"]
    assert finding(document, "source-offset-torn")["sentence"].startswith("Record 5 of source a, t-0@9, is committed, but not")


def transactions(*each):
    """(producer, epoch, positions, stored offset or None) one after the other; producer None: outside transactions."""
    target, stored = [], []
    for producer, epoch, positions, offset in each:
        target += [row("t-0", len(target) + n, "a", at, producer=producer, epoch=epoch) for n, at in enumerate(positions)]
        offsets = [] if offset is None else [row("o-0", len(stored), "a", offset, "offset", producer, epoch)]
        stored += offsets
        for partition, entries in (("t-0", target), ("o-0", stored if offsets else None)):
            if producer and entries is not None:
                entries.append(row(partition, len(entries), "", -1, "COMMIT", producer, epoch))
    return target, stored


@pytest.mark.parametrize(
    ("each", "names"),
    [
        ([(7, 0, [2, 3], 3), (8, 0, [3, 4, 5], 5)], "duplicate"),
        ([(7, 0, [2, 3], 3), (7, 1, [3, 4, 5], 5)], "duplicate"),
        ([(7, 0, [0, 1], 1), (7, 1, [2, 3], 3), (7, 2, [1, 2, 3, 4], 4)], "duplicate"),
        ([(7, 0, [0, 1, 2], 2), (8, 0, [1, 2, 3], 3), (9, 0, [2], 2)], "duplicate regression"),
        ([(7, 0, [0, 1], 1), (7, 0, [2, 3], 3), (7, 0, [2, 3, 4], 4)], "duplicate"),
        ([(7, 0, [0, 1], 1), (8, 0, [1], 1)], "duplicate"),
        ([(7, 0, [0, 1], 1), (8, 0, [0], 1)], "duplicate"),
        ([(7, 0, [0, 1], None), (7, 1, [0, 1], 1)], "duplicate torn"),
        ([(7, 0, [0, 1], 1), (8, 0, [1], None), (9, 0, [2], 2)], "duplicate torn"),
        ([(7, 0, [0, 1], 1), (8, 0, [1], None), (8, 0, [2], 2)], "duplicate torn"),
        ([(7, 0, [0, 1], 1), (None, 0, [1], None), (8, 0, [2], 2)], "duplicate torn"),
        ([(7, 0, [0, 1], None), (8, 0, [0, 1], 1)], "duplicate torn"),
        ([(7, 0, [0, 1, 2], 2), (8, 0, [1, 2], 1)], "duplicate regression torn"),
        ([(7, 0, [0, 1, 2], 3), (8, 0, [3, 4, 5], 5)], "torn"),
        ([(7, 0, [0, 1, 2], 3), (8, 0, [3, 4], 4), (9, 0, [3, 5], 5)], "duplicate torn"),
    ],
)
def test_a_record_that_was_read_again_is_torn_only_if_its_own_transaction_does_not_store_its_offset(tmp_path, each, names):
    """A task that had read an older offset commits its records with a later one, all of them together (KIP-618)."""
    target, stored = transactions(*each)
    document = connector(tmp_path, target, stored, {"positions": "dense"})
    found = {name.removeprefix("source-offset-").removeprefix("source-") for name in violated(document)}
    assert found == set(names.split())


@pytest.mark.parametrize(
    ("each", "found"),
    [
        ([(7, 0, [0, 1], 1), (8, 0, [1, 2], 2)], ["source-duplicate"]),
        ([(7, 0, [0, 1], 1), (8, 0, [2], None)], ["source-offset-torn"]),
        ([(7, 0, [0, 1, 2], 2), (8, 0, [3], 3), (9, 0, [], 2), (9, 0, [4], 4)], ["source-offset-regression"]),
        ([(7, 0, [0, 1], 1), (8, 0, [3], 3)], []),  # what is missing may have been read later
        ([(7, 0, [0, 1], 1), (8, 0, [2], 2)], []),
    ],
)
def test_what_was_read_is_there_although_the_final_read_did_not_come_to_its_end(tmp_path, each, found):
    document = connector(tmp_path, *transactions(*each), {"positions": "dense"}, cut_short=True)
    assert violated(document) == found
    others = {name: answer(document, name)["verdict"] for name in TWINS if name not in found}
    assert set(others.values()) == {"not exercised"}, "what was not read may hold it"
    if found == ["source-duplicate"]:
        assert "more than once: the read_committed final read has 1" in finding(document, "source-duplicate")["sentence"]


def test_records_of_one_producer_in_another_transaction_than_their_offset_are_torn(tmp_path):
    target = [row("t-0", 0, "a", 0), row("t-0", 1, "a", 1), row("t-0", 2, "a", 2), commit("t-0", 3)]
    stored = [row("o-0", 0, "a", 1, "offset"), commit("o-0", 1), row("o-0", 2, "a", 2, "offset"), commit("o-0", 3)]
    assert finding(connector(tmp_path, target, stored), "source-offset-torn")["sentence"] == (
        "Records 0 to 1 of source a, t-0@0 and t-0@1, are committed in one transaction with later records, which the offset 1 of "
        "the source, o-0@0, does not reach: both were written by producer 7 in epoch 0."
    )


@pytest.mark.parametrize(("offsets", "torn"), [([2], True), ([2, 2], False), ([1, 2], False)])
def test_records_whose_offset_is_in_the_next_transaction_are_torn(tmp_path, offsets, torn):
    """With the first protocol (KIP-98) all transactions of an instance have one epoch: their numbers tell."""
    target = [row("t-0", 0, "a", 0), row("t-0", 1, "a", 1), commit("t-0", 2), row("t-0", 3, "a", 2), commit("t-0", 4)]
    stored = [entry for n, at in enumerate(offsets) for entry in (row("o-0", 2 * n, "a", at, "offset"), commit("o-0", 2 * n + 1))]
    document = connector(tmp_path, target, stored)
    assert violated(document) == (["source-offset-torn"] if torn else [])
    if torn:
        assert finding(document, "source-offset-torn")["sentence"] == (
            "Records 0 to 1 of source a, t-0@0 and t-0@1, are committed in an earlier transaction than that of the offset 2 of "
            "the source, o-0@0: all were written by producer 7 in epoch 0."
        )


@pytest.mark.parametrize("fate", ["ABORT", "COMMIT"])
def test_records_whose_offset_was_aborted_are_torn_though_no_other_offset_is_there(tmp_path, fate):
    """The connector stores positions, as it shows."""
    stored = [row("o-0", 0, "a", 1, "offset", producer=8), row("o-0", 1, "", -1, fate, producer=8)]
    document = connector(tmp_path, WHOLE, stored)
    assert violated(document) == ["source-offset-torn"]
    why = "and no committed offset of the source reaches so far: they were committed without their offset."
    assert (why in finding(document, "source-offset-torn")["sentence"]) == (fate == "ABORT")


def test_with_a_marker_in_a_later_epoch_the_transaction_is_the_same(tmp_path):
    """Transaction protocol v2: the marker has the epoch of the next transaction (KIP-890)."""
    target = [WHOLE[0], WHOLE[1], commit("t-0", 2, epoch=1)]
    assert violated(connector(tmp_path, target, [STORED[0], commit("o-0", 1, epoch=1)])) == []


def test_a_connector_on_workers_without_support_may_repeat_and_tear(tmp_path):
    target = [row("t-0", number, "a", number % 2, producer=None) for number in range(4)]
    stored = [row("o-0", 0, "a", 1, "offset", producer=None)]
    document = connector(tmp_path, target, stored, {"connect": "disabled"})
    assert violated(document) == []
    assert answer(document, "source-duplicate")["verdict"] == "violated"
    assert violated(connector(tmp_path, target, stored)) == ["source-duplicate", "source-offset-torn"]


ALTER = '{"method": "PATCH", "path": "/connectors/source/offsets", "altered": [["a", 0]]}'
BEFORE = [WHOLE[0], WHOLE[1], row("t-0", 2, "a", 2), commit("t-0", 3)]
REWOUND = [row("o-0", 0, "a", 2, "offset"), commit("o-0", 1), row("o-0", 2, "a", 0, "offset", producer=9)]
REWOUND = [*REWOUND, row("o-0", 3, "", -1, "COMMIT", producer=9)]


def after_alteration(target, stored):
    """Producer 8 writes these positions and stores this one, after the offset 2 of the source was set to 0."""
    return (
        [
            *BEFORE,
            *(row("t-0", 4 + n, "a", at, producer=8) for n, at in enumerate(target)),
            row("t-0", 4 + len(target), "", -1, "COMMIT", 8),
        ],
        [*REWOUND, row("o-0", 4, "a", stored, "offset", producer=8), row("o-0", 5, "", -1, "COMMIT", 8)],
    )


def test_what_comes_after_an_altered_offset_repeats_nothing(tmp_path):
    document = connector(tmp_path, *after_alteration([1, 2, 3], 3), requests=[ALTER])
    assert violated(document) == []
    assert {answer(document, name)["compared"] for name in TWINS} == {6, 0}
    assert violated(connector(tmp_path, *after_alteration([1, 2, 3], 3))) == ["source-duplicate", "source-offset-regression"]


@pytest.mark.parametrize(
    ("target", "stored", "name"), [([1, 2, 2], 2, "source-duplicate"), ([1, 3], 3, "source-loss"), ([1, 2], 3, "source-loss")]
)
def test_after_an_altered_offset_positions_are_judged_anew(tmp_path, target, stored, name):
    document = connector(tmp_path, *after_alteration(target, stored), requests=[ALTER])
    assert violated(document) == [name]


@pytest.mark.parametrize(
    "alteration", ['{"method": "PATCH", "path": "/connectors/source/offsets", "status": 200}', ALTER.replace("PATCH", "DELETE")]
)
def test_offsets_that_were_altered_in_an_unknown_way_prove_nothing(tmp_path, alteration):
    target = [row("t-0", number, "a", number % 2, producer=None) for number in range(4)]
    document = connector(tmp_path, target, STORED, requests=[alteration])
    assert violated(document) == []
    assert "altered" in answer(document, "source-duplicate")["reason"]


def answers(document):
    return {name: (answer(document, name)["verdict"], answer(document, name)["reason"]) for name in TWINS}


OF_LOGS = ("source-offset-torn", "source-offset-regression")


def test_a_log_that_could_not_be_read_proves_nothing(tmp_path):
    """Without the offsets' log every record would seem to have been committed without its offset."""
    document = connector(tmp_path, WHOLE, [], read="info")
    assert {answers(document)[name] for name in OF_LOGS} == {("unknown", "1 of the leaders' logs could not be read")}
    assert violated(document) == []


def test_where_the_offsets_topic_was_compacted_no_offset_is_missed(tmp_path):
    target = [*WHOLE, row("t-0", 3, "a", 2), commit("t-0", 4)]
    document = connector(tmp_path, target, [row("o-0", 2, "a", 2, "offset"), commit("o-0", 3)])
    assert all("have lost entries" in answers(document)[name][1] for name in OF_LOGS)
    assert violated(document) == []


def test_where_copies_name_their_inputs_and_no_positions_nothing_is_said_to_be_lost(tmp_path):
    """Of `mirror`, the target's log has markers alone."""
    document = connector(tmp_path, [commit("t-0", 3)], STORED)
    assert {answers(document)[name] for name in TWINS} == {("not exercised", "no records of a connector were read back")}


def test_a_record_that_tells_no_position_may_be_the_one_that_is_missing(tmp_path):
    target = [WHOLE[0], row("t-0", 1, "no number", -1, "strange"), row("t-0", 2, "a", 2), commit("t-0", 3)]
    document = connector(tmp_path, target, [row("o-0", 0, "a", 2, "offset"), commit("o-0", 1)])
    assert "do not tell their position (t-0@1: no number)" in answers(document)["source-loss"][1]
    assert "does not tell its position (t-0@1: no number)" in answers(document)["source-offset-torn"][1]
    assert violated(document) == []


def test_where_no_record_tells_its_position_the_first_one_is_shown(tmp_path):
    document = connector(tmp_path, [row("t-0", 0, "no number", -1, "strange"), commit("t-0", 1)], [])
    assert answers(document)["source-duplicate"][1].endswith("do not tell their position (t-0@0: no number)")


def test_without_a_connector_nothing_is_compared(tmp_path):
    document = connector(tmp_path, WHOLE * 2, STORED, {"connect": "none"})
    assert {answer(document, name)["verdict"] for name in TWINS if name in str(document)} <= {"not exercised", "inapplicable"}
