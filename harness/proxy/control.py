"""The HTTP interface of a running proxy, as a client. It needs nothing but the standard library, so that any test may use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.proxy.rules import Rule

ANSWER_S = 10.0
REFUSED, TIMED_OUT = 400, 408


class Control:
    """A proxy at `address` (HOST:PORT). Every call raises ClusterError when the proxy does not answer."""

    def __init__(self, address: str) -> None:
        self.address = address

    def status(self) -> dict[str, Any]:
        """Brokers, connections, counts and rules."""
        return self._document("GET", "/status")

    def add(self, rule: Rule | Mapping[str, Any]) -> int:
        """Take a rule into force; its number. Raises CampaignError when the proxy refuses it."""
        return int(self._document("POST", "/rules", rule.document() if isinstance(rule, Rule) else rule)["number"])

    def rule(self, number: int) -> dict[str, Any]:
        """A rule with `matched`, `acted` and its last catch. Raises CampaignError when there is none."""
        return self._document("GET", f"/rules/{number}")

    def rules(self) -> list[dict[str, Any]]:
        """The rules in force."""
        return list(self._ask("GET", "/rules", None, ANSWER_S)[1])

    def remove(self, number: int) -> dict[str, Any]:
        """Remove a rule; its final state. What it holds goes on."""
        return self._document("DELETE", f"/rules/{number}")

    def catches(self, number: int) -> list[dict[str, Any]]:
        """The messages that a rule acted on, the last thousand."""
        return list(self._ask("GET", f"/rules/{number}/catches", None, ANSWER_S)[1])

    def wait(self, number: int, count: int = 1, timeout_s: float = 30.0) -> list[dict[str, Any]]:
        """Wait until a rule has acted so often; its catches. Raises TimeoutError with what there is."""
        path = f"/rules/{number}/wait?count={count}&timeout_ms={int(timeout_s * 1000)}"
        status, catches = self._ask("GET", path, None, timeout_s + ANSWER_S)
        if status == TIMED_OUT:
            failed = [caught for caught in catches if caught["state"] == "failed"]
            why = f"; {len(failed)} failed: {failed[-1]['why']}" if failed else ""
            acted = len(catches) - len(failed)
            raise TimeoutError(f"rule {number} acted {acted} times within {timeout_s:g} s, not {count} times{why}")
        return list(catches)

    def event(self, name: str) -> int:
        """Release all that is held until this event; how many messages that were."""
        return int(self._document("POST", f"/events/{quote(name)}")["released"])

    def watch(self, until: str) -> int:
        """Watch for `next:API`, `answered:API` or `ids` from now on, for rules of other proxies; the watch's number."""
        return int(self._document("POST", "/watches", {"until": until})["number"])

    def seen(self, number: int, first: int = 0, timeout_s: float = 30.0) -> tuple[int, list[dict[str, Any]]]:
        """Wait until a watch has seen more than `first`: how often it has, and the newest of those behind `first`."""
        path = f"/watches/{number}?from={first}&timeout_ms={int(timeout_s * 1000)}"
        document = self._ask("GET", path, None, timeout_s + ANSWER_S)[1]
        return int(document["count"]), list(document["seen"])

    def unwatch(self, number: int) -> None:
        """End a watch."""
        self._document("DELETE", f"/watches/{number}")

    def occurred(self, seen: Sequence[Mapping[str, Any]]) -> int:
        """Release what was held for what another proxy has `seen`, before it has; how many messages that were."""
        return int(self._document("POST", "/occurrences", {"seen": list(seen)})["released"])

    def record(self, first: int = 0) -> list[dict[str, Any]]:
        """The lines of the record from a number on, counted from 0; at most 10,000 of them."""
        _, text = self._ask("GET", f"/record?from={first}", None, ANSWER_S)
        return [json.loads(line) for line in str(text).splitlines()]

    def stop(self) -> None:
        """End the proxy, and all its connections."""
        self._ask("POST", "/stop", None, ANSWER_S)

    def _document(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        document: dict[str, Any] = self._ask(method, path, body, ANSWER_S)[1]
        return document

    def _ask(self, method: str, path: str, body: Any, timeout_s: float) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{self.address}{path}", content, method=method)
        try:
            status, document = _answer(request, timeout_s)
        except (OSError, HTTPException) as error:  # the latter of an answer that is cut off
            raise ClusterError(f"the proxy at {self.address} does not answer ({error}): has it ended?") from error
        if status >= REFUSED and status != TIMED_OUT:
            raise CampaignError(document["errors"])
        return status, document


def _answer(request: Request, timeout_s: float) -> tuple[int, Any]:
    try:
        answer = urlopen(request, timeout=timeout_s)
    except HTTPError as error:
        answer = error
    with answer:
        content = answer.read()
        return answer.status, json.loads(content) if answer.headers.get(
            "Content-Type"
        ) == "application/json" else content.decode()
