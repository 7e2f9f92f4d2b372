"""Sequence numbers, markers, producer ids and states in the brokers' logs: lawful runs, damaged ones, and the slow twins."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import logs_reference as twin
from support.histories import answer, finding
from support.judging import judge_here
from support.log_model import CHECKS, STATE_LOG, LogModel, places, random_model, said, two_producers, violated

from fencepost.checkers.anomalies.epochs import epoch_regression
from fencepost.checkers.anomalies.markers import late_marker
from fencepost.checkers.contract.rules import full_contract, rule_for
from fencepost.checkers.model.history_rows import read_rows
from fencepost.checkers.selfcheck.log_damages import UNLOG
from fencepost.harness.api.history import STORED, schema
from fencepost.harness.api.run import RunFile

NAMES = [check.name for check in CHECKS]


# --------------------------------------------------------------------------------------------------
# Lawful logs, and what was compared in them
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", [1, 2])
def test_lawful_logs_hold_and_say_how_much_was_compared(tmp_path, protocol):
    document = two_producers(protocol).judged(tmp_path)
    assert not violated(document)
    compared = {name: answer(document, name)["compared"] for name in NAMES}
    assert compared["sequence-gap"] == {1: 14, 2: 6}[protocol], (
        "18 records, of which the first of each producer and epoch has none before"
    )
    assert compared["sequence-start"] == {1: 4, 2: 12}[protocol]
    assert compared["producer-id-reuse"] == 2
    assert compared["wrong-marker"] == compared["record-after-marker"] == 12
    assert compared["unlawful-state"] == 24
    assert compared["unlogged-answer"] == 6 + 2
    assert compared["replica-divergence"] == 2 * (18 + 12 + 26)
    assert compared["leader-epoch-regression"] == (18 + 12 - 2) + (26 - 1), "alike replicas are one log"


@pytest.mark.parametrize("seed", range(8))
def test_random_lawful_logs_hold(tmp_path, seed):
    m = random_model(seed)
    document = m.judged(tmp_path)
    assert not violated(document), [row["sentence"] for row in document["findings"]]
    rows = m.replicas()
    assert not any(twin.sequences(rows).values())
    assert not (twin.wrong_markers(rows) | twin.late_records(rows) | twin.unlawful_states(rows) | twin.divergences(rows))
    assert not (twin.shared_ids(rows, m.h.ops) | twin.unlogged(rows, m.h.ops))


def test_numbers_begin_anew_after_the_highest(tmp_path):
    m = two_producers(start=(1 << 31) - 3)
    assert set(violated(m.judged(tmp_path))) == {"sequence-start"}
    m.of("record", "t-0")[5]["first_sequence"] = 7  # after 2^31 - 1 comes 0
    assert "sequence-gap" in violated(m.judged(tmp_path))


def test_a_first_number_that_another_record_may_have_had_says_nothing(tmp_path):
    """A leader takes any first number of a producer that it does not know; the record with the one before never arrived."""
    found = []
    for never_arrived in (False, True):
        m = LogModel(start=1)
        m.initialise(0, "id")
        if never_arrived:
            m.h.txn(0, {"t-0": None}, "fail", transactional_id="id")
        m.transaction(0, {"t-0": 2})
        document = m.judged(tmp_path)
        found.append((set(violated(document)), answer(document, "sequence-start")["compared"]))
    assert found == [({"sequence-start"}, 1), (set(), 0)]


def test_a_batch_counts_as_many_numbers_as_it_has_offsets_whatever_became_of_its_records(tmp_path):
    m = two_producers()
    first, second = m.at("t-0", 0), m.at("t-0", 1)
    second |= {"first_offset": 0, "first_sequence": 0}
    first["last_offset"] = 1
    rows = m.replicas()
    assert not {name for name in violated(m.judged(tmp_path, rows)) if name.startswith("sequence")}
    batch = {"kind": "zstd batch", "last_offset": 1}
    there = [row for row in rows if row["kind"] != "log" and (row["partition"], row["offset"]) != ("t-0", 1)]
    compressed = [{**row, **batch} if (row["partition"], row["offset"]) == ("t-0", 0) else row for row in there]
    assert not {name for name in violated(m.judged(tmp_path, compressed)) if name.startswith("sequence")}


def test_of_compressed_batches_is_not_said_that_there_are_none(tmp_path):
    """As franz-go writes them, unless it is told otherwise: who wrote them is not known, and neither is who is missing."""
    m = LogModel(2)
    m.initialise(0, "id-0")
    m.transaction(0, {"t-0": 1})
    rows = [row | ({"kind": "snappy batch", "v": None} if row["kind"] == "record" else {}) for row in m.replicas()]
    rows = [row for row in rows if row["partition"] != STATE_LOG]
    reasons = {name: answer(m.judged(tmp_path, rows), name)["reason"] for name in ("producer-id-reuse", "sequence-start")}
    assert set(reasons.values()) == {"batches in the logs are compressed: which records of this run are in them was not read"}


# --------------------------------------------------------------------------------------------------
# Three damages with corrected checksums, and what else can be wrong
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("by", [1, 3, 17, 70_000])
def test_a_gap_is_found(tmp_path, by):
    m = two_producers()
    for row in m.of("record", "t-0")[4:]:
        if row["producer_id"] == 0:
            row["first_sequence"] = row["sequence"] = row["first_sequence"] + by
            row["checksum"] += 1
    document = m.judged(tmp_path)
    assert set(violated(document)) == {"sequence-gap"}
    assert f": {by} are missing" in finding(document, "sequence-gap")["sentence"]


def test_a_batch_behind_different_ones_on_its_replicas_is_told_of_the_right_one(tmp_path):
    """One replica lacks a record: the batch behind it is the same one everywhere, and lawful on the others."""
    m = two_producers()
    for lost, words in (
        (1, "on n2 the batch at offset 6, .* number 2, and 1 had to follow"),
        (3, "on n2 the batch at offset 4, .* is the first one of these, and begins with sequence number 1"),
    ):
        rows = [
            row
            for row in m.replicas()
            if (row["node"], row["partition"], row["offset"], row["kind"]) != ("n2", "t-0", lost, "record")
        ]
        document = m.judged(tmp_path, rows)
        assert re.search(words, said(document, "sequence-gap") + said(document, "sequence-start"))


@pytest.mark.parametrize("by", [1, 2])
def test_a_number_that_is_there_twice_is_found(tmp_path, by):
    m = two_producers()
    for row in m.of("record", "t-0")[4:]:
        if row["producer_id"] == 1:
            row["first_sequence"] = row["sequence"] = row["first_sequence"] - by
            row["checksum"] += 1
    document = m.judged(tmp_path)
    assert set(violated(document)) == {"sequence-repetition"}
    assert "it was there already" in finding(document, "sequence-repetition")["sentence"]


@pytest.mark.parametrize("protocol", [1, 2])
def test_two_producer_ids_merged_into_one_are_found(tmp_path, protocol):
    m = two_producers(protocol)
    for row in m.rows:
        if row["producer_id"] == 1:
            row["producer_id"] = 0
    document = m.judged(tmp_path)
    assert "producer-id-reuse" in violated(document)
    assert (
        "roducer id 0 belongs to transactional id id-0 and transactional id id-1"
        in finding(document, "producer-id-reuse")["sentence"]
    )


def several_producers(named):
    """A process with two producers. named: its operations say which of them they use."""
    m = LogModel()
    for name in ("id-0", "id-0-p1"):
        m.initialise(0, name)
        m.transaction(0, {"t-0": 2})
    if not named:
        for op in m.h.ops:
            op |= {"transactional_id": op["transactional_id"] and "id-0"}
    return m


@pytest.mark.parametrize("named", [True, False])
def test_a_process_with_several_producers_writes_with_the_ids_of_each(tmp_path, named):
    """An older history has one transactional id for the process; by the coordinators' logs each producer has its own."""
    m = several_producers(named)
    document = m.judged(tmp_path)
    assert ("producer-id-reuse" in violated(document), answer(document, "producer-id-reuse")["compared"]) == (False, 2)
    for row in m.of("record", "t-0"):
        row["producer_id"] = 0
    merged = [row | ({"state": {**row["state"], "producer_id": 0}} if row.get("state") else {}) for row in m.replicas()]
    assert (
        "transactional id id-0 and transactional id id-0-p1"
        in finding(m.judged(tmp_path, merged), "producer-id-reuse")["sentence"]
    )


