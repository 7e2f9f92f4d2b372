"""Promises of settings."""

from __future__ import annotations

import pytest

from fencepost.clusters.local import Local
from fencepost.harness.api import ConnectInstance, ConnectWorker, Isolation, Reader, Writer
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.planning.derived_contract import derive, weakest
from fencepost.harness.planning.plan import make_plan

WRITER, READER = Writer(), Reader()


def test_a_transactional_producer_is_idempotent_whatever_its_settings():
    promised = derive([Writer(transactional=True)], {}, {}, {})
    assert (promised["transactional"], promised["idempotence"], promised["max_in_flight"]) == ("true", "true", "5")


def test_acks_is_read_under_both_its_names():
    assert derive([WRITER], {"request.required.acks": -1}, {}, {})["acks"] == "all"
    assert derive([WRITER], {"acks": 1}, {}, {})["acks"] == "1"


def test_a_topic_setting_overrides_the_brokers():
    broker = {"unclean.leader.election.enable": "false", "min.insync.replicas": "2"}
    promised = derive([WRITER], {}, {"unclean.leader.election.enable": "true"}, broker)
    assert (promised["unclean_leader_election"], promised["min_insync_replicas"]) == ("true", "2")


def test_retention_is_the_age_or_the_size_beyond_which_records_are_deleted():
    """-1 is never, in both of Kafka's settings."""
    values = [
        derive([WRITER], {}, topic, {})["retention"]
        for topic in ({}, {"retention.ms": "-1", "retention.bytes": "-1"}, {"retention.ms": 1000}, {"retention.bytes": "5"})
    ]
    assert values == ["none", "none", "1000", "5 bytes"]


def test_only_uncommitted_readers_promise_no_isolation():
    assert derive([WRITER, Reader(isolation=Isolation.UNCOMMITTED)], {}, {}, {})["isolation"] == "read_committed"
    assert derive([Reader(isolation=Isolation.UNCOMMITTED)], {}, {}, {})["isolation"] == "read_uncommitted"


def test_every_key_of_the_contract_table_that_is_planned_is_in_every_plan():
    assert list(derive([WRITER], {}, {}, {})) == [name for name, key in CONTRACT_KEYS.items() if key.planned]


def test_a_derived_value_is_one_of_the_table():
    for roles in ([WRITER], [Writer(transactional=True)]):
        for name, value in derive(roles, {}, {}, {}).items():
            values = CONTRACT_KEYS[name].values
            assert value in values or (values == ("NUMBER",) and value.isdecimal()), (name, value)


@pytest.mark.parametrize(
    ("topic", "broker", "retention"),
    [
        ({}, {"log.retention.ms": "60000"}, "60000"),
        ({}, {"log.retention.minutes": "2", "log.retention.hours": "1"}, "120000"),
        ({}, {"log.retention.hours": 1}, "3600000"),
        ({}, {"log.retention.ms": "-1", "log.retention.hours": 1}, "none"),
        ({}, {"log.retention.bytes": "5"}, "5 bytes"),
        ({"retention.ms": "-1"}, {"log.retention.ms": "1000"}, "none"),
        ({"retention.ms": "-1"}, {"log.retention.bytes": "7"}, "7 bytes"),
        ({"retention.ms": "0"}, {}, "0"),
        ({"retention.ms": "often"}, {}, "none"),
    ],
)
def test_the_brokers_retention_counts_where_the_topic_has_none(topic, broker, retention):
    assert derive([WRITER], {}, topic, broker)["retention"] == retention


def test_an_unclean_election_of_the_coordinators_topic_counts_for_transactions():
    """`__transaction_state` has the brokers' settings, whatever the workload's topics have."""
    topic, broker = {"unclean.leader.election.enable": "false"}, {"unclean.leader.election.enable": "true"}
    transactional = derive([Writer(transactional=True)], {}, topic, broker)
    assert (transactional["unclean_leader_election"], transactional["unclean_coordinator"]) == ("true", "true")
    assert derive([WRITER], {}, topic, broker)["unclean_leader_election"] == "false"


@pytest.mark.parametrize(("support", "counts"), [("enabled", "true"), ("preparing", "false"), ("disabled", "false")])
def test_and_for_the_transactions_of_connect_workers(support, counts):
    """Only exactly-once support makes transactions (KIP-618)."""
    worker = ConnectInstance(connect=ConnectWorker(version="4.3.0", support=support))
    promised = derive([WRITER, worker], {}, {}, {"unclean.leader.election.enable": "true"})
    assert (promised["transactional"], promised["unclean_coordinator"]) == ("false", counts)


