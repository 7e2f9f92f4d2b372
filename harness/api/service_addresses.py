"""Addresses of the outside services that a test declares (docs/clusters.md#outside-services): in texts, and in environments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fencepost.harness.api.words import unknown_word

_SERVICE = re.compile(r"\{service\.([\w-]+)(?:\.(host|port))?\}")


def services_of(plan: Mapping[str, object]) -> Mapping[str, str]:
    """The services of a run by name, each `host:port` as its clients reach it."""
    cluster = plan.get("cluster")
    description = cluster.get("description") if isinstance(cluster, Mapping) else None
    services = description.get("services") if isinstance(description, Mapping) else None
    return services if isinstance(services, Mapping) else {}


def filled(text: str, services: Mapping[str, str]) -> str:
    """A text with addresses in the place of `{service.NAME}`, `{service.NAME.host}` and `{service.NAME.port}`.

    Raises LookupError for a service that the test does not declare.
    """
    return _SERVICE.sub(lambda match: _address(match[1], match[2], services), text)


def variables(services: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program's environment: `FENCEPOST_SERVICE_NAME`, with `_` for `-`."""
    return {f"FENCEPOST_SERVICE_{name.upper().replace('-', '_')}": address for name, address in services.items()}


def _address(name: str, part: str | None, services: Mapping[str, str]) -> str:
    if name not in services:
        declared = unknown_word("service", name, list(services)) if services else f'service "{name}": none is declared'
        raise LookupError(f'{declared} (`services = {{ {name} = "127.0.0.1:PORT" }}` of the cluster)')
    host, _, port = services[name].rpartition(":")
    return {"host": host, "port": port}.get(part or "", services[name])
