"""Addresses of outside services in a connector's configuration: `{service.postgres.host}` and the like (docs/connect.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.harness.api import ConnectClient
from fencepost.harness.api.service_addresses import filled


def with_services(request: Mapping[str, Any], client: ConnectClient) -> dict[str, Any]:
    """The body of a request with addresses of the client's services in place of names; empty where it has none.

    Raises LookupError for a service that the test does not declare.
    """
    body = request.get("body")
    if not isinstance(body, dict) or "{service." not in str(body):
        return {}
    return {"body": {key: filled(text, client.services) if isinstance(text, str) else text for key, text in body.items()}}
