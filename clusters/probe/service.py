"""The prober as the harness knows it (`harness.api.services.Prober`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost.clusters.kafka import distribution
from fencepost.clusters.kafka.versions import numbers
from fencepost.clusters.probe.messages import Messages, UnknownMessage
from fencepost.clusters.probe.profiles import MEANINGS, TV2, fitted
from fencepost.clusters.probe.rows import ROWS, Row
from fencepost.clusters.probe.stage import Stage
from fencepost.clusters.probe.wire import FEATURE, Wire
from fencepost.harness.api import ClusterError
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.services import Prober, ProbeResult, ProbeRow

NEWEST, OLDEST = "4.4.0", (3, 5)  # the oldest release whose definitions name the fields as all later ones do
LOG = "logs/messages.log"


class ProtocolProber(Prober):
    """Speaks Kafka's protocol by the schemas of a release of Kafka."""

    def profiles(self) -> Mapping[str, str]:
        return MEANINGS

    def obtain(self, version: str, on_progress: Callable[[str], None]) -> str:
        known = bool(re.fullmatch(r"\d+\.\d+\.\d+", version)) and tuple(numbers(version))[:2] >= OLDEST
        return distribution.fetch(version if known else NEWEST, on_progress).version

    def probe(
        self,
        release: str,
        bootstrap: str,
        settings: Mapping[str, Any],
        topic: tuple[str, int],
        prefix: str,
        profiles: Sequence[str],
        directory: Path,
        on_row: Callable[[ProbeRow], None],
    ) -> None:
        with log_file(directory, LOG) as log, Messages(distribution.fetch(release), log) as messages:
            wire = Wire(messages, bootstrap, settings)
            ranges, level = wire.ranges(), wire.transaction_version()
            for profile in profiles:
                versions, problem = fitted(profile, ranges)
                if profile == TV2 and not problem and level < 2:
                    problem = f"the cluster's {FEATURE} is {level}"
                stage = Stage(replace(wire, versions=versions), *topic, prefix, profile)
                for row in (row for row in ROWS if profile in row.profiles):
                    on_row(_unreached(row, profile, problem) if problem else played(row, stage))


def played(row: Row, stage: Stage) -> ProbeRow:
    """The answer of a row, and what is to be said of it."""
    try:
        answer = row.play(stage)
    except (ClusterError, OSError, UnknownMessage) as error:
        return _unreached(row, stage.profile, str(error))
    result, reason = compared(row, stage.profile, answer)
    return _row(row, stage.profile, answer, result, reason)


def compared(row: Row, profile: str, answer: str) -> tuple[ProbeResult, str]:
    """Whether an answer meets a row, differs from it by a KIP, or violates it; and the KIP."""
    if answer in row.demanded:
        return ProbeResult.MET, ""
    by = [difference.source for difference in row.differences if difference.answer == answer and profile in difference.profiles]
    return (ProbeResult.DIFFERS, by[0]) if by else (ProbeResult.VIOLATED, "")


def _unreached(row: Row, profile: str, reason: str) -> ProbeRow:
    return _row(row, profile, "", ProbeResult.UNREACHED, reason)


def _row(row: Row, profile: str, answer: str, result: ProbeResult, reason: str) -> ProbeRow:
    demanded = " or ".join(row.demanded)
    return ProbeRow(row.number, profile, row.situation, demanded, row.source, answer, result, reason)
