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


def test_each_controller_has_the_levels_of_features_and_a_mere_broker_none(tmp_path):
    """As the tool writes them since 4.4: it gives a node that is only a broker no checkpoint at all."""

    def tool(arguments, timeout_s):
        made = tmp_path / Path(arguments[-1]).stem
        roles = {node.name: node.roles for node in nodes}[made.name]
        (made / "__cluster_metadata-0").mkdir(parents=True)
        (made / "meta.properties").write_text("version=1\nnode.id=0\ndirectory.id=x\n")
        if "controller" in roles:
            (made / "__cluster_metadata-0" / "0.checkpoint").write_text("levels")
        return subprocess.CompletedProcess(arguments, 0, "", "")

    nodes = [PlannedNode("n1", 1, ("broker",)), *(PlannedNode(f"k{n}", 100 + n, ("controller",)) for n in (1, 2))]
    format_all("4.4.0", tool, nodes, {node.name: Path(f"{node.name}.properties") for node in nodes}, tmp_path)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    levels = [f"k{n}/{name}" for n in (1, 2) for name in ("__cluster_metadata-0/0.checkpoint", "meta.properties")]
    assert files == [*levels, "n1/meta.properties"]
    assert "node.id=1\n" in (tmp_path / "n1" / "meta.properties").read_text()


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
