"""Formatting of data directories with Kafka's own tool."""

import subprocess
from pathlib import Path

import pytest

from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.options import KafkaOptions
from fencepost.clusters.kafka.storage import format_all


def test_the_tool_gets_the_configuration_last_whatever_features_there_are(tmp_path):
    """Providers that format elsewhere put another path in its place."""
    passed = []

    def tool(arguments, timeout_s):
        passed.extend(arguments)
        return subprocess.CompletedProcess(arguments, 0, "", "")

    nodes = [PlannedNode("n1", 1, ("broker", "controller"))]
    format_all("4.3.0", tool, nodes, {"n1": Path("n1.properties")}, tmp_path, {"transaction.version": 1})
    assert passed[-2:] == ["-c", "n1.properties"]
    assert passed[passed.index("--feature") + 1] == "transaction.version=1"


@pytest.mark.cluster
def test_features_that_kafka_does_not_have_are_refused_in_its_own_words():
    supported = (
        "eligible.leader.replicas.version, group.version, kraft.version, share.version, streams.version, transaction.version"
    )
    assert KafkaOptions(features={"transaction.version": 1, "foo.version": 1}).judged_settings({}) == (
        [("features", "foo.version", f"Unsupported feature: foo.version. Supported features are: {supported}")],
        "",
    )


@pytest.mark.cluster
def test_levels_that_a_feature_does_not_have_are_refused_and_others_are_not():
    ((_, name, why),) = KafkaOptions(features={"transaction.version": 9}).judged_settings({})[0]
    assert (name, why) == ("transaction.version", "No feature:transaction.version with feature level 9")
    assert KafkaOptions(features={"transaction.version": 1}).judged_settings({}) == ([], "")
