"""Topics of a connector that were deleted and created again: what that permits, and what is judged all the same.

Times are in ms after EPOCH_MS. The first deletion begins at 1,000, and every broker knows the new topic at 3,000; what is nearer
than half a second is not distinguished.
"""

import json

import pytest
from support.deleted_topics import DeletedTopics
from support.histories import History, violated, write_faults
from support.judging import judge_here

from fencepost.checkers.engine.registry import installed_checks

NAMES = ("source-duplicate", "source-loss", "source-offset-torn", "source-offset-regression")
CHECKS = [check for check in installed_checks()[0] if check.name in NAMES]
EPOCH_MS = 1_790_000_000_000
GONE, BACK = 1_000, 3_000


class Logs:
    """Logs of the leaders of the present topics, t with records and o with offsets: the transactions of producer 7."""

    def __init__(self):
        self.rows, self.epoch = {"t-0": [], "o-0": []}, 0

    def transaction(self, at, numbers, stored=None, *, lost=(), end="COMMIT"):
        """Records of source a in the transaction that ends at a time, and its stored offset. lost: topics in which nothing of it
        is left."""
        self.epoch += 1
        rows = {"t-0": [("record", n) for n in numbers], "o-0": [("offset", stored if stored is not None else max(numbers))]}
        for partition, some in rows.items():
            if partition[0] not in lost:
                for kind, number in some:
                    self.append(partition, at, kind, number)
                self.append(partition, at, end, -1)
        return self

    def append(self, partition, at, kind, number):
        own = {"producer_id": 7, "producer_epoch": self.epoch, "transactional": True}
        place = {"partition": partition, "offset": len(self.rows[partition]), "timestamp": EPOCH_MS + at}
        name = "a" if number >= 0 else ""
        self.rows[partition].append({**place, **own, "kind": kind, "name": name, "number": number})

    def judged(self, folder, contract, receipts):
        h = History()
        h.final({"t-0": []})
        final = next(op for op in h.ops if op["final"] and op["f"] == "poll" and op["isolation"] == "read_committed")
        unknown = {"producer_id": None, "producer_epoch": None, "transactional": None}
        final["entries"] = [{**entry, **unknown} for entry in self.rows["t-0"] if entry["kind"] == "record"]
        h.add(-1, "read-log", isolation=None, entries=[row for rows in self.rows.values() for row in rows])
        full = {"connect": "enabled", "transactional": "false", "topic_deletions": contract}
        if receipts is not None:
            write_faults(folder, *receipts)
        return judge_here(folder, h.ops, full, CHECKS, schedule=[{"kind": "delete-topic"}])


def deletion(topic, gone=GONE, back=BACK, number=0):
    evidence = {"deletions": [{"topic": topic, "began_ms": EPOCH_MS + gone}]}
    healing = {"again": {"known_ms": EPOCH_MS + back} if back else {}}
    own = {"id": number, "kind": "delete-topic", "evidence": json.dumps(evidence), "healing": json.dumps(healing)}
    return {**own, "effective": True, "injected_ns": 1, "healed_ns": 2}


def outcome(document, name):
    """Of an anomaly: what is forbidden of it and what is permitted, as pairs of verdict and number of findings."""
    return tuple(
        next(((row["verdict"], row["count"]) for row in document[part] if row["name"] == name), None)
        for part in ("properties", "allowed")
    )


def sentences(document, name):
    return [row["sentence"] for row in document["findings"] if row["anomaly"] == name]


# --------------------------------------------------------------------------------------------------
# Records
# --------------------------------------------------------------------------------------------------
def torn_by_deletion():
    """0 to 3 are gone, 4 of the transaction that was open is there without 5, and all is well from 6 on."""
    logs = Logs().transaction(500, [0, 1], lost="t").transaction(900, [2, 3], lost="t")
    return logs.transaction(3200, [4], stored=5).transaction(4000, [6, 7]).transaction(4500, [8, 9])


