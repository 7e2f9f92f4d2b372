"""Addresses of outside services in a connector's configuration: `{service.postgres.host}` and the like (docs/connect.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fencepost.harness.api import ConnectClient
from fencepost.harness.api.words import unknown_word

_SERVICE = re.compile(r"\{service\.([\w-]+)(?:\.(host|port))?\}")


def with_services(request: Mapping[str, Any], client: ConnectClient) -> dict[str, Any]:
    """The body of a request with addresses of the client's services in place of names; empty where it has none.

    Raises LookupError for a service that the test does not declare.
    """
    body = request.get("body")
    if not isinstance(body, dict) or "{service." not in str(body):
        return {}
    filled = {key: _filled(text, client.services) if isinstance(text, str) else text for key, text in body.items()}
    return {"body": filled}


def _filled(text: str, services: Mapping[str, str]) -> str:
    return _SERVICE.sub(lambda match: _address(match[1], match[2], services), text)


def _address(name: str, part: str | None, services: Mapping[str, str]) -> str:
    if name not in services:
        declared = unknown_word("service", name, list(services)) if services else f'service "{name}": none is declared'
        raise LookupError(f'{declared} (`services = {{ {name} = "127.0.0.1:PORT" }}` of the cluster)')
    host, _, port = services[name].rpartition(":")
    return {"host": host, "port": port}.get(part or "", services[name])
