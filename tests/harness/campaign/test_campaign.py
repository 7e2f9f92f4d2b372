"""TOML -> tests, and all mistakes at once."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.api.plans import Budget, Choice, FaultChoice, Lane
from fencepost.harness.campaign import campaign

pytestmark = pytest.mark.usefixtures("stranger")

BASE = """
seed = 7
[defaults]
cluster.kind = "attic"
workload.kind = "letters"
client.kind = "pigeon"
"""


def read(text, seed=None, base=BASE):
    Path("first.toml").write_text(base + text)
    return campaign.read(Path("first.toml"), seed)


def mistakes_in(text, base=BASE):
    with pytest.raises(CampaignError) as caught:
        read(text, base=base)
    assert all(re.match(r"first\.toml(:\d+)?: ", mistake) for mistake in caught.value.mistakes), caught.value.mistakes
    return [re.sub(r"^first\.toml:\d+", "first.toml", mistake) for mistake in caught.value.mistakes]


def test_every_key_of_a_test_is_read():
    parsed = read("""
[[test]]
name = "steady"
expect = "torn-letter"
time_s = 30
rate = 5
repeat = 2
[test.cluster]
brokers = 2
settings = {"replica.lag.time.max.ms" = 4000}
[test.workload]
writers = 2
[test.topic]
"min.insync.replicas" = 2
preallocate = true
[test.contract]
acks = -1
first_poll = "anywhere"
[[test.nemesis]]
kind = "hammer"
count = 2
every_s = [3, 6]
lasts_s = 4
lane = "other"
""")
    assert (parsed.name, parsed.seed) == ("first", 7)
    [test] = parsed.tests
    assert test.cluster == Choice(kind="attic", options={"brokers": 2, "settings": {"replica.lag.time.max.ms": 4000}})
    assert test.workload == Choice(kind="letters", options={"writers": 2})
    assert test.nemesis == (FaultChoice(kind="hammer", options={"count": 2}, every_s=(3, 6), lasts_s=(4, 4), lane="other"),)
    assert (test.expect, test.time_s, test.rate, test.repeat) == (("torn-letter",), 30.0, 5.0, 2)
    assert test.topic == {"min.insync.replicas": "2", "preallocate": "true"}
    assert test.contract == {"acks": "-1", "first_poll": "anywhere"}
    assert test.campaign == "first"


def test_defaults_lie_beneath_a_test_where_tables_merge_and_lists_are_replaced():
    base = (
        BASE
        + """
time_s = 20
workload.writers = 3
topic = {"segment.ms" = 1000}
[[defaults.nemesis]]
kind = "hammer"
"""
    )
    first, second = read(
        '[[test]]\nname = "a"\nworkload.slow = true\ntopic.x = 1\n[[test]]\nname = "b"\ntime_s = 5\nnemesis = []\n', base=base
    ).tests
    assert first.workload.options == {"writers": 3, "slow": True}
    assert first.topic == {"segment.ms": "1000", "x": "1"}
    assert (first.time_s, [fault.kind for fault in first.nemesis]) == (20.0, ["hammer"])
    assert (second.time_s, second.nemesis) == (5.0, ())


def test_a_dotted_setting_means_the_same_quoted_or_not():
    """TOML makes tables of `min.insync.replicas = 2`; which is never meant."""
    [test] = read('[[test]]\nname = "a"\n[test.topic]\nmin.insync.replicas = 2\n[test.cluster.settings]\nlog.x = 1\n').tests
    assert test.topic == {"min.insync.replicas": "2"}
    assert test.cluster.options["settings"] == {"log.x": 1}


def test_a_matrix_makes_a_test_of_every_combination():
    parsed = read("""
[[test]]
name = "steady"
[[test.nemesis]]
kind = "hammer"
[test.matrix]
"cluster.kafka" = ["3.9.1", "4.3.0"]
"topic.min.insync.replicas" = [1, 2]
"nemesis[0].target" = ["leader"]
""")
    assert [test.name for test in parsed.tests] == [
        "steady[3.9.1,min.insync.replicas=1,target=leader]",
        "steady[3.9.1,min.insync.replicas=2,target=leader]",
        "steady[4.3.0,min.insync.replicas=1,target=leader]",
        "steady[4.3.0,min.insync.replicas=2,target=leader]",
    ]
    assert parsed.tests[1].cluster.options == {"kafka": "3.9.1"}
    assert parsed.tests[1].topic == {"min.insync.replicas": "2"}
    assert parsed.tests[1].nemesis[0].options == {"target": "leader"}


def test_a_matrix_may_vary_all_faults_together():
    parsed = read('[[test]]\nname = "a"\n[test.matrix]\nnemesis = [[], [{kind = "hammer"}]]\n')
    assert [test.name for test in parsed.tests] == ["a[nemesis=none]", "a[hammer]"]


def test_faults_that_follow_each_other_too_fast_are_a_mistake():
    """Found when it is read, not when the run begins that would draw them."""
    fast = '[[test]]\nname = "a"\n[[test]]\nname = "b"\n[[test.nemesis]]\nkind = "hammer"\nevery_s = 0\nlasts_s = '
    mistake = "first.toml: test[1].nemesis[0]: every_s and lasts_s together may fall below 0.1 s; a fault takes longer than that"
    assert mistakes_in(f"{fast}[0.05, 9]\n") == [mistake]
    assert len(read(f"{fast}0.1\n").tests) == 2


def test_all_mistakes_are_reported_at_once_each_with_its_key():
    mistakes = mistakes_in("""
