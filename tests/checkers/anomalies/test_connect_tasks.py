"""Leaders and tasks of Connect: judged as by their slow twins on random histories, and in words."""

import json
from random import Random

import pyarrow.parquet as pq
import pytest
from support.connect_histories import CONFIGS, TARGET, ConnectExample, ConnectStory, plain_name, random_story, task_id
from support.connect_reference import TWINS, ConnectHistory, by_records
from support.histories import answer, finding, violated, write_faults
from support.judging import judge_here

from fencepost.checkers.engine.registry import installed_checks

CHECKS = [check for check in installed_checks()[0] if check.name in TWINS]
CONTRACT = {"connect": "enabled", "transactional": "false"}
SEEDS, NIGHTLY_SEEDS = 8, 3008
EMPTY_ABORT = "IllegalStateException: Invalid transition attempted from state READY to state ABORTING_TRANSACTION"
FENCED = "InvalidProducerEpochException\n\tat org.apache.kafka.clients.producer.KafkaProducer.abortTransaction"


def compare(folder, seed):
    """Judge one history both ways; what was found."""
    ops = random_story(Random(seed)).ops
    judge_here(folder, ops, CONTRACT, CHECKS)
    history = ConnectHistory(ops)
    expected = {name: twin(history) for name, twin in TWINS.items()}
    assert by_records(pq.read_table(folder / "anomalies.parquet").to_pylist(), history) == expected, seed
    return {name for name, matches in expected.items() if matches}


def test_random_leaders_and_tasks_are_judged_as_by_the_reference(tmp_path):
    assert set().union(*(compare(tmp_path, seed) for seed in range(SEEDS))) == set(TWINS)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 300))
def test_many_random_leaders_and_tasks_are_judged_as_by_the_reference(tmp_path, start):
    assert set().union(*(compare(tmp_path, seed) for seed in range(start, start + 300))) == set(TWINS)


@pytest.mark.parametrize("name", TWINS)
def test_check_and_slow_twin_find_in_the_docstrings_example_what_it_says(tmp_path, name):
    example = ConnectExample(next(check for check in CHECKS if check.name == name))
    judge_here(tmp_path, example.ops, CONTRACT, CHECKS)
    findings = [row for row in pq.read_table(tmp_path / "anomalies.parquet").to_pylist() if row["anomaly"] == name]
    rows = {(row["role"], plain_name(row["partition"]), row["offset"]) for anomaly in findings for row in anomaly["records"]}
    assert rows == example.expected() != set()
    assert f"Slow twin: `{TWINS[name].__name__}` in tests/support/connect_reference.py." in example.text
    history = ConnectHistory(example.ops)
    assert by_records(findings, history)[name] == TWINS[name](history)


# --------------------------------------------------------------------------------------------------
# Stories
# --------------------------------------------------------------------------------------------------
def lawful(tasks=2, then=3, fenced=None, elsewhere=False, bumping=True):
    """A leader, some tasks that write, a round of fencing, and as many tasks as are configured then."""
    story = ConnectStory(bumping, elsewhere)
    story.lead()
    _generation(story, tasks, 0)
    _generation(story, then, tasks if fenced is None else fenced)
    return story


def _generation(story, tasks, fenced):
    story.now += 5000
    story.configure("generation", tasks)
    story.now += 1000
    for task in range(fenced):
        story.fence(task)
    story.now += 1000
    story.configure("task-count", tasks)
    for task in range(tasks):
        story.now += 1000
        story.start(task)
        story.now += 1000
        story.write(task)


def judged(folder, story, contract=None, **plan):
    return judge_here(folder, story.ops, {**CONTRACT, **(contract or {})}, CHECKS, **plan)


def promise(document, beginning):
    """Counts of how often a row of the table was met and violated."""
    rows = answer(document, "connect-promise")["table"]
    return next((row["met"], row["violated"]) for row in rows if row["situation"].startswith(beginning))


