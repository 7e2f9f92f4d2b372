"""Builds the jar of the proxy: `python -m fencepost.harness.proxy.build`. Only who changes `java/` needs it."""

from __future__ import annotations

from pathlib import Path

from fencepost.harness.fetching.built_jars import BuiltJar

CLIENTS = "3.9.1"  # any release from 3.8 to 4.x: what changed between them is found by its name when the program runs
JSON = "2.16.2"  # that of Kafka 3.9.1; brokers bring their own
RELEASE = "17"  # the oldest Java that fencepost runs brokers on
PROXY = BuiltJar(
    Path(__file__).with_name("java"),
    [("org.apache.kafka", "kafka-clients", CLIENTS), ("com.fasterxml.jackson.core", "jackson-databind", JSON)],
    RELEASE,
)

if __name__ == "__main__":
    PROXY.rebuild()
