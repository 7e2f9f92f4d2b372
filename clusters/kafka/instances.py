"""Instances of somebody's own program, for every provider: which of them are to run. The harness starts and ends them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from fencepost.harness.api import ClusterError


class RunningInstances:
    """`Scalable`. What it says is done by the pool of workers, a moment later."""

    def __init__(self) -> None:
        self._states: dict[str, bool] = {}
        self._instance_settings: dict[str, dict[str, str]] = {}
        self._instance_ids: dict[str, str] = {}
        self._changing = threading.Lock()

    def note_instances(
        self,
        states: Mapping[str, bool],
        settings: Mapping[str, Mapping[str, str]] | None = None,
        transactional_ids: Mapping[str, str] | None = None,
    ) -> None:
        """The nodes of all instances, and whether each is to run; what can be set of them, and all clients' transactional ids."""
        with self._changing:
            self._instance_ids = dict(transactional_ids or {})
            self._states = dict(states)
            self._instance_settings = {node: dict(own) for node, own in (settings or {}).items()}

    def transactional_id(self, node: str) -> str:
        return self._instance_ids.get(node, "")

    def setting(self, node: str, name: str) -> str:
        with self._changing:
            return self._instance_settings.get(node, {}).get(name, "")

    def use_setting(self, node: str, name: str, value: str) -> None:
        with self._changing:
            if name not in self._instance_settings.get(node, {}):
                raise ClusterError(f"{node} has no setting {name}")
            self._instance_settings[node][name] = value

    def instances(self) -> dict[str, bool]:
        with self._changing:
            return dict(self._states)

    def retire(self, node: str) -> None:
        self._set(node, runs=False)

    def recall(self, node: str) -> None:
        self._set(node, runs=True)

    def _set(self, node: str, *, runs: bool) -> None:
        with self._changing:
            if node not in self._states:
                raise ClusterError(f"{node} is no instance of a program; there are {', '.join(self._states) or 'none'}")
            self._states[node] = runs