color = "blue"
[[test]]
name = "steady"
expect = ["torn-leter", "valid"]
time_s = "long"
rate = -1
repeat = 0
speed = 9
[test.cluster]
brokers = "three"
[test.workload]
kind = "leters"
[test.contract]
ackz = "all"
[[test.nemesis]]
kind = "hammer"
tagret = "leader"
every_s = [6, 3]
lasts_s = 0
[[test.nemesis]]
kind = "hamer"
[[test]]
name = "steady"
workload = {writers = 0}
matrix = {"cluster.kafka" = [4]}
[[test]]
nemesis = [{kind = "feather"}, {}]
""")
    expected = [
        'first.toml: defaults.color: unknown key "color"',
        'first.toml: test[0].speed: unknown key "speed"; did you mean "seed"?',
        "first.toml: test[0].time_s: must be a number of seconds, not 'long'",
        "first.toml: test[0].rate: must be at least 0, not -1",
        "first.toml: test[0].repeat: must be at least 1, not 0",
        'first.toml: test[0].expect: unknown anomaly "torn-leter"; did you mean "torn-letter"?',
        'first.toml: test[0].expect: must be "valid", or the anomalies that must be found',
        "first.toml: test[0].cluster.brokers: must be a whole number, not 'three'",
        'first.toml: test[0].workload.kind: unknown workload "leters"; did you mean "letters"?',
        'first.toml: test[0].contract.ackz: unknown key "ackz"; did you mean "acks"?',
        'first.toml: test[0].nemesis[0].tagret: unknown option "tagret"; did you mean "target"?',
        "first.toml: test[0].nemesis[0].every_s: must be [lowest, highest], not [6, 3]",
        "first.toml: test[0].nemesis[0].lasts_s: must be above 0, not 0",
        'first.toml: test[0].nemesis[1].kind: unknown nemesis "hamer"; did you mean "hammer"?',
        'first.toml: test[1].matrix."cluster.kafka": must be a text, not 4',
        "first.toml: test[1].workload: writers must be at least 1",
        "first.toml: test[2].name: missing",
        "first.toml: test[2].nemesis[0].kind: Feather must be a frozen dataclass",
        "first.toml: test[2].nemesis[1].kind: missing",
        'first.toml: test: 2 tests are called "steady"',
    ]
    for beginning in expected:
        assert [m for m in mistakes if m.startswith(beginning)], f"{beginning} is not among\n" + "\n".join(mistakes)
    assert len(mistakes) == len(set(mistakes))


def test_a_mistake_in_the_defaults_is_reported_once_under_its_key_there():
    mistakes = mistakes_in('[[test]]\nname = "a"\n[[test]]\nname = "b"\n', base=BASE + "workload.wirters = 3\n")
    assert len(mistakes) == 1
    assert mistakes[0].startswith('first.toml: defaults.workload.wirters: unknown option "wirters"; did you mean "writers"?')


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "test: there is none; a campaign needs at least one [[test]]"),
        ('[test]\nname = "a"\n', "test: must be a list of tables ([[test]], in double brackets)"),
        ('name = 3\n[[test]]\nname = "a"\n', "name: must be a text, not 3"),
        ('seed = "x"\n[[test]]\nname = "a"\n', "seed: must be a whole number, not 'x'"),
        ('tests = 1\n[[test]]\nname = "a"\n', 'tests: unknown key "tests"; did you mean "test"?'),
        ('[[test]]\nname = "a"\nmatrix = {time_s = 3}\n', "test[0].matrix.time_s: must be a list that is not empty, not 3"),
        (
            '[[test]]\nname = "a"\nworkload = "letters"\n',
            "test[0].workload: must be a table, workload = {kind = \"letters\"}, not 'letters'",
        ),
        (
            '[defaults]\nworkload = 3\n[[test]]\nname = "a"\n',
            'defaults.workload: must be a table, workload = {kind = "..."}, not 3',
        ),
        (
            '[[test]]\nname = "a"\nnemesis = {kind = "kill"}\n',
            "test[0].nemesis: must be a list of tables ([[test.nemesis]], in double brackets)",
        ),
        ('[[test]]\nname = "a"\ntopic = {x = [1]}\n', "test[0].topic.x: must be a text, a number, true or false, not [1]"),
    ],
)
def test_a_value_of_the_wrong_shape_is_reported_with_its_key(text, mistake):
    assert any(reported.startswith(f"first.toml: {mistake}") for reported in mistakes_in(text, base=""))


def test_broken_toml_is_reported_with_its_line():
    [mistake] = mistakes_in('[[test]]\nname = "a\n', base="")
    assert "first.toml: is not TOML" in mistake
    assert "line 2" in mistake


def test_a_file_that_is_not_there_is_a_mistake():
    with pytest.raises(CampaignError, match=r"nowhere.toml: cannot be read: No such file"):
        campaign.read(Path("nowhere.toml"))


def test_settings_that_librdkafka_refuses_are_mistakes_and_nothing_is_contacted():
    base = '[[test]]\nname = "a"\ncluster.kind = "attic"\nworkload.kind = "letters"\n'
    mistakes = mistakes_in(
        """
