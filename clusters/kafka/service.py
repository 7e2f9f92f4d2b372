"""The cache of Kafka's versions as the harness knows it (`harness.api.services.KafkaCache`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fencepost.clusters.kafka import distribution, setting_definitions
from fencepost.harness.api.services import KafkaCache, KafkaVersion
from fencepost.harness.fetching.java import java


class FetchedKafka(KafkaCache):
    """Versions of Kafka, fetched once and used by all runs."""

    def fetch(self, version: str, on_progress: Callable[[str], None]) -> KafkaVersion:
        return distribution.fetch(version, on_progress, repair=True)

    def installed(self) -> Sequence[KafkaVersion]:
        return distribution.installed()

    def setting_names(self, kind: str) -> Sequence[str]:
        return setting_definitions.known_names(kind, distribution.installed())

    def damage(self, version: str) -> Sequence[str]:
        return distribution.verify(version)

    def directory(self) -> Path:
        return distribution.kafka_dir()

    def java(self) -> tuple[str, str]:
        return java()
