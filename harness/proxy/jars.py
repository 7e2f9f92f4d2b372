"""The jars of Kafka's messages by version: kafka-clients with its dependencies and Jackson, fetched once and kept."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.fetching import maven
from fencepost.harness.fetching.store import Store, cache_dir
from fencepost.harness.proxy.build import JSON, PROXY

DEFAULT = "4.4.0"
FIRST = (3, 8)
_LOG = "1.7.36"


def classpath(version: str = DEFAULT, progress: Callable[[str], None] = lambda _: None) -> str:
    """The class path of the proxy with the messages of a release of Kafka. Raises as `messages` does."""
    return with_proxy(messages(version, progress))


def messages(version: str = DEFAULT, progress: Callable[[str], None] = lambda _: None) -> str:
    """The class path of the messages of a release of Kafka, without the proxy.

    Raises CampaignError when there is no such version, ClusterError when it cannot be fetched.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", version)
    if match is None or (int(match[1]), int(match[2])) < FIRST:
        raise CampaignError([f'"{version}" is no release whose messages the proxy can use: 3.8.0 or newer, such as {DEFAULT}'])

    def fill(directory: Path) -> None:
        progress(f"fetching kafka-clients {version} from Maven's central repository")
        wanted = [
            ("org.apache.kafka", "kafka-clients", version),
            ("com.fasterxml.jackson.core", "jackson-databind", JSON),
            ("org.slf4j", "slf4j-nop", _LOG),
        ]
        maven.fetch(f"kafka-clients {version}", wanted, directory)

    entry = Store(cache_dir() / "proxy", "kafka-clients", "fencepost proxy --kafka {}").fetch(
        version, fill, progress, repair=True
    )
    return os.pathsep.join(str(entry.directory / name) for name in sorted(entry.files))


def with_proxy(kafka: str) -> str:
    """The class path of the proxy on jars that are there: those of a broker, or of kafka-clients with Jackson."""
    return f"{PROXY.jar}{os.pathsep}{kafka}"