[test.client.producer]
"socket.timeot.ms" = 1000
"queue.buffering.max.ms" = "soon"
"bootstrap.servers" = "production:9092"
[test.client.consumer]
isolation.level = "read_comitted"
group.id = "mine"
""",
        base=base,
    )
    assert len(mistakes) == 5
    assert 'first.toml: test[0].client.producer."bootstrap.servers": is set by fencepost itself' in mistakes
    assert 'first.toml: test[0].client.consumer."group.id": is set by fencepost itself' in mistakes
    assert any('producer."socket.timeot.ms": librdkafka says: No such configuration property' in m for m in mistakes)
    assert any('producer."queue.buffering.max.ms": librdkafka says: Invalid value' in m for m in mistakes)
    assert any('consumer."isolation.level": librdkafka says: Invalid value "read_comitted"' in m for m in mistakes)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('acks = 1\n"enable.idempotence" = true\n', "`acks` must be set to `all` when `enable.idempotence` is true"),
        ('"message.timeout.ms" = 20000\n', "`message.timeout.ms` must be set <= `transaction.timeout.ms`"),
    ],
)
def test_producer_settings_that_contradict_each_other_or_the_workloads_are_a_mistake(settings, reason):
    base = '[[test]]\nname = "a"\ncluster.kind = "attic"\nworkload.kind = "letters"\n'
    [mistake] = mistakes_in("[test.client.producer]\n" + settings, base=base)
    assert mistake == f"first.toml: test[0].client.producer: librdkafka says: Failed to create producer: {reason}"


def test_a_workload_that_lacks_methods_is_a_mistake(stranger):
    (stranger / "my_faults.py").write_text("class Lazy:\n    def topics(self): ...\n")
    mutable, mistake = mistakes_in('[[test]]\nname = "a"\nworkload = {kind = "my_faults:Lazy"}\n')
    assert "@dataclass(frozen=True, kw_only=True)" in mutable
    assert mistake.startswith("first.toml: test[0].workload.kind: Lazy is no workload: it lacks roles, producer_settings")


def test_a_plug_in_beside_the_campaign_is_found_whatever_the_current_directory(stranger, monkeypatch):
    (stranger / "my_faults.py").write_text("from strange_things import Hammer as Stutter\n")
    Path("first.toml").write_text(BASE + '[[test]]\nname = "a"\nnemesis = [{kind = "my_faults:Stutter", count = 2}]\n')
    monkeypatch.chdir("/")
    [test] = campaign.read(stranger / "first.toml").tests
    assert test.nemesis[0].kind == "my_faults:Stutter"


def test_each_repeat_has_the_next_seed_and_a_command_of_its_own():
    parsed = read('[[test]]\nname = "a"\nrepeat = 2\n[[test]]\nname = "b"\nseed = 40\n')
    assert [(run.test.name, run.seed) for run in campaign.planned(parsed)] == [("a", 7), ("a", 8), ("b", 40)]
    assert campaign.planned(parsed)[1].command == "fencepost campaign first.toml --only a --seed 8 --repeat 1"


def test_the_command_of_a_repeat_plans_that_run_alone():
    parsed = read('[[test]]\nname = "a"\nrepeat = 3\n', seed=9)
    [again] = campaign.planned(parsed, only=["a"], repeat=1)
    assert (again.test, again.seed) == (campaign.planned(parsed)[0].test, 9)


def test_a_given_seed_replaces_every_seed_of_the_file():
    parsed = read('[[test]]\nname = "a"\nseed = 40\n', seed=3)
    assert (parsed.seed, [run.seed for run in campaign.planned(parsed)]) == (3, [3])


def test_without_any_seed_one_is_drawn():
    base = BASE.replace("seed = 7", "")
    drawn = {read('[[test]]\nname = "a"\n', base=base).seed for _ in range(20)}
    assert len(drawn) > 1


def test_only_selects_a_test_or_all_tests_of_its_matrix():
    parsed = read('[[test]]\nname = "a"\nmatrix = {time_s = [1, 2]}\n[[test]]\nname = "b"\n')
    assert [run.test.name for run in campaign.planned(parsed, ["a"])] == ["a[time_s=1]", "a[time_s=2]"]
    assert [run.test.name for run in campaign.planned(parsed, ["b", "a[time_s=2]"])] == ["a[time_s=2]", "b"]
    with pytest.raises(CampaignError, match='--only: unknown test "bb"; did you mean "b"'):
        campaign.planned(parsed, ["bb"])


def test_a_given_cluster_is_laid_over_that_of_the_file():
    """The file's own cluster options stay, but for those laid over; the repeating command names it."""
    text = (
        BASE
        + """
[[test]]
name = "steady"
cluster.brokers = 2
"""
    )
    Path("first.toml").write_text(text)
    plain = campaign.read(Path("first.toml"))
    assert "--cluster" not in campaign.planned(plain)[0].command
    parsed = campaign.read(Path("first.toml"), None, {"kind": "attic", "brokers": 5})
    assert parsed.tests[0].cluster == Choice(kind="attic", options={"brokers": 5})
    assert campaign.planned(parsed)[0].command.endswith("--cluster attic --cluster-set brokers=5")