def test_what_lay_in_a_deleted_topic_is_permitted_to_be_lost_and_shown(tmp_path):
    document = torn_by_deletion().judged(tmp_path, "records", [deletion("t")])
    assert violated(document) == []
    assert outcome(document, "source-loss") == (("held", 0), ("violated", 2))
    assert sentences(document, "source-loss") == [
        "Records 1 to 3 of source a are not there: the complete read_committed final read has 4 at t-0@0, "
        "and the stored offset 1 at o-0@0.",
        "Record 5 of source a is not there: the complete read_committed final read has 4 at t-0@0 and 6 at t-0@2.",
    ]


def test_what_is_lost_after_the_topic_was_back_is_lost(tmp_path):
    logs = torn_by_deletion().transaction(5000, [11])
    document = logs.judged(tmp_path, "records", [deletion("t")])
    assert violated(document) == ["source-loss"]
    assert outcome(document, "source-loss") == (("violated", 1), ("violated", 2))


def test_without_a_deletion_that_is_known_the_contract_permits_nothing(tmp_path):
    assert violated(torn_by_deletion().judged(tmp_path, "records", [])) == ["source-loss"]
    other = [deletion("somebody's")]
    assert violated(torn_by_deletion().judged(tmp_path, "records", other)) == ["source-loss"]


def test_without_the_contract_no_deletion_permits_anything(tmp_path):
    assert violated(torn_by_deletion().judged(tmp_path, "", [deletion("t")])) == ["source-loss"]
    assert violated(torn_by_deletion().judged(tmp_path, "offsets", [deletion("t")])) == ["source-loss"]


def test_a_record_that_is_repeated_beside_a_deleted_topic_is_repeated(tmp_path):
    logs = torn_by_deletion().transaction(5000, [9, 10])
    assert violated(logs.judged(tmp_path, "records", [deletion("t")])) == ["source-duplicate"]


def test_a_record_outside_the_transaction_of_its_offset_is_torn_when_the_topic_was_back(tmp_path):
    logs = torn_by_deletion().transaction(5000, [10], lost="o").transaction(5500, [11])
    assert violated(logs.judged(tmp_path, "records", [deletion("t")])) == ["source-offset-torn"]


# --------------------------------------------------------------------------------------------------
# Offsets
# --------------------------------------------------------------------------------------------------
def begun_again(*before):
    """0 to 5 are stored in the deleted topic; the task begins again when it is back."""
    logs = Logs().transaction(500, [0, 1, *before], lost="o").transaction(900, [2, 3, 4, 5], lost="o")
    return logs.transaction(3200, [0, 1]).transaction(4000, [2, 3]).transaction(4500, [4, 5, 6])


def test_a_task_may_begin_again_for_want_of_its_offsets(tmp_path):
    document = begun_again().judged(tmp_path, "offsets", [deletion("o")])
    assert violated(document) == []
    assert outcome(document, "source-duplicate") == (("held", 0), ("violated", 1))
    assert outcome(document, "source-offset-torn") == (("held", 0), None)
    compared = {row["name"]: row["compared"] for row in document["properties"]}
    assert (compared["source-offset-torn"], compared["source-loss"]) == (3, 7)  # those that surely began afterwards


def test_a_position_that_is_there_more_often_than_the_topic_was_is_repeated(tmp_path):
    """Two transactions that may have begun while the topic was away, and one that surely began later."""
    logs = Logs().transaction(500, [0, 1], lost="o").transaction(1500, [0, 1], lost="o").transaction(3200, [0, 1])
    assert violated(logs.judged(tmp_path, "offsets", [deletion("o")])) == ["source-duplicate"]


def test_two_deletions_may_repeat_a_position_twice(tmp_path):
    logs = Logs().transaction(500, [0, 1], lost="o").transaction(1500, [0, 1], lost="o").transaction(6200, [0, 1])
    both = [deletion("o"), deletion("o", 5000, 6000, number=1)]
    document = logs.judged(tmp_path, "offsets", both)
    assert violated(document) == []
    assert outcome(document, "source-duplicate") == (("held", 0), ("violated", 1))


@pytest.mark.parametrize("again", [(5000, [5, 6]), (5000, [2])], ids=["the last ones", "long ago"])
def test_a_position_that_is_repeated_when_the_topic_was_back_is_repeated(tmp_path, again):
    document = begun_again().transaction(*again, lost="o").judged(tmp_path, "offsets", [deletion("o")])
    assert "source-duplicate" in violated(document)