def test_a_round_of_fencing_between_two_generations_keeps_the_promises(tmp_path):
    document = judged(tmp_path, lawful())
    assert violated(document) == []
    assert {name: answer(document, name)["compared"] for name in ("zombie-task", "unfenced-start", "config-topic-writer")} == {
        "zombie-task": 2,
        "unfenced-start": 5,
        "config-topic-writer": 4,
    }
    assert promise(document, "a task writes records") == (5, 0)
    assert promise(document, "configurations follow") == (1, 0)
    assert promise(document, "a task writes in transactions") == (3, 0)


def test_one_task_after_one_task_needs_no_fencing(tmp_path):
    document = judged(tmp_path, lawful(1, 1, fenced=0))
    assert violated(document) == []
    assert promise(document, "one task follows one task") == (1, 0)
    assert promise(document, "configurations follow") == (0, 0)


def test_a_round_of_fencing_for_one_task_after_one_is_more_than_is_promised(tmp_path):
    document = judged(tmp_path, lawful(1, 1, fenced=1))
    assert promise(document, "one task follows one task") == (0, 1)
    assert finding(document, "connect-promise")["sentence"].startswith(
        "By __transaction_state-0@4 and fp-connect-configs-0@6, one task follows one task, where this is demanded: no round"
    )


def test_a_fencing_by_an_operator_is_none_of_a_leader(tmp_path):
    fencing = {"transactional_id": "fp-connect-source-0", "began_ns": 1, "ended_ns": 2}
    receipt = {"id": 1, "kind": "fence-producers", "evidence": json.dumps({"fencings": [fencing]}), "healing": "{}"}
    write_faults(tmp_path, receipt)
    assert promise(judged(tmp_path, lawful(1, 1, fenced=1)), "one task follows one task") == (0, 0)


def test_a_task_that_starts_after_configurations_without_a_task_count_record_is_named(tmp_path):
    story = lawful()
    story.now += 5000
    story.configure("generation", 4)
    story.now += 2000
    story.start(3)
    story.write(3)
    document = judged(tmp_path, story)
    assert violated(document) == ["unfenced-start"]
    assert finding(document, "unfenced-start")["sentence"] == (
        "The producer of fp-connect-source-3 was initialised at __transaction_state-3@0 and wrote, when the configurations "
        "fp-connect-configs-0@8 had been committed; a task-count record has to come between, and there is none."
    )
    assert promise(document, "a producer is made, and newer") == (0, 1)


def test_a_worker_that_lags_may_make_a_producer_and_give_up(tmp_path):
    """KIP-618: after its producer is made it reads the configuration topic to its end, and does not start the task."""
    story = lawful()
    story.now += 5000
    story.configure("generation", 4)
    story.now += 2000
    story.start(1)
    document = judged(tmp_path, story)
    assert violated(document) == []
    assert promise(document, "a producer is made, and newer") == (1, 0)


def test_what_is_nearer_than_clocks_may_be_wrong_is_not_judged(tmp_path):
    story = lawful()
    story.now += 5000
    story.configure("generation", 4)
    story.now += 300
    story.start(3)
    story.write(3)
    assert answer(judged(tmp_path, story), "unfenced-start")["verdict"] == "held"


def test_while_a_clock_was_wrong_nothing_rests_on_timestamps(tmp_path):
    story = lawful()
    story.now += 5000
    story.configure("generation", 4)
    story.now += 2000
    story.start(3)
    story.write(3)
    write_faults(tmp_path, {"id": 1, "kind": "clock-skew", "evidence": json.dumps({"by_s": -60.0}), "healing": "{}"})
    assert answer(judged(tmp_path, story), "unfenced-start")["verdict"] == "not exercised"


def test_a_connector_that_is_stopped_has_configurations_without_tasks(tmp_path):
    """A task whose start overlaps the stop may run on: those configurations start none."""
    story = lawful()
    story.now += 5000
    story.configure("generation", 0)
    story.now += 2000
    story.start(1)
    story.write(1)
    assert violated(judged(tmp_path, story)) == []