def test_a_given_cluster_that_does_not_exist_is_a_mistake():
    Path("first.toml").write_text(BASE + '[[test]]\nname = "steady"\n')
    with pytest.raises(CampaignError, match=r'unknown cluster "atic"; did you mean "attic"'):
        campaign.read(Path("first.toml"), None, {"kind": "atic"})


CHECKS = """
from fencepost.checkers.api import CheckResult, partition_check


@partition_check("my-anomaly")
def mine(log):
    'Something odd.'
    return CheckResult(0)


def bare(log):
    return CheckResult(0)
"""


def test_a_check_beside_the_campaign_is_used_and_its_anomaly_may_be_expected(stranger):
    (stranger / "my_faults.py").write_text(CHECKS)
    [test] = read('[[test]]\nname = "a"\ncheckers = "my_faults:mine"\nexpect = "my-anomaly"\n').tests
    assert (test.checkers, test.expect) == (("my_faults:mine",), ("my-anomaly",))


def test_a_check_that_cannot_be_used_is_a_mistake(stranger):
    (stranger / "my_faults.py").write_text(CHECKS)
    undecorated, gone = mistakes_in('[[test]]\nname = "a"\ncheckers = ["my_faults:bare", "my_faults:gone"]\n')
    assert '@partition_check("my-anomaly") over the function' in undecorated
    assert "module my_faults has no gone" in gone


COMPOSED = """
[[test]]
name = "composed"
[[test.nemesis]]
kind = "hammer"
together = "storm"
when = "transaction-open"
[test.lanes.main]
order = "in turn"
busy_s = 20
quiet_s = [30, 60]
[test.budget]
nodes = 2
keep_quorum = true
"""


def test_lanes_and_the_budget_are_read():
    (test,) = read(COMPOSED).tests
    assert (test.nemesis[0].together, test.nemesis[0].when) == ("storm", "transaction-open")
    assert test.lanes == {"main": Lane(order="in turn", busy_s=(20, 20), quiet_s=(30, 60))}
    assert test.budget == Budget(nodes=2, keep_quorum=True)
    assert read('[[test]]\nname = "plain"').tests[0].budget == Budget()


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (("transaction-open", "transaction-opn"), 'nemesis[0].when: unknown value "transaction-opn"; did you mean'),
        (("[test.lanes.main]", "[test.lanes.mian]"), 'lanes.mian: unknown lane "mian"; did you mean "main"?'),
        (("in turn", "inturn"), 'lanes.main.order: unknown value "inturn"; did you mean "in turn"? There are: in turn, random'),
        (("busy_s = 20\n", ""), "lanes.main: busy_s and quiet_s go together"),
        (("busy_s = 20", "busy = 20"), 'lanes.main.busy: unknown key "busy"; did you mean "busy_s"?'),
        (("nodes = 2", "nodes = 0"), "budget.nodes: must be at least 1, not 0"),
        (("keep_quorum = true", 'keep_quorum = "yes"'), "budget.keep_quorum: must be true or false"),
    ],
)
def test_a_mistake_in_lanes_or_the_budget_is_reported_with_its_key(change, mistake):
    assert any(f"test[0].{mistake}" in reported for reported in mistakes_in(COMPOSED.replace(*change)))


OWN = """
[[test]]
name = "a"
cluster = {kind = "local", brokers = 3, kafka = "9.9.9"}
workload = {kind = "transactions", partitions = 2, writers = 2, readers = 1}
client.kind = "librdkafka"
[[test.nemesis]]
"""


@pytest.mark.parametrize(
    ("given", "shown"),
    [('"3-5"', "'3-5'"), ('["a", 2]', "['a', 2]"), ("[1, 2, 3]", "[1, 2, 3]"), ("[1]", "[1]"), ("true", "True")],
)
def test_a_span_that_is_none_is_shown_as_it_was_given(given, shown):
    expected = (
        f"test[0].nemesis[0].every_s: must be a number of seconds, or two of them in brackets, [lowest, highest]; not {shown}"
    )
    assert any(expected in reported for reported in mistakes_in(f'{OWN}kind = "kill"\nevery_s = {given}'))


@pytest.mark.parametrize(("brokers", "least", "refused"), [(3, 4, True), (3, 3, False), (5, 6, True), (1, 2, True)])
def test_no_topic_demands_more_replicas_in_sync_than_there_are_brokers(brokers, least, refused):
    test = OWN.replace("[[test.nemesis]]", "").replace("brokers = 3", f"brokers = {brokers}")
    reported = mistakes_in(f"{test}topic = {{min.insync.replicas = {least}}}\nseed = 'x'")
    assert any('topic."min.insync.replicas": there ' in text and f"not {least}: no write" in text for text in reported) == refused