def test_a_position_that_was_repeated_before_the_deletion_was_repeated(tmp_path):
    logs = begun_again(0)
    document = logs.judged(tmp_path, "offsets", [deletion("o", gone=2500)])
    assert violated(document) == ["source-duplicate"]


def test_what_is_lost_beside_deleted_offsets_is_lost(tmp_path):
    logs = begun_again().transaction(5000, [8])
    assert violated(logs.judged(tmp_path, "offsets", [deletion("o")])) == ["source-loss"]


def test_a_record_without_its_offset_in_the_present_topic_is_torn(tmp_path):
    logs = begun_again().transaction(5000, [7], lost="o").transaction(5500, [8])
    assert violated(logs.judged(tmp_path, "offsets", [deletion("o")])) == ["source-offset-torn"]


def test_an_offset_that_goes_back_in_the_present_topic_goes_back(tmp_path):
    logs = begun_again().transaction(5000, [], stored=2, lost="t")
    assert violated(logs.judged(tmp_path, "offsets", [deletion("o")])) == ["source-offset-regression"]


# --------------------------------------------------------------------------------------------------
# What cannot be distinguished
# --------------------------------------------------------------------------------------------------
def answers(document, *names):
    return {(row["verdict"], row["reason"]) for row in document["properties"] if row["name"] in names}


def test_until_the_time_of_recreation_is_known_nothing_is_violated(tmp_path):
    why = "when every broker knew t, which was deleted and created again, is not known"
    document = torn_by_deletion().judged(tmp_path, "records", [deletion("t", back=None)])
    assert answers(document, "source-loss", "source-offset-torn") == {("unknown", why)}
    assert answers(document, "source-duplicate") == {("held", "")}
    assert document["verdict"] == "unknown"
    document = begun_again().judged(tmp_path, "offsets", [deletion("o", back=None)])
    assert answers(document, "source-duplicate", "source-offset-torn") == {("unknown", why.replace("knew t", "knew o"))}


def test_without_receipts_deletions_are_unknown(tmp_path):
    document = begun_again().judged(tmp_path, "records, offsets", None)
    assert answers(document, *NAMES[:3]) == {("unknown", "which topics faults deleted is not known")}


def test_offsets_outside_transactions_do_not_say_what_lay_in_a_deleted_topic(tmp_path):
    logs = torn_by_deletion()
    logs.rows["o-0"] = [
        {**row, "producer_id": -1, "producer_epoch": -1, "transactional": False}
        for row in logs.rows["o-0"]
        if row["kind"] == "offset"
    ]
    logs.rows["o-0"] = [{**row, "offset": at} for at, row in enumerate(logs.rows["o-0"])]
    document = logs.judged(tmp_path, "records", [deletion("t")])
    ((verdict, reason),) = answers(document, "source-loss")
    assert (verdict, "outside transactions" in reason) == ("unknown", True)


# --------------------------------------------------------------------------------------------------
# Random ones
# --------------------------------------------------------------------------------------------------
WHICH = (("t",), ("o",), ("t", "o"))
SEEDS, NIGHTLY_SEEDS = 2, 302


def judged(folder, story):
    write_faults(folder, *story.receipts)
    return judge_here(folder, story.ops, story.contract, CHECKS, schedule=[{"kind": "delete-topic"}])


def rightly(folder, seed):
    """Judge lawful histories of a seed, and the same with a position that is skipped, or repeated, when all topics are there."""
    for deleted in WHICH:
        story = DeletedTopics(seed, deleted)
        document = judged(folder, story)
        assert (document["verdict"], violated(document)) == ("valid", []), (seed, deleted)
        for lie, name in (("skip", "source-loss"), ("repeat", "source-duplicate")):
            liar = DeletedTopics(seed, deleted, lie, story.quiet_since + 5_000)
            names = violated(judged(folder, liar))
            resent = lie == "skip" and liar.lied_at in liar.positions  # by a task that has begun again
            assert (name in names) is not resent, (seed, deleted, lie)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_lawful_connector_is_innocent_and_a_liar_is_caught(tmp_path, seed):
    rightly(tmp_path, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 100))
def test_many_lawful_connectors_are_innocent_and_liars_are_caught(tmp_path, start):
    for seed in range(start, start + 100):
        rightly(tmp_path, seed)