def test_records_of_two_producers_of_one_process_with_one_producer_id_are_found(tmp_path):
    m = several_producers(named=True)
    for row in m.of("record", "t-0"):
        row["producer_id"] = 0
    assert "transactional id id-0 and transactional id id-0-p1" in finding(m.judged(tmp_path), "producer-id-reuse")["sentence"]


def test_a_producer_id_of_two_idempotent_producers_is_found(tmp_path):
    m = LogModel()
    for process in (0, 1):
        row = m.record("t-0", 5, 0, sent=False)
        m.h.send(process, {"t-0": [row["offset"]]})
        row["v"] = m.h.v("t-0", row["offset"])
    document = m.judged(tmp_path, contract={"transactional": "false"})
    assert "process 0 and process 1" in finding(document, "producer-id-reuse")["sentence"]


def test_copies_of_records_in_other_topics_say_nothing_of_their_writers(tmp_path):
    m = two_producers()
    for row in m.of("record", "t-0"):
        copy = m.record("mirror-0", 77, 0, sent=False)
        copy["v"] = row["v"]
    assert not violated(m.judged(tmp_path))


def test_what_retention_took_is_not_missing_and_compaction_takes_anything(tmp_path):
    m = two_producers()
    late = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] >= 7 or row["kind"] == "log"]
    for row in late:
        if row["kind"] == "log" and row["partition"] == "t-0":
            row["offset"] = row["first_offset"] = 7
    assert not violated(m.judged(tmp_path, late))
    compacted = [
        row for row in m.replicas() if row["offset"] not in (2, 3, 6) or row["partition"] != "t-0" or row["kind"] == "log"
    ]
    assert {"sequence-gap", "wrong-marker"} & set(violated(m.judged(tmp_path, compacted)))
    assert not violated(m.judged(tmp_path, compacted, {"compaction": "true"}))


