"""The options of `fencepost run` -> one test."""

from __future__ import annotations

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.api.plans import Budget, Lane
from fencepost.harness.cli.arguments import from_options
from fencepost.harness.cli.option_texts import cluster_of, contract_of, faults_of

pytestmark = pytest.mark.usefixtures("stranger")
HERE = {"workload": "letters", "cluster": "attic", "client": "pigeon"}


def test_options_make_the_same_test_as_a_campaign_file():
    test = from_options(
        **HERE,
        set=["writers=2", "sends=[1, 2]", "slow=true"],
        nemesis=["hammer,count=2,every_s=[1,2],lane=side", "hammer"],
        lane=["main,order=in turn,busy_s=[4,5]", "main,quiet_s=2"],
        budget=["nodes=1"],
        kafka="3.9.1",
        broker_setting=["log.x=1"],
        topic=["min.insync.replicas=2"],
        contract=["acks=all"],
        expect=["torn-letter"],
        tolerate=["duplicate anywhere", "lost-write"],
        time=9,
    )
    assert test.workload.options == {"writers": 2, "sends": [1, 2], "slow": True}
    assert test.cluster.options == {"kafka": "3.9.1", "settings": {"log.x": "1"}}
    assert [(fault.kind, fault.options, fault.every_s, fault.lane) for fault in test.nemesis] == [
        ("hammer", {"count": 2}, (1, 2), "side"),
        ("hammer", {}, (3, 6), "main"),
    ]
    assert test.lanes == {"main": Lane(order="in turn", busy_s=(4, 5), quiet_s=(2, 2))}
    assert test.budget == Budget(nodes=1)
    assert (test.name, test.topic, test.contract) == ("letters", {"min.insync.replicas": "2"}, {"acks": "all"})
    assert (test.expect, test.tolerate, test.time_s) == (("torn-letter",), ("duplicate anywhere", "lost-write"), 9.0)


def test_the_fault_none_means_no_faults():
    assert from_options(**HERE, nemesis=["none"]).nemesis == ()


def test_without_the_option_nemesis_a_run_has_the_four_default_faults():
    assert [fault.kind for fault in from_options(**HERE).nemesis] == ["kill", "pause", "isolate", "cut-clients"]


def test_a_cluster_provider_may_have_default_faults_of_its_own():
    """On somebody else's cluster no fault is injected unless it is named."""
    theirs = from_options(workload="letters", client="pigeon", cluster="external", cluster_set=['bootstrap="a:1"'])
    assert theirs.nemesis == ()


def test_mistakes_are_named_after_the_options():
    with pytest.raises(CampaignError) as caught:
        from_options(
            workload="letters",
            cluster="attic",
            client="librdkafka",
            set=["writres=2", "nonsense"],
            nemesis=["hammer,tagret=leader", "hamer"],
            lane=["mian", "main,order=rand"],
            budget=["quorum=true"],
            cluster_set=["brokers=many"],
            producer=["socket.timeot.ms=1"],
            contract=["ackz=all"],
            time=0,
        )
    mistakes = caught.value.mistakes
    for beginning in (
        "--set nonsense: must be key=value",
        '--set writres: unknown option "writres"; did you mean "writers"?',
        '--nemesis #1 tagret: unknown option "tagret"; did you mean "target"?',
        '--nemesis #2 kind: unknown nemesis "hamer"; did you mean "hammer"?',
        '--lane mian: unknown lane "mian"; did you mean "main"?',
        "--lane main order: ",
        '--budget quorum: unknown key "quorum"',
        "--brokers: must be a whole number, not 'many'",
        "--producer socket.timeot.ms: librdkafka says: No such configuration property",
        '--contract ackz: unknown key "ackz"; did you mean "acks"?',
        "--time: must be above 0, not 0",
    ):
        assert [m for m in mistakes if m.startswith(beginning)], beginning + " is not among\n" + "\n".join(mistakes)
    assert len(mistakes) == 11


def test_a_contract_given_to_check_takes_the_keys_of_the_contract_table():
    assert contract_of(["acks=all", "cycles=G0"]) == {"acks": "all", "cycles": "G0"}
    with pytest.raises(CampaignError, match='--contract acs: unknown key "acs"; did you mean "acks"'):
        contract_of(["acs=all"])
    with pytest.raises(CampaignError, match='--contract acks: must be 0, 1 or all, not "blub"'):
        contract_of(["acks=blub"])


def test_cluster_options_of_a_campaign_are_read_as_toml_values():
    """Kind and options, read as TOML's values; nothing when nothing was given."""
    assert cluster_of("docker", ["heap_mb=256"]) == {"kind": "docker", "heap_mb": 256}
    assert cluster_of(None, []) == {}
    with pytest.raises(CampaignError, match="--cluster-set heap_mb: must be key=value"):
        cluster_of(None, ["heap_mb"])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("protocol,alter=EndTxn,set={committed=false,producerEpoch=3}", {"set": {"committed": False, "producerEpoch": 3}}),
        (
            "protocol,hold=EndTxn,fire=latency,fire_options={links='clients',delay_ms=5}",
            {"fire_options": {"links": "clients", "delay_ms": 5}},
        ),
        ('protocol,lose="EndTxn, Produce",times=2', {"lose": "EndTxn, Produce", "times": 2}),
        ("kill,every_s=[1,2],target='leader:a,b-0'", {"every_s": [1, 2], "target": "leader:a,b-0"}),
        ("kill,target=it's,count=2", {"target": "it's", "count": 2}),
        ("kill,target={x,count=2", {"target": "{x", "count": 2}),
        ("kill", {}),
    ],
)
def test_a_comma_inside_brackets_braces_or_quotes_parts_no_options(text, options):
    (choice,) = faults_of([text])
    assert {name: choice.options.get(name) for name in options} == options


def test_an_option_that_is_given_twice_is_a_mistake():
    with pytest.raises(CampaignError, match="--nemesis kill, count: is given 2 times"):
        from_options(nemesis=["kill,count=2,count=3"])