def test_an_older_generation_that_was_not_fenced_is_a_zombie(tmp_path):
    story = lawful(3, 2, fenced=0)
    story.now += 2000
    story.write(2)
    document = judged(tmp_path, story)
    assert violated(document) == ["connect-promise", "zombie-task"]
    assert finding(document, "zombie-task")["sentence"] == (
        "The producer 104 of fp-connect-source-2 that was initialised in epoch 0 (__transaction_state-2@0) has committed "
        "__transaction_state-2@4, though all older tasks had to be fenced before fp-connect-configs-0@6."
    )


def test_with_the_first_protocol_a_producer_may_raise_its_own_epoch_after_an_abort(tmp_path):
    """KIP-360: this is no start, and lawful before the leader fences."""
    story = ConnectStory(bumping=False)
    story.lead()
    _generation(story, 2, 0)
    story.write(0, end=3)
    story.now += 5000
    story.configure("generation", 3)
    story.now += 2000
    story.start(0)
    story.write(0)
    assert violated(judged(tmp_path, story)) == []


def test_any_worker_writes_states_and_levels_of_loggers(tmp_path):
    story = lawful()
    story.append(CONFIGS, "target-state", "source", 0)
    story.append(CONFIGS, "other", "logger-cluster-root", -1)
    assert violated(judged(tmp_path, story)) == []
    story.append(CONFIGS, "other", "session-key", -1)
    document = judged(tmp_path, story)
    assert finding(document, "config-topic-writer")["sentence"] == (
        "fp-connect-configs-0@10 (other session-key) was written outside transactions: not by the producer of a leader."
    )
    assert violated(judged(tmp_path, story, {"connect": "preparing"})) == ["config-topic-writer"]
    assert violated(judged(tmp_path, story, {"connect": "disabled"})) == []


@pytest.mark.parametrize(
    ("settings", "answered", "situation", "counts"),
    [
        ({"exactly.once.support": "required", "answer.exactly.once": "null"}, 400, "exactly.once.support", (1, 0)),
        ({"exactly.once.support": "required", "answer.exactly.once": "unsupported"}, 201, "exactly.once.support", (0, 1)),
        ({"exactly.once.support": "required"}, 201, "exactly.once.support", (0, 0)),
        ({"transaction.boundary": "connector", "answer.boundaries": "unsupported"}, 400, "transaction.boundary", (1, 0)),
        ({"transaction.boundary": "poll", "answer.boundaries": "unsupported"}, 201, "transaction.boundary", (0, 0)),
    ],
)
def test_a_configuration_that_a_connector_cannot_keep_has_to_be_refused(tmp_path, settings, answered, situation, counts):
    body = {"connector.class": "fencepost.NumberedSource", **settings}
    story = lawful()
    story.requests = [json.dumps({"method": "PUT", "path": "/connectors/source/config", "body": body, "status": answered})]
    document = judged(tmp_path, story)
    assert promise(document, situation) == counts
    assert violated(document) == (["connect-promise"] if counts[1] else [])


def test_a_task_that_failed_has_to_say_why(tmp_path):
    tasks = [{"id": 0, "state": "FAILED", "trace": "Failed to perform round of zombie fencing"}, {"id": 1, "state": "RUNNING"}]
    story = lawful()
    story.requests = [json.dumps({"method": "GET", "status": 200, "answer": {"tasks": tasks}})] * 2
    assert promise(judged(tmp_path, story), "the leader could not fence") == (1, 0)
    tasks[0]["trace"] = ""
    story.requests = [json.dumps({"method": "GET", "status": 200, "answer": {"tasks": tasks}})]
    assert violated(judged(tmp_path, story)) == ["connect-promise"]