def test_a_topic_that_the_run_did_not_make_may_be_compacted(tmp_path):
    """Topics of Connect, and changelogs: a marker that is not there accuses nobody, and one of the other kind does."""
    m = two_producers()
    m.judged(tmp_path)
    kept = [row for row in m.replicas() if row["partition"] != "t-1" or row["kind"] != "COMMIT"]
    assert "wrong-marker" in violated(m.judged(tmp_path, kept, topics={"t": {"partitions": 2}}))
    assert "wrong-marker" not in violated(m.judged(tmp_path, kept, topics={"out": {"partitions": 1}}))
    cleaned = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] not in (3, 7) or row["kind"] == "log"]
    found = {
        name: {"sequence-gap", "sequence-start"} & set(violated(m.judged(tmp_path, cleaned, topics={name: {}})))
        for name in ("t", "out")
    }
    assert found == {"t": {"sequence-gap", "sequence-start"}, "out": set()}
    turned = [{**row, "kind": "ABORT"} if row["kind"] == "COMMIT" and row["partition"] == "t-1" else row for row in m.replicas()]
    assert "wrong-marker" in violated(m.judged(tmp_path, turned, topics={"out": {"partitions": 1}}))


def test_a_marker_that_retention_left_says_nothing_of_the_numbers_before_it(tmp_path):
    """The first protocol: a marker has the epoch of the records before it, which may be gone."""
    for protocol, kept in ((1, 2), (2, 2), (1, 3)):
        m = LogModel(protocol)
        m.initialise(0, "id")
        m.transaction(0, {"t-0": 2})
        m.transaction(0, {"t-0": 2})
        rows = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] >= kept or row["kind"] == "log"]
        for row in rows:
            if row["kind"] == "log" and row["partition"] == "t-0":
                row["offset"] = row["first_offset"] = kept
        assert not violated(m.judged(tmp_path, rows))


