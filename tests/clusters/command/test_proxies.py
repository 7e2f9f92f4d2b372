"""A build of Kafka of somebody's own behind proxies: messages are caught at a step, and the record of requests is judged."""

from __future__ import annotations

import json

import pytest
from support.fencepost_command import fencepost, verdict

from fencepost.clusters.kafka.distribution import fetch

CAMPAIGN = '''
name = "own"

[[test]]
name = "lost"
time_s = 15
at_least = {{ faults = 2 }}

[test.workload]
kind = "transactions"

[test.cluster]
kind = "command"
title = "Kafka of our own"
is_kafka = true
proxy = true
prepare = "java -cp {jars} kafka.tools.StorageTool format -t {{cluster_id}} -c {{config}}"
command = "java -Xmx512m -cp {jars} kafka.Kafka {{config}}"
peer = "{{id}}@{{host}}:{{controller_port}}"
config = """
process.roles=broker,controller
node.id={{id}}
controller.quorum.voters={{peers}}
controller.listener.names=CONTROLLER
listeners=CLIENT://{{host}}:{{listen_port}},BROKER://{{host}}:{{internal_port}},CONTROLLER://{{host}}:{{controller_port}}
advertised.listeners=CLIENT://{{host}}:{{port}},BROKER://{{host}}:{{internal_port}}
listener.security.protocol.map=CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
log.dirs={{data}}
transaction.state.log.num.partitions=5
transaction.state.log.replication.factor={{replication}}
offsets.topic.num.partitions=5
offsets.topic.replication.factor={{replication}}
"""

[[test.nemesis]]
kind = "protocol"
lose = "EndTxn"
every_s = [1, 2]
lasts_s = 2
'''


@pytest.mark.cluster
@pytest.mark.nightly
def test_answers_are_lost_at_a_step_and_the_requests_are_judged(tmp_path):
    campaign = tmp_path / "own.toml"
    campaign.write_text(CAMPAIGN.format(jars=fetch("4.4.0").classpath()))
    code, out, err = fencepost(tmp_path / "results", "campaign", str(campaign))
    assert code == 0, out + err
    (plan,) = (tmp_path / "results").glob("*/*/plan.json")
    receipts = [json.loads(line) for line in (plan.parent / "history" / "faults.jsonl").read_text().splitlines()]
    caught = [catch["api"] for receipt in receipts for catch in receipt["evidence"].get("during", ())]
    assert set(caught) == {"EndTxn"}
    compared = {row["name"]: row["compared"] for row in verdict(plan.parent)["properties"]}
    assert min(compared["protocol-violation"], compared["unproven-ack"]) >= 50
