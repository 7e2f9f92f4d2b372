"""A cluster started by other means than ours: one broker with SASL_SSL, an authorizer, and users of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.kafka.node_directory import kafka_uuid
from fencepost.clusters.kafka.node_plan import loopback
from fencepost.harness.fetching.java import java

USER, PASSWORD = "fencepost-user", 'correct "horse" \\ battery-staple'
PREFIX = "fencepost-"
FOREIGN, FOREIGN_GROUP = "fencepost-orders", "fencepost-billing"  # somebody's own, though their names begin like ours
START_S = 240
SERVER = """
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:{controller},INTERNAL://127.0.0.1:{internal},OUTSIDE://127.0.0.1:{outside}
advertised.listeners=INTERNAL://127.0.0.1:{internal},OUTSIDE://127.0.0.1:{outside}
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,OUTSIDE:SASL_SSL
log.dirs={place}/data
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.outside.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.outside.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_plain="plain-password";
listener.name.outside.ssl.keystore.location={place}/broker.p12
listener.name.outside.ssl.keystore.password=keystore-password
listener.name.outside.ssl.keystore.type=PKCS12
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:plain
offsets.topic.replication.factor=1
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
group.initial.rebalance.delay.ms=0
"""


class ForeignCluster:
    """Address of the cluster, and a client of its owner's."""

    def __init__(self, place: Path, internal: int, outside: int) -> None:
        self.place, self.bootstrap = place, f"127.0.0.1:{outside}"
        self.inside = {"bootstrap.servers": f"127.0.0.1:{internal}", "log_level": 0}
        self.owner = AdminClient(self.inside)

    def options(self, **settings: str) -> dict:
        """Options of `[test.cluster]` for the user with few rights, whose password lies in FENCEPOST_TEST_PASSWORD."""
        own = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": "env:FENCEPOST_TEST_PASSWORD",
            "ssl.ca.location": str(self.place / "ca.pem"),
        }
        return {"bootstrap": self.bootstrap, "settings": {**own, **settings}}

    def topics(self) -> set[str]:
        """Every topic there is, Kafka's own left out."""
        return {name for name in self.owner.list_topics(timeout=60).topics if not name.startswith("__")}

    def groups(self) -> set[str]:
        """Every group there is."""
        groups = self.owner.list_consumer_groups(request_timeout=60).result()
        assert not groups.errors, groups.errors
        return {group.group_id for group in groups.valid}


@contextmanager
def started(place: Path):
    """The cluster, ready: a topic and a group of somebody's, and a user who may use what begins with our prefix, no more."""
    _, ports = loopback(1, 1)
    controller, internal, outside = ports.values()
    make_keystore(place)
    config = place / "server.properties"
    config.write_text(SERVER.format(controller=controller, internal=internal, outside=outside, place=place))
    distribution = fetch("4.4.0")
    tool = distribution.command("kafka.tools.StorageTool", ["format", "-t", kafka_uuid(), "-c", str(config)], 128)
    formatted = subprocess.run(tool, capture_output=True, text=True, timeout=START_S)
    assert formatted.returncode == 0, formatted.stderr
    with ExitStack() as steps:
        log = steps.enter_context(open(place / "server.log", "wb"))
        argv = distribution.command("kafka.Kafka", [str(config)], 320)
        broker = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        steps.callback(broker.wait)
        steps.callback(broker.kill)
        cluster = ForeignCluster(place, internal, outside)
        _prepare(cluster, broker)
        yield cluster


def make_keystore(place: Path) -> None:
    """A key and its certificate for 127.0.0.1 in `broker.p12`, and the certificate alone in `ca.pem`."""
    keytool = str(Path(java()[0]).resolve().parent / "keytool")
    store = [
        "-keystore",
        str(place / "broker.p12"),
        "-storetype",
        "PKCS12",
        "-storepass",
        "keystore-password",
        "-alias",
        "broker",
    ]
    make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=somebody", "-ext", "san=ip:127.0.0.1", "-validity", "30"]
    subprocess.run([keytool, *make, *store], check=True, capture_output=True)
    subprocess.run([keytool, "-exportcert", "-rfc", "-file", str(place / "ca.pem"), *store], check=True, capture_output=True)


def _prepare(cluster: ForeignCluster, broker: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    wanted = cluster.owner.create_topics([NewTopic(FOREIGN, 1, 1)], request_timeout=START_S)
    while not (made := wanted[FOREIGN]).done():
        assert broker.poll() is None, (cluster.place / "server.log").read_text()[-2000:]
        assert time.monotonic() < deadline, "the cluster did not start"
        time.sleep(0.05)
    made.result()
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
    known = cluster.owner.alter_user_scram_credentials([user])
    allowed = cluster.owner.create_acls([*_rights()], request_timeout=60)
    for future in (*known.values(), *allowed.values()):
        future.result()
    _use(cluster)


def _rights():
    """Rights that a user needs according to docs/clusters.md, all of them for names that begin with our prefix."""
    operations = {
        ResourceType.TOPIC: ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE"),
        ResourceType.TRANSACTIONAL_ID: ("DESCRIBE", "WRITE"),
        ResourceType.GROUP: ("READ", "DELETE"),
    }
    for kind, allowed in operations.items():
        for name in allowed:
            pattern = (kind, PREFIX, ResourcePatternType.PREFIXED)
            yield AclBinding(*pattern, f"User:{USER}", "*", AclOperation[name], AclPermissionType.ALLOW)


def _use(cluster: ForeignCluster) -> None:
    """Somebody's record, and a group of somebody's that has read it."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    producer = Producer(cluster.inside)
    producer.produce(FOREIGN, b"theirs")
    assert producer.flush(START_S) == 0
    deadline = time.monotonic() + START_S
    while True:  # a coordinator still loading refuses each partition by itself, and the call as a whole succeeds
        offsets = ConsumerGroupTopicPartitions(FOREIGN_GROUP, [TopicPartition(FOREIGN, 0, 1)])
        (future,) = cluster.owner.alter_consumer_group_offsets([offsets]).values()
        refused = [partition.error for partition in future.result().topic_partitions if partition.error]
        if not refused:
            return
        assert time.monotonic() < deadline, refused
        time.sleep(0.2)


if __name__ == "__main__":  # to look at it by hand
    where = Path(sys.argv[1])
    where.mkdir(parents=True)
    with started(where) as made:
        print(json.dumps(made.options()), os.getpid(), flush=True)
        sys.stdin.read()
