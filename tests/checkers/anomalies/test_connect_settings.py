"""Promises of KIP-618 about settings that nobody may change, the workers' protocol, and requests that only workers make."""

import json

import pytest
from support.connect_histories import CONFIGS, ConnectStory, task_id
from support.connect_reference import TWINS
from support.histories import answer, finding, violated
from support.judging import judge_here

from fencepost.checkers.engine.registry import installed_checks

CHECKS = [check for check in installed_checks()[0] if check.name in TWINS]
CONTRACT = {"connect": "enabled", "transactional": "false"}
MINE = "fencepost-overridden"
OWN_ID = {"producer.override.transactional.id": MINE}
UNCOMMITTED = {"consumer.override.isolation.level": "read_uncommitted"}


def story_of(*requests):
    """A leader and two tasks that write, with requests and their answers."""
    story = ConnectStory()
    story.lead()
    story.configure("generation", 2)
    story.now += 2000
    story.configure("task-count", 2)
    story.now += 5000
    for task in range(2):
        story.start(task)
        story.write(task, position=task)
    story.requests = [json.dumps(request) for request in requests]
    return story


def configuring(config=None, status=201, **more):
    body = {"connector.class": "fencepost.NumberedSource", **(config or {})}
    return {"method": "PUT", "path": "/connectors/source/config", "body": body, "status": status, **more}


def counts(folder, story, beginning):
    document = judge_here(folder, story.ops, CONTRACT, CHECKS)
    rows = answer(document, "connect-promise")["table"]
    return document, next((row["met"], row["violated"]) for row in rows if row["situation"].startswith(beginning))


@pytest.mark.parametrize(
    ("request_", "met"),
    [
        (configuring(OWN_ID), 2),
        (configuring(workers={"producer.transactional.id": MINE}), 2),
        (configuring(workers={"transactional.id": MINE}), 1),  # the leader
        (configuring(), 0),
        (configuring(OWN_ID, status=400), 0),
    ],
)
def test_producers_that_were_to_have_another_transactional_id_have_their_own(tmp_path, request_, met):
    document, found = counts(tmp_path, story_of(request_), "a transactional id is set")
    assert (found, violated(document)) == ((met, 0), [])


def test_a_producer_that_got_the_id_which_was_set_is_a_finding(tmp_path):
    story = story_of(configuring(OWN_ID))
    story.initialise(MINE, 10_000)
    story.transaction(MINE, [("t-0", "record", "a", 7)])
    document, found = counts(tmp_path, story, "a transactional id is set")
    assert found == (2, 1)
    assert "connect-promise" in violated(document)
    assert any("it is ignored: they write by their own ids" in row["sentence"] for row in document["findings"])


@pytest.mark.parametrize(("position", "expected"), [(5, (1, 0)), (10, (0, 1))])
@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        (configuring(UNCOMMITTED), True),
        (configuring(workers={"consumer.isolation.level": "read_uncommitted"}), True),
        (configuring(), False),
    ],
)
def test_a_task_reads_committed_offsets_whatever_its_consumer_was_to_read(tmp_path, position, expected, request_, asked):
    story = story_of(request_)
    offset = "own-offsets-0", "offset", "a"
    story.transaction(task_id(0), [(*offset, 4)])
    story.transaction(task_id(0), [(*offset, 9)], end=3)
    story.start(0)
    story.transaction(task_id(0), [("t-0", "record", "a", position), (*offset, position)])
    _, found = counts(tmp_path, story, "isolation.level=read_uncommitted")
    assert found == (expected if asked else (0, 0))


def test_tasks_of_workers_that_rebalance_eagerly_are_counted(tmp_path):
    eager = configuring(workers={"connect.protocol": "eager"})
    assert counts(tmp_path, story_of(eager), "workers rebalance eagerly")[1] == (2, 0)
    assert counts(tmp_path, story_of(configuring()), "workers rebalance eagerly")[1] == (0, 0)
    story = story_of(eager)
    story.now += 2000
    story.configure("generation", 4)
    story.now += 5000
    story.start(0)
    story.write(0)
    assert counts(tmp_path, story, "workers rebalance eagerly")[1] == (2, 1)
    assert CONFIGS in story.logs


