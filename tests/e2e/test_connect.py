"""Source connectors on real workers of Kafka Connect: the right one is valid, wrong settings and sources that lie are caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.fencepost_command import fencepost, verdict

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]

KILL_TASKS = ("-n", "kill,target=connect-task,every_s=[8,10],lasts_s=1")


def run(results, *options, workload="connect", time_s=30):
    """The answers of the only run by name, and its violated anomalies."""
    _, out, err = fencepost(results, "run", "-w", workload, "-t", str(time_s), *options)
    (plan,) = results.glob("*/*/plan.json")
    document = verdict(plan.parent)
    assert document["verdict"] in ("valid", "invalid"), out + err
    answers = {row["name"]: row for row in document["properties"]}
    return answers, {name for name, row in answers.items() if row["verdict"] == "violated"}


@pytest.mark.parametrize("boundary", ["poll", "connector"])
def test_a_right_connector_is_valid_while_workers_are_killed(tmp_path, boundary):
    aborts = ("--set", 'config={"abort.every"=3}') if boundary == "connector" else ()
    answers, violated = run(tmp_path, *KILL_TASKS, "--set", f"boundary={boundary}", *aborts)
    assert violated == set()
    assert answers["source-duplicate"]["compared"] > 500
    assert answers["source-offset-torn"]["compared"] > 500
    assert answers["zombie-task"]["compared"] > 0
    assert answers["unfenced-start"]["compared"] > 0


@pytest.mark.parametrize(
    ("lie", "faults", "anomaly"),
    [
        ({"skip.every": 100}, ("-n", "none"), "source-loss"),
        ({"repeat.after.start": 3}, KILL_TASKS, "source-duplicate"),
        ({"offset.ahead": 4}, KILL_TASKS, "source-loss"),
    ],
    ids=["skip", "repeat", "ahead"],
)
def test_a_source_that_lies_is_caught(tmp_path, lie, faults, anomaly):
    ((key, value),) = lie.items()
    _, violated = run(tmp_path, *faults, "--set", f'config={{"{key}"={value}}}', "--set", "workers=2")
    assert anomaly in violated


SEVERAL = ("--set", "place_by=json /place", "--set", "count_by=json /of", "--set", "workers=2")


def test_each_record_of_a_position_that_gives_several_is_compared(tmp_path):
    answers, violated = run(tmp_path, *KILL_TASKS, *SEVERAL, "--set", 'config={"records.per.number"=3}')
    assert violated == set()
    assert answers["source-loss"]["compared"] > 500


def test_a_source_that_forgets_the_last_record_of_a_position_is_caught(tmp_path):
    lie = 'config={"records.per.number"=3,"forget.every"=50}'
    _, violated = run(tmp_path, "-n", "none", *SEVERAL, "--set", lie)
    assert violated == {"source-loss"}


def test_what_a_worker_without_support_writes_is_torn_from_its_offsets(tmp_path):
    _, violated = run(tmp_path, *KILL_TASKS, "--set", "support=disabled", "--contract", "connect=enabled")
    assert "source-offset-torn" in violated


def test_tasks_that_lack_a_right_fail_with_the_reason(tmp_path):
    denied = ("-n", "revoke-acl,right=write on topic,every_s=10,lasts_s=4")
    answers, violated = run(tmp_path, *denied, "--cluster-set", "acls=true")
    assert violated == set()
    met, _ = promised(answers, "the permission for a topic")
    assert met > 0


def test_settings_that_nobody_may_change_are_ignored_and_unsigned_requests_refused(tmp_path):
    changes = ("--set", 'changes=["overrides","unsigned"]', "--set", "change_every_s=4", "--set", "workers=2")
    answers, violated = run(tmp_path, *KILL_TASKS, *changes, time_s=35)
    assert violated == set()
    for row in ("a transactional id is set", "somebody else than a worker"):
        assert promised(answers, row)[0] > 0, row
    logged = "".join(path.read_text() for path in tmp_path.glob("*/*/logs/c*/application.log"))
    for name in ("transactional.id", "isolation.level"):
        assert f"for the '{name}' property will be ignored" in logged, "KIP-618: a message is logged"


def test_tasks_are_fenced_with_the_eager_protocol_too(tmp_path):
    answers, violated = run(tmp_path, *KILL_TASKS, "--set", "workers=2", "--set", 'worker_settings={"connect.protocol"="eager"}')
    assert violated == set()
    assert promised(answers, "workers rebalance eagerly")[0] > 0


def test_sparse_positions_are_compared_with_their_stored_offsets(tmp_path):
    """The numbered source's numbers, of which only is said that each is a record's own."""
    answers, violated = run(tmp_path, *KILL_TASKS, "--set", "workers=2", "--set", "positions=sparse")
    assert violated == set()
    assert answers["source-duplicate"]["compared"] > 500
    assert answers["source-offset-torn"]["compared"] > 500


def permitted(results):
    """The findings of a run that its contract permits, by name."""
    (path,) = results.glob("*/*/verdict.json")
    return {row["name"]: row["count"] for row in json.loads(path.read_text())["allowed"] if row["count"]}


def deletions(target, what, lasts_s="[1,3]"):
    """A topic deleted twice in a run, and what the contract says that it holds."""
    strike = f"delete-topic,target={target},every_s=[9,11],lasts_s={lasts_s},lane=topics"
    return "-n", strike, "--contract", f"topic_deletions={what}"


def test_what_lay_in_a_deleted_target_topic_is_gone_and_what_comes_later_is_there(tmp_path):
    answers, violated = run(tmp_path, *deletions("topic:records", "records"), *KILL_TASKS, "--set", "workers=2", time_s=40)
    assert violated == set()
    assert permitted(tmp_path)["source-loss"] >= 1
    assert answers["source-duplicate"]["compared"] > 100
    assert answers["source-loss"]["compared"] > 100
    assert answers["source-offset-torn"]["compared"] > 100


def test_after_its_offsets_topic_was_deleted_a_connector_may_begin_again(tmp_path):
    """Tasks are restarted while it is away."""
    own = ("--set", "own_offsets=true", "--set", "workers=2", "--set", 'changes=["restart"]', "--set", "change_every_s=3")
    answers, violated = run(tmp_path, *deletions("internal:records-source-offsets", "offsets", "[4,5]"), *own, time_s=40)
    assert violated == set()
    assert permitted(tmp_path)["source-duplicate"] >= 1
    assert answers["source-loss"]["compared"] > 100


def test_a_source_that_skips_is_caught_beside_deletions_of_its_topic(tmp_path):
    lie = ("--set", 'config={"skip.every"=50}', "--set", "workers=2")
    _, violated = run(tmp_path, *deletions("topic:records", "records"), *lie, time_s=40)
    assert violated == {"source-loss"}


def test_a_mirror_copies_every_committed_record_once_and_none_that_was_aborted(tmp_path):
    answers, violated = run(tmp_path, "-n", "kill,target=instance,every_s=12,lasts_s=1", workload="mirror")
    assert violated == set()
    assert answers["phantom-output"]["compared"] > 100
    assert answers["unprocessed"]["compared"] > 100


def promised(answers, beginning):
    """Counts of how often a promise of KIP-618 was met and violated."""
    rows = answers["connect-promise"]["table"]
    return next((row["met"], row["violated"]) for row in rows if row["situation"].startswith(beginning))


def test_tasks_fail_in_time_while_their_leader_cannot_fence(tmp_path):
    """No transaction ends while a broker is away, as the topic demands all three replicas. The tasks are restarted after that.

    The leader tries for 90 s. It is asked some 20 s after the broker has gone, and some 130 s before that one is back.
    """
    change = ("--set", 'changes=["tasks"]', "--set", "change_every_s=30", "--set", "most_changes=1", "--set", "workers=2")
    away = ("-n", "kill,target=random,every_s=14,lasts_s=150", "--topic", "min.insync.replicas=3")
    answers, violated = run(tmp_path, *change, *away, time_s=170)
    assert violated == set()
    met, broken = promised(answers, "the leader cannot fence")
    assert (met > 0, broken) == (True, 0)
    assert promised(answers, "the leader could not fence")[0] > 0
    assert promised(answers, "configurations follow") == (1, 0)


FAULTS_OF_BOTH = ("-n", "kill,target=second:random,lane=second", "-n", "kill,target=leader,every_s=[8,10],lasts_s=2")


def test_records_that_go_to_another_cluster_have_their_offsets_there(tmp_path):
    places = ("--set", "workers_cluster=second", "--cluster-set", "second_brokers=3", "--set", "workers=2")
    answers, violated = run(tmp_path, *KILL_TASKS, *FAULTS_OF_BOTH, *places, time_s=40)
    assert violated == set()
    assert answers["source-duplicate"]["compared"] > 500
    assert answers["zombie-task"]["compared"] > 0
    met, broken = promised(answers, "a connector's records go to another")
    assert met > 50
    assert not broken


def test_a_source_that_repeats_is_caught_on_another_cluster_too(tmp_path):
    places = ("--set", "workers_cluster=second", "--cluster-set", "second_brokers=1", "--set", "workers=2")
    _, violated = run(tmp_path, *KILL_TASKS, *places, "--set", 'config={"repeat.after.start"=3}')
    assert "source-duplicate" in violated


def test_two_connect_clusters_do_not_fence_each_other(tmp_path):
    answers, violated = run(tmp_path, *KILL_TASKS, "--set", "connect_clusters=2", "--set", "workers=2", time_s=40)
    assert violated == set()
    met, broken = promised(answers, "several Connect clusters")
    assert (met >= 4, broken) == (True, 0)


def test_a_mirror_between_two_clusters_copies_every_committed_record_once(tmp_path):
    places = ("--set", "source_cluster=second", "--cluster-set", "second_brokers=3")
    workers = ("-n", "kill,target=instance,every_s=12,lasts_s=1,lane=workers")
    answers, violated = run(tmp_path, *FAULTS_OF_BOTH, *workers, *places, workload="mirror", time_s=40)
    assert violated == set()
    assert answers["phantom-output"]["compared"] > 100
    assert answers["unprocessed"]["compared"] > 100


def test_a_worker_that_runs_already_is_judged_with_what_it_stores(tmp_path, monkeypatch):
    """A broker and a worker of somebody's own, without faults: its records and their stored offsets are in one transaction."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "reproducers")
    from own_offsets_topic import running

    file = ("connector=org.apache.kafka.connect.file.FileStreamSourceConnector", "source_by=", "position_by=regex ^([0-9]{11})$")
    stored = ("offset_position=/position", "offset_unit=12", "next_offset=true", "tasks=1", "lines=200000")
    config = 'config={file="{file}",topic="{topic}","batch.size"=20}'
    with running("4.3.0", tmp_path) as (bootstrap, url):
        where = ("--cluster", "external", "--cluster-set", f"bootstrap={bootstrap}")
        theirs = (f'rest=["{url}"]', 'internal_topics=["connect-configs", "connect-offsets"]', config)
        options = [part for option in (*file, *stored, *theirs) for part in ("--set", option)]
        answers, violated = run(tmp_path / "results", *where, *options, time_s=15)
    assert violated == set()
    assert answers["source-offset-torn"]["compared"] > 100
    assert answers["connect-promise"]["verdict"] == "not exercised"
