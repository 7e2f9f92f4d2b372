"""Formatting of data directories with Kafka's own tool."""

import subprocess
from pathlib import Path

from clusters.kafka.broker_config import PlannedNode
from clusters.kafka.storage import format_all


def test_the_tool_gets_the_configuration_last_whatever_features_there_are(tmp_path):
    """Providers that format elsewhere put another path in its place."""
    asked = []

    def tool(arguments, timeout_s):
        asked.extend(arguments)
        return subprocess.CompletedProcess(arguments, 0, "", "")

    nodes = [PlannedNode("n1", 1, ("broker", "controller"))]
    format_all("4.3.0", tool, nodes, {"n1": Path("n1.properties")}, tmp_path, {"transaction.version": 1})
    assert asked[-2:] == ["-c", "n1.properties"]
    assert asked[asked.index("--feature") + 1] == "transaction.version=1"
