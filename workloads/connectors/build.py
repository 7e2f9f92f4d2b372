"""Builds the connectors' jars: `python -m fencepost.workloads.connectors.build`. Only who changes a connector needs it."""

from __future__ import annotations

from pathlib import Path

from fencepost.harness.fetching.built_jars import BuiltJar

HERE = Path(__file__).parent
API = "3.3.2"  # of the first line with exactly-once sources (KIP-618); later ones only added to it
RELEASE = "11"  # the oldest Java that Connect 3.3 runs on


def connector(name: str) -> BuiltJar:
    """The jar of a connector ("numbered"), compiled against Connect's API."""
    return BuiltJar(HERE / name, [("org.apache.kafka", "connect-api", API)], RELEASE)


def main() -> None:
    for directory in sorted(HERE.glob("*/META-INF")):
        connector(directory.parent.name).rebuild()


if __name__ == "__main__":
    main()
