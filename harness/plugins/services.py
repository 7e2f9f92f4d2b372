"""The services of the other packages, found by entry point (`fencepost.service` in pyproject.toml)."""

from __future__ import annotations

from typing import Any, cast

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import MachineError
from fencepost.harness.api.services import DockerService, Judge, KafkaCache, Prober
from fencepost.harness.plugins import registry


def judge() -> Judge:
    return cast(Judge, _service("judge"))


def kafka() -> KafkaCache:
    return cast(KafkaCache, _service("kafka"))


def docker() -> DockerService:
    return cast(DockerService, _service("docker"))


def prober() -> Prober:
    return cast(Prober, _service("prober"))


def _service(name: str) -> Any:
    try:
        return registry.load("service", name)()
    except CampaignError as error:
        raise MachineError(
            f"{error}; install fencepost again (entry points of an older version, or a package that is missing)"
        ) from error