VAIN = [
    (
        "cluster.replication = 2\ntopic = {min.insync.replicas = 3}",
        'topic."min.insync.replicas": each partition has 2 replicas, not 3',
    ),
    ("cluster.replication = 2\ntopic = {min.insync.replicas = 2}", ""),
    ("cluster.replication = 4", "cluster.replication: there are 3 brokers, not 4; give more brokers, or fewer replicas"),
    ("cluster.brokers = 1", ""),
    (
        "cluster.settings = {transaction.state.log.replication.factor = 5}",
        'cluster.settings."transaction.state.log.replication.factor": there are 3 brokers, not 5: Kafka would never',
    ),
    (
        "cluster.settings = {offsets.topic.replication.factor = 4}",
        'cluster.settings."offsets.topic.replication.factor": there are 3 brokers, not 4: Kafka would never',
    ),
    (
        "cluster.settings = {transaction.state.log.replication.factor = 1}",
        'cluster.settings."transaction.state.log.replication.factor": the transaction log has 1 replica, and 2 of',
    ),
    (
        "cluster.settings = {transaction.state.log.min.isr = 4}",
        'cluster.settings."transaction.state.log.min.isr": the transaction log has 3 replicas, and 4 of',
    ),
    ("cluster.settings = {transaction.state.log.replication.factor = 1, transaction.state.log.min.isr = 1}", ""),
    (
        'workload = {kind = "pipeline", session_timeout_s = 1801}',
        "workload: session.timeout.ms = 1801000: brokers refuse members with more than their group.max.",
    ),
    (
        'workload.kind = "pipeline"\ncluster.settings = {group.min.session.timeout.ms = 7000}',
        "workload: session.timeout.ms = 6000: brokers refuse members with less than their group.min.",
    ),
    (
        'workload.kind = "pipeline"\nclient.consumer = {session.timeout.ms = 500}',
        'client.consumer."session.timeout.ms": session.timeout.ms = 500: brokers refuse members with less than their group.min.s',
    ),
    ('workload = {kind = "pipeline", protocol = "consumer", session_timeout_s = 1801}', ""),
    (
        'workload = {kind = "pipeline", protocol = "consumer"}\ncluster.kafka = "3.9.1"',
        "workload.protocol: brokers of Kafka 3.9.1 refuse members of the consumer protocol; give cluster.kafka = 4.0.0 or newer",
    ),
    (
        'workload = {kind = "pipeline", protocol = "consumer"}\ncluster.features = {"group.version" = 0}',
        "workload.protocol: with the feature group.version = 0 brokers refuse members of the consumer protocol",
    ),
    (
        'workload.kind = "pipeline"\nclient.consumer = {group.protocol = "consumer"}\ncluster.kafka = "3.9.1"',
        'client.consumer."group.protocol": brokers of Kafka 3.9.1 refuse members of the consumer protocol',
    ),
    (
        'workload = {kind = "pipeline", protocol = "consumer"}\n'
        'cluster = {kafka = "3.9.1", settings = {group.coordinator.rebalance.protocols = "classic,consumer"}}',
        "",
    ),
    ('workload = {kind = "pipeline", protocol = "consumer"}\ncluster.kafka = "4.0.0"', ""),
    ("client.consumer = {session.timeout.ms = 500}", ""),
    (
        "workload.record_bytes = 1000000",
        "workload.record_bytes: librdkafka refuses records with more than its message.max.bytes =",
    ),
    (
        'client.kind = "java@4.4.0"\nworkload.record_bytes = 1048576',
        "workload.record_bytes: java@4.4.0 refuses records with more than",
    ),
    (
        "workload.record_bytes = 2000\nclient.producer = {message.max.bytes = 1500}",
        "workload.record_bytes: librdkafka refuses records with more than its message.max.bytes = 1500",
    ),
    (
        "workload.record_bytes = 2000\ntopic = {max.message.bytes = 1000}",
        "workload.record_bytes: brokers refuse batches with more than max.message.bytes = 1000",
    ),
    (
        "workload.record_bytes = 2000\ncluster.settings = {message.max.bytes = 1000}",
        "workload.record_bytes: brokers refuse batches with more than max.mess",
    ),
    (
        'client.kind = "sarama@1.61.1"\nworkload.record_bytes = 1048588',
        "workload.record_bytes: brokers refuse batches with more than",
    ),
    ("workload.record_bytes = 2000\ntopic = {max.message.bytes = 1000}\nclient.producer = {compression.type = 'zstd'}", ""),
    ("workload.record_bytes = 999999", ""),
    (
        'client.kind = "kafkajs@2.2.4"\ntopic = {compression.type = "zstd"}',
        'topic."compression.type": kafkajs@2.2.4 cannot read records that are compressed by zstd; give gzip, or leave it out',
    ),
    (
        'client = {readers = "kafkajs@2.2.4", producer = {compression.type = "lz4"}}',
        'client.producer."compression.type": kafkajs@2.2.4 cannot read records that are compressed by lz4',
    ),
    ('client.kind = "kafkajs@2.2.4"\ntopic = {compression.type = "gzip"}', ""),
    ('topic = {compression.type = "zstd"}', ""),
]


@pytest.mark.parametrize(
    "setting",
    [
        "topic = {{min.insync.replicas = '{}'}}",
        "topic = {{retention.ms = '{}'}}",
        "client.producer = {{transaction.timeout.ms = '{}'}}",
        "client.producer = {{max.in.flight.requests.per.connection = '{}'}}",
        "cluster.settings = {{transaction.state.log.replication.factor = '{}'}}",
        "cluster.settings = {{transaction.max.timeout.ms = '{}'}}",
        "contract = {{max_in_flight = '{}'}}",
    ],
)
@pytest.mark.parametrize("digits", ["9" * 5000, "\u00b2"], ids=["5000 digits", "a power"])
def test_a_number_that_python_does_not_read_breaks_nothing(setting, digits):
    with suppress(CampaignError):
        read(f'[[test]]\nname = "a"\n{setting.format(digits)}', base="")