@pytest.mark.parametrize(
    ("every", "trace", "counts"), [(1, "", (1, 0)), (1, FENCED, (1, 0)), (1, EMPTY_ABORT, (1, 1)), (0, "", (0, 0))]
)
def test_a_task_may_abort_a_transaction_without_a_record(tmp_path, every, trace, counts):
    """It has written more than the transactions before the one that it aborts."""
    story = lawful()
    for _ in range(4):
        story.write(1)
    body = {"connector.class": "fencepost.NumberedSource", "abort.empty.every": every, "transaction.records": 1}
    tasks = [{"id": 0, "state": "FAILED" if trace else "RUNNING", "trace": trace}]
    story.requests = [
        json.dumps({"method": "PUT", "path": "/connectors/source/config", "body": body, "status": 201}),
        json.dumps({"method": "GET", "status": 200, "answer": {"tasks": tasks}}),
    ]
    document = judged(tmp_path, story)
    assert promise(document, "a task asks to abort") == counts
    assert violated(document) == (["connect-promise"] if counts[1] else [])


@pytest.mark.parametrize(
    ("answered", "met"),
    [
        ({"error_code": 409, "message": "a rebalance is expected"}, 1),
        ({"error_code": 500, "message": "IO Error trying to forward REST request"}, 0),
        ({"error_code": 500, "message": "Cannot produce to config topic without claiming write privileges first"}, 0),
        ({"message": "Not Found", "status": "404"}, 0),
        (None, 0),
    ],
)
def test_a_restart_is_refused_by_connect_and_not_by_what_is_broken(tmp_path, answered, met):
    story = lawful()
    story.requests = [json.dumps({"method": "POST", "path": "/connectors/source/tasks/0/restart", "answer": answered})]
    assert promise(judged(tmp_path, story), "a restart of tasks") == (met, 0)


def test_a_copy_of_an_offset_that_was_only_aborted_is_counted_in_the_table(tmp_path):
    story = lawful()
    for task, position, end in ((0, 4, 2), (1, 9, 3)):
        story.transaction(task_id(task), [("own-offsets-0", "offset", "a", position)], end=end)
        story.append("fp-connect-offsets-0", "offset", "a", position)
    document = judged(tmp_path, story)
    assert promise(document, "a connector with an offsets topic") == (1, 1)
    assert violated(document) == [], "no task reads it"


@pytest.mark.parametrize(("position", "counts"), [(5, (1, 0)), (10, (0, 1)), (7, (0, 0))])
def test_after_an_aborted_offset_a_task_reads_on_from_the_committed_one(tmp_path, position, counts):
    story = lawful()
    offset = "own-offsets-0", "offset", "a"
    story.transaction(task_id(0), [(*offset, 4)])
    story.transaction(task_id(0), [(*offset, 9)], end=3)
    story.start(0)
    story.transaction(task_id(0), [("t-0", "record", "a", position), (*offset, position)])
    assert promise(judged(tmp_path, story), "the next task of a source") == counts


@pytest.mark.parametrize(("position", "counts"), [(5, (1, 0)), (0, (0, 1)), (7, (0, 0))])
def test_a_connector_that_gets_an_offsets_topic_reads_on_from_the_workers(tmp_path, position, counts):
    story = lawful()
    story.now += 2000
    story.transaction(task_id(0), [("fp-connect-offsets-0", "offset", "a", 4)])
    story.now += 2000
    story.start(1)
    story.transaction(task_id(1), [("t-0", "record", "a", position), ("own-offsets-0", "offset", "a", position)])
    assert promise(judged(tmp_path, story), "a connector gets an offsets topic") == counts


ALTER = {"method": "PATCH", "path": "/connectors/source/offsets", "altered": [["a", 20]]}
RESET = {"method": "DELETE", "path": "/connectors/source/offsets"}