def test_a_lower_epoch_that_retention_left_shows_that_a_batch_is_the_first_one(tmp_path):
    m = LogModel(protocol=2)
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 2})
    m.transaction(0, {"t-0": 2})
    for row in m.of("record", "t-0")[2:]:
        row["first_sequence"] += 3
    rows = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] >= 1 or row["kind"] == "log"]
    for row in rows:
        if row["kind"] == "log" and row["partition"] == "t-0":
            row["offset"] = row["first_offset"] = 1
    assert "sequence-start" in violated(m.judged(tmp_path, rows))


# --------------------------------------------------------------------------------------------------
# Damages at random places, and the slow twins
# --------------------------------------------------------------------------------------------------
def damaged(m, rng):
    """A model with one number, kind or place changed, on all replicas or on one."""
    rows = m.replicas()
    row = rng.choice([row for row in m.rows if not row["partition"].startswith(STATE_LOG)])
    state = rng.choice([row for row in m.rows if row["partition"] == STATE_LOG])
    one = rng.random() < 0.2
    nodes = [rng.choice(("n1", "n2", "n3"))] if one else ["n1", "n2", "n3"]
    target, change = rng.choice(
        [
            (
                row,
                {"first_sequence": max(0, row["first_sequence"] + rng.choice((-2, -1, 1, 3, 9)))}
                if row["kind"] == "record"
                else {},
            ),
            (row, {"producer_id": rng.randrange(3)}),
            (row, {"producer_epoch": rng.randrange(4)}),
            (row, {"kind": {"COMMIT": "ABORT", "ABORT": "COMMIT"}.get(row["kind"], "record")}),
            (row, None),
            (row, {"coordinator_epoch": rng.randrange(3)} if row["kind"] in ("COMMIT", "ABORT") else {}),
            (row, {"checksum": 99}),
            (row, {"leader_epoch": rng.choice((-1, 1, 2))}),
            (state, {"kind": rng.choice(("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "removed"))}),
            (state, {"state": {**state["state"], "producer_epoch": rng.randrange(4)}}),
            (state, {"state": {**state["state"], "partitions": [f"t-{rng.randrange(3)}"]}}),
        ]
    )
    place = (target["partition"], target["offset"])
    hit = [it["node"] in nodes and (it["partition"], it["offset"]) == place and it["kind"] != "log" for it in rows]
    return [{**it, **(change or {})} if yes else it for it, yes in zip(rows, hit, strict=True) if change is not None or not yes]


@pytest.mark.parametrize("seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(30, 400))])
def test_the_slow_twins_find_the_same(tmp_path, seed):
    m, rng = random_model(seed), Random(seed)
    rows = damaged(m, rng)
    document = m.judged(tmp_path, rows)
    found = {name: places(tmp_path, name) for name in NAMES}
    for name, expected in twin.sequences(rows).items():
        assert found[name] == expected, name
    assert found["replica-divergence"] == twin.divergences(rows)
    assert found["leader-epoch-regression"] == twin.lower_leader_epochs(rows)
    whole = [row["offset"] for row in rows if row["partition"] == STATE_LOG and row["node"] == "n1" and row["kind"] != "log"]
    if sorted(whole) != list(range(len(whole))):
        return  # the coordinator's log is not whole any more
    assert found["unlawful-state"] == twin.unlawful_states(rows)
    assert bool(found["unlogged-answer"]) == bool(twin.unlogged(rows, m.h.ops))
    assert {partition for partition, _ in found["record-after-marker"]} == {partition for partition, _ in twin.late_records(rows)}
    assert bool(violated(document).get("producer-id-reuse")) == bool(twin.shared_ids(rows, m.h.ops))
    if not found["unlawful-state"]:  # else the coordinator's log itself leaves open what was decided
        assert {partition for partition, _ in found["wrong-marker"]} == {partition for partition, _ in twin.wrong_markers(rows)}


# --------------------------------------------------------------------------------------------------
# Missing evidence
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("contract", [{}, {"corruption": "synced"}], ids=["none", "synced"])
@pytest.mark.parametrize("protocol", [1, 2])
def test_a_batch_that_cannot_be_read_may_have_been_any(tmp_path, protocol, contract):
    """Whatever is left of its head: nothing is missing behind it, there twice, or of an older epoch. The others are judged."""
    heads = (
        {},
        {"first_sequence": 900},
        {"first_sequence": 0},
        {"producer_epoch": 30},
        {"producer_id": 7777},
        {"last_offset": 90_000},
    )
    for offset, head in [*((4, head) for head in heads), (0, {}), (5, {}), (8, {})]:
        m = LogModel(protocol)
        m.initialise(0, "id")
        for _ in range(3):
            m.transaction(0, {"t-0": 2, "t-1": 1})
        m.at("t-0", offset).update({**head, "kind": "damaged batch", "v": None})
        assert not violated(m.judged(tmp_path, contract=contract, checks=[*CHECKS, epoch_regression])), (offset, head)
        m.of("COMMIT", "t-1")[0]["kind"] = "ABORT"
        assert "wrong-marker" in violated(m.judged(tmp_path, contract=contract))


def without(rows, **wanted):
    """Rows with some columns null, on n2."""
    return [row | wanted if row["node"] == "n2" else row for row in rows]


IMPOSSIBLE = {
    "a column lacks values on one node": [
        lambda rows, name=name: without(rows, **{name: None})
        for name in ("leader_epoch", "sequence", "timestamp", "last_offset", "first_sequence", "checksum", "transactional")
    ],
    "a column lacks values": [
        lambda rows, name=name: [row | {name: None} for row in rows] for name in ("producer_id", "producer_epoch", "kind")
    ],
    "states say nothing": [
        lambda rows: [row | ({"state": None} if row["kind"] == "PrepareCommit" else {}) for row in rows],
        lambda rows: [row | ({"state": row["state"] | {"partitions": None}} if row["state"] else {}) for row in rows],
        lambda rows: [row | ({"state": row["state"] | {"transactional_id": None}} if row["state"] else {}) for row in rows],
    ],
    "rows are there twice": [lambda rows: rows * 2, lambda rows: [*rows, *(row for row in rows if row["kind"] == "log")]],
    "rows of another run": [lambda rows: rows + random_model(7).replicas()],
}


@pytest.mark.parametrize("changes", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_table_that_no_brokers_logs_can_hold_is_unknown(tmp_path, changes):
    """None is named by a manifest with its checksum."""
    checks = [*CHECKS, epoch_regression]
    for change in changes:
        document = two_producers().judged(tmp_path, change(two_producers().replicas()), checks=checks)
        assert {answer(document, name)["verdict"] for name in (*NAMES, "epoch-regression")} == {"unknown"}


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_log_that_ends_below_its_high_watermark_lacks_something(tmp_path, protocol):
    """A node wrote the watermark before its segments were read. What is not there accuses nobody."""
    m = two_producers(protocol)
    for partition, count in ((STATE_LOG, 1), (STATE_LOG, 3), (STATE_LOG, 9), ("t-0", 1), ("t-1", 4), ("t-1", 12)):
        end = m.ends[partition] - count
        cut = [row for row in m.replicas() if row["partition"] != partition or row["offset"] < end or row["kind"] == "log"]
        assert not violated(m.judged(tmp_path, cut)), (partition, count)
        known = [row | ({"last_offset": end} if (row["kind"], row["partition"]) == ("log", partition) else {}) for row in cut]
        assert violated(m.judged(tmp_path, known)) or (partition, count) == (STATE_LOG, 1)


def test_behind_a_damaged_batch_numbers_follow_each_other_again(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 6})
    m.at("t-0", 1).update(kind="damaged batch", v=None)
    for row in m.of("record", "t-0")[3:]:
        row["first_sequence"] += 5
    m.judged(tmp_path)
    assert places(tmp_path, "sequence-gap") == {("t-0", 4)}


@pytest.mark.parametrize("kind", ["damaged batch", "control"])
def test_a_coordinators_log_with_a_record_that_cannot_be_read_is_not_whole(tmp_path, kind):
    """Damaged on the disk, or of a version that is not known."""
    m = two_producers()
    m.of("PrepareCommit")[0].update(kind=kind, state=None)
    document = m.judged(tmp_path)
    assert not violated(document)
    assert "or some cannot be read" in answer(document, "unlawful-state")["reason"]


def test_tables_of_older_versions_and_logs_that_are_not_whole_are_not_exercised(tmp_path):
    m = two_producers()
    m.judged(tmp_path)
    table = pq.read_table(tmp_path / RunFile.STORED)
    old = [column.name for column in STORED if not column.optional]
    document = m.judged(tmp_path, [row for row in m.replicas() if row["partition"] != STATE_LOG or row["offset"] != 4])
    assert "have lost records, by compaction" in answer(document, "wrong-marker")["reason"]
    pq.write_table(table.select(old), tmp_path / RunFile.STORED)
    document = judge_here(tmp_path, m.h.ops, None, CHECKS)
    assert {answer(document, name)["verdict"] for name in NAMES} == {"not exercised"}
    assert "of an older version" in answer(document, "sequence-gap")["reason"]


def test_a_damaged_table_is_unknown(tmp_path):
    m = two_producers()
    m.judged(tmp_path)
    (tmp_path / RunFile.STORED).write_text("no table")
    document = judge_here(tmp_path, m.h.ops, None, CHECKS)
    assert {answer(document, name)["verdict"] for name in NAMES} == {"unknown"}


def test_settings_that_permit_it():
    by_name = {check.name: check for check in CHECKS}

    def judged(name, **contract):
        return rule_for(by_name[name].rules, full_contract({"transactional": "true"}, contract)).judged

    assert judged("sequence-gap", producer_expiry="5000") == "allowed"
    assert judged("sequence-gap", compaction="true") == "inapplicable"
    assert judged("sequence-gap", unclean_leader_election="true") == "forbidden", "no log takes a number that does not follow"
    assert judged("sequence-start", unclean_leader_election="true") == "allowed"
    assert judged("sequence-start", topic_deletions="records") == "allowed"
    assert judged("wrong-marker", operator_aborts="open") == "allowed"
    assert judged("replica-divergence", power_failures="all replicas") == "allowed"
    assert judged("leader-epoch-regression", power_failures="all replicas") == "allowed"
    assert judged("leader-epoch-regression", compaction="true") == "forbidden"
    assert judged("unlawful-state", unclean_coordinator="true") == "allowed"
    assert judged("producer-id-reuse", unclean_leader_election="true") == "forbidden"


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_turned_decision_is_planted_with_each_protocol(tmp_path, protocol):
    """With the second one a decision has another epoch than the records that it decides about."""
    m = two_producers(protocol)
    m.h.final({})
    assert not violated(m.judged(tmp_path))
    rows = replace(read_rows(tmp_path / RunFile.HISTORY), logs=pq.read_table(tmp_path / RunFile.STORED))
    for seed in range(5):
        damaged = UNLOG.plant(rows, Random(seed))
        pq.write_table(damaged.logs, tmp_path / RunFile.STORED)
        assert "unlogged-answer" in violated(judge_here(tmp_path, m.h.ops, None, CHECKS))


def test_every_row_of_the_model_fits_the_table():
    assert pa.Table.from_pylist(random_model(3).replicas(), schema=schema(STORED)).num_rows


@pytest.mark.parametrize("own", ["id-0", "id-1"])
def test_the_instances_of_several_producers_of_a_process_are_told_apart(tmp_path, own):
    """Another process takes the second id over; then the first process writes, with a producer that nobody or somebody fenced."""
    m = LogModel()
    for name in ("id-0", "id-1"):
        m.initialise(0, name)
    m.initialise(1, "id-1")
    m.transaction(1, {"t-1": 1})
    m.names[0] = own
    m.ids[own]["epoch"] = 0
    m.transaction(0, {"t-0": 1})
    m.h.final({})
    document = m.judged(tmp_path, checks=[epoch_regression, late_marker])
    assert set(violated(document)) == ({"late-marker"} if own == "id-1" else set())