@pytest.mark.parametrize(("test", "mistake"), VAIN, ids=str)
def test_settings_with_which_nothing_could_be_written_or_joined_are_a_mistake(test, mistake):
    text = f'[[test]]\nname = "a"\n{test}'
    if not mistake:
        assert read(text, base="").tests
        return
    lacking = ("first.toml: test[0].client.kind: ", "first.toml: test[0].client.readers: ")  # no Go, or no Node.js, here
    found = [one for one in mistakes_in(text, base="") if not one.startswith(lacking)]
    [reported] = [one for one in found if "librdkafka says" not in one]  # it refuses some of them, too
    assert reported.startswith(f"first.toml: test[0].{mistake}")


@pytest.mark.parametrize(
    ("fault", "mistake"),
    [
        ('kind = "kill"\ntarget = "broker:n4"', 'target: unknown broker "n4". There are: n1, n2, n3'),
        ('kind = "kill"\ncount = 4', "count: there are 3 brokers, not 4"),
        ('kind = "kill"\ntarget = "client"\ncount = 5', "count: there are 4 clients, not 5"),
        ('kind = "isolate"\ntarget = "leader:t-2"', "target: there is no partition t-2; the last one of t is t-1"),
        ('kind = "isolate"\ntarget = "leader:orders-0"', 'target: unknown topic "orders"'),
        ('kind = "move-leaders"\ncount = 3', "count: there are 2 partitions, not 3"),
        ('kind = "reassign"\ntarget = "partition:t-9"', "target: there is no partition t-9"),
        ('kind = "topic-settings"\ntarget = "topic:x"', 'target: unknown topic "x"'),
        ('kind = "rolling-restart"\nversion = "3.9.1"', 'version: unknown version "3.9.1"'),
        ('kind = "pause"\ntarget = "client:c4"', 'target: unknown client "c4". There are: c0, c1, c2, c3'),
        ('kind = "cut-client"\nclient = "c9"', 'client: unknown client "c9"'),
        ('kind = "kill"\ntarget = "instance"', "target: this workload has no instances: no program, members of a group"),
        ('kind = "cut-client"\nclient = "instance"', "client: this workload has no instances"),
        ('kind = "pause"\ntarget = "connect-task:0"', "target: this workload has no workers of Kafka Connect"),
        ('kind = "kill"\ntarget = "second:random"', "target: this test has no second Kafka cluster"),
        ('kind = "kill"\nevry_s = 3', 'evry_s: unknown option "evry_s"; did you mean "every_s"?'),
        ('kind = "kill"\nlast_s = 3', 'last_s: unknown option "last_s"; did you mean "lasts_s"?'),
    ],
)
def test_what_can_never_be_found_in_a_test_is_a_mistake(fault, mistake):
    [reported] = mistakes_in(OWN + fault, base="")
    assert reported.startswith(f"first.toml: test[0].nemesis[0].{mistake}")


@pytest.mark.parametrize(
    "fault",
    ['target = "broker:n3"', "count = 3", 'target = "client"\ncount = 4', 'target = "leader:t-1"', 'target = "coordinator"'],
)
def test_what_can_be_found_is_none(fault):
    assert read(f'{OWN}kind = "kill"\n{fault}', base="").tests


@pytest.mark.parametrize(
    ("change", "fault", "mistake"),
    [
        (
            ("transactions", "idempotent"),
            'kind = "kill"\ntarget = "coordinator"',
            ".target: this workload has no transactional ids",
        ),
        (("transactions", "idempotent"), 'kind = "kill"\ntarget = "coordinator:a"', ""),
        (("transactions", "idempotent"), 'kind = "move-coordinator"', ".target: this workload has no transactional ids"),
        (("transactions", "idempotent"), 'kind = "fence-producers"', ": this workload has no transactional ids"),
        (("transactions", "idempotent"), 'kind = "fence-producers"\ntarget = "id:a"', ""),
        (("transactions", "idempotent"), 'kind = "abort-transaction"', ": this workload has no transactional ids"),
        (("brokers = 3", "brokers = 1"), 'kind = "isolate"', ": needs 2 brokers and controllers or more; there is 1"),
        (("brokers = 3", "brokers = 1, controllers = 1"), 'kind = "isolate"', ""),
        (("brokers = 3", "brokers = 2"), 'kind = "bridge"', ": needs 3 brokers and controllers or more; there are 2"),
        (("brokers = 3", "brokers = 1, controllers = 3"), 'kind = "move-leaders"', ": needs 2 brokers or more; there is 1"),
        (("brokers = 3", "second_brokers = 1"), 'kind = "halves"', ""),
        (
            ("brokers = 3", "second_brokers = 1"),
            'kind = "isolate"\ntarget = "second:random"',
            ": needs 2 brokers and controllers",
        ),
        (("brokers = 3", "second_brokers = 1"), 'kind = "kill"\ntarget = "second:coordinator"', ""),
        (
            ("brokers = 3", "brokers = 3, controllers = 1, proxy = true"),
            'kind = "protocol"\ntarget = "controller"',
            ".target: proxies stand before brokers alone, and the controllers of this test are none",
        ),
        (("brokers = 3", "brokers = 3, proxy = true"), 'kind = "protocol"\ntarget = "controller"', ""),
        (("brokers = 3", "brokers = 3"), 'kind = "scale"', ": this workload has no instances"),
    ],
)
def test_a_fault_that_cannot_strike_this_cluster_or_workload_is_a_mistake(change, fault, mistake):
    text = OWN.replace(*change) + fault
    if not mistake:
        assert read(text, base="").tests
        return
    [reported] = mistakes_in(text, base="")
    assert reported.startswith(f"first.toml: test[0].nemesis[0]{mistake}")