def altered(request, number, position, certain=True):
    """Task 0 stores the offset 4, the offset is altered, and task 1 begins at a position."""
    story = lawful()
    story.requests = [json.dumps(request)]
    offset = "fp-connect-offsets-0", "offset", "a"
    story.transaction(task_id(0), [("t-0", "record", "a", 4), (*offset, 4)])
    story.start(0)
    story.transaction(task_id(0), [(*offset, number)])
    story.start(1)
    story.transaction(task_id(1), [("t-0", "record", "a", position), (*offset, position)])
    ops = story.ops
    if not certain:
        next(op for op in ops if op["f"] == "rest")["type"] = "info"
    return ops


@pytest.mark.parametrize(
    ("request_", "number", "position", "counts"),
    [
        (ALTER, 20, 21, (1, 0)),
        (ALTER, 20, 5, (0, 1)),
        (RESET, -1, 4, (1, 0)),
        (RESET, -1, 5, (0, 1)),
        ({**ALTER, "method": "GET"}, 20, 21, (0, 0)),
    ],
)
def test_after_its_offset_was_altered_a_source_reads_on_from_there(tmp_path, request_, number, position, counts):
    document = judge_here(tmp_path, altered(request_, number, position), CONTRACT, CHECKS)
    assert promise(document, "offsets are altered") == counts
    if counts[1]:
        assert finding(document, "connect-promise")["sentence"].endswith("(KIP-875: Altering Offsets).")


def test_an_alteration_without_an_answer_may_come_after_the_connector_went_on(tmp_path):
    document = judge_here(tmp_path, altered(ALTER, 20, 5, certain=False), CONTRACT, CHECKS)
    assert promise(document, "offsets are altered") == (0, 0)


def test_a_worker_that_alters_offsets_starts_no_task(tmp_path):
    """It takes the transactional id of task 0, while configurations without a task-count record may be there."""
    story = lawful()
    story.now += 2000
    story.configure("generation", 4)
    story.now += 5000
    story.start(0)
    story.transaction(task_id(0), [("fp-connect-offsets-0", "offset", "a", 20)])
    assert violated(judged(tmp_path, story)) == ["unfenced-start"]
    story.requests = [json.dumps(ALTER)]
    assert violated(judged(tmp_path, story)) == []


def test_a_coordinators_log_with_holes_proves_nothing(tmp_path):
    story = lawful(3, 2, fenced=0)
    del story.logs["__transaction_state-0"][1]
    document = judged(tmp_path, story)
    assert "compacted" in answer(document, "zombie-task")["reason"]
    assert violated(document) == []


def test_a_configuration_topic_with_holes_proves_nothing(tmp_path):
    story = lawful()
    del story.logs[CONFIGS][6:]
    del story.logs[CONFIGS][0]
    document = judged(tmp_path, story)
    assert violated(document) == []
    assert {answer(document, name)["verdict"] for name in TWINS} == {"not exercised"}


# --------------------------------------------------------------------------------------------------
# Workers on another Kafka cluster than the records
# --------------------------------------------------------------------------------------------------
def findings_in(folder, story):
    """Records of the findings in a history, and how much each check compared."""
    document = judge_here(folder, story.ops, CONTRACT, CHECKS)
    findings = pq.read_table(folder / "anomalies.parquet").to_pylist()
    rows = [(anomaly["anomaly"], row["role"], row["partition"].removeprefix("second/"), row["offset"])
            for anomaly in findings for row in anomaly["records"]]  # fmt: skip
    return sorted(rows), {name: answer(document, name)["compared"] for name in TWINS}


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.nightly)], ids=["three", "more"])
def test_where_the_workers_are_changes_no_answer(tmp_path, seeds):
    """Two logs have one name, and two producers one id."""
    for seed in seeds:
        stories = [random_story(Random(seed), elsewhere) for elsewhere in (True, False)]
        assert findings_in(tmp_path, stories[0]) == findings_in(tmp_path, stories[1]), seed