@pytest.mark.parametrize(
    ("method", "end", "status", "expected"),
    [
        ("PUT", "/fence", 400, (1, 0)),
        ("POST", "/tasks", 403, (1, 0)),
        ("PUT", "/fence", 200, (0, 1)),
        ("POST", "/tasks", 204, (0, 1)),
        ("PUT", "/fence", 503, (0, 0)),  # no worker has a key yet
        ("POST", "/tasks/0/restart", 204, (0, 0)),
        ("PUT", "/resume", 202, (0, 0)),
    ],
)
def test_a_request_without_the_signature_of_a_worker_has_to_be_refused(tmp_path, method, end, status, expected):
    request = {"method": method, "path": f"/connectors/source{end}", "status": status}
    document, found = counts(tmp_path, story_of(request), "somebody else than a worker")
    assert found == expected
    assert violated(document) == (["connect-promise"] if expected[1] else [])
    if expected[1]:
        assert finding(document, "connect-promise")["sentence"].endswith("(KIP-507: Internal Connect REST endpoints).")


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("org.apache.kafka.common.errors.TransactionalIdAuthorizationException: denied", (1, 0)),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics", (0, 1)),
        ("java.lang.IllegalStateException", (0, 0)),
    ],
)
def test_a_missing_permission_is_counted_by_what_it_is_for(tmp_path, trace, expected):
    tasks = [{"id": 0, "state": "FAILED", "trace": trace}]
    story = story_of({"method": "GET", "status": 200, "answer": {"tasks": tasks}})
    found = [counts(tmp_path, story, f"the permission for a {what}")[1][0] for what in ("task's transactional id", "topic")]
    assert tuple(found) == expected


def telling(story, task, position, number, kind="told"):
    """A record that says a number beside its own, up to which commitRecord was called, in a transaction of its own.

    kind: `dropped`: how many batches that a transform drops whole its task had returned.
    """
    story.transaction(task_id(task), [("t-0", "record", "a", position), ("t-0", kind, "a", number)])
    record, said = story.logs["t-0"][-3:-1]
    said["offset"] = record["offset"]


def test_commit_record_is_called_behind_the_commit(tmp_path):
    story = story_of()
    for position in range(7, 10):
        telling(story, 0, position, position - 1)
    document, found = counts(tmp_path, story, "a worker calls commitRecord")
    assert (found, violated(document)) == ((3, 0), []), "the record of number 0, and those of 7 and 8"


@pytest.mark.parametrize("end", [2, 3])
def test_commit_record_before_the_commit_is_a_finding(tmp_path, end):
    story = story_of()
    rows = [("t-0", "record", "a", 7), ("t-0", "record", "a", 8), ("t-0", "told", "a", 7)]
    story.transaction(task_id(0), rows, end=end)
    _, record, said, _ = story.logs["t-0"][-4:]
    said["offset"] = record["offset"]
    document, found = counts(tmp_path, story, "a worker calls commitRecord")
    assert found == (0, 1)
    assert "connect-promise" in violated(document)


def test_another_task_that_wrote_the_number_says_nothing_of_commit_record(tmp_path):
    story = story_of()
    story.write(1, position=7)
    telling(story, 0, 8, 7)
    assert counts(tmp_path, story, "a worker calls commitRecord")[1] == (1, 0), "its own record of number 0"


def test_batches_that_a_transform_drops_are_counted_once_a_task_has_gone_on(tmp_path):
    story = story_of()
    for position, batches in ((7, 0), (8, 1), (9, 1), (10, 3)):
        telling(story, 0, position, batches, "dropped")
    document, found = counts(tmp_path, story, "a transform drops all records of a batch")
    assert (found, violated(document)) == ((3, 0), [])


def test_a_record_that_a_transform_was_to_drop_is_a_finding(tmp_path):
    story = story_of()
    telling(story, 0, 7, 1, "dropped")
    telling(story, 0, 8, -1, "dropped")
    document, found = counts(tmp_path, story, "a transform drops all records of a batch")
    assert found == (1, 1)
    assert "connect-promise" in violated(document)