@pytest.mark.parametrize(
    ("test", "mistake"),
    [
        ('expect = "torn-transaction"', ""),
        ('expect = "G0"', '"G0" cannot be found against this test\'s contract: Kafka orders each partition alone'),
        ('expect = "G0"\ncontract = {cycles = "G0"}', ""),
        (
            'expect = ["lost-write", "torn-offset alone"]',
            '"torn-offset" cannot be found against this test\'s contract: no consumer',
        ),
        ('expect = "lost-write"\ntopic = {"cleanup.policy" = "compact"}', '"lost-write" cannot be found'),
        (
            'expect = "inconsistent-offset"\ncluster = {settings = {"unclean.leader.election.enable" = true}}',
            "",
        ),  # by final reads
        ('expect = "lso-stall"\ncluster = {settings = {"unclean.leader.election.enable" = true}}', '"lso-stall" cannot be found'),
        ('expect = "G0"\ncluster = {kind = "external", bootstrap = "a:1"}', ""),  # its settings are not known
    ],
)
def test_an_expectation_that_no_run_can_meet_is_a_mistake(test, mistake):
    text = f'[[test]]\nname = "a"\n{test}'
    if not mistake:
        assert read(text, base="").tests
        return
    [reported] = mistakes_in(text, base="")
    assert reported.startswith(f"first.toml: test[0].expect: {mistake}")


def test_no_more_instances_can_be_started_than_there_are():
    text = OWN.replace(
        'kind = "transactions", partitions = 2, writers = 2, readers = 1', 'kind = "pipeline", members = 3, spares = 1'
    )
    assert read(f'{text}kind = "scale"\nto = 4', base="").tests
    assert read(f'{text}kind = "kill"\ntarget = "instance"', base="").tests
    [reported] = mistakes_in(f'{text}kind = "scale"\nto = 5', base="")
    assert reported == "first.toml: test[0].nemesis[0].to: there are 4 instances, not 5; `spares` gives more"
    assert read(f'{text}kind = "kill"\ntarget = "instance:in-transaction"\ncount = 4', base="").tests
    for target in ("instance", "instance:in-transaction"):
        [reported] = mistakes_in(f'{text}kind = "kill"\ntarget = "{target}"\ncount = 5', base="")
        assert reported == "first.toml: test[0].nemesis[0].count: there are 4 instances, not 5"


@pytest.mark.parametrize(
    ("test", "mistake"),
    [
        ("workload.transaction_timeout_s = 900", ""),
        ("workload.transaction_timeout_s = 901", "workload: transaction.timeout.ms = 901000: brokers refuse more than their "),
        (
            'client.producer = {"transaction.timeout.ms" = 901000}',
            'client.producer."transaction.timeout.ms": transaction.timeout.ms',
        ),
        ("workload.transaction_timeout_s = 901\ncluster.settings = {transaction.max.timeout.ms = 1000000}", ""),
        ("workload.transaction_timeout_s = 9\ncluster.settings = {transaction.max.timeout.ms = 8000}", "workload: transaction."),
        ('workload.kind = "idempotent"\nclient.producer = {"transaction.timeout.ms" = 901000}', ""),
        ('workload.transaction_timeout_s = 901\ncluster = {kind = "external", bootstrap = "a:1"}', ""),
    ],
)
def test_transactions_that_may_last_longer_than_brokers_allow_are_a_mistake(test, mistake):
    text = f'[[test]]\nname = "a"\n{test}'
    if not mistake:
        assert read(text, base="").tests
        return
    [reported] = mistakes_in(text, base="")
    assert reported.startswith(f"first.toml: test[0].{mistake}")


@pytest.mark.parametrize("key", ["kind", "readers"])
@pytest.mark.parametrize(
    ("name", "meant"), [("jav", "java"), ("kafkaj", "kafkajs"), ("librdkafk", "librdkafka"), ("jav@4.3.0", "java")]
)
def test_an_unknown_client_is_refused_with_the_nearest_family_too(key, name, meant):
    [reported] = mistakes_in(f'[[test]]\nname = "a"\nclient.{key} = "{name}"', base="")
    assert f'client.{key}: unknown client "{name.partition("@")[0]}"; did you mean "{meant}"? There are: aiokafka, ' in reported
    assert len(set(names := re.findall(r"[\w-]+", reported.partition("There are: ")[2].partition(", or ")[0]))) == len(names)


def test_an_empty_matrix_hides_no_other_mistake():
    reported = mistakes_in('[[test]]\nname = "a"\nspeed = 1\nmatrix = {time_s = [], rate = [nan]}\n')
    assert [text.partition(": ")[2].partition(";")[0] for text in reported] == [
        "test[0].matrix.time_s: must be a list that is not empty, not []",
        'test[0].speed: unknown key "speed"',
        "test[0].matrix.rate: must be a finite number, not nan",
    ]