@pytest.mark.parametrize("turned", [False, True])
def test_the_weakest_settings_of_several_topics_are_promised_whatever_their_order(turned):
    strong = {"min.insync.replicas": "2", "retention.ms": "9000"}
    weak = {"unclean.leader.election.enable": "true", "cleanup.policy": "compact,delete", "retention.ms": "1000"}
    topics = [weak, strong] if turned else [strong, weak]
    promised = weakest([derive([WRITER], {}, topic, {"min.insync.replicas": "1"}) for topic in topics])
    assert promised["min_insync_replicas"] == "1"
    assert (promised["unclean_leader_election"], promised["compaction"], promised["retention"]) == ("true", "true", "1000")
    sizes = [derive([WRITER], {}, topic, {})["retention"] for topic in ({"retention.bytes": "9"}, {"retention.bytes": "10"}, {})]
    assert sizes == ["9 bytes", "10 bytes", "none"]


def test_members_that_commit_automatically_commit_what_the_history_does_not_tell():
    assert derive([WRITER], {}, {}, {}, {"enable.auto.commit": True})["offset_commits"] == "unrecorded"
    assert "offset_commits" not in derive([WRITER], {}, {}, {}, {"enable.auto.commit": "false"})


@pytest.mark.parametrize(
    ("minutes", "expiry"), [("1", "60000"), (1440, "86400000"), (10080, None), ("20000", None), ("-1", None), ("soon", None)]
)
def test_brokers_that_forget_offsets_sooner_than_after_a_week(minutes, expiry):
    assert derive([WRITER], {}, {}, {"offsets.retention.minutes": minutes}).get("offset_expiry") == expiry


@pytest.mark.parametrize(
    ("options", "eligible"),
    [
        ({}, True),
        ({"kafka": "4.0.0"}, False),
        ({"kafka": "4.0.0", "features": {"eligible.leader.replicas.version": 1}}, True),
        ({"features": {"eligible.leader.replicas.version": 0}}, False),
        ({"kafka": "3.9.1", "upgrades": ("4.4.0",)}, False),
        ({"versions": {"n1": "3.9.1"}}, False),
    ],
)
def test_clusters_whose_storage_4_1_or_later_formats_elect_eligible_leaders(options, eligible):
    assert Local(**options).eligible_leaders() is eligible


@pytest.mark.parametrize(
    ("eligible", "broker", "promised"),
    [
        (True, {"min.insync.replicas": "2"}, "true"),
        (False, {"min.insync.replicas": "2"}, None),
        (True, {}, None),
        (True, {"min.insync.replicas": "2", "transaction.state.log.min.isr": "1"}, None),
    ],
)
def test_eligible_leaders_are_promised_where_kafkas_own_topics_have_two_in_sync(eligible, broker, promised):
    assert derive([WRITER], {}, {"min.insync.replicas": "2"}, broker, eligible=eligible).get("eligible_leaders") == promised


@pytest.mark.parametrize(("contract", "derived"), [({}, {}), ({"acks": "1"}, {"acks": "all", "idempotence": "true"})])
def test_a_plan_has_what_the_settings_give_where_the_test_says_otherwise(contract, derived):
    test = Test(name="t", workload=Choice(kind="idempotent"), contract=contract)
    plan = make_plan(test, run="r", seed=1, command="")
    assert (plan["overridden"], plan["derived"]) == (contract, derived)
    assert {key: plan["contract"][key] for key in derived} == {key: {"acks": "1"}.get(key, "false") for key in derived}


@pytest.mark.parametrize(
    ("options", "replicas", "in_sync"),
    [({}, 3, "2"), ({"replication": 1}, 1, "1"), ({"replication": 2}, 2, "1"), ({"brokers": 2}, 2, "1")],
)
def test_topics_have_as_many_replicas_as_the_cluster_is_asked_for_and_has_brokers(options, replicas, in_sync):
    test = Test(name="t", workload=Choice(kind="idempotent"), cluster=Choice(kind="local", options=options))
    plan = make_plan(test, run="r", seed=1, command="")
    assert plan["cluster"]["description"]["replication"] == replicas
    assert {spec["replication"] for spec in plan["topics"].values()} == {replicas}
    assert {spec["settings"]["min.insync.replicas"] for spec in plan["topics"].values()} == {in_sync}