def test_who_is_fenced_on_the_workers_cluster_is_not_fenced(tmp_path):
    """The connector's admin client has to go where its producers go (`admin.override.bootstrap.servers`)."""
    story = lawful(2, 2, fenced=0, elsewhere=True)
    assert violated(judged(tmp_path, story)) == ["connect-promise"]
    for task in range(2):
        partition, timestamp = f"second/__transaction_state-{task}", story.logs[CONFIGS][-3]["timestamp"]
        row = {
            **story.logs[f"__transaction_state-{task}"][0],
            "partition": partition,
            "timestamp": timestamp,
            "number": 90_000,
            "producer_id": 900 + task,
        }
        story.logs[partition].append(row)
    document = judged(tmp_path, story)
    assert violated(document) == ["connect-promise"]
    assert promise(document, "configurations follow") == (0, 1)


def test_offsets_of_the_connector_may_be_in_a_topic_that_is_named_as_the_workers_one(tmp_path):
    """Without `offsets.storage.topic` the target cluster gets a topic of that name (KIP-618)."""
    story = lawful(elsewhere=True)
    for task, position, end in ((0, 4, 2), (1, 9, 3)):
        story.transaction(task_id(task), [("connect-offsets-0", "offset", "a", position)], end=end)
        story.append("fp-connect-offsets-0", "offset", "a", position)
    document = judged(tmp_path, story)
    assert promise(document, "a connector with an offsets topic") == (1, 1)
    assert promise(document, "a connector's records go to another") == (1, 1), "the records of `lawful` have no offset"


def test_a_producer_of_the_second_cluster_is_named_as_such(tmp_path):
    story = lawful(elsewhere=True)
    story.lead()
    story.configure("generation", 3)
    story.configure("task-count", 3, instance=-2)
    assert finding(judged(tmp_path, story), "config-topic-writer")["sentence"] == (
        "second/fp-connect-configs-0@10 (task-count source) was committed by producer 102 of the second cluster in epoch 4, "
        "after second/fp-connect-configs-0@8 of a later leader."
    )


# --------------------------------------------------------------------------------------------------
# Several Connect clusters
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.nightly)], ids=["three", "more"])
def test_another_connect_cluster_changes_no_answer(tmp_path, seeds):
    """Its connector has the same name, and each is judged by itself."""
    for seed in seeds:
        story = random_story(Random(seed))
        alone, _ = findings_in(tmp_path, story)
        other = lawful(bumping=story.bumping)
        story.beside = [other]
        both, compared = findings_in(tmp_path, story)
        assert both == alone, seed
        assert compared["config-topic-writer"] >= 4


def test_connect_clusters_do_not_write_for_each_other(tmp_path):
    story = lawful()
    story.beside = [lawful()]
    document = judged(tmp_path, story)
    assert violated(document) == []
    assert promise(document, "several Connect clusters") == (6, 0)
    assert promise(document, "a task writes records") == (10, 0)
    assert promise(judged(tmp_path, lawful()), "several Connect clusters") == (0, 0)


def test_a_task_that_writes_for_the_other_connect_cluster_is_named(tmp_path):
    story = lawful()
    story.beside = [lawful()]
    record, marker = story.logs[TARGET][:2]
    story.logs["t2-0"] = [{**record, "partition": "t2-0", "offset": 100}, {**marker, "partition": "t2-0", "offset": 101}]
    document = judged(tmp_path, story)
    assert promise(document, "several Connect clusters")[1] == 1
    assert "connect-promise" in violated(document)


def test_fencing_is_skipped_of_no_connector_but_the_one_that_always_had_one_task(tmp_path):
    """A fencing for more tasks may be begun before, and end late; the tasks of another connector need theirs."""
    story = lawful(2, 1)
    _generation(story, 1, 1)
    assert promise(judged(tmp_path, story), "one task follows one task") == (0, 0)
    other = lawful(1, 1, fenced=0)
    other.initialise("fp-connect-another-0", 90_000)
    assert promise(judged(tmp_path, other), "one task follows one task") == (1, 0)