def test_what_a_test_demands_at_least_is_a_whole_number_of_something_that_is_counted():
    demands = "at_least = { faults = 5, transaction = 3, records = 'x', operations = -1 }"
    with pytest.raises(CampaignError) as caught:
        read(f'name = "c"\n[[test]]\nname = "a"\n{demands}\n')
    unknown, text, negative = (mistake.partition("at_least.")[2] for mistake in caught.value.mistakes)
    assert unknown.startswith('transaction: unknown key "transaction"; did you mean "transactions"?')
    assert (text, negative) == ("records: must be a whole number, not 'x'", "operations: must be at least 0, not -1")
    [test] = read('name = "c"\n[[test]]\nname = "a"\nat_least = { faults = 5 }\n').tests
    assert test.at_least == {"faults": 5}


@pytest.mark.parametrize("key", ['"nemesis[3].target"', '"name.x"', '"nemesis.target"', '"cluster.kafka.x"'])
def test_a_key_of_a_matrix_that_leads_nowhere_is_a_mistake(key):
    base = BASE + 'cluster.kafka = "4.3.0"\n'
    reported = mistakes_in(f'[[test]]\nname = "a"\nnemesis = [{{kind = "hammer"}}]\n[test.matrix]\n{key} = [1]\n', base=base)
    assert [text for text in reported if f"test[0].matrix.{key}: leads nowhere in this test" in text], reported


def test_a_matrix_has_at_most_a_thousand_points_and_is_refused_at_once():
    text = '[[test]]\nname = "a"\n[test.matrix]\n' + "".join(f'"topic.a{n}" = [{", ".join("12345678")}]\n' for n in range(40))
    [mistake] = mistakes_in(text)
    assert mistake.startswith(f"first.toml: test[0].matrix: makes {8**40} tests; a campaign has at most 1000")


def test_all_runs_of_a_campaign_have_a_bound():
    tests = "".join(f'[[test]]\nname = "a{n}"\nrepeat = 1000\n' for n in range(11))
    assert mistakes_in(tests) == ["first.toml: test: there are 11000 runs with all repeats; a campaign has at most 10000"]


def test_a_word_behind_an_expected_anomaly_is_one_that_widens_or_narrows_it(tmp_path):
    path = tmp_path / "words.toml"

    def mistakes(*lines):
        path.write_text("\n".join(["[[test]]", 'name = "words"', 'workload = {kind = "transactions"}', *lines]))
        with pytest.raises(CampaignError) as raised:
            campaign.read(path)
        return "\n".join(raised.value.mistakes)

    path.write_text('[[test]]\nname = "words"\nexpect = "lost-write alone"\ntolerate = ["duplicate anywhere", "phantom"]\n')
    (test,) = campaign.read(path).tests
    assert (test.expect, test.tolerate) == (("lost-write alone",), ("duplicate anywhere", "phantom"))
    assert '"lost-write" stands alone, or before the word "alone"; not before "anywhere"' in mistakes(
        'expect = "lost-write anywhere"'
    )
    assert 'not before "often"' in mistakes('expect = "lost-write"', 'tolerate = "duplicate often"')
    assert 'did you mean "duplicate"' in mistakes('expect = "lost-write"', 'tolerate = "duplicat anywhere"')
    assert '"valid" stands alone' in mistakes('expect = "valid alone"')


@pytest.mark.parametrize(
    ("contract", "mistake"),
    [
        ('cycles = "G0,G2"', ""),
        ('cycles = "G7"', "test[0].contract.cycles: must be G0, G0-process,"),
        ('acks = "blub"', 'test[0].contract.acks: must be 0, 1 or all, not "blub"'),
        (
            'acks = "1"',
            'test[0].contract.acks: transactional = "true" implies idempotence = "true", but idempotence = "false" here',
        ),
        ('acks = "1"\ntransactional = false', ""),
        (
            'acks = "1"\nidempotence = true\ntransactional = false',
            'idempotence = "true" implies acks = "all", but acks = "1" here',
        ),
    ],
)
def test_a_contract_has_values_of_the_table_that_the_workload_can_keep(tmp_path, contract, mistake):
    path = tmp_path / "contract.toml"
    path.write_text(f'[[test]]\nname = "a"\nworkload.kind = "transactions"\n[test.contract]\n{contract}\n')
    if not mistake:
        assert campaign.read(path).tests
        return
    with pytest.raises(CampaignError) as raised:
        campaign.read(path)
    assert [text for text in raised.value.mistakes if mistake in text], raised.value.mistakes


def test_workers_on_a_second_cluster_need_one():
    text = '[[test]]\nname = "a"\nworkload = {{ kind = "connect", workers_cluster = "second" }}\ncluster = {{ {} }}\n'
    for options in ('kind = "local"', 'kind = "docker"', 'kind = "external", bootstrap = "h:1"'):
        assert any("second_brokers = 1 (or more) in [test.cluster]" in reported for reported in mistakes_in(text.format(options)))
    read(text.format('kind = "local", second_brokers = 2'))
    assert any("second_brokers" in reported for reported in mistakes_in(text.format('kind = "local", second_brokers = 51')))


def test_only_a_cluster_in_docker_runs_images():
    text = '[[test]]\nname = "a"\nworkload = {{ kind = "application", image = "mine:1" }}\ncluster = {{ kind = "{}" }}\n'
    (mistake,) = mistakes_in(text.format("local"))
    assert 'only a cluster in Docker runs images: [test.cluster] kind = "docker"' in mistake
    read(text.format("docker"))
